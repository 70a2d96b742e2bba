"""Other work on this machine: one core that is busy half of the time, by turns of 50 ms."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context

TURN_S = 0.05


@contextmanager
def half_busy_core() -> Iterator[None]:
    """The last core of this process. A process that measures should be another child: its own load is not counted."""
    process = get_context("spawn").Process(target=_busy, args=(max(os.sched_getaffinity(0)),), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _busy(core: int) -> None:
    os.sched_setaffinity(0, {core})
    while True:
        until = time.monotonic() + TURN_S
        while time.monotonic() < until:
            pass
        time.sleep(TURN_S)
