"""The parts of a device's time: only one of them is timed iterations. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from sweeps.batches import BatchItem, StoredBatch
from sweeps.protocol.clock import figure_ns
from sweeps.protocol.presets import PRESETS
from sweeps.records import Accuracy, Block
from sweeps.stats import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds on the device's clock. `waiting_s` and `pushing_s` come before a block or an accuracy pass."""

    waiting_s: float = 0.0
    """The time of waiting for the gate."""
    pushing_s: float = 0.0
    """The time of sending artifacts and evaluation images; not recorded by early versions."""
    starting_s: float = 0.0
    """The time of the command, the process, its imports, and its end: a block's time without its other parts."""
    loading_s: float = 0.0
    warming_up_s: float = 0.0
    """The time of warm-up with the first inference."""
    timed_s: float = 0.0
    evaluating_s: float = 0.0
    """The time of accuracy passes, from their start to the last logit on the host; not recorded by early versions."""

    @property
    def measuring_s(self) -> float:
        """The sum of all parts except waiting."""
        blocks_s = self.starting_s + self.loading_s + self.warming_up_s + self.timed_s
        return self.pushing_s + blocks_s + self.evaluating_s

    @property
    def text(self) -> str:
        """The shares of the device's time, for people; empty if no time was recorded. Pushes and accuracy passes are
        left out if none was recorded."""
        if self.measuring_s <= 0.0:
            return ""
        parts = {
            "timed iterations": self.timed_s,
            "warm-up": self.warming_up_s,
            "loading": self.loading_s,
            "starting processes": self.starting_s,
        }
        later = {"pushing files": self.pushing_s, "accuracy": self.evaluating_s}
        parts |= {name: seconds for name, seconds in later.items() if seconds}
        shares = ", ".join(f"{100 * seconds / self.measuring_s:.0f} % {name}" for name, seconds in parts.items())
        return f"device time {self.measuring_s:,.0f} s: {shares}; and {self.waiting_s:,.0f} s of waiting"

    def document(self) -> dict[str, float]:
        """Return the seconds by field, for JSON."""
        return {name: round(seconds, 3) for name, seconds in asdict(self).items()}


def _parts(timed: Block | BatchItem) -> tuple[float, float, float]:
    """Return the seconds of loading, of warm-up with the first inference, and of timed iterations."""
    return (
        (timed.load_ns or 0) / 1e9,
        ((timed.first_inference_ns or 0) + sum(timed.warmup_ns)) / 1e9,
        sum(timed.samples_ns) / 1e9,
    )


def spent(blocks: Iterable[Block], accuracies: Iterable[Accuracy] = (), batches: Iterable[StoredBatch] = ()) -> Spent:
    """Return the sums of the parts of the time of these blocks, accuracy passes and batches. Accuracy passes by a
    reference implementation ran on the host, and are left out. The load time of a runner that does not report it is in
    `starting_s`."""
    waiting = pushing = starting = loading = warming_up = timed = evaluating = 0.0
    for block in blocks:
        parts = _parts(block)
        waiting += block.conditions.waited_seconds
        pushing += block.push_seconds
        starting += max(0.0, block.device_seconds - sum(parts))
        loading, warming_up, timed = loading + parts[0], warming_up + parts[1], timed + parts[2]
    for batch in batches:
        items = [_parts(item) for item in batch.items.values()]
        waiting += max((item.conditions.waited_seconds for item in batch.items.values()), default=0.0)
        starting += max(0.0, batch.device_seconds - sum(map(sum, items)))
        loading += sum(seconds[0] for seconds in items)
        warming_up += sum(seconds[1] for seconds in items)
        timed += sum(seconds[2] for seconds in items)
    for accuracy in accuracies:
        if not accuracy.emulated:
            pushing += accuracy.push_seconds
            evaluating += accuracy.device_seconds
    return Spent(
        waiting_s=waiting,
        pushing_s=pushing,
        starting_s=starting,
        loading_s=loading,
        warming_up_s=warming_up,
        timed_s=timed,
        evaluating_s=evaluating,
    )


def full_seconds(blocks: Sequence[Block]) -> float:
    """Return a lower bound of the device time (seconds) that one job needs with `budget: full` and the preset `full`.

    It is computed from the start-up time and the latency of these blocks. Raises `ValueError` for no blocks.
    """
    full = PRESETS["full"]
    starts = [
        block.device_seconds - (sum(block.samples_ns) + sum(block.warmup_ns)) / 1e9
        for block in blocks
        if block.device_seconds
    ]
    latency_s = median([figure_ns(block.samples_ns) for block in blocks]) / 1e9
    warmup_s = max(full.warmup_seconds, full.warmup_iterations * latency_s)
    timed_s = min(full.max_seconds, max(full.min_seconds, full.iterations * latency_s))
    return full.rounds * (max(0.0, median(starts) if starts else 0.0) + warmup_s + timed_s)
