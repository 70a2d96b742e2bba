"""Whether a build keeps a bound on its accuracy drop, and how many images would show it. Pure; counts of images in.

"At most 1 point lost" is a one-sided question of non-inferiority. It is answered at 5 %, always by the score test for
the difference of paired proportions (Tango, Statistics in Medicine 17, 1998): its error at a drop that equals the bound
is 3 to 5 %, even for small counts (`tests/sweeps/ranking/test_accuracy_bound.py` computes it exactly). `lost` is the
number of images that eager gets right and the build gets wrong; `gained` is the reverse. Points are percentage points.

If the shares of images lost and gained stay the same, the score grows with the root of the number of images. So the
number of images that would answer the question follows from the measured shares.
"""

import math
from dataclasses import dataclass
from typing import Literal

from sweeps.distributions import normal_quantile
from sweeps.stats import share_interval

ERROR = 0.05
"""The chance to report a drop that equals the bound as kept, or as broken."""

MOST_IMAGES = 1_000_000
"""The largest number of further images that is reported: nobody has more images than this."""

NEEDED = "more evaluation image"
"""Each text that gives a number of images contains these words."""

_LEAST_SCORE = normal_quantile(1 - ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesNeeded:
    """The number of further evaluation images that would answer the question, if the drop stays as it was measured."""

    more: int | None
    """The number of images if the answers of build and eager differ as often as measured; `None`: more than
    `MOST_IMAGES`."""
    fewest: int | None
    """The number of images if answers differ as seldom as the 95 % interval of the measured share allows."""
    most: int | None
    """The number of images if answers differ as often as the 95 % interval of the measured share allows."""
    keeps: bool
    """Whether these images would show that the build keeps the bound; otherwise, they would show that it does not."""

    @property
    def text(self) -> str:
        """The text for people, which follows the figure and its bound."""
        if self.more is None:
            return f"not settled with {MOST_IMAGES:,} {NEEDED}s"
        least, most = (None if count is None else _rounded(count) for count in (self.fewest, self.most))
        ends = f"{least:,} to {most:,}" if most is not None else f"{least:,} or more"
        if least == 1 and most is not None:
            ends = f"up to {most:,}"
        outcome = "it is" if self.keeps else "it is not"
        return (
            f"about {_rounded(self.more):,} {NEEDED}{'s' * (self.more > 1)} would show that {outcome} "
            f"({ends}, by how often answers differ)"
        )


def score(lost: float, gained: float, images: float, bound: float) -> float:
    """Return Tango's score of a drop against `bound` points: a standard normal variable if the drop is the bound.

    The score is negative if less was lost, and 0 if nothing is known: a bound of 0 points, and no answer that differs.
    """
    if bound < 0:
        return -score(gained, lost, images, -bound)
    if bound >= 100:
        return -math.inf
    share = bound / 100
    # The likelihood has its maximum where (share lost) - (share gained) is the bound: a quadratic equation for the
    # share gained.
    a, b, c = 2 * images, (2 * images - lost + gained) * share - lost - gained, -gained * share * (1 - share)
    root = math.sqrt(b * b - 4 * a * c)
    share_gained = (root - b) / (2 * a) if b <= 0 else (-2 * c) / (root + b)
    variance = images * (2 * share_gained + share * (1 - share))
    return (lost - gained - images * share) / math.sqrt(variance) if variance > 0 else 0.0


def side(lost: int, gained: int, images: int, bound: float) -> Literal["below", "above"] | None:
    """Return whether the drop is shown to be below or above `bound`; `None` if neither is shown."""
    scored = score(lost, gained, images, bound)
    if abs(scored) < _LEAST_SCORE:
        return None
    return "below" if scored < 0 else "above"


def least_images(bound: float) -> int | None:
    """Return the number of images with which a build that answers like the original is shown to lose at most `bound`
    points; `None` if no number is enough."""
    if bound <= 0:
        return None
    return 1 if bound >= 100 else math.ceil(_LEAST_SCORE**2 * (100 - bound) / bound)


def images_needed(lost: int, gained: int, images: int, bound: float) -> ImagesNeeded | None:
    """Return how many more images would show whether the drop is below or above `bound`. `None` if that is shown
    already, or without images."""
    if images < 1 or side(lost, gained, images, bound) is not None:
        return None
    drop = (lost - gained) / images
    differ = (lost + gained) / images
    least, most_differing = share_interval(lost + gained, images)
    shares = (differ, max(abs(drop), least), max(abs(drop), most_differing))
    more, fewest, most = (_more(drop, share, images, bound) for share in shares)
    return ImagesNeeded(more=more, fewest=fewest, most=most, keeps=100 * drop < bound)


def _more(drop: float, differ: float, images: int, bound: float) -> int | None:
    per_root_image = abs(score((differ + drop) / 2, (differ - drop) / 2, 1, bound))
    needed = math.inf if per_root_image < 1e-9 else (_LEAST_SCORE / per_root_image) ** 2 - images
    return max(1, math.ceil(needed)) if needed <= MOST_IMAGES else None


def _rounded(count: int) -> int:
    """Round up to two significant digits: the count is an estimate."""
    unit: int = 10 ** max(0, len(str(count)) - 2)
    return math.ceil(count / unit) * unit
