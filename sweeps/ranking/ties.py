"""Whether two results differ or are equal, and how many more rounds would decide it. Pure: rows, block medians in.

Two latencies are told apart (`told_apart`) if their ratio, paired over common rounds, is resolved at 95 % and differs
from 1 by 2 % or more. A ratio without repeated rounds has no interval of its own. It is compared with the spread that
was seen between new processes of one artifact: less than `UNREPEATED_SPREAD` is a tie.

Where batches decided a race without finals, the ratio of a build to the race's leader is theirs, with their interval.

Metrics with another kind of interval (accuracy drop) are told apart if their intervals do not overlap. Metrics of other
packages have no interval, and may vary from run to run: they are compared with the same spread as unrepeated times. All
other metrics do not vary, and are told apart if they differ by more than 2 %. Each comparison has 95 % confidence by
itself.

Two results that are not told apart may still differ. To be equal is shown separately (`shown_equal`).
"""

import math
import statistics
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from sweeps.distributions import student_t_quantile
from sweeps.metrics import METRICS
from sweeps.ranking.amounts import INTERVALS, interval
from sweeps.settled import Settled
from sweeps.stats import CONFIDENCE, NEGLIGIBLE, TAIL, Estimate, middle_round, ratio_by_rounds, variance

UNREPEATED_SPREAD = 1.5
"""One MobileNetV2 artifact took 17 to 25 ms in different processes on one machine: a factor of 1.47."""

LATENCY = "latency_p50_ms"
UNREPEATED_TIMES = frozenset({LATENCY, "latency_p90_ms", "latency_p99_ms", "first_inference_ms", "load_ms"})

FEW = 12
"""Up to so many rows are compared pair by pair, without numpy."""

MOST_ROUNDS = 1000
"""The largest number of further rounds that is reported: nobody waits for more."""


