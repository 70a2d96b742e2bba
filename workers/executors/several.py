"""Builds in several processes of this machine at once, without Ray."""

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

_Told = tuple[BuildRequest, PackedArtifact | Failed | None]

BUILDERS = max(1, (os.cpu_count() or 1) // 2)
"""So many at once: a build uses more than one CPU now and then, and this machine also drives."""
_LOOK_S = 0.5


def build_with(builders: Sequence[InlineExecutor], requests: Iterable[BuildRequest], stop: Stop) -> Builds:
    """As `workers.executors.interface.Executor.build`, by each of these in a thread of its own.

    A builder goes on once what it told was taken: whoever takes it looks then whether the run is to stop.
    """
    queue = BuildQueue.of(requests)
    told: SimpleQueue[tuple[_Told, Event] | BaseException | None] = SimpleQueue()
    ended = Event()

    def work(builder: InlineExecutor) -> None:
        try:
            for one in builder.build(queue, lambda: ended.is_set() or stop()):
                taken = Event()
                told.put((one, taken))
                while not taken.wait(_LOOK_S) and not ended.is_set():
                    pass
                if ended.is_set():
                    break
        except BaseException as error:  # noqa: BLE001  # raised where the outcomes are waited for
            told.put(error)
        else:
            told.put(None)

    threads = [Thread(target=work, args=(one,), daemon=True) for one in builders]
    for thread in threads:
        thread.start()
    at_work = len(threads)
    try:
        while at_work:
            one = told.get()
            if isinstance(one, BaseException):
                raise one
            if one is None:
                at_work -= 1
            else:
                yield one[0]
                one[1].set()
    finally:
        ended.set()
        # After Ctrl-C, or where no more is wanted, what runs is ended; one may be about to start meanwhile.
        while at_work and any(thread.is_alive() for thread in threads):
            close_all(builders)
            for thread in threads:
                thread.join(_LOOK_S)
        for thread in threads:
            thread.join()
        close_all(builders)


def close_all(builders: Sequence[InlineExecutor]) -> None:
    """At once: each may take seconds to end."""
    with ThreadPoolExecutor(len(builders)) as pool:
        list(pool.map(InlineExecutor.close, builders))
