"""One device of a host: the worker that measures on it, and the lease that the worker is for."""

from collections.abc import Callable
from threading import Lock
from typing import Protocol

from sweeps.device_facts import DeviceFacts
from sweeps.records import Failed
from workers.measure.device_runner import AnswerT, Request


class Worker(Protocol):
    """The part that measures on one device for one lease; on a cluster a separate process."""

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        """Answer a request. Every error is returned as a value."""
        ...

    def close(self) -> None:
        """Release the device in order. This is not called while the worker answers."""
        ...

    def kill(self) -> None:
        """End the worker at once, with the block that runs: `ask` then returns a `Failed`."""
        ...


class DeviceSlot:
    """One device with its worker and its present lease."""

    def __init__(self) -> None:
        self.busy = Lock()
        """The lock that is held while a request runs."""
        self.last_result_id = ""
        """The id of the result that was last requested."""
        self.facts: DeviceFacts | None = None
        """The facts of the device, once it was measured on: a device that is gone may be brought back."""
        self._worker: Worker | None = None
        self.epoch = 0
        """The epoch of the lease that the worker is for."""
        self._lock = Lock()

    @property
    def is_taken(self) -> bool:
        """Tell whether the device has a worker."""
        return self._worker is not None

    def worker(self, epoch: int, start: Callable[[], Worker]) -> Worker:
        """Return the worker of this lease, started if necessary. A worker of an earlier lease, whose driver died, is
        ended."""
        with self._lock:
            before, self._worker = (self._worker, None) if self.epoch != epoch else (None, self._worker)
        if before is not None:
            before.close()
        with self._lock:
            if self._worker is None:
                self._worker, self.epoch = start(), epoch
            return self._worker

    def vacate(self, epoch: int | None = None) -> None:
        """Close the worker, if no request runs and the worker belongs to the lease `epoch` (`None`: to any lease)."""
        if not self.busy.acquire(blocking=False):
            return
        try:
            with self._lock:
                if epoch not in (None, self.epoch):
                    return
                worker, self._worker = self._worker, None
            if worker is not None:
                worker.close()
        finally:
            self.busy.release()

    def dismissed(self) -> Worker | None:
        """Remove the worker from the device, and return it."""
        with self._lock:
            worker, self._worker = self._worker, None
        return worker

    def kill(self) -> None:
        if worker := self.dismissed():
            worker.kill()

    def end(self) -> None:
        """Close the worker, or kill it if a request still runs."""
        if self.busy.locked():
            self.kill()
        self.vacate()
