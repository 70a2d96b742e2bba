"""The outages of all devices of one run, and the part at fault in each. A device with repeated faults that are its own,
not its host's, is quarantined."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from sweeps.device_facts import DeviceFacts
from sweeps.errors import HOST_KINDS, LAB_KINDS, OWN_KINDS, StoreError
from sweeps.quarantine import Quarantine, QuarantineBook
from sweeps.records import Failed, Job
from workers.driver.ladder import AWAY_WAIT, AwayWait

TOGETHER_S = 10.0
"""Devices that go away within this time of each other lost a part that they share: a hub, an adb server, the
network."""


@dataclass(slots=True)
class Outage:
    """The time from the first request that a device did not answer to the next request that it answers."""

    device_id: str
    began_s: float
    job: Job
    own: Failed | None = None
    """The last failure that may be the device's own fault."""
    hosts: bool = False
    """Tells whether the device's host, or the connection to it, was part of the outage."""

    def add(self, failed: Failed) -> None:
        if failed.kind in HOST_KINDS | LAB_KINDS:
            self.hosts = True
        elif failed.kind in OWN_KINDS:
            self.own = failed


class Health:
    """The outages of all devices of a run. The sessions with devices share it, and take turns in one thread."""

    def __init__(
        self, book: QuarantineBook, away_wait: AwayWait = AWAY_WAIT, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.away_wait = away_wait
        self._book = book
        self.now_s = now_s
        """The function that returns the seconds of a clock that is never set."""
        self._outages: list[Outage] = []

    def quarantine(self, facts: DeviceFacts) -> Quarantine | None:
        """Return the device's quarantine, if it is in one. A quarantine file that cannot be read keeps no device
        out."""
        with suppress(StoreError):
            return self._book.quarantine(facts.device_id)
        return None

    def began(self, facts: DeviceFacts, job: Job) -> Outage:
        outage = Outage(facts.device_id, self.now_s(), job)
        self._outages.append(outage)
        return outage

    def ended(self, facts: DeviceFacts, outage: Outage) -> Quarantine | None:
        """Close an outage, which is over or given up. Return the quarantine if this fault begins one."""
        is_alone = not any(
            other.device_id != outage.device_id and abs(other.began_s - outage.began_s) <= TOGETHER_S
            for other in self._outages
        )
        if outage.own is None or outage.hosts or not is_alone:
            return None
        return self._counted(facts, outage.own, outage.job)

    def failed(self, facts: DeviceFacts, failed: Failed, job: Job) -> Quarantine | None:
        """Count an answer that is a fault of the device itself. Return the quarantine if this fault begins one. Other
        failures are not counted."""
        return self._counted(facts, failed, job) if failed.kind in OWN_KINDS else None

    def pass_canary(self, facts: DeviceFacts) -> None:
        with suppress(StoreError):  # without the file, the next run has one more canary
            self._book.pass_canary(facts.device_id)

    def _counted(self, facts: DeviceFacts, failed: Failed, job: Job) -> Quarantine | None:
        # A fault that cannot be stored must not end the sweep.
        with suppress(StoreError):
            return self._book.add_fault(facts.device_id, facts.name, failed.kind, failed.message, job.key)
        return None
