"""What a sweep in a lab remembers of its devices: it is told to their hosts too, which show it to everybody."""

import time
from collections.abc import Callable, Iterable

from sweeps.quarantine import Quarantine, QuarantineBook
from workers.hosts.lab import Lab


class ToldBook(QuarantineBook):
    """Of this user, as every other one."""

    def __init__(self, lab: Lab, *, now_s: Callable[[], float] = time.time) -> None:
        """`now_s`: seconds since 1970."""
        super().__init__(now_s=now_s)
        self._lab = lab

    def retell(self, device_ids: Iterable[str]) -> None:
        """What a host shows of these devices may be of a run before, or lost since it was started again."""
        for device_id in device_ids:
            found = self.quarantine(device_id)
            self._lab.hint(device_id, found.text if found is not None and found.by == "edgesweep" else "")

    def add_fault(self, device_id: str, name: str, kind: str, message: str, job_key: str) -> Quarantine | None:
        """See `QuarantineBook.add_fault`."""
        begun = super().add_fault(device_id, name, kind, message, job_key)
        if begun is not None:
            self._lab.hint(device_id, begun.text)
        return begun

    def pass_canary(self, device_id: str) -> None:
        """See `QuarantineBook.pass_canary`."""
        super().pass_canary(device_id)
        if self.quarantine(device_id) is None:
            self._lab.hint(device_id, "")
