"""What one process of this host holds at a time, whatever user or workspace it works for."""

import errno
import fcntl
import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from sweeps.errors import DeviceError

_FOLDER = Path("/tmp/edgesweep-held")  # noqa: S108  # not a cache of one user: the phones hang on the host
_MODE_OF_ALL = 0o666


class HeldError(Exception):
    """Another process holds it."""

    def __init__(self, process: str) -> None:
        super().__init__(process)
        self.process = process
        """Its id; empty where it is not known."""


class Hold:
    """Of a name, until `release()` or the end of this process, however that comes.

    Raises `HeldError` at once where the name is held, be it by this very process, and `DeviceError("os_error", ...)`.
    """

    def __init__(self, name: str) -> None:
        path = _FOLDER / hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        try:
            self._file = _opened(path)
        except OSError as error:
            raise DeviceError(
                "os_error",
                f"{path} cannot be opened ({error})",
                f"see that {_FOLDER} is a folder that every user may write to, and delete {path} if it is a link",
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            told = os.pread(self._file, 20, 0).decode("ascii", "replace").strip()
            self.release()
            raise HeldError(told if told.isdecimal() else "") from error
        os.truncate(self._file, 0)
        os.pwrite(self._file, b"%d\n" % os.getpid(), 0)

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        # The file stays: whoever opened it before it went away would hold another one than who made it anew.
        file, self._file = getattr(self, "_file", -1), -1
        if file >= 0:
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)


def _opened(path: Path) -> int:
    """Raises `OSError`. Never by a link: any user may lay one there, to a file that only this one may write."""
    path.parent.mkdir(exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        file = _opened_in(folder, path.name)
    finally:
        os.close(folder)
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(file)
        raise OSError(errno.EEXIST, "another's, or no plain file")
    return file


def _opened_in(folder: int, name: str) -> int:
    # Nor does it wait for the other end of a pipe.
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    with suppress(FileNotFoundError):
        # In a folder of all users the kernel lets nobody ask to create what another has.
        return os.open(name, flags, dir_fd=folder)
    with suppress(PermissionError):
        os.fchmod(folder, 0o1777)
    try:
        file = os.open(name, flags | os.O_CREAT | os.O_EXCL, _MODE_OF_ALL, dir_fd=folder)
    except FileExistsError:
        # Another process was first.
        return os.open(name, flags, dir_fd=folder)
    os.fchmod(file, _MODE_OF_ALL)
    return file
