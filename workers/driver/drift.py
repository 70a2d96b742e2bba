"""Sentinel checks: whether a device's speed has changed since the start of its run."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sweeps.device_facts import DeviceFacts
from sweeps.protocol import sentinel_rules
from sweeps.records import Block, Job
from workers.driver.context import DeviceProgress, RunContext
from workers.driver.device_session import DeviceSession
from workers.driver.driver_events import DeviceChanged
from workers.driver.scheduler import Task

SHORT_BLOCK: Mapping[str, Any] = {
    "warmup_iterations": 0,
    "warmup_seconds": 0.2,
    "iterations": 5,
    "min_seconds": 0.3,
    "max_seconds": 30.0,
}
"""The protocol fields of a short block that only shows the state of the device."""


class DriftWatch:
    """The sentinel checks of one device, which has them if its plan has a sentinel."""

    def __init__(
        self, contact: DeviceSession, facts: DeviceFacts, context: RunContext, progress: DeviceProgress
    ) -> None:
        self._contact = contact
        self._device = facts.name
        self._journal = context.journal
        self._protocol = context.protocol
        self._progress = progress
        self._sentinel = next((job for job in context.plan.sentinels if job.device_id == facts.device_id), None)
        self._checked = False
        self._blocks_since = 0
        self._unchecked: set[str] = set()

    @property
    def unchecked(self) -> Collection[str]:
        """Return the keys of the jobs with blocks that no check has followed yet: it is unknown whether the device
        shifted during these blocks."""
        return self._unchecked

    @property
    def spans(self) -> list[sentinel_rules.Span]:
        """Return the time spans in which the device's speed was shifted, according to all checks so far."""
        return [] if self._sentinel is None else self._journal.sentinels.spans(self._sentinel.key)

    def count_block(self, job_key: str) -> Task[None]:
        """Count a measured block, and run a check if one is due."""
        if self._sentinel is None:
            return
        self._unchecked.add(job_key)
        self._blocks_since += 1
        interval = self._protocol.sentinel_every
        if interval and self._blocks_since >= interval:
            yield from self.check()

    def check(self) -> Task[None]:
        """Time the sentinel, and time it again if the device seems to have changed.

        Afterwards no job is unchecked, even if the sentinel cannot be timed: otherwise the rounds would wait for a
        check forever.
        """
        job = self._sentinel
        if job is None or self._contact.stopped():
            return
        yield from self._timed(job)
        if not self._contact.stopped():
            self._unchecked.clear()

    def _timed(self, job: Job) -> Task[None]:
        self._blocks_since = 0
        protocol = replace(self._protocol, **SHORT_BLOCK)
        earlier = self._journal.attempts.blocks(job.key)
        check = sentinel_rules.next_check(earlier)
        blocks: list[Block] = []
        for number in range(2 * sentinel_rules.CHECK_BLOCKS):
            if number == sentinel_rules.CHECK_BLOCKS and not self._moved(blocks, earlier):
                break
            yield self._progress.beside("sentinel")
            block = yield from self._contact.timed(job, sentinel_rules.round_of(check, number), protocol)
            if not isinstance(block, Block):
                # Only the warning is lost. A problem of the device will show in its jobs.
                return
            self._journal.attempts.add_block(block)
            blocks.append(block)
        if self._moved(blocks, earlier):
            yield DeviceChanged(self._device)
        self._checked = True

    def _moved(self, blocks: Sequence[Block], earlier: Sequence[Block]) -> bool:
        """Tell whether the sentinel's time has changed. The first check of a run has nothing to compare with: blocks of
        other runs do not count."""
        return self._checked and sentinel_rules.moved(blocks, earlier)
