"""How much accuracy changed between two builds, from each one's drop against the fp32 eager model. Pure.

What is stored of a drop tells how many images a build lost and gained against eager, not which. So the change between
two builds is exact, and its interval is the widest that agrees with what is stored: as if no image were lost or gained
by both. Against a build that answers as eager does it is the paired interval itself.
"""

import numpy as np

from sweeps.stats import Estimate, accuracy_drop

_ROUNDING = 1e-9
"""Percentage points: far less than one image of any data set makes."""


def drop_of(lost: int, gained: int, images: int) -> Estimate:
    """The drop, in percentage points, of a build that gets `lost` images wrong that eager gets right, and `gained` the
    other way round."""
    eager, build = np.ones(images, np.bool_), np.ones(images, np.bool_)
    build[:lost] = False
    eager[lost : lost + gained] = False
    return accuracy_drop(eager, build)


def change(earlier: Estimate, now: Estimate, images: int) -> Estimate:
    """Percentage points that `now` is more accurate than `earlier`; both are drops on the same `images`.

    Without an interval where one of them does not fit that many images.
    """
    before, after = _lost_and_gained(earlier, images), _lost_and_gained(now, images)
    if before is None or after is None:
        return Estimate(earlier.value - now.value, None, None)
    lost, gained = after[0] + before[1], before[0] + after[1]
    # No more images can differ than there are.
    both = max(0, -(-(lost + gained - images) // 2))
    drop = drop_of(lost - both, gained - both, images)
    low, high = _ends(drop)
    return Estimate(0.0 - drop.value, 0.0 - high, 0.0 - low)  # never a zero below zero


def _lost_and_gained(drop: Estimate, images: int) -> tuple[int, int] | None:
    """The counts behind a drop, by bisection: with their difference given, the interval widens with their sum.

    Where several fit (the interval ends at 100 points), the largest. `None` where none does.
    """
    if drop.low is None or images < 1:
        return None
    low, high = _ends(drop)
    difference = round(drop.value * images / 100)
    least, most = max(0, -difference), (images - difference) // 2
    while least < most:
        gained = (least + most + 1) // 2
        ends = _ends(drop_of(gained + difference, gained, images))
        if ends[1] - ends[0] <= high - low + _ROUNDING:
            least = gained
        else:
            most = gained - 1
    lost, gained = least + difference, least
    if lost < 0 or lost + gained > images:
        return None
    found = drop_of(lost, gained, images)
    pairs = zip((found.value, *_ends(found)), (drop.value, low, high), strict=True)
    return (lost, gained) if all(abs(one - other) <= _ROUNDING for one, other in pairs) else None


def _ends(estimate: Estimate) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high