class Contender(Protocol):
    """What is compared, for example a `sweeps.results.ResultRow`."""

    @property
    def name(self) -> str: ...
    @property
    def job_key(self) -> str: ...
    @property
    def settled(self) -> Settled | None: ...
    @property
    def medians_ms(self) -> Mapping[int, float]: ...
    @property
    def figures(self) -> Mapping[str, float | None]: ...
    def figure(self, metric: str) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """How many more rounds would settle a tie in latency, if future rounds are like the past ones."""

    rounds: int | None
    """More rounds of both. 0: shown to be equal already. `None`: not settled in `MOST_ROUNDS`."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeOf:
    """What a `latency_ratio` is made of: two figures beside which it can stand."""

    source: Literal["rounds", "batches", "times", "blocks"]
    """`rounds`: the median of the ratios of common rounds; `batches`: those that decided a race; `times`: the quotient
    of the two p50 latencies, since they have no common round; `blocks`: that of the geometric means of all their
    blocks, since these are from separate runs (`sweeps.ranking.gain`)."""
    rounds: int = 0
    """Common ones."""
    ms: float | None = None
    other_ms: float | None = None
    """The ratio is `ms / other_ms`, of the round in the middle; `None` in batches, which give no time."""

    @property
    def how(self) -> str:
        """`paired by round`."""
        hows = {"rounds": "paired by round", "batches": "in batches", "times": "not paired"}
        return hows.get(self.source, "not paired: of all blocks of separate runs")

    @property
    def where(self) -> str:
        """Of which rounds the two figures are: `in the middle one of 5 common rounds`; empty if of none."""
        if not self.rounds:
            return ""
        if self.rounds == 1:
            return "in their only common round"
        middle = "one" if self.rounds % 2 else "two"
        return f"in the middle {middle} of {self.rounds} common rounds" if self.rounds > 2 else "in 2 common rounds"


def made_of(row: Contender, other: Contender) -> MadeOf | None:
    """What their `latency_ratio` is made of; `None` if they have none."""
    count = len(row.medians_ms.keys() & other.medians_ms.keys())
    if count < 2 and _shown_ratio(row, other) is not None:
        return MadeOf(source="batches")
    if middle := middle_round(row.medians_ms, other.medians_ms):
        return MadeOf(source="rounds", rounds=count, ms=middle[0], other_ms=middle[1])
    value, others = row.figure(LATENCY), other.figure(LATENCY)
    return MadeOf(source="times", ms=value, other_ms=others) if value and others else None


def latency_ratio(row: Contender, other: Contender) -> Estimate | None:
    """Latency (p50) of `row` divided by that of `other`. With two or more common rounds it is paired by round and has a
    95 % interval. Where batches decided their race, it is theirs. Otherwise it has no interval, and is `None` if one of
    the two was not timed."""
    if (shown := _shown_ratio(row, other)) is not None:
        return shown
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


def worse(row: Contender, best: Contender, metric: str, smaller: bool) -> bool:
    """Whether `row` is worse than `best` beyond doubt; the rules are in the module docstring."""
    value, top = row.figure(metric), best.figure(metric)
    if value is not None and value == top:
        return False
    if metric == LATENCY and (ratio := _shown_ratio(row, best)) is not None:
        return told_apart(ratio) == "slower"
    if value is None or top is None:
        return False
    if (value < top) == smaller:
        return False
    if metric in UNREPEATED_TIMES or metric not in METRICS:
        return _beyond_spread(value, top)
    ends, best_ends = interval(row.figures, metric), interval(best.figures, metric)
    if ends is not None and best_ends is not None:
        return ends[0] > best_ends[1] or ends[1] < best_ends[0]
    return math.isinf(top) or abs(value - top) > NEGLIGIBLE * abs(top)


def outdone(rows: Sequence[Contender], metric: str, smaller: bool) -> list[bool]:
    """Of each row, whether it is worse than any other of `rows` beyond doubt, as of `worse`.

    Latencies that have the same rounds are compared all at once: thousands of builds may be near the best.
    """
    found = [False] * len(rows)
    alike: dict[tuple[int, ...], list[int]] = {}
    for number, row in enumerate(rows):
        rounds = tuple(sorted(row.medians_ms)) if metric == LATENCY else ()
        alike.setdefault(rounds, []).append(number)
    for rounds, numbers in alike.items():
        together = set(numbers) if len(rounds) > 1 and len(numbers) > FEW else set()
        if together:
            some = [rows[number] for number in numbers]
            for number, is_outdone in zip(numbers, _outdone_in_rounds(some, rounds), strict=True):
                found[number] = is_outdone
        others = [other for number, other in enumerate(rows) if number not in together]
        for number in numbers:
            found[number] = found[number] or any(worse(rows[number], other, metric, smaller) for other in others)
    return found


def shown_equal(row: Contender, best: Contender, metric: str) -> bool:
    """Whether `row`, which is not told apart from `best`, is shown to be as good as `best` within 2 %.

    For latency the upper end of their ratio, paired or of batches, is at most 1.02. Times without repeated rounds,
    metrics of other packages and metrics with an interval of their own are equal only if their values are.
    """
    if metric == LATENCY:
        ratio = _shown_ratio(row, best)
        return ratio is not None and ratio.high is not None and ratio.high <= 1.0 + NEGLIGIBLE
    may_vary = metric in UNREPEATED_TIMES or metric in INTERVALS or metric not in METRICS
    return not may_vary or row.figure(metric) == best.figure(metric)


def settling(medians_ms: Mapping[int, float], others_ms: Mapping[int, float]) -> Settling | None:
    """How many more common rounds would settle a tie of the two. `None` with fewer than two common rounds.

    Settled means: Student's 95 % interval of the mean log ratio excludes 0 if the mean ratio is 2 % or more, or its
    upper end is within 2 % if it is less. Mean and spread are assumed to stay as they are, so this is an estimate, and
    a rough one from few rounds.
    """
    rounds = sorted(medians_ms.keys() & others_ms.keys())
    if len(rounds) < 2:
        return None
    logs = [math.log(medians_ms[round_] / others_ms[round_]) for round_ in rounds]
    mean, spread = statistics.fmean(logs), math.sqrt(variance(logs))
    # From one more round on: the two are not settled now, be it only because of the median of the ratios.
    limit = math.log1p(NEGLIGIBLE)
    apart = abs(mean) >= limit

    def enough(more: int) -> bool:
        count = len(rounds) + more
        half = student_t_quantile(count - 1, 0.5 + CONFIDENCE / 2) * spread / math.sqrt(count)
        return half < abs(mean) if apart else mean + half <= limit

    # The interval narrows with each round, so what is enough once stays so.
    found = bisect_left(range(1, MOST_ROUNDS + 1), True, key=enough) + 1
    return Settling(rounds=found if found <= MOST_ROUNDS else None, outcome="told apart" if apart else "equal")


def _outdone_in_rounds(rows: Sequence[Contender], rounds: Sequence[int]) -> list[bool]:
    """Of rows that have these rounds, two or more: the arithmetic of `ratio_by_rounds` and `told_apart`, of one row
    against all."""
    import numpy as np

    logs = np.log(np.array([[row.medians_ms[round_] for round_ in rounds] for row in rows]))
    figures = np.array([row.figure(LATENCY) for row in rows], dtype=np.float64)
    quantile = student_t_quantile(len(rounds) - 1, 1 - TAIL)
    found = []
    for row, figure in zip(logs, figures, strict=True):
        ratios = row - logs
        low = ratios.mean(axis=1) - quantile * ratios.std(axis=1, ddof=1) / len(rounds) ** 0.5
        slower = (low > 0) & (np.exp(np.median(ratios, axis=1)) >= 1.0 + NEGLIGIBLE)
        found.append(bool((slower & (figures != figure)).any()))
    return found


def _shown_ratio(row: Contender, other: Contender) -> Estimate | None:
    """The ratio of their latencies with its interval; `None` without one."""
    paired = ratio_by_rounds(row.medians_ms, other.medians_ms)
    if paired is not None and paired.low is not None:
        return paired
    if (ratio := _beside_leader(row, other)) is not None:
        return ratio
    ratio = _beside_leader(other, row)
    if ratio is None or ratio.low is None or ratio.high is None:
        return None
    return Estimate(1 / ratio.value, 1 / ratio.high, 1 / ratio.low)


def _beside_leader(row: Contender, leader: Contender) -> Estimate | None:
    """The ratio that the batches gave which decided a race; `None` if `leader` did not lead it."""
    ended = row.settled
    # By its key: a name may change when the sweep grows.
    if ended is None or ended.by_key != leader.job_key or ended.ratio is None or ended.ratio_high is None:
        return None
    return Estimate(ended.ratio, ended.ratio_low, ended.ratio_high)


def _beyond_spread(one: float, other: float) -> bool:
    """Whether two times without an interval differ by more than processes of one artifact do."""
    return max(one, other) >= UNREPEATED_SPREAD * min(one, other)
