"""The runner as a program."""

import sys

from workers.runtimes.torchscript.runner.batch import main

sys.exit(main())
