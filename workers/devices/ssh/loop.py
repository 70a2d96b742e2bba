"""The thread of this process in which all connections live: asyncio behind calls that return when they are done."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")

_lock = threading.Lock()
_running: tuple[int, asyncio.AbstractEventLoop] | None = None
"""The loop with the id of its process: a forked one has no thread for the loop of its parent."""


def call(work: Coroutine[Any, Any, ResultT], seconds: float) -> ResultT:
    """The result of `work`, which must keep `seconds` itself; beyond them and a little more it is given up.

    Raises what `work` raises, and `TimeoutError`.
    """
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result(seconds + _SLACK_S)
    finally:
        # The work is cancelled on Ctrl-C, too. This has no effect on finished work.
        future.cancel()


_SLACK_S = 10.0
"""The slack for a busy machine, and for closing what the work had opened."""


def later(work: Coroutine[Any, Any, object]) -> None:
    """Start `work`, and do not wait."""
    asyncio.run_coroutine_threadsafe(work, _loop())


def _loop() -> asyncio.AbstractEventLoop:
    global _running
    with _lock:
        if _running is None or _running[0] != os.getpid():
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="edgesweep-ssh", daemon=True).start()
            _running = os.getpid(), loop
        return _running[1]
