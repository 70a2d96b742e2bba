"""The canary of a quarantined device: one job that is measured without being stored. If it succeeds, the other jobs of
the device follow."""

from collections.abc import Sequence
from dataclasses import replace

from sweeps.device_facts import DeviceFacts
from sweeps.errors import ABSENT_KINDS, FINAL_KINDS, OWN_KINDS
from sweeps.quarantine import Quarantine
from sweeps.records import Block, Failed, Job
from workers.driver.context import DeviceProgress, RunContext
from workers.driver.device_recovery import quarantined
from workers.driver.device_session import DeviceSession
from workers.driver.drift import SHORT_BLOCK
from workers.driver.driver_events import Readmitted
from workers.driver.scheduler import Task

BLOCKS = 2
"""The number of blocks of a canary, each in a separate process: a device that answers once may be gone again."""

_OTHER_JOBS = 2
"""The number of other jobs that are tried if the first one fails for a reason that lies in that job."""

_OF_THE_DEVICE = ABSENT_KINDS | OWN_KINDS | FINAL_KINDS | {"timeout", "no_exit_code", "worker_lost", "worker_error"}
"""Kinds of failure after which no other job is tried."""


class Canary:
    """The canary of one device at the start of its run."""

    def __init__(
        self, contact: DeviceSession, facts: DeviceFacts, context: RunContext, progress: DeviceProgress
    ) -> None:
        self._contact = contact
        self._facts = facts
        self._context = context
        self._progress = progress

    def run(self, jobs: Sequence[Job]) -> Task[bool]:
        """Tell whether the device may be measured: it is not quarantined, or its canary succeeds. `jobs`: the pending
        jobs that are timed."""
        quarantine = self._context.health.quarantine(self._facts)
        if quarantine is None or not jobs:
            return True
        failed = yield from self._failed(jobs)
        if failed is None:
            self._context.health.pass_canary(self._facts)
            yield Readmitted(self._facts.name, quarantine)
            return True
        if not self._contact.stopped():
            yield from self._contact.leave(_kept_out(self._facts, quarantine, failed))
        return False

    def _failed(self, jobs: Sequence[Job]) -> Task[Failed | None]:
        """Return the failure that keeps the device quarantined; `None`: the canary succeeded."""
        of_device = [job for job in self._context.plan.sentinels if job.device_id == self._facts.device_id]
        failed = Failed(stage="run", kind="quarantined", message="the run was stopped, or the device went away")
        protocol = replace(self._context.protocol, **SHORT_BLOCK)
        for job in (*of_device, *jobs)[: 1 + _OTHER_JOBS]:
            for number in range(BLOCKS):
                yield self._progress.beside(f"canary {number + 1} of {BLOCKS}: {job.name}", job.key)
                block = yield from self._contact.timed(job, number, protocol)
                if not isinstance(block, Block):
                    break
            else:
                return None
            if block is None or block.kind in _OF_THE_DEVICE:
                return block or failed
            failed = block
        return failed


def _kept_out(facts: DeviceFacts, quarantine: Quarantine, failed: Failed) -> Failed:
    refusal = quarantined(facts, quarantine)
    message = f"{refusal.message}; this time it did not: {failed.kind}: {failed.message}"
    return Failed(stage="run", kind="quarantined", message=message)
