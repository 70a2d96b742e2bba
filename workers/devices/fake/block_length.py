"""The length of a simulated block, and which of its inferences are timed. Pure."""

from typing import TypedDict

import numpy as np
from numpy.typing import NDArray


class BlockLength(TypedDict):
    """The length of a block: at least `warmup_iterations` and `warmup_seconds` of warm-up, and at least `iterations`
    and `min_seconds` of timing, which ends after `max_seconds` (never before one iteration)."""

    warmup_iterations: int
    warmup_seconds: float
    iterations: int
    min_seconds: float
    max_seconds: float


def timed_of(ends_s: NDArray[np.float64], length: BlockLength) -> tuple[int, int] | None:
    """Return the index of the last inference of the warm-up, and that of the last timed one; `None` if there are too
    few inferences."""
    warm = length["warmup_iterations"]
    if length["warmup_seconds"] > 0:
        warm = max(warm, int(ends_s.searchsorted(ends_s[0] + length["warmup_seconds"])))
    if warm >= ends_s.size:
        return None
    begins_s = float(ends_s[warm])
    last = max(warm + length["iterations"], int(ends_s.searchsorted(begins_s + length["min_seconds"])))
    last = max(min(last, int(ends_s.searchsorted(begins_s + length["max_seconds"]))), warm + 1)
    return (warm, last) if last < ends_s.size else None
