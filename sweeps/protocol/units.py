"""The comparison of the units of one class, by one variant that each of them measures. Pure: block medians in,
differences out.

The spread between processes is estimated from all units together. A unit differs if the mean of its log medians is
further from the median of the other units' means than Student's interval of that difference (95 % for all units
together, by Bonferroni), and by 2 % or more. The unit that differs most is removed, and the remaining units are
compared again. If two units differ, nobody knows which one is usual: the later one is removed.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median, variance

from sweeps.distributions import student_t_quantile
from sweeps.stats import CONFIDENCE, NEGLIGIBLE, Estimate

_ROUNDING = 1e-9
"""A difference of logarithms up to this is a rounding error, as between blocks that all took the same time."""


def differing(units: Mapping[str, Sequence[float]]) -> dict[str, Estimate]:
    """Return the units that differ, the one that differs most first: each with the ratio of its latency to that of the
    remaining units, and the interval of that ratio. `units`: in their order, the block medians (two or more each) of
    the common variant."""
    return _compared(units)[0]


def slightly_different(units: Mapping[str, Sequence[float]]) -> dict[str, Estimate]:
    """Return the units that surely differ, but by less than 2 %, in the form that `differing` returns."""
    return _compared(units)[1]


def _compared(units: Mapping[str, Sequence[float]]) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """Return the units that differ by 2 % or more, and the units that differ by less."""
    left = {unit: [math.log(value) for value in medians] for unit, medians in units.items()}
    clearly: dict[str, Estimate] = {}
    slightly: dict[str, Estimate] = {}
    while len(left) > 1 and (sure := _surely_apart(left)):
        # Among equal differences, the last unit is the worst.
        worst = max(reversed(sure), key=lambda unit: round(abs(sure[unit][0]), 9))
        is_slight = slightly or abs(sure[worst][0]) < math.log1p(NEGLIGIBLE)
        (slightly if is_slight else clearly)[worst] = _ratio(*sure[worst])
        del left[worst]
    return clearly, slightly


def _surely_apart(left: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
    """Return the units whose difference from the others is larger than the half-width of its interval; for each unit
    the difference and the half-width, as logarithms."""
    degrees = sum(len(logs) - 1 for logs in left.values())
    spread = sum((len(logs) - 1) * variance(logs) for logs in left.values()) / degrees
    quantile = student_t_quantile(degrees, 1 - (1 - CONFIDENCE) / 2 / len(left))
    means = {unit: fmean(logs) for unit, logs in left.items()}
    surely: dict[str, tuple[float, float]] = {}
    for unit, logs in left.items():
        other_units = [other for other in left if other != unit]
        difference = means[unit] - median(means[other] for other in other_units)
        # The error of a median of several means is at most that of the mean of the middle ones; here it is approximated
        # by that of one mean.
        half = quantile * math.sqrt(spread / len(logs) + spread / min(len(left[other]) for other in other_units))
        if abs(difference) > max(half, _ROUNDING):
            surely[unit] = difference, half
    return surely


def _ratio(difference: float, half: float) -> Estimate:
    return Estimate(math.exp(difference), math.exp(difference - half), math.exp(difference + half))
