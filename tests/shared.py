"""The workers of one test run share a folder, and what lies in it once made."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_VARIABLE = "EDGESWEEP_TESTS_SHARE"


def open_folder() -> None:
    """Open the folder in the process that starts the workers: they have its environment."""
    os.environ[_VARIABLE] = tempfile.mkdtemp(prefix="edgesweep-tests-")


def remove_folder() -> None:
    shutil.rmtree(os.environ.pop(_VARIABLE), ignore_errors=True)


def folder() -> Path:
    return Path(os.environ[_VARIABLE])


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """The folder of that name, which `make` fills where no worker has done so yet. Nobody writes into it later."""
    target, done = folder() / name, folder() / f"{name}.done"
    with (folder() / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            make(target)
            done.touch()
    return target
