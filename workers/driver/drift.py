"""Whether a device is still what it was at the start of its run: looks at the sentinel."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sweeps.device_facts import DeviceFacts
from sweeps.protocol import sentinel
from sweeps.records import Block
from workers.driver.contact import Contact
from workers.driver.context import DeviceProgress, RunContext
from workers.driver.events import DeviceChanged
from workers.driver.side_by_side import Steps

_SENTINEL_BLOCK: dict[str, Any] = {
    "warmup_iterations": 0,
    "warmup_seconds": 0.2,
    "iterations": 5,
    "min_seconds": 0.3,
    "max_seconds": 30.0,
}


class DriftWatch:
    """Looks at one device's sentinel, where its plan has one."""

    def __init__(self, contact: Contact, facts: DeviceFacts, context: RunContext, progress: DeviceProgress) -> None:
        self._contact = contact
        self._device = facts.name
        self._journal = context.journal
        self._protocol = context.protocol
        self._progress = progress
        self._sentinel = next((job for job in context.plan.sentinels if job.device_id == facts.device_id), None)
        self._first_look: tuple[Block, ...] = ()
        self._blocks_since = 0

    def count_block(self) -> Steps[None]:
        """A block was measured: look, where it is time."""
        self._blocks_since += 1
        every = self._protocol.sentinel_every
        if every and self._blocks_since >= every:
            yield from self.look()

    def look(self) -> Steps[None]:
        """Time the sentinel; a second time where it seems to have moved."""
        job = self._sentinel
        if job is None or self._contact.stopped():
            return
        self._blocks_since = 0
        protocol = replace(self._protocol, **_SENTINEL_BLOCK)
        look = sentinel.next_look(self._journal.blocks(job.key))
        blocks: list[Block] = []
        for number in range(2 * sentinel.LOOK_BLOCKS):
            if number == sentinel.LOOK_BLOCKS and not self._moved(blocks):
                break
            yield self._progress.measuring(max(1, self._progress.done), "sentinel")
            block = yield from self._contact.timed(job, sentinel.round_of(look, number), protocol)
            if not isinstance(block, Block):
                # Without it nothing is lost but the warning; what is wrong with the device shows in its jobs.
                return
            self._journal.add_block(block)
            blocks.append(block)
        if not self._first_look:
            self._first_look = tuple(blocks)
        elif self._moved(blocks):
            yield DeviceChanged(self._device)

    def _moved(self, blocks: Sequence[Block]) -> bool:
        return bool(self._first_look) and sentinel.moved(blocks, self._first_look)
