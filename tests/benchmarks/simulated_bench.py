"""A simulated phone under a measurement protocol: blocks and batches in virtual time, behind the gate. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sweeps.protocol.clock import figure_ns
from sweeps.protocol.presets import Protocol
from sweeps.protocol.stopping import shuffled_order
from tests.benchmarks.recorded_phone import simulated_phone
from workers.devices.fake.block_length import BlockLength
from workers.devices.fake.phones import Phone
from workers.devices.fake.physics import SimulatedBlock

Rest = Literal["gate", "none"] | float
"""Before every block: wait for the protocol's gate, do nothing, or sleep for so many seconds."""

_POLL_S = 5.0
"""A driver looks at the temperature so often while it waits."""


@dataclass(slots=True)
class Tally:
    """The work that was done on the phone; seconds are the phone's."""

    timed_s: float = 0.0
    waited_s: float = 0.0
    batches_s: float = 0.0
    batches_timed_s: float = 0.0
    blocks: int = 0
    samples: int = 0
    marked_blocks: int = 0
    throttled_blocks: int = 0
    throttled_unmarked_blocks: int = 0


class SimulatedBench:
    """A simulated phone, and what was measured on it under one protocol."""

    def __init__(
        self, phone: Phone, true_ms: Mapping[str, float], protocol: Protocol, seed: int, rest: Rest, plain: bool
    ) -> None:
        self.device = simulated_phone(phone, seed)
        self.device.fixed_performance = protocol.fixed_performance and phone.has_fixed_performance
        self.medians_ms: dict[str, dict[int, float]] = {key: {} for key in true_ms}
        self.confirmed_ms: dict[str, dict[int, float]] = {}
        self.in_batches_ms: dict[str, dict[int, float]] = {key: {} for key in true_ms}
        """By the number of the process."""
        self.tally = Tally()
        self._true_ms = true_ms
        self.published: dict[str, list[SimulatedBlock]] = {key: [] for key in true_ms}
        """The blocks that make the estimate."""
        self._protocol = protocol
        self._order_seed = seed
        self._rest = rest
        self._plain = plain
        self._waits = True

    def round(self, keys: Sequence[str], round: int) -> dict[str, float | None]:
        """One block of each; returns the medians (or means), `None` where the block does not count."""
        ms_of_job: dict[str, float | None] = {}
        for key in shuffled_order(keys, round, self._order_seed):
            ms_of_job[key] = value = self._solo(key)
            if value is not None:
                self.medians_ms[key][round] = value
        return ms_of_job

    def batch(
        self, keys: Sequence[str], number: int, slower: Mapping[str, float], brief: Collection[str]
    ) -> dict[str, float | None]:
        """One batch, in which those of `brief` have short blocks; returns the medians, `None` where a block does not
        count."""
        order = shuffled_order(keys, number, self._order_seed)
        ready = self._wait()
        began_s = self.device.now_s
        items = [
            (self._true_ms[key] * slower.get(key, 1.0), _length(self._protocol.in_batch(brief=key in brief)))
            for key in order
        ]
        blocks = self.device.batch(items)
        self.tally.batches_s += self.device.now_s - began_s
        self.tally.batches_timed_s += sum(block.timed_s for block in blocks)
        ms_of_job = {
            key: self._figure_ms(block) if self._counts(block, ready) else None
            for key, block in zip(order, blocks, strict=True)
        }
        process = 1 + max((ms for medians_ms in self.in_batches_ms.values() for ms in medians_ms), default=-1)
        for key, value in ms_of_job.items():
            if value is not None:
                self.in_batches_ms[key][process] = value
        return ms_of_job

    def confirm(self, key: str, blocks: int) -> None:
        """Measure the winner again: only these blocks make its estimate. Others have none."""
        before, self.published[key] = self.published[key], []
        confirmed = self._after_rounds(key, blocks)
        if confirmed:
            self.confirmed_ms[key] = confirmed
        else:
            self.published[key] = before

    def check(self, key: str, blocks: int) -> dict[int, float]:
        """Measure a winner's rival, only to check the batches. By round; those that count."""
        before = [*self.published[key]]
        checked = self._after_rounds(key, blocks)
        self.published[key] = before
        return checked

    def _after_rounds(self, key: str, blocks: int) -> dict[int, float]:
        """Blocks that count, by rounds after those of the race and the confirmation."""
        before = (*self.medians_ms.values(), *self.confirmed_ms.values())
        first = 1 + max((round for medians_ms in before for round in medians_ms), default=-1)
        measured = ((round, self._solo(key)) for round in range(first, first + blocks))
        return {round: value for round, value in measured if value is not None}

    def _solo(self, key: str) -> float | None:
        """The median (or mean) of a block in a process of its own; `None` where it does not count."""
        ready = self._wait()
        block = self.device.block(self._true_ms[key], **_length(self._protocol.in_own_process))
        if not self._counts(block, ready):
            return None
        self.published[key].append(block)
        return float(block.samples_ns.mean()) / 1e6 if self._plain else self._figure_ms(block)

    def _figure_ms(self, block: SimulatedBlock) -> float:
        # Whole nanoseconds are a fine clock, and the median of an array is fast.
        return block.median_ms if self.device.phone.ticks is None else figure_ns(block.samples_ns.tolist()) / 1e6

    def _counts(self, block: SimulatedBlock, ready: bool) -> bool:
        marked = not self._plain and (not ready or block.status_start > 0 or block.status_end > 0)
        tally = self.tally
        tally.blocks += 1
        tally.samples += block.samples_ns.size
        tally.timed_s += block.timed_s
        tally.marked_blocks += marked
        tally.throttled_blocks += block.throttled
        tally.throttled_unmarked_blocks += block.throttled and not marked
        return not marked

    def _wait(self) -> bool:
        """Wait for the phone. Returns whether it is ready for a block.

        As in a driver's run, after a timeout there is no further wait until the phone is ready again.
        """
        began_s = self.device.now_s
        gate = self._protocol.gate
        ready = True
        if self._rest == "gate" and gate is not None:
            limit_s = gate.wait_seconds if self._waits else 0.0
            while not (ready := self._cool(gate.max_battery_temp_c, gate.max_thermal_status)):
                if self.device.now_s - began_s >= limit_s:
                    break
                self.device.rest(_POLL_S)
            self._waits = ready
        elif isinstance(self._rest, float):
            self.device.rest(self._rest)
        self.tally.waited_s += self.device.now_s - began_s
        return ready

    def _cool(self, max_temp_c: float, max_thermal_status: int) -> bool:
        return self.device.temp_c <= max_temp_c and self.device.thermal_status <= max_thermal_status


def _length(protocol: Protocol) -> BlockLength:
    return {
        "warmup_iterations": protocol.warmup_iterations,
        "warmup_seconds": protocol.warmup_seconds,
        "iterations": protocol.iterations,
        "min_seconds": protocol.min_seconds,
        "max_seconds": protocol.max_seconds,
    }
