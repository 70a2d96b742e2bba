"""The quarantines of a sweep in a lab. They are also sent to the hosts of the devices, which show them to everybody."""

import time
from collections.abc import Callable, Iterable

from sweeps.quarantine import Quarantine, QuarantineBook
from workers.hosts.lab import Lab


class ToldBook(QuarantineBook):
    """The quarantine book of this user, in the same file as outside of a lab."""

    def __init__(self, lab: Lab, *, now_s: Callable[[], float] = time.time) -> None:
        """Open the book for a sweep in `lab`. `now_s` returns seconds since 1970."""
        super().__init__(now_s=now_s)
        self._lab = lab

    def retell(self, device_ids: Iterable[str]) -> None:
        """Send the quarantine state of these devices again: a host may show the state of an earlier run, or have lost
        it when it was restarted."""
        for device_id in device_ids:
            quarantine = self.quarantine(device_id)
            self._lab.hint(
                device_id, quarantine.text if quarantine is not None and quarantine.by == "edgesweep" else ""
            )

    def add_fault(self, device_id: str, name: str, kind: str, message: str, job_key: str) -> Quarantine | None:
        """Add a fault as `QuarantineBook.add_fault` does, and tell the device's hosts of a quarantine."""
        begun = super().add_fault(device_id, name, kind, message, job_key)
        if begun is not None:
            self._lab.hint(device_id, begun.text)
        return begun

    def pass_canary(self, device_id: str) -> None:
        """Note a canary as `QuarantineBook.pass_canary` does, and tell the device's hosts of the end of a
        quarantine."""
        super().pass_canary(device_id)
        if self.quarantine(device_id) is None:
            self._lab.hint(device_id, "")
