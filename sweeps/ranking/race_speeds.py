"""The two speeds between which a device went back and forth, from all blocks of a race. Pure.

A race ends within minutes, and its winner is confirmed within seconds, in which slow clocks have one state. But
batches, finals and confirmation together saw the device for longer, and a state belongs to the device and not to a
build: the blocks of all candidates show when it changed, as in `sweeps.ranking.two_speeds`. Three things differ here:

* **Blocks are few.** Most candidates have two, and two always fit a step. So the spread of blocks at one speed is
  shrunk towards the prior of a race (`sweeps.protocol.mixture`): the fewer blocks, the larger a step must be.
* **Visits are short.** A batch or a round lasts for seconds, so all its blocks had one speed, or the speed changed once
  during them. If they agree about a step that no spread between processes explains, each block's speed is not an
  additional free choice.
* **Processes are of two kinds.** A block in a process that has run other builds before may differ from a block in a
  separate process, for all builds alike. So both speeds must be seen in processes of one kind, each of them in
  successive blocks: a burst of other work slows single blocks.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sweeps.distributions import chi_square_quantile
from sweeps.ranking.batch_alarm import DEGREES, SPREAD
from sweeps.ranking.two_speeds import (
    LEAST_SHARE,
    LEAST_STEP,
    MOST_HALF_WAY,
    TwoSpeeds,
    best_step,
    blocks_half_way,
    slow_blocks,
    speeds_from,
)
from sweeps.stats import CONFIDENCE

# numpy is imported inside the functions, as in `sweeps.ranking.two_speeds`.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST_AT_EACH = 4
"""The smallest number of blocks at each speed, in processes of one kind: one or two blocks may have been disturbed."""
LASTING = 0.75
"""The share of `FEWEST_AT_EACH` or more successive blocks, or of one visit's blocks, that must have the same speed, for
either speed."""
SEPARATION = 4.5
"""The separation is as in `sweeps.ranking.two_speeds`, but larger, because fewer blocks show how they lie; the value
was simulated."""
TOGETHER_STEP = 0.1
"""A step that differences between processes do not explain, if blocks agree about it: four times their prior spread."""
FEWEST_TOGETHER = 3
"""Fewer blocks of one visit do not show that they agree."""
AGREEING = 0.9
"""The share of these blocks that must have the same speed as most blocks of their visit."""


@dataclass(frozen=True, slots=True)
class RaceBlocks:
    """The block medians of one candidate, positive and in any unit. There is at least one."""

    in_batches: Mapping[int, float]
    """The medians in batches, by the number of the process, which ascends in time. Batches come before other blocks."""
    alone: Mapping[int, float]
    """The medians in separate processes, by visit (`sweeps.records.Block.visit`), which ascends in time."""


def race_speeds(candidates: Mapping[str, RaceBlocks], published: Sequence[str]) -> TwoSpeeds | None:
    """Return the two speeds of the device; `None` if two are not shown. `candidates`: all of the race, by key.

    The result is by variant, for those of `published`, in this order; its visits are those of slow blocks in separate
    processes.
    """
    order = [*published, *(key for key in candidates if key not in set(published))]
    every = [candidates[key] for key in order]
    medians = [[*blocks.in_batches.values(), *blocks.alone.values()] for blocks in every]
    if all(max(blocks) < math.exp(LEAST_STEP) * min(blocks) for blocks in medians):
        return None
    import numpy as np

    logs = [np.log(np.array(blocks, dtype=np.float64)) for blocks in medians]
    repeated = [number for number, log in enumerate(logs) if log.size > 1]
    levels = [logs[number] for number in repeated]
    step = best_step(levels, FEWEST_AT_EACH)
    if step < LEAST_STEP:
        return None
    slow = slow_blocks(levels, step)
    visits, alone = _in_order(every)
    visits_repeated = [visits[number] for number in repeated]
    batches = len({process for blocks in every for process in blocks.in_batches})
    at_fast = [log - step * which for log, which in zip(levels, slow, strict=True)]
    split = [log for log, which in zip(at_fast, slow, strict=True) if which.any()]
    # Each candidate has a level of its own. The split of its blocks is free, too, unless visits decide it.
    free = 1 if step >= TOGETHER_STEP and _agree(visits_repeated, slow) else 2
    degrees = DEGREES + max(0, sum(log.size - free for log in split) - 1)
    left = DEGREES * SPREAD**2 + sum(log.size * float(log.var()) for log in split)
    most_spread = math.sqrt(left / chi_square_quantile(degrees, CONFIDENCE))
    half_way = blocks_half_way(levels, at_fast, step)
    if step < SEPARATION * most_spread or half_way > MOST_HALF_WAY * sum(log.size for log in levels):
        return None
    if not _lasts(visits_repeated, slow, batches):
        return None
    speeds = speeds_from(visits, logs, step, math.sqrt(left / degrees), successive=True)
    return replace(
        speeds,
        slow=tuple(frozenset(alone[at] for at in which if at in alone) for which in speeds.slow[: len(published)]),
        sure=speeds.sure[: len(published)],
    )


def _in_order(candidates: Sequence[RaceBlocks]) -> tuple[list[list[int]], dict[int, int]]:
    """Return for each candidate the index of each block's visit in the order of measuring, batches first; and by this
    index the visit of blocks in separate processes."""
    batches = sorted({process for candidate in candidates for process in candidate.in_batches})
    alone = sorted({visit for candidate in candidates for visit in candidate.alone})
    places = {process: place for place, process in enumerate(batches)}
    places_alone = {visit: place for place, visit in enumerate(alone, len(batches))}
    in_order = [
        [*(places[process] for process in candidate.in_batches), *(places_alone[visit] for visit in candidate.alone)]
        for candidate in candidates
    ]
    return in_order, {place: visit for visit, place in places_alone.items()}


def _agree(places: Sequence[Sequence[int]], slow: "Sequence[NDArray[np.bool_]]") -> bool:
    """Tell whether the blocks of each visit have one speed, using only candidates that were seen at both speeds.
    `places`: the visit of each block."""
    at = defaultdict[int, list[bool]](list)
    for visits, which in zip(places, slow, strict=True):
        if which.any():
            for place, is_slow in zip(visits, which.tolist(), strict=True):
                at[place].append(is_slow)
    repeated = [speeds for speeds in at.values() if len(speeds) >= FEWEST_TOGETHER]
    most = sum(max(sum(speeds), len(speeds) - sum(speeds)) for speeds in repeated)
    return 0 < AGREEING * sum(map(len, repeated)) <= most


def _lasts(places: Sequence[Sequence[int]], slow: "Sequence[NDArray[np.bool_]]", batches: int) -> bool:
    """Tell whether each speed lasted for several successive blocks, in batches (the first `batches` places) or in
    separate processes. A burst of other work does not last."""
    for in_batch in (True, False):
        blocks = 0
        at = defaultdict[int, list[bool]](list)
        for visits, which in zip(places, slow, strict=True):
            of_kind = [(place, is_slow) for place, is_slow in zip(visits, which.tolist(), strict=True)]
            of_kind = [block for block in of_kind if (block[0] < batches) == in_batch]
            blocks += len(of_kind)
            for place, is_slow in (
                of_kind if which.any() else ()
            ):  # For a candidate without slow blocks, the speed is not known.
                at[place].append(is_slow)
        at_slow, known = sum(map(sum, at.values())), sum(map(len, at.values()))
        enough = min(at_slow, known - at_slow) >= max(FEWEST_AT_EACH, LEAST_SHARE * blocks)
        shares = list(_shares_of_successive([at[place] for place in sorted(at)])) if enough else [0.5]
        if max(shares) >= LASTING and min(shares) <= 1 - LASTING:
            return True
    return False


def _shares_of_successive(visits: Sequence[Sequence[bool]]) -> Iterator[float]:
    """Yield, starting from each visit, the share of slow blocks in the shortest run of visits that has `FEWEST_AT_EACH`
    blocks."""
    for first in range(len(visits)):
        window: list[bool] = []
        for visit in visits[first:]:
            window += visit
            if len(window) >= FEWEST_AT_EACH:
                yield sum(window) / len(window)
                break
