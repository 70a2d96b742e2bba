"""The two speeds between which a device went back and forth, from block medians. Pure.

Clocks with two states make every block slower by the same factor, or not at all, whatever its variant. So the logarithm
of a block's median is the variant's level, plus one step if the device was slow, plus noise. Of all steps, the one with
the least squared residuals is chosen; for a given step, the slow blocks of a variant are its slowest ones.

Noise alone can be split like that, too. So the step must be large (5 %), also compared with the residuals of the split
variants (`SEPARATION` times the upper 95 % bound of their standard deviation; the halves of evenly spread noise lie 3.5
apart). Enough blocks must lie on the rarer side of their variant, which excludes outliers, and few may lie half way.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweeps.distributions import chi_square_quantile, student_t_quantile
from sweeps.stats import CONFIDENCE

# numpy is imported inside the functions: if a device has one speed, a ranking need not wait for the import.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Log = NDArray[np.float64]

LEAST_STEP = math.log(1.05)
SEPARATION = 4.0
LEAST_SHARE = 0.15
"""At least this share of all blocks lies on the rarer side of their variant."""
MOST_HALF_WAY = 0.05
"""At most this share of all blocks lies in the middle third between the speeds."""
FEWEST_BLOCKS = 18
"""Variants with three blocks or more have at least this many blocks together: two blocks always fit a step."""

_STEPS = tuple(LEAST_STEP * (math.log(4.0) / LEAST_STEP) ** (number / 119) for number in range(120))
"""The candidate steps: neighbours differ by 3 %. Each is then made exact for the split that it gives."""
_LIKE_THE_OTHERS = 2.0
"""A round's share of slow blocks is shrunk towards that of all rounds, as if by this many blocks."""
_TIMES = 50
_SHARE_CONFIDENCE = 0.99
"""The confidence is higher than that of an interval, because the interval is also wrong if the more common speed is
mistaken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSpeeds:
    """The two speeds of one device, from the blocks of all its variants."""

    slower: float
    """The time at the slow speed divided by the time at the fast one."""
    spread: float
    """The standard deviation of the logarithms of block medians at one speed."""
    slow: tuple[frozenset[int], ...]
    """The visits of the slow blocks, by variant."""
    sure: tuple[bool, ...]
    """Whether the speed of a variant's blocks is known at 95 %, by variant. A variant whose blocks were all equally
    fast may have been seen at either speed."""
    share_low: float
    share_high: float
    """The 99 % interval of the share of slow blocks. Rounds are the samples, because a speed lasts for a while; it may
    last for longer than a round."""


def two_speeds(block_medians: Sequence[Mapping[int, float]]) -> TwoSpeeds | None:
    """Return the two speeds; `None` if two are not shown, for example because there are too few blocks.
    `block_medians`: those of each variant by visit (`sweeps.records.Block.visit`), at least one, positive and in any
    unit."""
    if all(max(medians.values()) < math.exp(LEAST_STEP) * min(medians.values()) for medians in block_medians):
        return None
    import numpy as np

    every = [np.log(np.array(list(medians.values()), dtype=np.float64)) for medians in block_medians]
    logs = [log for log in every if log.size > 2]
    blocks = sum(log.size for log in logs)
    if blocks < FEWEST_BLOCKS:
        return None
    step = best_step(logs, LEAST_SHARE * blocks)
    if step < LEAST_STEP:
        return None
    slow = slow_blocks(logs, step)
    degrees = sum(log.size - 2 for log, which in zip(logs, slow, strict=True) if which.any()) - 1
    if degrees < 1:
        return None
    at_fast = [log - step * which for log, which in zip(logs, slow, strict=True)]
    left = sum(log.size * float(log.var()) for log, which in zip(at_fast, slow, strict=True) if which.any())
    half_way = blocks_half_way(logs, at_fast, step)
    # Few degrees of freedom often show too little noise by chance.
    most_spread = math.sqrt(left / chi_square_quantile(degrees, CONFIDENCE))
    if step < SEPARATION * most_spread or half_way > MOST_HALF_WAY * blocks:
        return None
    return speeds_from([list(medians) for medians in block_medians], every, step, math.sqrt(left / degrees))


def speeds_from(
    visits: Sequence[Sequence[int]], logs: "Sequence[Log]", step: float, spread: float, *, successive: bool = False
) -> TwoSpeeds:
    """Return the two speeds that differ by `step`. `visits` and `logs`: of each variant's blocks; visits ascend in
    time.

    `successive`: whether visits follow each other so closely that successive ones may have seen the same state.
    """
    slow = slow_blocks(logs, step)
    odds, low, high = _shares(visits, slow, successive=successive)
    known = math.log((1 + CONFIDENCE) / (1 - CONFIDENCE))
    mixed = [bool(which.any()) for which in slow]
    return TwoSpeeds(
        slower=math.exp(step),
        spread=spread,
        slow=tuple(
            frozenset(
                visit
                for visit, is_slow in zip(own_visits, which, strict=True)
                if is_slow or (not has_both and chance > 0)
            )
            for own_visits, which, has_both, chance in zip(visits, slow, mixed, odds, strict=True)
        ),
        sure=tuple(has_both or abs(chance) > known for has_both, chance in zip(mixed, odds, strict=True)),
        share_low=low,
        share_high=high,
    )


class _Splits:
    """Every split of each variant's blocks into the k slowest ones and the others. With n blocks, a step d reduces the
    sum of squares by 2 d excess - d^2 k (n - k) / n."""

    def __init__(self, logs: "Sequence[Log]") -> None:
        import numpy as np

        sizes = np.array([log.size for log in logs])
        slow = np.arange(int(sizes.max()))
        self._rows = np.arange(len(logs))
        self._excess = np.full((len(logs), slow.size), -np.inf)
        for row, log in zip(self._excess, logs, strict=True):
            row[: log.size] = np.concatenate([[0.0], np.cumsum(np.sort(log - log.mean())[::-1])[:-1]])
        self._weights = slow * (sizes[:, None] - slow) / sizes[:, None]
        self._rarer = np.minimum(slow, sizes[:, None] - slow)

    def best(self, step: float) -> "NDArray[np.int64]":
        """Return, by variant, the number of slow blocks that leaves the least squares."""
        counts: NDArray[np.int64] = (2 * step * self._excess - step**2 * self._weights).argmax(axis=1)
        return counts

    def step(self, split: "NDArray[np.int64]", fewest: float) -> tuple[float, float]:
        """Return by how much a split reduces the sum of squares, with its best step, and that step. Both are zero if
        fewer blocks than `fewest` lie on the rarer side of their variant."""
        weight = float(self._weights[self._rows, split].sum())
        if weight == 0.0 or self._rarer[self._rows, split].sum() < fewest:
            return 0.0, 0.0
        step = float(self._excess[self._rows, split].sum()) / weight
        return step**2 * weight, step


def best_step(logs: "Sequence[Log]", fewest: float) -> float:
    """Return the step that leaves the least squares, among those with at least `fewest` blocks on the rarer side of
    their variant; 0 if there is none. `logs`: of each variant's block medians."""
    splits = _Splits(logs)
    return max(splits.step(splits.best(candidate), fewest) for candidate in _STEPS)[1]


