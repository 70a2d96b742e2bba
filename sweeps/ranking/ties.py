"""When are two results told apart, and what would it take? Pure: rows and block medians in.

In latency (p50) two are told apart when the paired ratio over their common rounds is resolved at 95 % and is at least
2 %. A time without repeated rounds has no interval of its own, so it borrows what fresh processes of one and the same
artifact were seen to differ by: less than `UNREPEATED_SPREAD` is a tie. Metrics with an interval of another kind
(accuracy drop) are told apart when their intervals do not meet; all others, which do not vary from run to run, when
they differ by more than 2 %. Every comparison stands at 95 % for itself.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import stdtrit

from sweeps.protocol.racing import NEGLIGIBLE
from sweeps.ranking.verdict import interval
from sweeps.results import ResultRow
from sweeps.stats import CONFIDENCE, ratio_by_rounds

UNREPEATED_SPREAD = 1.5
"""One MobileNetV2 artifact took 17 to 25 ms in fresh processes of one machine: a factor of 1.47."""

LATENCY = "latency_p50_ms"
UNREPEATED_TIMES = frozenset({LATENCY, "latency_p90_ms", "latency_p99_ms", "first_inference_ms", "load_ms"})

MOST_ROUNDS = 1000
"""Nobody waits for more."""


class Ratio(NamedTuple):
    """A ratio and its 95 % interval; no interval with fewer than two common rounds."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """What it would take to settle a tie in latency, if the rounds to come are like those that were."""

    rounds: int | None
    """So many more rounds of both; 0: it is settled, they are equal for practice; `None`: not in `MOST_ROUNDS`."""
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


def worse(row: ResultRow, best: ResultRow, metric: str, smaller: bool) -> bool:
    """Whether `row` is worse than `best` beyond doubt; see the head of this module."""
    value, top = row.figure(metric), best.figure(metric)
    if value is None or top is None or value == top:
        return False
    if metric == LATENCY:
        ratio = ratio_by_rounds(row.medians_ms, best.medians_ms)
        if ratio is not None and ratio.low is not None:
            return ratio.low > 1.0 and ratio.value >= 1.0 + NEGLIGIBLE
    if (value < top) == smaller:
        return False
    if metric in UNREPEATED_TIMES:
        return max(value, top) >= UNREPEATED_SPREAD * min(value, top)
    ends, best_ends = interval(row.figures, metric), interval(best.figures, metric)
    if ends is not None and best_ends is not None:
        return ends[0] > best_ends[1] or ends[1] < best_ends[0]
    return math.isinf(top) or abs(value - top) > NEGLIGIBLE * abs(top)


def leaders(rows: Sequence[ResultRow], metric: str, smaller: bool) -> list[ResultRow]:
    """Those of `rows` (the best estimate first) that share the first place, the one to prefer first.

    They are not told apart from the best estimate. That one may be the noisiest: who is worse than another of them
    beyond doubt is not first. Inside the tie: what a decided race calls best, since that is within 2 % of the best and
    the others may be more; then higher accuracy, then smaller file (2 % or more), then the better estimate, then name.
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


def ratio(row: ResultRow, winner: ResultRow) -> Ratio | None:
    """Latency (p50) as a multiple of the winner's, paired by round where there are common ones."""
    paired = ratio_by_rounds(row.medians_ms, winner.medians_ms)
    if paired is not None:
        return Ratio(paired.value, paired.low, paired.high)
    value, best = row.figures[LATENCY], winner.figures[LATENCY]
    return Ratio(value / best, None, None) if value and best else None


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
        # The tie stands, so no round more is not enough: the median of the ratios may still be below 2 %.
        enough = np.flatnonzero(half[1:] < mean) + 1
        return Settling(rounds=int(enough[0]) if enough.size else None, outcome="told apart")
    enough = np.flatnonzero(mean + half <= limit)
    return Settling(rounds=int(enough[0]) if enough.size else None, outcome="equal")
