"""The processes that end with the process that has started them, also when that one is killed and cannot tell.

There are two ways. `end_with_parent` is the usual one: a thread of the process itself looks whether its parent is still
there. It needs code of ours in the process; for a program that knows nothing of this

    python -P -m sweeps.with_parent PID PROGRAM ...

runs it as a child of the process PID, and should lead a process group of its own. The end of stdin is an order to end,
and no sign of the parent's end: a fork of the parent may hold the other end of the pipe.

Linux's own way (PR_SET_PDEATHSIG: `ended_with_thread`, `end_with_thread`) needs no thread and no second process, so it
is that of what is timed and of forks of a process that has no threads. It goes by the thread that has started the
process, not by the whole of its parent: that thread has to wait for it.
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
    """End this process from now on once it is no longer a child of the process `parent`, in the middle of whatever it
    does, and its own children where it leads their process group. `before` is called before that, in a thread."""
    threading.Thread(target=_watch, args=(parent, before), name="ends with its parent", daemon=True).start()


def run_with_parent(argv: Sequence[str], deadline_s: float) -> "subprocess.CompletedProcess[str]":
    """Run a program as `subprocess.run(argv, capture_output=True, text=True)` does; it ends with this process, and its
    own programs with it. Raises `subprocess.TimeoutExpired` after they were ended."""
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
    """Return the command of a program that gets this signal once the thread that starts it has ended. Linux with
    util-linux only; elsewhere the program itself."""
    setpriv = shutil.which("setpriv")
    return [*([setpriv, "--pdeathsig", number.name.removeprefix("SIG"), "--"] if setpriv else []), *argv]


def end_with_thread() -> None:
    """Have the kernel kill this process, which was just forked, once the thread that has forked it ends. Linux only."""
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
        # A signal is handed on as a signal: as an exit code it would be 256 less its number.
        with suppress(OSError):  # A program can have no handler of SIGKILL.
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
