"""Robust summaries and 95 % intervals. Pure: numbers in, numbers out.

If interval and point estimate are of different kinds (a t interval around a mean, and a median), the interval is
widened until it contains the point. It is never narrowed, so its coverage can only grow.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweeps.distributions import student_t_quantile

# numpy is imported inside the functions: commands without figures need not wait for the import.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
TAIL = (1 - CONFIDENCE) / 2
"""The chance that the true value lies above an interval, and also that it lies below."""

NEGLIGIBLE = 0.02
"""Latencies within 2 % of each other are equally good."""

OUTLIER_SCORE = 3.5
"""The cutoff for the modified z-score, from Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993)."""

_FEW = 500
_NORMAL_975 = 1.959963984540054
MAD_PER_SIGMA = 0.6744897501960817
"""The median absolute deviation of a normal distribution, divided by its standard deviation."""
_MEAN_DEVIATION_PER_SIGMA = 0.7978845608028654


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval, in the same unit; `low` and `high` are `None` if the measurement was not
    repeated."""

    value: float
    low: float | None
    high: float | None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise ValueError("an interval has two bounds or none")
        if self.low is not None and self.high is not None and not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} is not in its interval {self.low} to {self.high}")


def median(values: "ArrayLike") -> float:
    """Return the median. Raises `ValueError` for no values."""
    # Medians are computed after each block of each phone: for so few samples numpy takes 2 to 20 times as long.
    if isinstance(values, list | tuple) and 0 < len(values) <= _FEW:
        ordered = sorted(values)
        if math.isfinite(sum(ordered)):
            middle = len(ordered) // 2
            return float(ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        raise ValueError("no values have no median")
    return float(np.median(array))


def mad(values: "ArrayLike") -> float:
    """Return the median absolute deviation from the median, not scaled to a standard deviation."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    return median(np.abs(array - median(array)))


def outliers(values: "ArrayLike") -> "NDArray[np.bool_]":
    """Return for each value whether it lies further than 3.5 robust standard deviations from the median; same shape as
    `values`.

    If more than half of the values are equal (a coarse clock), the MAD is 0, and every other value would be an outlier.
    Then the mean absolute deviation is used. If all values are equal, there is no outlier.
    """
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    deviations = np.abs(array - median(array))
    sigma = mad(array) / MAD_PER_SIGMA
    if sigma == 0.0:
        sigma = float(deviations.mean()) / _MEAN_DEVIATION_PER_SIGMA
    return deviations > OUTLIER_SCORE * sigma


def share_interval(hits: float, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share (0 to 1): `hits` of `count`, which is at least 1. Source: E. B. Wilson,
    Journal of the American Statistical Association 22 (1927)."""
    share, weight = hits / count, _NORMAL_975**2 / count
    centre = (share + weight / 2) / (1 + weight)
    half = math.sqrt(share * (1 - share) * weight + weight**2 / 4) / (1 + weight)
    return max(0.0, centre - half), min(1.0, centre + half)


def stable(medians: Sequence[float], within: float = 0.05) -> bool:
    """Tell whether the last 3 block medians agree: (largest - smallest) / median is at most `within`. Fewer than 3:
    `False`.

    Stopping by this rule hardly biases the interval of `p50_estimate` if processes differ by up to 3.5 % (standard
    deviation): coverage is 94 to 95 % over 3 to 10 rounds. At 5 to 10 % it falls to 92 %, because three medians may
    agree by chance: jobs that stop after the first three rounds get intervals that are too narrow.
    """
    last = list(medians[-3:])
    return len(last) == 3 and (max(last) - min(last)) / median(last) <= within


def p50_estimate(block_medians: Sequence[float], above: float = TAIL) -> Estimate:
    """Return the p50 of a job, in the unit of `block_medians`: the median of the block medians.

    The interval is Student's, over the logarithms of the block medians (processes differ by factors). It covers the
    differences between processes; more samples inside a block do not narrow it. One block has no interval. `above`: the
    chance that the true value lies above the interval. Raises `ValueError` for a median that is not a positive number.
    """
    import numpy as np

    logs = _logs(block_medians)
    value = median(block_medians)
    if len(logs) < 2:
        return Estimate(value, None, None)
    low, high = (float(np.exp(end)) for end in _t_interval(logs, above))
    return Estimate(value, min(low, value), max(high, value))


def ratio_by_rounds(blocks: Mapping[int, float], other_blocks: Mapping[int, float]) -> Estimate | None:
    """Return the ratio of `blocks` to `other_blocks`; both map a round to the median of its block.

    Only common rounds are used. Each gives the logarithm of one ratio, so effects of a whole round (drift, heat)
    cancel. Value: the median of the ratios; interval: Student's over their logarithms. With one common round there is
    no interval, so nothing is resolved. The ratio is `None` without common rounds.
    """
    rounds = sorted(blocks.keys() & other_blocks.keys())
    if not rounds:
        return None
    logs = [log(blocks[round]) - log(other_blocks[round]) for round in rounds]
    value = math.exp(statistics.median(logs))
    if len(rounds) < 2:
        return Estimate(value, None, None)
    half = student_t_quantile(len(logs) - 1, 1 - TAIL) * math.sqrt(variance(logs) / len(logs))
    centre = statistics.fmean(logs)
    return Estimate(value, min(math.exp(centre - half), value), max(math.exp(centre + half), value))


def middle_round(blocks: Mapping[int, float], other_blocks: Mapping[int, float]) -> tuple[float, float] | None:
    """Return the two figures whose quotient is the value of `ratio_by_rounds`: those of the round with the median
    ratio.

    With an even number of rounds, each figure is the geometric mean of the two middle rounds. The result is `None`
    without common rounds.
    """
    rounds = sorted(blocks.keys() & other_blocks.keys(), key=lambda round: blocks[round] / other_blocks[round])
    if not rounds:
        return None
    low, high = rounds[(len(rounds) - 1) // 2], rounds[len(rounds) // 2]
    return math.sqrt(blocks[low] * blocks[high]), math.sqrt(other_blocks[low] * other_blocks[high])


def log(ms: float) -> float:
    """Return the natural logarithm of a block's median. Raises `ValueError` if it is not a positive number."""
    if not 0.0 < ms < math.inf:
        raise ValueError(f"block medians must be positive numbers: {ms}")
    return math.log(ms)


def variance(values: Sequence[float]) -> float:
    """Return the variance of at least two values (n - 1 degrees of freedom). For a few values numpy takes ten times as
    long."""
    mean = statistics.fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def accuracy_drop(reference_correct: "ArrayLike", variant_correct: "ArrayLike") -> Estimate:
    """Return the accuracy lost against the reference, in percentage points; positive is worse.

    Both arguments are boolean, shape (images,), over the same images in the same order. Only images where the two
    disagree carry information. The interval is the adjusted Wald interval for paired proportions of Bonett and Price
    (Journal of Educational and Behavioral Statistics 37, 2012): one image is added to each kind of disagreement. So
    without any disagreement among n images, the interval still extends about 277 / n points to each side (0.46 at 597
    images). Raises `ValueError` for different shapes or no images.
    """
    import numpy as np

    reference = np.asarray(reference_correct, dtype=np.bool_)
    variant = np.asarray(variant_correct, dtype=np.bool_)
    if reference.ndim != 1 or reference.shape != variant.shape or reference.size == 0:
        raise ValueError(f"not paired over the same images: {reference.shape} and {variant.shape}")
    return drop_of(int((reference & ~variant).sum()), int((~reference & variant).sum()), reference.size)


def drop_of(lost: int, gained: int, images: int) -> Estimate:
    """Return the accuracy lost as `accuracy_drop` does. `lost`: images that the reference gets right and the variant
    gets wrong; `gained`: the reverse."""
    value = 100.0 * (lost - gained) / images
    share_lost, share_gained = (lost + 1) / (images + 2), (gained + 1) / (images + 2)
    centre = share_lost - share_gained
    half = _NORMAL_975 * ((share_lost + share_gained - centre**2) / (images + 2)) ** 0.5
    low, high = 100.0 * max(-1.0, centre - half), 100.0 * min(1.0, centre + half)
    return Estimate(value, min(low, value), max(high, value))


def _logs(values: Sequence[float]) -> "NDArray[np.float64]":
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    if array.size == 0 or not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(f"block medians must be positive numbers: {list(values)}")
    return np.log(array)


def _t_interval(values: "NDArray[np.float64]", above: float = TAIL) -> tuple[float, float]:
    """Return Student's interval for the mean of at least two values."""
    # The result equals the stored intervals to the last digit: different ones would be published again.
    quantiles = [student_t_quantile(values.size - 1, 1 - tail) for tail in (TAIL, above)]
    below_mean, above_mean = (quantile * float(values.std(ddof=1)) / values.size**0.5 for quantile in quantiles)
    centre = float(values.mean())
    return centre - below_mean, centre + above_mean
