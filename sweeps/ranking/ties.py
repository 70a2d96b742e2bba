"""Whether two results differ or are equal, and how many more rounds would decide it. Pure: rows, block medians in.

Two latencies that were chosen beforehand are told apart (`told_apart`) if their ratio, paired over common rounds, is
resolved at 95 % and differs from 1 by 2 % or more. A ratio without repeated rounds has no interval of its own. It is
compared with the spread that was seen between new processes of one artifact: less than `UNREPEATED_SPREAD` is a tie.
The module `sweeps.ranking.multiplicity` decides which results are slower than a winner, because the winner was selected
by the same rounds.

If batches decided a race without finals, the ratio of a build to the race's leader, with its interval, is that of the
batches.

Metrics with another kind of interval (accuracy drop) are told apart if their intervals do not overlap. Metrics of other
packages have no interval, and may vary from run to run: they are compared with the same spread as unrepeated times. All
other metrics do not vary, and are told apart if they differ by more than 2 %. Each single comparison here has 95 %
confidence.

Two results that are not told apart may still differ. Whether they are equal is a separate test (`shown_equal`).
"""

import math
import statistics
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from sweeps.distributions import student_t_quantile
from sweeps.metrics import METRICS
from sweeps.ranking.amounts import INTERVALS, interval
from sweeps.settled import Settled
from sweeps.stats import NEGLIGIBLE, TAIL, Estimate, log, middle_round, ratio_by_rounds, variance

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UNREPEATED_SPREAD = 1.5
"""Two times without an interval differ if their ratio is this or more. One MobileNetV2 artifact took 17 to 25 ms in
different processes on one machine: a factor of 1.47."""

LATENCY = "latency_p50_ms"
UNREPEATED_TIMES = frozenset(name for name, metric in METRICS.items() if metric.unrepeated)

FEW_ROUNDS = 5
"""Fewer common rounds do not show how much they vary: with 4, the spread may be 3.7 times the measured one (95 %)."""

MOST_ROUNDS = 1000
"""The largest number of further rounds that is reported: nobody waits for more."""


class Contender(Protocol):
    """One side of a comparison, for example a `sweeps.results.ResultRow`."""

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
    """The number of further rounds that would settle a tie in latency, if future rounds are like the past ones."""

    rounds: int | None
    """The number of further rounds of both. 0: shown to be equal already. `None`: not settled in `MOST_ROUNDS`."""
    outcome: Literal["told apart", "equal"]
    """The expected result; `equal`: within 2 %."""
    at_least: bool = False
    """Whether the tie may well take more rounds, since there are fewer than `FEW_ROUNDS`; then `rounds` reaches that
    number."""

    @property
    def text(self) -> str:
        """The text for people, which follows the variant's name."""
        if self.rounds == 0:
            return "equal in practice: within 2 % at 95 %"
        if self.rounds is None:
            return f"not settled in {MOST_ROUNDS:,} more rounds"
        finding = "tell them apart" if self.outcome == "told apart" else "show them equal, within 2 %"
        about, would = ("at least", "to") if self.at_least else ("about", "would")
        return f"{about} {self.rounds} more round{'s' * (self.rounds > 1)} {would} {finding}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeOf:
    """The source of a `latency_ratio`, with two figures to show together with it."""

    source: Literal["rounds", "batches", "times", "blocks"]
    """`rounds`: the median of the ratios of common rounds; `batches`: the ratio from the batches that decided a race;
    `times`: the quotient of the two p50 latencies, because they have no common round; `blocks`: the quotient of the
    geometric means of all blocks, because these are from separate runs (`sweeps.ranking.gain`)."""
    rounds: int = 0
    """The number of common rounds."""
    ms: float | None = None
    other_ms: float | None = None
    """The ratio is `ms / other_ms`, of the round with the median ratio; `None` in batches, which give no latency."""

    @property
    def how(self) -> str:
        """The source as text, like `paired by round`."""
        hows = {"rounds": "paired by round", "batches": "in batches", "times": "not paired"}
        return hows.get(self.source, "not paired: of all blocks of separate runs")

    @property
    def where(self) -> str:
        """The rounds of the two figures as text, like `in the middle one of 5 common rounds`; empty if they are of no
        round."""
        if not self.rounds:
            return ""
        if self.rounds == 1:
            return "in their only common round"
        middle = "one" if self.rounds % 2 else "two"
        return f"in the middle {middle} of {self.rounds} common rounds" if self.rounds > 2 else "in 2 common rounds"


def made_of(row: Contender, other: Contender) -> MadeOf | None:
    """Return the source of the `latency_ratio` of the two; `None` if they have none."""
    count = len(row.medians_ms.keys() & other.medians_ms.keys())
    if count < 2 and _shown_ratio(row, other) is not None:
        return MadeOf(source="batches")
    if middle := middle_round(row.medians_ms, other.medians_ms):
        return MadeOf(source="rounds", rounds=count, ms=middle[0], other_ms=middle[1])
    value, other_value = row.figure(LATENCY), other.figure(LATENCY)
    return MadeOf(source="times", ms=value, other_ms=other_value) if value and other_value else None


def latency_ratio(row: Contender, other: Contender) -> Estimate | None:
    """Return the latency (p50) of `row` divided by that of `other`. With two or more common rounds the ratio is paired
    by round and has a 95 % interval. If batches decided their race, the ratio is that of the batches. Otherwise it has
    no interval, and is `None` if one of the two was not timed."""
    if (shown := _shown_ratio(row, other)) is not None:
        return shown
    paired = ratio_by_rounds(row.medians_ms, other.medians_ms)
    if paired is not None:
        return paired
    value, other_value = row.figure(LATENCY), other.figure(LATENCY)
    return Estimate(value / other_value, None, None) if value and other_value else None


