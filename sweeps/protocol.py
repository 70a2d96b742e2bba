"""The measurement protocol: presets, order of rounds, summary of blocks, trust labels."""

from dataclasses import dataclass

from sweeps.spec import ProtocolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A preset with its overrides applied: what one block is, and how many rounds there are."""

    preset: str
    rounds: int
    warmup_iterations: int
    warmup_seconds: float
    iterations: int
    """A block has at least so many timed iterations ..."""
    min_seconds: float
    """... and takes at least so long ..."""
    max_seconds: float
    """... but is ended after so long (never before one iteration)."""
    seed: int

    def comparable(self) -> dict[str, str | int | float]:
        """What a job key holds: all but `rounds` and `seed`, so that more rounds add to what is there."""
        return {
            "preset": self.preset,
            "warmup_iterations": self.warmup_iterations,
            "warmup_seconds": self.warmup_seconds,
            "iterations": self.iterations,
            "min_seconds": self.min_seconds,
            "max_seconds": self.max_seconds,
        }


def resolve(spec: ProtocolSpec) -> Protocol:
    """The preset with the sweep file's overrides."""
    raise SystemExit("not written yet")
