"""Where a device's time went: only a part of it is spent in timed iterations. Pure."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from sweeps.records import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds on the device's clock. `waiting_s` comes before a block, all others are parts of blocks."""

    waiting_s: float = 0.0
    """For the gate."""
    starting_s: float = 0.0
    """The command, the process, its imports, and its end: what is left of a block beside the other parts."""
    loading_s: float = 0.0
    warming_up_s: float = 0.0
    """With the first inference."""
    timed_s: float = 0.0

    @property
    def measuring_s(self) -> float:
        """All but the waiting."""
        return self.starting_s + self.loading_s + self.warming_up_s + self.timed_s

    @property
    def text(self) -> str:
        """For people; empty without any time."""
        if self.measuring_s <= 0.0:
            return ""
        parts = (
            ("timed iterations", self.timed_s),
            ("warm-up", self.warming_up_s),
            ("loading", self.loading_s),
            ("starting processes", self.starting_s),
        )
        shares = ", ".join(f"{seconds / self.measuring_s:.0%} {name}".replace("%", " %") for name, seconds in parts)
        return f"device time {self.measuring_s:,.0f} s: {shares}; and {self.waiting_s:,.0f} s of waiting"

    def document(self) -> dict[str, float]:
        """For JSON, in seconds."""
        return {name: round(seconds, 3) for name, seconds in asdict(self).items()}


def spent(blocks: Iterable[Block]) -> Spent:
    """Where the time of these blocks went. A runner that does not report its load time has it in `starting_s`."""
    waiting = starting = loading = warming_up = timed = 0.0
    for block in blocks:
        parts = (
            (block.load_ns or 0) / 1e9,
            ((block.first_inference_ns or 0) + sum(block.warmup_ns)) / 1e9,
            sum(block.samples_ns) / 1e9,
        )
        waiting += block.conditions.waited_seconds
        starting += max(0.0, block.device_seconds - sum(parts))
        loading, warming_up, timed = loading + parts[0], warming_up + parts[1], timed + parts[2]
    return Spent(waiting_s=waiting, starting_s=starting, loading_s=loading, warming_up_s=warming_up, timed_s=timed)
