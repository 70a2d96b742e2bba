"""When are two results told apart, and what would it take? Pure: rows and block medians in.

Two latencies are told apart (`told_apart`) when their ratio, paired over common rounds, is resolved at 95 % and differs
from 1 by 2 % or more. A ratio without repeated rounds has no interval of its own. It borrows what fresh processes of
one and the same artifact were seen to differ by: less than `UNREPEATED_SPREAD` is a tie.

Metrics with an interval of another kind (accuracy drop) are told apart when their intervals do not meet. All others,
which do not vary from run to run, are told apart when they differ by more than 2 %. Every comparison stands at 95 % for
itself.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from sweeps.ranking.verdict import interval
from sweeps.results import ResultRow
from sweeps.stats import CONFIDENCE, NEGLIGIBLE, Estimate, ratio_by_rounds

UNREPEATED_SPREAD = 1.5
"""One MobileNetV2 artifact took 17 to 25 ms in fresh processes of one machine: a factor of 1.47."""

LATENCY = "latency_p50_ms"
UNREPEATED_TIMES = frozenset({LATENCY, "latency_p90_ms", "latency_p99_ms", "first_inference_ms", "load_ms"})

MOST_ROUNDS = 1000
"""Nobody waits for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """What it would take to settle a tie in latency, if the rounds to come are like those that were."""

    rounds: int | None
    """So many more rounds of both; 0: it is settled, they are equal in practice; `None`: not in `MOST_ROUNDS`."""
    outcome: Literal["told apart", "equal"]
    """What they would turn out to be; `equal`: within 2 %."""

    @property
    def text(self) -> str:
        """For people, after the variant's name."""
        if self.rounds == 0:
            return "equal for practice: within 2 % at 95 %"
        if self.rounds is None:
            return f"not settled in {MOST_ROUNDS:,} more rounds"
        found = "tell them apart" if self.outcome == "told apart" else "show them equal, within 2 %"
        return f"about {self.rounds} more round{'s' * (self.rounds > 1)} would {found}"


def latency_ratio(row: ResultRow, other: ResultRow) -> Estimate | None:
    """Latency (p50) as a multiple of the other's, with its 95 % interval: paired by round where two rounds or more are
    common. Without an interval where fewer are; `None` where one of the two was not timed."""
    paired = ratio_by_rounds(row.medians_ms, other.medians_ms)
    if paired is not None:
        return paired
    value, others = row.figure(LATENCY), other.figure(LATENCY)
    return Estimate(value / others, None, None) if value and others else None


def told_apart(ratio: Estimate, least: float = NEGLIGIBLE) -> Literal["slower", "faster"] | None:
    """Whether a latency that is `ratio` times another one differs from it; `None`: that is not shown.

    With an interval: it leaves out 1, and the ratio differs from 1 by the share `least` or more. Without one: the ratio
    is `UNREPEATED_SPREAD` or more, one way or the other.
    """
    if ratio.low is None or ratio.high is None:
        shown = _beyond_spread(ratio.value, 1.0)
    else:
        shown = not ratio.low <= 1.0 <= ratio.high and not 1.0 / (1.0 + least) < ratio.value < 1.0 + least
    if not shown:
        return None
    return "slower" if ratio.value > 1.0 else "faster"


def worse(row: ResultRow, best: ResultRow, metric: str, smaller: bool) -> bool:
    """Whether `row` is worse than `best` beyond doubt; see the head of this module."""
    value, top = row.figure(metric), best.figure(metric)
    if value is None or top is None or value == top:
        return False
    if metric == LATENCY:
        ratio = ratio_by_rounds(row.medians_ms, best.medians_ms)
        if ratio is not None and ratio.low is not None:
            return told_apart(ratio) == "slower"
    if (value < top) == smaller:
        return False
    if metric in UNREPEATED_TIMES:
        return _beyond_spread(value, top)
    ends, best_ends = interval(row.figures, metric), interval(best.figures, metric)
    if ends is not None and best_ends is not None:
        return ends[0] > best_ends[1] or ends[1] < best_ends[0]
    return math.isinf(top) or abs(value - top) > NEGLIGIBLE * abs(top)


def leaders(rows: Sequence[ResultRow], metric: str, smaller: bool) -> list[ResultRow]:
    """Those of `rows` (the best estimate first) that share the first place, the one to prefer first.

    They are not told apart from the best estimate. That one may be the noisiest, so those that are worse than another
    of them beyond doubt are left out. Order inside the tie: what a decided race calls best, since that is within 2 % of
    the best and the others may be more; then higher accuracy, then smaller file (by 2 % or more), then the better
    estimate, then the name.
    """
    near = [row for row in rows if not worse(row, rows[0], metric, smaller)]
    first = [row for row in near if not any(worse(row, other, metric, smaller) for other in near)] or near

    smallest: dict[float, float] = {}
    for row in first:
        accuracy, size = simplicity(row)
        smallest[accuracy] = min(size, smallest.get(accuracy, math.inf))

    def preference(row: ResultRow) -> tuple[bool, float, float, float, str]:
        value = row.figure(metric)
        estimate = math.inf if value is None else value if smaller else -value
        accuracy, size = simplicity(row)
        # A few bytes of a graph are no reason to ship what looks slower.
        size = max(size, smallest[accuracy] * (1 + NEGLIGIBLE))
        raced = metric == LATENCY and row.settled is not None and row.settled.leads
        return not raced, accuracy, size, estimate, row.name

    return sorted(first, key=preference)


def simplicity(row: ResultRow) -> tuple[float, float]:
    """Order of what is equally good: higher accuracy, then smaller file."""
    accuracy = row.figures["top1_percent"]
    if accuracy is None:
        accuracy = row.figures["agreement_percent"]
    size = row.figures["artifact_mb"]
    return math.inf if accuracy is None else -accuracy, math.inf if size is None else size


def settling(medians_ms: Mapping[int, float], others_ms: Mapping[int, float]) -> Settling | None:
    """How many more common rounds would settle whether the two differ: the smallest number after which Student's 95 %
    interval of their mean log ratio leaves 0 out, where that is 2 % or more, or else lies within 2 %.

    Mean and spread are taken as they are now, so this is an estimate, and a rough one from few rounds.
    Fewer than two common rounds: `None`.
    """
    rounds = sorted(medians_ms.keys() & others_ms.keys())
    if len(rounds) < 2:
        return None
    logs = np.log([medians_ms[round_] / others_ms[round_] for round_ in rounds])
    mean, spread = abs(float(logs.mean())), float(logs.std(ddof=1))
    counts = len(rounds) + np.arange(MOST_ROUNDS + 1)
    half = stdtrit(counts - 1, 0.5 + CONFIDENCE / 2) * spread / np.sqrt(counts)
    limit = math.log1p(NEGLIGIBLE)
    if mean >= limit:
        # The tie stands, so at least one more round is needed: the median of the ratios may still be below 2 %.
        enough = np.flatnonzero(half[1:] < mean) + 1
        return Settling(rounds=int(enough[0]) if enough.size else None, outcome="told apart")
    enough = np.flatnonzero(mean + half <= limit)
    return Settling(rounds=int(enough[0]) if enough.size else None, outcome="equal")


def _beyond_spread(one: float, other: float) -> bool:
    """Of two times without an interval: whether they differ by more than processes of one artifact do."""
    return max(one, other) >= UNREPEATED_SPREAD * min(one, other)
