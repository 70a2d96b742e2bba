"""Processes that end with their parent process, even if the parent is killed and cannot tell them.

There are two ways. `end_with_parent` is the usual one: a thread of the process itself checks whether its parent still
exists. It needs code of EdgeSweep in the process. For any other program, the process PID starts this command, which
runs PROGRAM and ends when PID ends:

    python -P -m sweeps.with_parent PID PROGRAM ...

The command should lead a separate process group, because at its end it kills the whole group that it leads. The end of
stdin is a request to end, and no sign of the parent's end: a fork of the parent may hold the other end of the pipe.

Linux's own way (PR_SET_PDEATHSIG: `ended_with_thread`, `end_with_thread`) needs no thread and no second process, so it
is used for timed programs and for forks of a process that has no threads. The signal comes at the end of the thread
that started the process, not of the whole parent process: that thread has to wait for the process.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

LOOK_S = 0.5
_PR_SET_PDEATHSIG = 1  # The number is from linux/prctl.h.


def end_with_parent(parent: int, before: Callable[[], object] = lambda: None) -> None:
    """End this process as soon as it is no longer a child of the process `parent`, whatever it is doing, and its own
    children if it leads their process group. `before` is called before the end, in a thread."""
    threading.Thread(target=_watch, args=(parent, before), name="ends with its parent", daemon=True).start()


def run_with_parent(argv: Sequence[str], deadline_s: float) -> "subprocess.CompletedProcess[str]":
    """Run a program as `subprocess.run(argv, capture_output=True, text=True)` does. The program and its own child
    processes end with this process. Raises `subprocess.TimeoutExpired` after the program was killed."""
    watched = [sys.executable, "-P", "-m", __name__, str(os.getpid()), *argv]
    with subprocess.Popen(  # noqa: S603  # an argument list of whoever starts this
        watched, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=deadline_s)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)


def ended_with_thread(argv: Sequence[str], number: signal.Signals) -> list[str]:
    """Return the command of a program that gets this signal when the thread that starts it ends. Needs Linux with
    util-linux; elsewhere the command is `argv` unchanged."""
    setpriv = shutil.which("setpriv")
    return [*([setpriv, "--pdeathsig", number.name.removeprefix("SIG"), "--"] if setpriv else []), *argv]


def end_with_thread() -> None:
    """Make the kernel kill this process, which was just forked, when the thread that forked it ends. Linux only."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _watch(parent: int, before: Callable[[], object]) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    try:
        before()
    finally:
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)


def main(argv: list[str]) -> int:
    parent, *words = argv
    end_with_parent(int(parent))
    code = subprocess.run(words, check=False).returncode  # noqa: S603  # an argument list of whoever starts this
    if code < 0:
        # A signal is passed on as a signal: as an exit code it would be 256 less its number.
        with suppress(OSError):  # A program cannot set a handler for SIGKILL.
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
