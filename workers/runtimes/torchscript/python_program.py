"""Writes the Python runner as one file, for a device that has Python and torch but not EdgeSweep."""

import hashlib
import io
import shlex
import zipfile
from pathlib import Path

from sweeps.whole_file import write_whole
from workers.native.compiler import cache_folder

NAME = "edgesweep_runner_python"
_ROOT = Path(__file__).parents[3]
_MODULES = ("workers/__init__", "workers/cores", "workers/runtimes/__init__")
_FOLDER = Path("workers/runtimes/torchscript")
_MAIN = """import sys

from workers.runtimes.torchscript.runner.batch import main

sys.exit(main())
"""
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def program(python: str) -> Path:
    """Write the file, which runs itself with `python`, a path on the device. Returns its path. Equal sources give equal
    bytes.

    It contains the code that times and evaluates on the CPU: a device that is reached in this way has no NNAPI. Raises
    `OSError`.
    """
    content = _content(python)
    folder = cache_folder() / "python-runners" / hashlib.sha256(content).hexdigest()[:16]
    target = folder / NAME
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(target, content)
    return target


def _content(python: str) -> bytes:
    """Return a shell script with a zip archive behind it: Python finds an archive from its end. In the first line of a
    script, Python's path could have no spaces, and at most 127 characters."""
    file = io.BytesIO()
    file.write(f'#!/bin/sh\nexec {shlex.quote(python)} "$0" "$@"\n'.encode("utf-8", "surrogateescape"))
    names = [*_MODULES, (_FOLDER / "__init__").as_posix(), (_FOLDER / "archive").as_posix()]
    names += sorted((_FOLDER / "runner" / path.stem).as_posix() for path in (_ROOT / _FOLDER / "runner").glob("*.py"))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(f"{name}.py", _LONG_AGO), (_ROOT / f"{name}.py").read_bytes())
        archive.writestr(zipfile.ZipInfo("__main__.py", _LONG_AGO), _MAIN)
    return file.getvalue()
