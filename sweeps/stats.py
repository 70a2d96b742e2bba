"""Robust summaries and 95 % intervals. Pure: numbers in, numbers out.

Where an interval comes with a point estimate of another kind (a median beside a t interval around a mean), the
interval is widened to the point, never narrowed: it always contains it, and its coverage can only grow by that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

# Here numpy and scipy are imported where they are used: half a second, which commands without figures do without.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95

NEGLIGIBLE = 0.02
"""Latencies within 2 % of each other are equally good."""

OUTLIER_SCORE = 3.5
"""Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993): the cutoff for the modified z-score."""

_NORMAL_975 = 1.959963984540054
_MAD_PER_SIGMA = 0.6744897501960817
_MEAN_DEVIATION_PER_SIGMA = 0.7978845608028654


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval, in the same unit; `low` and `high` are `None` where nothing was repeated."""

    value: float
    low: float | None
    high: float | None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise ValueError("an interval has two ends or none")
        if self.low is not None and self.high is not None and not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} is not in its interval {self.low} to {self.high}")


def median(values: "ArrayLike") -> float:
    """Raises `ValueError` for no values."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        raise ValueError("no values have no median")
    return float(np.median(array))


def mad(values: "ArrayLike") -> float:
    """Median absolute deviation from the median, as it is (not scaled to a standard deviation)."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    return median(np.abs(array - median(array)))


def outliers(values: "ArrayLike") -> "NDArray[np.bool_]":
    """Which values lie further than 3.5 robust standard deviations from the median; same shape as `values`.

    Where over half of the values are the same (a coarse clock), the MAD is 0 and would make an outlier of every
    other one: the mean absolute deviation takes its place. All values the same: no outlier.
    """
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    deviations = np.abs(array - median(array))
    sigma = mad(array) / _MAD_PER_SIGMA
    if sigma == 0.0:
        sigma = float(deviations.mean()) / _MEAN_DEVIATION_PER_SIGMA
    return deviations > OUTLIER_SCORE * sigma


def stable(medians: Sequence[float], within: float = 0.05) -> bool:
    """Whether the last 3 block medians agree: (largest - smallest) / median is at most `within`. Fewer never do.

    Stopping at it hardly biases the interval of `p50_estimate` while fresh processes differ by up to 3.5 % (standard
    deviation): coverage 94 to 95 % over 3 to 10 rounds. At 5 to 10 % it falls to 92 %, because three medians then
    agree by luck; those that agreed in the first three rounds have narrower intervals than they should.
    """
    last = list(medians[-3:])
    return len(last) == 3 and (max(last) - min(last)) / median(last) <= within


def p50_estimate(block_medians: Sequence[float]) -> Estimate:
    """The p50 of a job from the medians of its blocks, in their unit: the median of them.

    The interval is Student's, over the logarithms of the block medians (processes differ by factors). It speaks of
    what a fresh process would show; samples inside a block do not narrow it. One block: no interval.
    Raises `ValueError` for a median that is not a positive number.
    """
    import numpy as np

    logs = _logs(block_medians)
    value = median(block_medians)
    if len(logs) < 2:
        return Estimate(value, None, None)
    low, high = (float(np.exp(end)) for end in _t_interval(logs))
    return Estimate(value, min(low, value), max(high, value))


def ratio_by_rounds(blocks: Mapping[int, float], others: Mapping[int, float]) -> Estimate | None:
    """How many times as large as `others` the `blocks` are; both map a round to the median of its block.

    Only rounds that both have count. Each gives one logarithm of a ratio, so what a whole round shares (drift,
    heat) cancels. Value: the median of the ratios; interval: Student's over their logarithms. One common round: no
    interval, that is, nothing resolved; none: `None`.
    """
    import numpy as np

    rounds = sorted(blocks.keys() & others.keys())
    if not rounds:
        return None
    logs = _logs([blocks[round] for round in rounds]) - _logs([others[round] for round in rounds])
    value = float(np.exp(np.median(logs)))
    if len(rounds) < 2:
        return Estimate(value, None, None)
    low, high = (float(np.exp(end)) for end in _t_interval(logs))
    return Estimate(value, min(low, value), max(high, value))


def accuracy_drop(reference_correct: "ArrayLike", variant_correct: "ArrayLike") -> Estimate:
    """Accuracy lost against the reference, in percentage points; positive is worse.

    Both are boolean, shape (images,), over the same images in the same order. Only images where the two disagree
    carry information. The interval is the adjusted Wald interval for paired proportions of Bonett and Price (Journal
    of Educational and Behavioral Statistics 37, 2012): one image is added to either kind of disagreement. So no
    disagreement at all among n images still leaves about 277 / n points to either side (0.46 at 597 images)
    instead of a claim of certainty. Raises `ValueError` for different shapes or no images.
    """
    import numpy as np

    reference = np.asarray(reference_correct, dtype=np.bool_)
    variant = np.asarray(variant_correct, dtype=np.bool_)
    if reference.ndim != 1 or reference.shape != variant.shape or reference.size == 0:
        raise ValueError(f"not paired over the same images: {reference.shape} and {variant.shape}")
    images = reference.size
    lost = int((reference & ~variant).sum())
    gained = int((~reference & variant).sum())
    value = 100.0 * (lost - gained) / images
    share_lost, share_gained = (lost + 1) / (images + 2), (gained + 1) / (images + 2)
    centre = share_lost - share_gained
    half = _NORMAL_975 * ((share_lost + share_gained - centre**2) / (images + 2)) ** 0.5
    low, high = 100.0 * max(-1.0, centre - half), 100.0 * min(1.0, centre + half)
    return Estimate(value, min(low, value), max(high, value))


def student_t_quantile(degrees: float, probability: float) -> float:
    """What Student's t with so many degrees of freedom stays below with this probability (0 to 1)."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def _logs(values: Sequence[float]) -> "NDArray[np.float64]":
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    if array.size == 0 or not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(f"block medians must be positive numbers: {list(values)}")
    return np.log(array)


def _t_interval(values: "NDArray[np.float64]") -> tuple[float, float]:
    """Student's interval for the mean of at least two values."""
    quantile = student_t_quantile(values.size - 1, 0.5 + CONFIDENCE / 2)
    half = quantile * float(values.std(ddof=1)) / values.size**0.5
    centre = float(values.mean())
    return centre - half, centre + half
