"""Whether builds that share one process have the same latency ratios as builds in separate processes. Pure.

A batch times several builds in one process. Differences from process to process cancel in their ratios, but the effect
of the builds on each other in a shared process (caches, memory, clocks) does not: it depends on the device.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sweeps.device_facts import canonical_key
from sweeps.protocol.presets import resolve
from sweeps.records import LEFT_OUT_WHEN_EMPTY
from sweeps.spec.protocol import ProtocolSpec

# numpy and scipy are imported inside the functions, as in sweeps.stats.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DECIDE_UP_TO = 0.01
"""Batches decide a race if `BatchSpread.upper` is at most this: half of the negligible difference."""

FEWEST_VARIANTS = 8

BLOCKS = ProtocolSpec(preset="quick", iterations=5, min_seconds=0.2)
"""The protocol of the blocks in a batch and of the blocks in separate processes."""


def batch_key() -> str:
    """Return a hash of how a block of a batch is measured now: job keys do not include the warm-up of a batch."""
    return canonical_key(resolve(BLOCKS).in_batch().comparable())


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRound:
    """One batch of some builds, and one separate process for each of these builds."""

    builds: str
    """Identifies the builds, their order in this record, and the protocol."""
    batch: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The `batch_key` at the time of the round; empty in records of earlier versions."""
    session: int
    round: int
    together_ns: tuple[float, ...]
    """Block medians in the batch, one per build."""
    alone_ns: tuple[float, ...]
    device_seconds: float
    """Device time of the batch and of all separate processes, with waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpread:
    """How far latency ratios between builds in one process lie from those of separate processes (a share: 0.01 is
    1 %)."""

    variants: int
    rounds: int
    """The number of batches or of separate processes per build, whichever is smaller."""
    spread: float
    upper: float
    """Upper 90 % bound of `spread`."""
    noise: float
    """The standard deviation of the logarithms of block medians in separate processes, after the effect that all builds
    of a round share is removed."""

    @property
    def decide(self) -> bool:
        """Tell whether batches may decide between builds that are close."""
        return self.upper <= DECIDE_UP_TO


def batch_spread(batches: Sequence[Sequence[float]], solos: Sequence[Sequence[float]]) -> BatchSpread:
    """Return how far latency ratios from batches lie from those of separate processes. `batches` and `solos` have one
    row per variant: its block medians by round, in one unit; all rows of one argument have equally many rounds.

    The spread is the standard deviation over variants of log(batch / solo), relative to the mean of all variants, less
    what the noise of the rounds explains. The bound is that of a difference of variances by modified large samples,
    without its cross term (N. Ting, R. K. Burdick, F. A. Graybill, S. Jeyaratnam, T.-F. C. Lu, Confidence intervals on
    linear combinations of variance components that are unrestricted in sign, Journal of Statistical Computation and
    Simulation 35, 1990). Raises `ValueError` for fewer than 8 variants, fewer than 2 rounds, or a figure that is not a
    positive number.
    """
    from scipy.special import chdtri

    together, alone = _table(batches), _table(solos)
    if together.shape[0] != alone.shape[0]:
        raise ValueError(f"{together.shape[0]} variants in batches, {alone.shape[0]} alone")
    variants = together.shape[0]
    shifts = together.mean(axis=1) - alone.mean(axis=1)
    variance = float(shifts.var(ddof=1))
    of_alone = _residual(alone)
    noise = _residual(together) / together.shape[1] + of_alone / alone.shape[1]
    degrees = variants - 1
    rounds = min(together.shape[1], alone.shape[1])
    noise_degrees = degrees * (rounds - 1)
    above = degrees / float(chdtri(degrees, 0.9)) - 1.0
    below = 1.0 - noise_degrees / float(chdtri(noise_degrees, 0.1))
    upper = variance - noise + math.hypot(above * variance, below * noise)
    return BatchSpread(
        variants=variants,
        rounds=rounds,
        spread=math.sqrt(max(0.0, variance - noise)),
        upper=math.sqrt(max(0.0, upper)),
        noise=math.sqrt(of_alone),
    )


def of_rounds(rounds: Sequence[PairedRound]) -> BatchSpread | None:
    """Return the spread from all rounds that have the builds of the last round; `None` if fewer than two of these
    rounds differ. Rounds whose batches were measured in another way than now (`batch_key`) do not count."""
    current = [paired for paired in rounds if paired.batch == batch_key()]
    of_builds = [paired for paired in current if _builds(paired) == _builds(current[-1])]
    if len({(paired.together_ns, paired.alone_ns) for paired in of_builds}) < 2:
        return None
    together = zip(*(paired.together_ns for paired in of_builds), strict=True)
    alone = zip(*(paired.alone_ns for paired in of_builds), strict=True)
    return batch_spread([list(row) for row in together], [list(row) for row in alone])


def _builds(paired: PairedRound) -> tuple[str, int]:
    return paired.builds, len(paired.alone_ns)


def _table(rows: Sequence[Sequence[float]]) -> "NDArray[np.float64]":
    """Return the logarithms of the medians, each minus the mean logarithm of its round."""
    import numpy as np

    if len(rows) < FEWEST_VARIANTS or len({len(row) for row in rows}) != 1 or len(rows[0]) < 2:
        raise ValueError(f"{FEWEST_VARIANTS} variants or more with the same 2 rounds or more are needed")
    table = np.asarray(rows, dtype=np.float64)
    if not (np.isfinite(table).all() and (table > 0).all()):
        raise ValueError("block medians must be positive numbers")
    logs = np.log(table)
    beside_others: NDArray[np.float64] = logs - logs.mean(axis=0)
    return beside_others


def _residual(table: "NDArray[np.float64]") -> float:
    """Return the variance of one log block median, from the differences between the rounds of each variant."""
    variants, rounds = table.shape
    residuals = table - table.mean(axis=1, keepdims=True)
    return float((residuals**2).sum() / ((variants - 1) * (rounds - 1)))
