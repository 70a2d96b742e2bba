"""A block's figure, and what it is worth where the device's clock is coarse. Pure.

Some clocks tick every millisecond, or every 15.6 ms. Then all samples are multiples of one tick. Their median is a
multiple, too, in every process: it is wrong by up to half a tick, and an interval of equal medians has no width. Their
mean is right to a tick divided by the number of samples, because each sample ends where the next one begins.
"""

import math
from collections.abc import Sequence

from sweeps.stats import median

COARSE = 0.01
"""A clock is coarse where its tick is more than this share of a sample."""

_SAMPLES = 5
"""Fewer samples may be multiples of a large number by chance, or because there is only one."""


def tick_ns(samples_ns: Sequence[int]) -> int:
    """The largest time of which all samples are multiples; 0 for fewer than five samples. Where all samples are equal,
    it is the sample itself: the clock may tick more often, which these samples cannot show."""
    return math.gcd(*samples_ns) if len(samples_ns) >= _SAMPLES else 0


def is_coarse(samples_ns: Sequence[int]) -> bool:
    return tick_ns(samples_ns) > COARSE * median(samples_ns)


def figure_ns(samples_ns: Sequence[int]) -> float:
    """The latency of one block: the median of its samples, or with a coarse clock their mean.

    Raises `ValueError` for no samples.
    """
    return sum(samples_ns) / len(samples_ns) if is_coarse(samples_ns) else median(samples_ns)


def resolution_ns(samples_ns: Sequence[int]) -> float:
    """By how much the clock alone may falsify `figure_ns`; 0 for a fine clock."""
    return tick_ns(samples_ns) / len(samples_ns) if is_coarse(samples_ns) else 0.0
