"""Temporary folders. If a process is killed, its folder remains; the next driver, or the next process that creates a
folder in the same place, deletes it."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sweeps.locks import take

_PREFIX = "edgesweep-tmp-"
_LOCK = "lock"


@contextmanager
def temporary_folder(below: Path | None = None) -> Iterator[Path]:
    """Yield an empty folder, which is deleted at the end of the block. `below`: the parent folder, instead of the
    system's folder for temporary files, which may be small, or in memory."""
    if below is not None:
        below.mkdir(parents=True, exist_ok=True)
    folder, lock = _new_folder(below)
    try:
        yield folder / "files"
    finally:
        _end(folder, lock)


def folder_of_process() -> Path:
    """Return an empty folder that is deleted when this process ends."""
    folder, lock = _new_folder(None)
    atexit.register(_end, folder, lock)
    return folder / "files"


def _new_folder(below: Path | None) -> tuple[Path, int]:
    """Return the folder and its open lock, which the kernel releases when this process and its forks have ended."""
    below = below or Path(tempfile.gettempdir())
    delete_abandoned(below)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=below))
    # The lock gets its name only after it is locked: a folder without a named lock is deleted by no process.
    nameless = folder / "new"
    lock = os.open(nameless, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    take(lock)
    nameless.rename(folder / _LOCK)
    (folder / "files").mkdir()
    return folder, lock


def _end(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def delete_abandoned(below: Path | None = None) -> None:
    """Delete the folders of this user whose lock no process holds, below this folder or the system's."""
    for folder in (below or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*"):
        # Another process may be deleting the folder, and in a folder for all users the path may be anything.
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if take(lock, wait_s=0.0):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
