"""The runner as a program."""

import sys

from workers.runtimes.torchscript.runner.main import main

sys.exit(main())
