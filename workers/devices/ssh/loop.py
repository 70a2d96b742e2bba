"""The thread of this process that runs all ssh connections: an asyncio event loop behind functions that block until the
work is done."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")

_lock = threading.Lock()
_running: tuple[int, asyncio.AbstractEventLoop] | None = None
"""The loop, and the id of the process that started it: a forked process has no thread for the loop of its parent."""


def call(work: Coroutine[Any, Any, ResultT], seconds: float) -> ResultT:
    """Run `work` in the loop, and return its result. `work` itself must end within `seconds`; if it takes more than a
    little longer, it is cancelled.

    Raises what `work` raises, and `TimeoutError`.
    """
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result(seconds + _SLACK_S)
    finally:
        # The work is cancelled on Ctrl-C, too. This has no effect on finished work.
        future.cancel()


_SLACK_S = 10.0
"""The extra time for a busy machine, and for closing connections that the work opened."""


def later(work: Coroutine[Any, Any, object]) -> None:
    """Start `work` in the loop, and do not wait for it."""
    asyncio.run_coroutine_threadsafe(work, _loop())


def _loop() -> asyncio.AbstractEventLoop:
    global _running
    with _lock:
        if _running is None or _running[0] != os.getpid():
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="edgesweep-ssh", daemon=True).start()
            _running = os.getpid(), loop
        return _running[1]