def told_apart(ratio: Estimate, least: float = NEGLIGIBLE) -> Literal["slower", "faster"] | None:
    """Return whether a latency that is `ratio` times another one is slower or faster; `None`: no difference is shown.

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
    """Tell whether `row` is worse than `best` beyond doubt; the rules are in the module docstring."""
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
    """Return for each row whether it is worse than any other of `rows` beyond doubt, by `worse` for each pair
    separately."""
    return [any(worse(row, other, metric, smaller) for other in rows) for row in rows]


def shown_equal(row: Contender, best: Contender, metric: str) -> bool:
    """Tell whether `row`, which is not told apart from `best`, is shown to be as good as `best` within 2 %.

    For latency the upper end of their ratio, paired or of batches, is at most 1.02. Times without repeated rounds,
    metrics of other packages and metrics with another kind of interval are equal only if their values are.
    """
    if metric == LATENCY:
        ratio = _shown_ratio(row, best)
        return ratio is not None and ratio.high is not None and ratio.high <= 1.0 + NEGLIGIBLE
    may_vary = metric in UNREPEATED_TIMES or metric in INTERVALS or metric not in METRICS
    return not may_vary or row.figure(metric) == best.figure(metric)


@dataclass(frozen=True, slots=True)
class RatioSpread:
    """How much the ratio of two rows varies from round to round (variance of its logarithm), pooled as far as pairs are
    similar."""

    common: float = 0.0
    """The variance that all pairs have in common ..."""
    degrees: float = 0.0
    """... and its degrees of freedom; infinite: all pairs have the same variance."""
    most_degrees: float = math.inf
    """The degrees of freedom of all rows together: no pair has more."""

    @overload
    def of(self, own: float, degrees: int) -> tuple[float, float]: ...
    @overload
    def of(self, own: "NDArray[np.float64]", degrees: int) -> tuple["NDArray[np.float64]", float]: ...
    def of(self, own: Any, degrees: int) -> tuple[Any, float]:
        """Return the moderated variance and degrees of freedom of a pair whose own variance is `own`, with `degrees`
        degrees."""
        if math.isinf(self.degrees):
            return 0.0 * own + self.common, self.most_degrees
        total = self.degrees + degrees
        return (self.degrees * self.common + degrees * own) / total, min(total, self.most_degrees)


def _two_alone(degrees: float) -> float:
    return student_t_quantile(degrees, 1 - TAIL)


def settling(
    medians_ms: Mapping[int, float],
    others_ms: Mapping[int, float],
    spread: RatioSpread = RatioSpread(),
    critical: Callable[[float], float] = _two_alone,
) -> Settling | None:
    """Return how many more common rounds would settle a tie of the two. `None` with fewer than two common rounds.

    Settled means: if the mean ratio is 2 % or more, the mean log ratio is more than `critical` standard errors; if it
    is less, the upper end of Student's 95 % interval is within 2 %. Mean and spread are assumed to stay as they are, so
    this is an estimate. With fewer than `FEW_ROUNDS` it is too rough for an estimate, whatever the width of the
    interval: it is then a least number. `critical` is a function of the degrees of freedom; by default it is Student's
    at 95 %.
    """
    logs = _log_ratios(medians_ms, others_ms)
    if len(logs) < 2:
        return None
    mean, own = statistics.fmean(logs), variance(logs)
    # The search begins with one more round: the two are not settled now, possibly only because of the median of the
    # ratios.
    limit = math.log1p(NEGLIGIBLE)
    differ = abs(mean) >= limit

    def enough(more: int) -> bool:
        count = len(logs) + more
        if not differ:
            return mean + _two_alone(count - 1) * math.sqrt(own / count) <= limit
        expected, degrees = spread.of(own, count - 1)
        return critical(degrees) * math.sqrt(expected / count) < abs(mean)

    # The interval narrows with each round, so a number that is enough stays so.
    rounds = bisect_left(range(1, MOST_ROUNDS + 1), True, key=enough) + 1
    few = len(logs) < FEW_ROUNDS
    return Settling(
        rounds=max(rounds, FEW_ROUNDS - len(logs)) if rounds <= MOST_ROUNDS else None,
        outcome="told apart" if differ else "equal",
        at_least=few,
    )


def log_ratios(row: Contender, other: Contender) -> list[float]:
    """Return the logarithms of the ratios of their common rounds, in their order."""
    return _log_ratios(row.medians_ms, other.medians_ms)


def from_rounds(row: Contender, other: Contender) -> bool:
    """Tell whether the `latency_ratio` of the two has an interval that is paired by round."""
    return len(row.medians_ms.keys() & other.medians_ms.keys()) > 1


def _log_ratios(medians_ms: Mapping[int, float], others_ms: Mapping[int, float]) -> list[float]:
    rounds = sorted(medians_ms.keys() & others_ms.keys())
    return [log(medians_ms[round_]) - log(others_ms[round_]) for round_ in rounds]


def _shown_ratio(row: Contender, other: Contender) -> Estimate | None:
    """Return the ratio of their latencies with its interval; `None` if it has no interval."""
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
    """Return the ratio from the batches that decided a race; `None` if `leader` did not lead it."""
    ended = row.settled
    # The key identifies the leader: a name may change when the sweep grows.
    if ended is None or ended.by_key != leader.job_key or ended.ratio is None or ended.ratio_high is None:
        return None
    return Estimate(ended.ratio, ended.ratio_low, ended.ratio_high)


def _beyond_spread(ms: float, other_ms: float) -> bool:
    """Tell whether two times without an interval differ by more than processes of one artifact do."""
    return max(ms, other_ms) >= UNREPEATED_SPREAD * min(ms, other_ms)
