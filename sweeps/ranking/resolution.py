"""The resolution of a sweep on its device: the smallest difference that its rounds can tell apart, from its own blocks.
Pure.

Without a race every build has a few rounds, however much the device's processes differ, and the best estimate among
many is partly luck. The spread of blocks within rounds, pooled over all builds, determines how large a difference must
be to be found: with the same power as in `edgesweep noise` (`sweeps.protocol.resolvable_difference.told_apart`).
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sweeps.label_kinds import disqualified
from sweeps.protocol.resolvable_difference import told_apart
from sweeps.ranking.round_effects import fit_rounds
from sweeps.results import ResultRow

FEWEST_DEGREES = 4
"""The fewest degrees of freedom: those of the fewest blocks that `edgesweep noise` accepts
(`sweeps.protocol.resolvable_difference.FEWEST_BLOCKS`)."""

_PASSES = 50
"""The number of passes of the fit; if all builds have the same rounds, the first pass is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The difference that `rounds` rounds tell apart."""

    rounds: int
    """The median number of rounds of a build."""
    difference: float
    """The smallest difference (a share, 0.08 is 8 %) that is told apart in 4 of 5 sweeps."""
    spread: float
    """The spread of the blocks of one build within a round: standard deviation of logarithms."""

    @property
    def text(self) -> str:
        """One line for people."""
        share = f"{100 * self.difference:.{0 if self.difference >= 0.1 else 1}f} %"
        far = share if self.difference < 1 else f"a factor of {1 + self.difference:.1f}"
        return (
            f"{self.rounds} rounds tell builds apart that differ by {far} or more on this device (in 4 of 5 sweeps); "
            "of builds that are closer, luck has a part in which is first"
        )

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "text": self.text}


def resolution(rows: Sequence[ResultRow]) -> Resolution | None:
    """Return the resolution of rows with the same conditions; `None` if they are from a race, or have too few blocks to
    show it."""
    sound = [row.medians_ms for row in rows if row.medians_ms and not disqualified(row.trust)]
    if any(row.settled is not None and row.settled.budget == "race" for row in rows) or not sound:
        return None
    rounds = int(statistics.median(len(medians) for medians in sound))
    spread = _spread(sound)
    if rounds < 2 or not spread:
        return None
    return Resolution(rounds=rounds, difference=told_apart(spread, rounds), spread=spread)


def _spread(medians_ms: Sequence[Mapping[int, float]]) -> float | None:
    """Return the spread of the logarithms after the effects of each build and of each round are removed; `None` for too
    few blocks."""
    by_round: dict[int, list[int]] = defaultdict(list)
    for number, medians in enumerate(medians_ms):
        for round_ in medians:
            by_round[round_].append(number)
    # A round of one build, or a build of one round, shows nothing.
    logs = {
        number: own
        for number, medians in enumerate(medians_ms)
        if len(medians) > 1
        and (own := {round_: math.log(ms) for round_, ms in medians.items() if len(by_round[round_]) > 1})
    }
    degrees = sum(map(len, logs.values())) - len(logs) - len({round_ for own in logs.values() for round_ in own}) + 1
    if degrees < FEWEST_DEGREES:
        return None
    builds, rounds = fit_rounds(logs, statistics.fmean, _PASSES)
    left = [log - builds[number] - rounds[round_] for number, own in logs.items() for round_, log in own.items()]
    return math.sqrt(math.fsum(residual * residual for residual in left) / degrees)
