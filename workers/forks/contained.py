"""A program that runs another one, and when that has ended, ends everything that it has started and that still runs.

    python -P -m workers.forks.contained PROGRAM ...

A process that leaves its session and its parent would otherwise keep running during measurements. SIGTERM is passed on
to the program, which gets some seconds to end. The program gets the same if the process that started this one has
ended.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from select import select

from sweeps.with_parent import end_with_thread
from workers.forks.group import Group, adopt_orphans

GRACE_S = 3.0
"""The time that the program has to end by itself after SIGTERM."""
_LOOK_S = 0.5


def contained(argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` contained."""
    return [sys.executable, "-P", "-m", __name__, *argv]


def main(argv: Sequence[str]) -> int:
    parent = os.getppid()
    adopt_orphans()
    group = Group()
    wakes = _signals(signal.SIGTERM)

    def join() -> None:
        group.join()
        end_with_thread()

    inherited = _descriptors()
    program = subprocess.Popen(argv, close_fds=False, preexec_fn=join)  # noqa: S603  # of whoever starts this; no threads here
    group.led_by(program.pid)
    _close([descriptor for descriptor in inherited if descriptor > sys.stderr.fileno() and descriptor not in wakes])
    until_s: float | None = None
    while program.poll() is None and (until_s is None or time.monotonic() < until_s):
        _wait(program, wakes[0])
        group.reap_orphans()
        if until_s is None and (_drained(wakes[0]) or os.getppid() != parent):
            program.terminate()
            until_s = time.monotonic() + GRACE_S
    code = program.poll()
    group.end()
    if code is None:
        code = -signal.SIGKILL
    if code < 0:
        # A signal is passed on as a signal: as an exit code it would be 256 less its number.
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _descriptors() -> list[int]:
    try:
        return [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    except OSError:  # this is no Linux
        return []


def _signals(number: signal.Signals) -> tuple[int, int]:
    """Return the two ends of a pipe that becomes readable when the signal arrives."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(number, lambda *_: None)
    return reading, writing


def _wait(program: "subprocess.Popen[bytes]", wake: int) -> None:
    """Wait until the program has ended, a signal has arrived, or it is time to check the parent."""
    try:
        ended = os.pidfd_open(program.pid)
    except (OSError, AttributeError):  # the program has just ended, or this is no Linux
        time.sleep(_LOOK_S / 10)
        return
    try:
        select([ended, wake], [], [], _LOOK_S)
    finally:
        os.close(ended)


def _drained(descriptor: int) -> bool:
    try:
        return bool(os.read(descriptor, 1024))
    except BlockingIOError:
        return False


def _close(descriptors: Sequence[int]) -> None:
    """Close this process's copies of descriptors that belong to the program: the program alone decides when the other
    side sees an end."""
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
