"""The process of `workers.executors.inline` that builds one artifact after the other.

    python -P -m workers.executors.builder DRIVER DESCRIPTOR ROOT

DRIVER is the id of the process that has started it, DESCRIPTOR its end of a pipe to that process: the driver's
`sys.path` comes first, then a build's key, variant and inputs; each answer is what came of it. ROOT has the artifacts.
It leads a process group, and ends with the pipe.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

from sweeps.with_parent import end_with_parent
from workers.artifacts import build_packed

_ORPHAN_END_S = 1.0
"""Time to end by itself where the driver is gone. Unfinished files stay then, until another builder starts."""


def build_forever(driver: int, connection: Connection, root: Path) -> None:
    end_with_parent(driver, _leave_soon)
    # The driver decides what Ctrl-C means; a build under way is finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    try:
        with suppress(EOFError, ConnectionError):
            sys.path[:] = connection.recv()
            while True:
                connection.send(build_packed(root, *connection.recv()))
    finally:
        # It ends by itself now: being told to must not break its clean-up off.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)


def _leave_soon() -> None:
    """The driver was killed: time to remove what is unfinished."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_ORPHAN_END_S)


def _leave(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


if __name__ == "__main__":
    build_forever(int(sys.argv[1]), Connection(int(sys.argv[2])), Path(sys.argv[3]))
