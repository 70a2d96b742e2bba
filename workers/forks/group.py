"""Finds, counts and ends the processes of one program: its children and their children, including those that left its
session.

With a cgroup if this process may create one (no process can leave it, and one write ends all of them); otherwise by
following the parents of processes. The server adopts orphans, so that none gets lost. Linux; on other systems only the
program itself and its session are known.
"""

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_CGROUP = "edgesweep-"
"""The beginning of a cgroup's name; the process id of the server and a number follow."""
_END_S = 20.0
_PAUSE_S = 0.005


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends. Linux only."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


class Group:
    """The processes of one program. The program's first process calls `join` before any of its code runs.

    `most`: the greatest number of tasks that the kernel lets the program have at once, if the kernel can limit it. A
    program that forks without end starts thousands of processes between two checks by a busy server, which then gets no
    time to check again.
    """

    def __init__(self, most: int | None = None) -> None:
        self._leader: int | None = None
        self._cgroup = _new_cgroup()
        self._limited = None if most is None else _limited(self._cgroup, most)

    def join(self) -> None:
        os.setsid()
        for folder in self._folders():
            with suppress(OSError):
                (folder / "cgroup.procs").write_text("0")

    def _folders(self) -> set[Path]:
        return {folder for folder in (self._cgroup, self._limited) if folder is not None}

    def led_by(self, pid: int) -> None:
        """Note the program's first process, which the server has started."""
        self._leader = pid

    def pids(self) -> set[int]:
        """Return the ids of all processes, including ended processes that nobody has waited for."""
        pids = set(_descendants(os.getpid()))
        if self._cgroup is not None:
            with suppress(OSError, ValueError):
                pids |= {int(word) for word in (self._cgroup / "cgroup.procs").read_text().split()}
        return pids

    def private_bytes(self, shared_bytes: int) -> int:
        """Return the resident memory of the processes (bytes), without the part that each shares with the server, and
        without files, whose pages can be dropped."""
        return sum(max(0, resident_bytes(pid) - shared_bytes) for pid in self.pids())

    def end(self) -> None:
        """Kill all processes, including the first one, and wait until none is left."""
        until_s = time.monotonic() + _END_S
        while time.monotonic() < until_s:
            left = self.pids()
            if not left:
                break
            if self._cgroup is not None:
                with suppress(OSError):
                    (self._cgroup / "cgroup.kill").write_text("1")
            if self._leader is not None and any(_group_of(pid) == self._leader for pid in left):
                with suppress(OSError):
                    # One call ends the whole session: none of it can fork meanwhile. Nobody else can have its number.
                    os.killpg(self._leader, signal.SIGKILL)
            for pid in left:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(_PAUSE_S)
        for folder in self._folders():
            with suppress(OSError):
                folder.rmdir()

    def reap_orphans(self) -> None:
        """Wait for processes that have ended and that the server has adopted."""
        for pid in _children(os.getpid()):
            if pid != self._leader:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def resident_bytes(pid: int) -> int:
    """Return the resident memory of one process (bytes) that does not belong to a file; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        with suppress(psutil.Error):
            return int(psutil.Process(pid).memory_info().rss)
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def _descendants(pid: int) -> Iterator[int]:
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            yield child
            waiting.append(child)


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    try:
        # The kernel lists children by the thread that started them.
        return [int(word) for task in tasks.iterdir() for word in (task / "children").read_text().split()]
    except (OSError, ValueError):
        with suppress(psutil.Error):
            return [child.pid for child in psutil.Process(pid).children()]
        return []


def _remove_abandoned(home: Path) -> None:
    """Remove the empty cgroups of servers that were killed."""
    for folder in home.glob(f"{_CGROUP}*"):
        pid = folder.name.removeprefix(_CGROUP).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            with suppress(OSError):
                folder.rmdir()


def _new_cgroup() -> Path | None:
    """Create a cgroup below that of this process, and return its folder; `None` if the kernel has no cgroups of version
    2, or this process may not create one."""
    folder = _below_own("cgroup2", "")
    if folder is None or (folder / "cgroup.kill").exists():
        return folder
    with suppress(OSError):
        folder.rmdir()
    return None


def _limited(cgroup: Path | None, most: int) -> Path | None:
    """Limit the number of tasks in this cgroup, or in a new one of the `pids` controller of version 1. Return the
    folder of the limited cgroup; `None` if neither can be limited."""
    for folder in (cgroup, _below_own("cgroup", "pids")):
        if folder is not None:
            with suppress(OSError):
                (folder / "pids.max").write_text(str(most))  # a cgroup v2 has this file if it may be limited
                return folder
    return None


def _below_own(kind: str, controller: str) -> Path | None:
    """Create a cgroup below that of this process, in the mounted file system of this kind that has the controller.
    Return its folder, or `None`."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        home = next(
            words[4]
            for words in mounts
            if words[words.index("-") + 1] == kind and controller in ("", *words[-1].split(","))
        )
        memberships = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        own_path = next(path for _, controllers, path in memberships if controller in controllers.split(","))
        folder = Path(home) / own_path.lstrip("/") / f"{_CGROUP}{os.getpid()}-{time.monotonic_ns()}"
        _remove_abandoned(folder.parent)
        folder.mkdir()
    except (OSError, StopIteration, ValueError):
        return None
    return folder
