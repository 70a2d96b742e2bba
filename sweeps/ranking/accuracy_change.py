"""The change in accuracy between two builds, from the accuracy drop of each against the fp32 eager model. Pure.

A stored drop has the numbers of images that a build lost and gained against eager, but not which images. So the change
between two builds is exact. Its interval is the widest one that agrees with the stored counts: it assumes that no image
was lost by both builds or gained by both. If one of the builds has the same answers as eager, it is the paired interval
itself.
"""

from functools import lru_cache

from sweeps.stats import Estimate, drop_of

_ROUNDING = 1e-9
"""Accuracies (percentage points) closer than this are equal: it is far less than the share of one image in any data
set."""


def change(earlier: Estimate, now: Estimate, images: int) -> Estimate:
    """Return by how many percentage points `now` is more accurate than `earlier`. Both are drops on the same `images`.

    The change has no interval if one of the drops is not possible with this number of images.
    """
    before, after = lost_and_gained(earlier, images), lost_and_gained(now, images)
    if before is None or after is None:
        return Estimate(earlier.value - now.value, None, None)
    lost, gained = after[0] + before[1], before[0] + after[1]
    # At most `images` images can differ.
    in_both = max(0, -(-(lost + gained - images) // 2))
    drop = drop_of(lost - in_both, gained - in_both, images)
    low, high = _ends(drop)
    return Estimate(0.0 - drop.value, 0.0 - high, 0.0 - low)  # The subtraction from 0.0 avoids -0.0.


@lru_cache(maxsize=4096)  # Most builds of a place lose the same few images, and pages ask again each time.
def lost_and_gained(drop: Estimate, images: int) -> tuple[int, int] | None:
    """Return the numbers of images lost and gained behind a drop, found by bisection: their difference is known, and
    the interval widens with their sum.

    If several counts fit (the interval ends at 100 points), the largest are returned. `None` if no count fits.
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
    recounted = drop_of(lost, gained, images)
    pairs = zip((recounted.value, *_ends(recounted)), (drop.value, low, high), strict=True)
    return (lost, gained) if all(abs(counted - stored) <= _ROUNDING for counted, stored in pairs) else None


def _ends(estimate: Estimate) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high
