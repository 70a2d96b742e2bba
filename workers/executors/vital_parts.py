"""Watches the parts of this process's Ray that no run can continue without, because Ray itself would wait for minutes.

The processes that Ray then leaves behind are ended, so that they do not compete with the next run.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

import psutil

from sweeps.errors import ClusterError
from workers.executors.agents import end_all, loss_of, marked_processes, ray_processes, vital_parts

_LOOK_S = 0.5
_GONE_S = 5.0
Words = ParamSpec("Words")
Returned = TypeVar("Returned")


class VitalParts:
    """The watch of a driver over the Ray that it has just started. A driver that joins a cluster has no parts to
    watch."""

    def __init__(self, mark: tuple[str, str]) -> None:
        """Start the watch. `mark`: the name and value of an environment variable that every process of this Ray has,
        and no process of another Ray."""
        self._mark = mark
        # Ray's agents overwrite their environment with a title, so they cannot be found by the mark.
        self._started = ray_processes()
        self._names = {psutil.Process(part): name for part, name in vital_parts().items()}
        self._looking = threading.Lock()
        self._calls: set[threading.Thread] = set()
        self._ended: Future[None] = Future()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="watches Ray", daemon=True).start()

    @property
    def have_ended(self) -> bool:
        """Tell whether a part has ended: from then on a call to Ray may neither return nor fail."""
        return self._ended.done()

    def check(self) -> None:
        """Check the parts. Raises `ClusterError` if one has ended, which is then the reason of any other failure."""
        with self._looking:
            ended = [name for part, name in self._names.items() if not _runs(part)]
            if ended and not self._ended.done():
                self._ended.set_exception(loss_of(ended))
        if self._ended.done():
            self._ended.result()

    def call(self, function: Callable[Words, Returned], *args: Words.args, **options: Words.kwargs) -> Returned:
        """Call a function that uses Ray, and return its result. Raises `ClusterError` as soon as a part has ended; the
        function is then left running in a thread that ends with the process."""
        self.check()
        result: Future[Returned] = Future()
        pending: list[Future[Any]] = [result, self._ended]

        def run() -> None:
            try:
                result.set_result(function(*args, **options))
            except BaseException as error:  # noqa: BLE001  # raised where it was called
                result.set_exception(error)
            finally:
                self._calls.discard(threading.current_thread())

        thread = threading.Thread(target=run, name="calls Ray", daemon=True)
        self._calls.add(thread)
        thread.start()
        wait(pending, return_when=FIRST_COMPLETED)
        if not result.done():
            self._ended.result()
        return result.result()

    def close(self, shutdown: Callable[[], object]) -> None:
        """End Ray by its own `shutdown`. If a part has ended, also end the processes that `shutdown` leaves behind."""
        self._closed.set()
        if not self.have_ended:
            shutdown()
            return
        # A call that uses the memory of a raylet as that ends takes this process with it: the other parts are ended
        # first.
        end_all(self._left() - self._names.keys())
        deadline = time.monotonic() + _GONE_S
        for thread in [*self._calls]:
            thread.join(max(0.0, deadline - time.monotonic()))
        # Without `shutdown`, Ray's threads would end this process with a signal. It takes 5 s then.
        shutdown()
        left = self._left()
        end_all(left)
        psutil.wait_procs(left, timeout=_GONE_S)

    def _left(self) -> set[psutil.Process]:
        """Return the processes of Ray that are left, including those whose parent has ended."""
        return self._started | ray_processes() | marked_processes(*self._mark)

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK_S) and not self.have_ended:
            with suppress(ClusterError):  # the call that waits raises the error
                self.check()


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
