"""The runner of eager models: loads a package, and times or evaluates it like PyTorch Mobile's Python runner.

    python -m workers.runtimes.eager.runner --model model.zip --input-dims 1,3,224,224 --iter 200

Arguments, report and measuring code are those of PyTorch Mobile's runner; only loading differs.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from sweeps.errors import ModelError
from workers.runtimes.eager.package_file import NoPackage, read
from workers.runtimes.torchscript.runner.batch import main
from workers.runtimes.torchscript.runner.events import GiveUp
from workers.runtimes.torchscript.runner.load import main_message
from workers.runtimes.torchscript.runner.main import Load, Program

NAME = "python-eager"
VERSION = "1"
"""The version, part of every job key; increased with every change that can change a result."""


def _opened(arguments: argparse.Namespace) -> Load:
    if arguments.backend != "cpu":
        raise GiveUp("wrong_backend", f"eager models run on the cpu, not on {arguments.backend}")
    file = Path(arguments.model)
    if not file.is_file():
        raise GiveUp("no_model", f"there is no file {file}")
    try:
        package = read(file)
    except NoPackage as error:
        raise GiveUp("load_failed", str(error)) from error
    from workers.models import weights  # noqa: F401  # imported here, because its imports must not count as load time
    from workers.models.eager_model import load_eager

    if ":" not in package.source:
        import torchvision  # noqa: F401  # as above

    def load() -> tuple[Any, int]:
        try:
            started = time.perf_counter_ns()
            model = load_eager(package)
            return model, time.perf_counter_ns() - started
        except ModelError as error:
            raise GiveUp("load_failed", error.message) from error
        except Exception as error:  # torch raises any exception on a damaged state_dict
            raise GiveUp("load_failed", main_message(error)) from error

    return load


if __name__ == "__main__":
    sys.exit(main(program=Program(NAME, VERSION, _opened)))
