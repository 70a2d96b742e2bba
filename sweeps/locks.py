"""Locks between processes of this host: take a lock, wait for it, and find the process that holds it.

Each lock is an `flock` on an open file, which the kernel releases when the last process that has the file open ends,
however it ends. The file of a lock is never deleted: otherwise one process could lock the deleted file and another one
a new file of the same name.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sweeps.errors import DeviceError
from sweeps.retry import tries
from sweeps.untrusted_file import open_regular

HOST_FOLDER = Path("/tmp/edgesweep-held")  # noqa: S108  # not in a user's cache: all users of the host share its phones
"""The folder with the files of `HostLock`, one for each name."""
GLANCE_S = 0.2
"""A lock that is held only to look at it (`owner`) is free again after this time."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.02
_MODE_OF_ALL = 0o666
_PID_BYTES = 20


class LockedError(Exception):
    """Another process has the lock."""

    def __init__(self, process: int) -> None:
        super().__init__(process)
        self.process = process
        """The id of that process; 0 if not known."""


def take(file: int, *, shared: bool = False, wait_s: float | None = GLANCE_S) -> bool:
    """Take the lock of an open file. Return whether this process holds it now. `shared`: together with other shared
    locks. `wait_s`: how long to wait for the lock; `None`: without limit."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    if wait_s is None:
        fcntl.flock(file, kind)
        return True
    for _ in tries(wait_s, _FIRST_PAUSE_S, _LONGEST_PAUSE_S):
        with suppress(BlockingIOError):
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            return True
    return False


@contextmanager
def locked(path: Path, *, wait_s: float | None = None, mode: int = _MODE_OF_ALL) -> Iterator[int]:
    """Hold the lock of a file during the `with` block, and yield the open file. The file and its folder are created if
    missing. A child process that inherits the file holds the lock, too, until both processes have ended.

    `wait_s`: as in `take`; `mode`: of a new file. Raises `LockedError` after that time, `OSError` if the file cannot be
    opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, mode)
    try:
        _claim(file, wait_s)
        yield file
    finally:
        os.close(file)


def owner(path: Path) -> int | None:
    """Return the id of the process that holds the lock of a file exclusively; 0 if not known, `None` if no process
    holds it, or the file cannot be opened. A process that tries to take the lock at this moment has to wait until this
    check ends."""
    try:
        file = open_regular(path)
    except OSError:
        return None
    with file:
        return None if take(file.fileno(), shared=True, wait_s=0.0) else _process(file.fileno())


def host_lock_owner(name: str) -> int | None:
    """Return the id of the process that holds the `HostLock` of this name, as `owner` does."""
    return owner(_host_path(name))


def phone_name(device_id: str) -> str:
    """Return the name of the `HostLock` of a phone, held while it is measured."""
    return f"phone {device_id}"


class HostLock:
    """A named lock for all users and workspaces of this host, until `release()` or the end of this process.

    Several `shared` locks of one name can be held together, but not with an exclusive one. Raises `LockedError` if the
    name is locked for longer than `wait_s` (seconds), even by this process, and `DeviceError("os_error", ...)`.
    """

    def __init__(self, name: str, *, shared: bool = False, wait_s: float = GLANCE_S) -> None:
        path = _host_path(name)
        try:
            self._file = _opened(path)
        except OSError as error:
            raise DeviceError(
                "os_error",
                f"{path} cannot be opened ({error})",
                f"make {path.parent} a folder that every user may write to, and delete {path} if it is a link",
            ) from error
        try:
            _claim(self._file, wait_s, shared=shared)
        except OSError as error:
            self.release()
            raise DeviceError(
                "os_error",
                f"{path} cannot be locked ({error})",
                f"its file system must have locks: mount one at {path.parent} that has them, as tmpfs or ext4",
            ) from error
        except BaseException:
            self.release()
            raise

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        file, self._file = getattr(self, "_file", -1), -1
        if file >= 0:
            # Closing alone would leave the lock to a child that has the file. Where none could be taken, none is given
            # back.
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)


def _claim(file: int, wait_s: float | None, *, shared: bool = False) -> None:
    """Take the lock of an open file, and write this process's id into it. Raises `LockedError`."""
    if not take(file, shared=shared, wait_s=wait_s):
        raise LockedError(_process(file))
    with suppress(OSError):  # The disk may be full: the lock is held anyway.
        os.truncate(file, 0)
        os.pwrite(file, b"%d\n" % os.getpid(), 0)


def _process(file: int) -> int:
    """Return the id that `_claim` wrote into the file; 0 if the content is no id."""
    text = os.pread(file, _PID_BYTES, 0).strip()
    return int(text) if text.isdigit() else 0


def _host_path(name: str) -> Path:
    import hashlib  # The import takes 3 ms, and all of `edgesweep --help` may take 0.2 s.

    return HOST_FOLDER / hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _opened(path: Path) -> int:
    """Open the file of a lock. Raises `OSError`. Links are refused: another user could create a link to a file that
    only this user may write."""
    path.parent.mkdir(exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        file = _opened_in(folder, path.name)
    finally:
        os.close(folder)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(file)
        raise OSError(errno.EEXIST, "it is a link, or no plain file")
    return file


def _opened_in(folder: int, name: str) -> int:
    # The flag `O_NONBLOCK` avoids waiting for the other end of a pipe.
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    with suppress(FileNotFoundError):
        # The call has no `O_CREAT`: in a world-writable folder the kernel forbids it for another user's file.
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
