"""Locks between processes of this host, across users and workspaces."""

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

from sweeps.errors import DeviceError
from sweeps.holds import held_path

_MODE_OF_ALL = 0o666


class HeldError(Exception):
    """Another process has the lock."""

    def __init__(self, process: str) -> None:
        super().__init__(process)
        self.process = process
        """The id of that process; empty if it is not known."""


class Hold:
    """A lock on a name, until `release()` or the end of this process, however it ends.

    Several `shared` holds of one name go together, and with no other. Raises `HeldError` at once if the name is locked,
    even by this process, and `DeviceError("os_error", ...)`.
    """

    def __init__(self, name: str, *, shared: bool = False) -> None:
        path = held_path(name)
        try:
            self._file = _opened(path)
        except OSError as error:
            raise DeviceError(
                "os_error",
                f"{path} cannot be opened ({error})",
                f"make {path.parent} a folder that every user may write to, and delete {path} if it is a link",
            ) from error
        try:
            fcntl.flock(self._file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            process = os.pread(self._file, 20, 0).decode("ascii", "replace").strip()
            self.release()
            raise HeldError(process if process.isdecimal() else "") from error
        os.truncate(self._file, 0)
        os.pwrite(self._file, b"%d\n" % os.getpid(), 0)

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        # The file stays. If it were deleted, a process that has it open and one that creates it again could both lock.
        file, self._file = getattr(self, "_file", -1), -1
        if file >= 0:
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)


def _opened(path: Path) -> int:
    """Raises `OSError`. Links are refused: another user could place one to a file that only this user may write."""
    path.parent.mkdir(exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        file = _opened_in(folder, path.name)
    finally:
        os.close(folder)
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(file)
        raise OSError(errno.EEXIST, "it is a link, or no plain file")
    return file


def _opened_in(folder: int, name: str) -> int:
    # `O_NONBLOCK`: do not wait for the other end of a pipe.
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    with suppress(FileNotFoundError):
        # Without `O_CREAT`: in a world-writable folder the kernel forbids it for another user's file.
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
