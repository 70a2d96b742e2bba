"""Runs builds in several processes of this machine at once, without Ray."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event, Thread

from sweeps.records import Failed
from workers.artifacts import PackedArtifact
from workers.executors.build_queue import BuildQueue
from workers.executors.inline import InlineExecutor
from workers.executors.interface import BuildRequest, Builds, Stop

_Outcome = tuple[BuildRequest, PackedArtifact | Failed | None]

BUILDERS = max(1, (os.cpu_count() or 1) // 2)
"""The number of builders: a build sometimes uses more than one CPU, and the driver runs on this machine too."""
_LOOK_S = 0.5


def build_with(builders: Sequence[InlineExecutor], requests: Iterable[BuildRequest], stop: Stop) -> Builds:
    """Build as `workers.executors.interface.Executor.build` says, with each of these builders in a separate thread.

    A builder continues once its outcome was consumed, because the caller then checks whether the run is to stop.
    """
    queue = BuildQueue.of(requests)
    outcomes: SimpleQueue[tuple[_Outcome, Event] | BaseException | None] = SimpleQueue()
    ended = Event()

    def work(builder: InlineExecutor) -> None:
        try:
            for outcome in builder.build(queue, lambda: ended.is_set() or stop()):
                consumed = Event()
                outcomes.put((outcome, consumed))
                while not consumed.wait(_LOOK_S) and not ended.is_set():
                    pass
                if ended.is_set():
                    break
        except BaseException as error:  # noqa: BLE001  # raised where the outcomes are waited for
            outcomes.put(error)
        else:
            outcomes.put(None)

    threads = [Thread(target=work, args=(builder,), daemon=True) for builder in builders]
    for thread in threads:
        thread.start()
    at_work = len(threads)
    try:
        while at_work:
            entry = outcomes.get()
            if isinstance(entry, BaseException):
                raise entry
            if entry is None:
                at_work -= 1
            else:
                yield entry[0]
                entry[1].set()
    finally:
        ended.set()
        # After Ctrl-C, or when the caller stops, running builds are ended; another one may be about to start meanwhile.
        while at_work and any(thread.is_alive() for thread in threads):
            close_all(builders)
            for thread in threads:
                thread.join(_LOOK_S)
        for thread in threads:
            thread.join()
        close_all(builders)


def close_all(builders: Sequence[InlineExecutor]) -> None:
    """Close all builders at once: each may take seconds to end."""
    with ThreadPoolExecutor(len(builders)) as pool:
        list(pool.map(InlineExecutor.close, builders))
