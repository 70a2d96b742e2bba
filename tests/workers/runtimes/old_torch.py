"""An older torch in an environment of its own, as the runtime of a phone is older than the torch that exports.

1.13.1 is the smallest that Python 3.11 can import: its wheel holds most of CUDA's libraries itself, and needs only
these three packages beside it. 33 s and 3.1 GB here (2.1.2, with eleven: 49 s and 4.0 GB), once per machine:

    python -m tests.workers.runtimes.old_torch
"""

import fcntl
import os
import subprocess
import sys
import venv
from pathlib import Path

VERSION = "1.13.1"
PACKAGES = (
    f"torch=={VERSION}",
    "nvidia-cublas-cu11==11.10.3.66",
    "nvidia-cudnn-cu11==8.5.0.96",
    "typing-extensions",
)
INSTALL_DEADLINE_S = 1200


class NotInstalledError(Exception):
    """pip could not install it."""


def installed() -> bool:
    return _whole().is_file()


def interpreter() -> Path:
    """The Python of the environment, made on first use. Raises `NotInstalledError` with pip's last words."""
    folder = _whole().parent
    python = folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process installs, the others wait
        if not installed():
            venv.create(folder, clear=True, with_pip=False)
            argv = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-compile"]
            argv += ["--no-cache-dir", "--quiet", *PACKAGES]
            ended = subprocess.run(argv, capture_output=True, text=True, timeout=INSTALL_DEADLINE_S, check=False)
            if ended.returncode != 0:
                raise NotInstalledError((ended.stderr.strip().splitlines() or ["pip ended without a word"])[-1])
            _whole().touch()
    return python


def _whole() -> Path:
    """Written last: an install that was cut short is made anew."""
    named = os.environ.get("EDGESWEEP_CACHE")
    cache = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgesweep"
    return cache / f"old-torch-{VERSION}" / "whole"


if __name__ == "__main__":
    print(interpreter())  # noqa: T201  # a script