def blocks_half_way(logs: "Sequence[Log]", at_fast: "Sequence[Log]", step: float) -> int:
    """Return how many blocks lie in the middle third between the speeds. `at_fast`: the blocks converted to the fast
    speed."""
    import numpy as np

    beside = np.concatenate([(log - rest.mean()) / step for log, rest in zip(logs, at_fast, strict=True)])
    return int(((beside > 1 / 3) & (beside < 2 / 3)).sum())


def slow_blocks(logs: "Sequence[Log]", step: float) -> "list[NDArray[np.bool_]]":
    """Return for each variant which of its blocks are slow; none if all its blocks are equally fast."""
    import numpy as np

    counts = _Splits(logs).best(step)
    return [log > np.sort(log)[log.size - 1 - count] for log, count in zip(logs, counts, strict=True)]


def _shares(
    visits: Sequence[Sequence[int]], slow: "Sequence[NDArray[np.bool_]]", *, successive: bool
) -> tuple[list[float], float, float]:
    """Return for each variant the logarithm of the odds that all its blocks were slow, if they were equally fast; and
    the interval of the share of slow blocks. A device has one speed at a time, so the other blocks of a round show it.

    `successive`: whether successive visits that agree count as one sample of the share.
    """
    import numpy as np

    places = {
        visit: place for place, visit in enumerate(sorted({visit for own_visits in visits for visit in own_visits}))
    }
    place_of_block = np.array([places[visit] for own_visits in visits for visit in own_visits])
    variant = np.repeat(np.arange(len(visits)), [len(own_visits) for own_visits in visits])
    known = np.array([bool(which.any()) for which in slow])[variant]
    blocks = np.bincount(place_of_block).astype(np.float64)
    blocks_now = np.bincount(place_of_block, known, len(places)).astype(np.float64)
    slow_now = slow_known = np.bincount(place_of_block, np.concatenate(slow), len(places)).astype(np.float64)
    for _ in range(_TIMES):  # The loop alternates expectation and maximization.
        share = float(slow_now.sum() / blocks_now.sum())
        by_visit = (slow_now + _LIKE_THE_OTHERS * share) / (blocks_now + _LIKE_THE_OTHERS)
        odds = np.bincount(variant, np.log(by_visit / (1 - by_visit))[place_of_block])
        slow_now = slow_known + np.bincount(
            place_of_block, np.where(known, 0.0, (0.5 + 0.5 * np.tanh(odds / 2))[variant]), len(places)
        )
        blocks_now = blocks
    share = float(slow_now.sum() / blocks.sum())
    if successive:
        mostly_slow = 2 * slow_now > blocks
        state = np.concatenate([[False], mostly_slow[1:] != mostly_slow[:-1]]).cumsum()
        slow_now, blocks = (np.bincount(state, counts).astype(np.float64) for counts in (slow_now, blocks))
    samples = blocks.size
    if samples < 2:
        return odds.tolist(), 0.0, 1.0
    between = float(((slow_now - blocks * share) ** 2).sum()) * samples / (samples - 1)
    error = math.sqrt(max(between / blocks.sum() ** 2, share * (1 - share) / blocks.sum()))
    half = student_t_quantile(samples - 1, 0.5 + _SHARE_CONFIDENCE / 2) * error
    return odds.tolist(), max(0.0, share - half), min(1.0, share + half)
