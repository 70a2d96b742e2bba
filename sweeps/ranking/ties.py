"""Whether two results differ, and how many more rounds would decide it. Pure: rows and block medians in.

Two latencies are told apart (`told_apart`) if their ratio, paired over common rounds, is resolved at 95 % and differs
from 1 by 2 % or more. A ratio without repeated rounds has no interval of its own. It is compared with the spread that
was seen between new processes of one artifact: less than `UNREPEATED_SPREAD` is a tie.

Metrics with another kind of interval (accuracy drop) are told apart if their intervals do not overlap. Metrics of other
packages have no interval, and may vary from run to run: they are compared with the same spread as unrepeated times. All
other metrics do not vary, and are told apart if they differ by more than 2 %. Each comparison has 95 % confidence by
itself.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from sweeps.metrics import METRICS
from sweeps.ranking.verdict import interval
from sweeps.results import ResultRow
from sweeps.stats import CONFIDENCE, NEGLIGIBLE, Estimate, ratio_by_rounds

UNREPEATED_SPREAD = 1.5
"""One MobileNetV2 artifact took 17 to 25 ms in different processes on one machine: a factor of 1.47."""

LATENCY = "latency_p50_ms"
UNREPEATED_TIMES = frozenset({LATENCY, "latency_p90_ms", "latency_p99_ms", "first_inference_ms", "load_ms"})

MOST_ROUNDS = 1000
"""The largest number of further rounds that is reported: nobody waits for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """How many more rounds would settle a tie in latency, if future rounds are like the past ones."""

    rounds: int | None
    """More rounds of both. 0: already settled, they are equal in practice. `None`: not settled in `MOST_ROUNDS`."""
    outcome: Literal["told apart", "equal"]
    """The expected result; `equal`: within 2 %."""

    @property
    def text(self) -> str:
        """For people, after the variant's name."""
        if self.rounds == 0:
            return "equal in practice: within 2 % at 95 %"
        if self.rounds is None:
            return f"not settled in {MOST_ROUNDS:,} more rounds"
        found = "tell them apart" if self.outcome == "told apart" else "show them equal, within 2 %"
        return f"about {self.rounds} more round{'s' * (self.rounds > 1)} would {found}"


def latency_ratio(row: ResultRow, other: ResultRow) -> Estimate | None:
    """Latency (p50) of `row` divided by that of `other`. With two or more common rounds it is paired by round and has a
    95 % interval, with fewer it has no interval. `None` if one of the two was not timed."""
    paired = ratio_by_rounds(row.medians_ms, other.medians_ms)
    if paired is not None:
        return paired
    value, others = row.figure(LATENCY), other.figure(LATENCY)
    return Estimate(value / others, None, None) if value and others else None


def told_apart(ratio: Estimate, least: float = NEGLIGIBLE) -> Literal["slower", "faster"] | None:
    """Whether a latency that is `ratio` times another one differs from it; `None`: a difference is not shown.

    With an interval, it differs if the interval excludes 1 and the ratio differs from 1 by the share `least` or more.
    Without one, it differs if the ratio or its inverse is `UNREPEATED_SPREAD` or more.
    """
    if ratio.low is None or ratio.high is None:
        shown = _beyond_spread(ratio.value, 1.0)
    else:
        shown = (ratio.low > 1.0 or ratio.high < 1.0) and not 1.0 / (1.0 + least) < ratio.value < 1.0 + least
    if not shown:
        return None
    return "slower" if ratio.value > 1.0 else "faster"


def worse(row: ResultRow, best: ResultRow, metric: str, smaller: bool) -> bool:
    """Whether `row` is worse than `best` beyond doubt; the rules are in the module docstring."""
    value, top = row.figure(metric), best.figure(metric)
    if value is None or top is None or value == top:
        return False
    if metric == LATENCY:
        ratio = ratio_by_rounds(row.medians_ms, best.medians_ms)
        if ratio is not None and ratio.low is not None:
            return told_apart(ratio) == "slower"
    if (value < top) == smaller:
        return False
    if metric in UNREPEATED_TIMES or metric not in METRICS:
        return _beyond_spread(value, top)
    ends, best_ends = interval(row.figures, metric), interval(best.figures, metric)
    if ends is not None and best_ends is not None:
        return ends[0] > best_ends[1] or ends[1] < best_ends[0]
    return math.isinf(top) or abs(value - top) > NEGLIGIBLE * abs(top)


def leaders(rows: Sequence[ResultRow], metric: str, smaller: bool) -> list[ResultRow]:
    """The rows that share the first place, the preferred one first. `rows` starts with the best estimate.

    These are the rows that cannot be told apart from the best estimate. The best estimate may be the noisiest row, so a
    row that is worse than any other of them beyond doubt is left out. Order within the tie: the leader of a decided
    race (it is within 2 % of the best; the others may not be), then higher accuracy, then smaller file (by 2 % or
    more), then the better estimate, then the name.
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
        # A few bytes are no reason to ship a build with a worse estimate.
        size = max(size, smallest[accuracy] * (1 + NEGLIGIBLE))
        raced = metric == LATENCY and row.settled is not None and row.settled.leads
        return not raced, accuracy, size, estimate, row.name

    return sorted(first, key=preference)


def simplicity(row: ResultRow) -> tuple[float, float]:
    """Sort key of equally good rows: higher accuracy, then smaller file."""
    accuracy = row.figures["top1_percent"]
    if accuracy is None:
        accuracy = row.figures["agreement_percent"]
    size = row.figures["artifact_mb"]
    return math.inf if accuracy is None else -accuracy, math.inf if size is None else size


def settling(medians_ms: Mapping[int, float], others_ms: Mapping[int, float]) -> Settling | None:
    """How many more common rounds would settle whether the two differ. `None` with fewer than two common rounds.

    Settled means: Student's 95 % interval of the mean log ratio excludes 0 if the mean ratio is 2 % or more, or lies
    within 2 % if it is less. Mean and spread are assumed to stay as they are, so this is an estimate, and a rough one
    from few rounds.
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
        # They are tied now, so at least one more round is needed: the median of the ratios may still be below 2 %.
        enough = np.flatnonzero(half[1:] < mean) + 1
        return Settling(rounds=int(enough[0]) if enough.size else None, outcome="told apart")
    enough = np.flatnonzero(mean + half <= limit)
    return Settling(rounds=int(enough[0]) if enough.size else None, outcome="equal")


def _beyond_spread(one: float, other: float) -> bool:
    """Whether two times without an interval differ by more than processes of one artifact do."""
    return max(one, other) >= UNREPEATED_SPREAD * min(one, other)
