"""The process of `workers.executors.process_builder` that builds one artifact at a time.

    python -P -m workers.executors.builder DESCRIPTOR ROOT

DESCRIPTOR is this process's end of a pipe to the process that requests builds. The requesting process first sends its
`sys.path`, then for each build the key, the variant, the inputs, and the path of the file for the outcome. When that
file is there, its stem is sent back. ROOT is the folder of the artifacts. The builder leads a process group, and ends
with the pipe.
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
from workers.artifacts import failure_of_build
from workers.executors.process_builder import UNANSWERED, write_answer

_ORPHAN_END_S = 1.0
"""The time that this process has to end by itself after the driver is gone. Unfinished files then stay until another
builder starts."""


def build_forever(connection: Connection, root: Path) -> None:
    end_with_parent(os.getppid(), _leave_soon)
    # The driver decides what Ctrl-C means; a build under way is finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    try:
        with suppress(EOFError, ConnectionError):
            sys.path[:] = connection.recv()
            while True:
                build_key, variant, inputs, answer = connection.recv()
                failed = failure_of_build(root, build_key, variant, inputs)
                try:
                    write_answer(Path(answer), failed)
                except OSError:
                    sys.exit(UNANSWERED)
                os.write(connection.fileno(), Path(answer).stem.encode())
    finally:
        # The process ends by itself now: a signal must not break its clean-up off.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)


def _leave_soon() -> None:
    """Leave after the driver was killed, with time to remove unfinished files."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_ORPHAN_END_S)


def _leave(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


if __name__ == "__main__":
    build_forever(Connection(int(sys.argv[1])), Path(sys.argv[2]))
