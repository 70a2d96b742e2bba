"""The choice of the winner among the variants that may win, and of those that share the first place. Pure.

The leader of a decided race wins. The race controls the error over its repeated tests, so no second rule selects again.
If batches decided the race, only the leader has a latency. If rounds were added for other variants since then, one of
these takes the first place only if the rounds show that the leader is slower.

Otherwise the best estimate wins, unless others are shown to be within 2 % of it. Among those, higher accuracy comes
first, then the smaller file (by 2 % or more), then the better estimate. A variant that is not told apart from the best
estimate, but not shown to be equal, never replaces it: after three noisy rounds a variant that is 10 % slower is not
told apart.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from sweeps.ranking.multiplicity import Family
from sweeps.ranking.ties import LATENCY, Contender, outdone, shown_equal, worse
from sweeps.stats import NEGLIGIBLE

C = TypeVar("C", bound=Contender)


@dataclass(frozen=True, slots=True)
class FirstPlace(Generic[C]):
    """The candidates that share the first place."""

    winner: C
    best: C
    """The leader of the race, or otherwise the candidate with the best estimate. The others are compared with it."""
    equal: tuple[C, ...]
    """The candidates shown to be within 2 % of `best`, the preferred one first. The winner, which is one of them, is
    left out."""
    unresolved: tuple[C, ...]
    """The candidates neither told apart from `best` nor shown to be equal, the best estimate first."""
    family: Family[C]
    """All candidates that may win, for comparing their latencies with the winner's."""
    led: bool
    """Whether the winner won as the leader of a decided race, whatever advantages the others have."""

    @property
    def candidates(self) -> int:
        """The number of candidates among which the winner was selected, itself included."""
        return 1 + len(self.equal) + len(self.unresolved)


def first_place(rows: Sequence[C], metric: str, smaller: bool, *, front: bool = False) -> FirstPlace[C]:
    """Return the first place among `rows`, which may all win; at least one. `smaller`: whether the smallest `metric` is
    the best.

    In an undecided race, the leader stands for the best estimate. If rounds were added after a race, the leader no
    longer counts: then the estimates decide. The estimates decide with a Pareto `front`, too, because the leader of its
    race is the fastest of the most accurate.
    """

    def estimate(row: C) -> tuple[float, float, float, str]:
        value = row.figure(metric)
        return math.inf if value is None else value if smaller else -value, *simplicity(row), row.name

    family = Family(rows)
    leader = _leader(rows, family) if metric == LATENCY and not front else None
    ended = None if leader is None else leader.settled
    decided = ended is not None and (ended.reason == "best" or ended.batches_decide)
    first = leader or min(rows, key=estimate)
    if metric == LATENCY:
        near, beaten = rows, family.slower(first)
    else:
        near = [row for row in rows if row is first or not worse(row, first, metric, smaller)]
        # The best estimate may be the noisiest row. A row that is worse than any other beyond doubt is left out.
        beaten = outdone(near, metric, smaller)
    unbeaten = [row for row, is_worse in zip(near, beaten, strict=True) if row is leader or not is_worse]
    best, *rivals = sorted(unbeaten or near, key=lambda row: (row is not leader, *estimate(row)))
    equal = [row for row in rivals if shown_equal(row, best, metric)]
    unresolved = [row for row in rivals if not shown_equal(row, best, metric)]
    smallest: dict[float, float] = {}
    for row in (best, *equal):
        accuracy, size = simplicity(row)
        smallest[accuracy] = min(size, smallest.get(accuracy, math.inf))

    def preference(row: C) -> tuple[object, ...]:
        accuracy, size = simplicity(row)
        # A difference of a few bytes is no reason to ship a build with a worse estimate.
        size = max(size, smallest[accuracy] * (1 + NEGLIGIBLE))
        # A build without a latency does not win for its latency, even if batches show that it is equal.
        untimed = metric == LATENCY and row.figure(metric) is None
        return not (decided and row is leader), untimed, accuracy, size, *estimate(row)

    winner, *rest = sorted((best, *equal), key=preference)
    led = decided and winner is leader
    return FirstPlace(winner=winner, best=best, equal=tuple(rest), unresolved=tuple(unresolved), family=family, led=led)


class HasFigures(Protocol):
    """A row or a candidate: any object that has figures."""

    @property
    def figures(self) -> Mapping[str, float | None]: ...


def simplicity(row: HasFigures) -> tuple[float, float]:
    """Return the sort key of equally good rows: higher accuracy first, then the smaller file."""
    accuracy = row.figures["top1_percent"]
    if accuracy is None:
        accuracy = row.figures["agreement_percent"]
    size = row.figures["artifact_mb"]
    return math.inf if accuracy is None else -accuracy, math.inf if size is None else size


def _leader(rows: Sequence[C], family: Family[C]) -> C | None:
    """Return the leader of the race of these rows; `None` if rounds that were added after the race decide instead."""
    leaders = [row for row in rows if row.settled is not None and row.settled.leads]
    if len(leaders) != 1:
        return None
    (leader,) = leaders
    assert leader.settled is not None
    if leader.settled.batches_decide:
        shown_slower = any(family.is_slower(leader, row, len(rows)) for row in rows if row is not leader)
        return None if shown_slower else leader
    return leader if len(leader.medians_ms) <= leader.settled.rounds else None
