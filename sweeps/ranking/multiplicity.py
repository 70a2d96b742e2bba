"""Which of several latencies are slower than another one, with an error of 5 % for all of them together. Pure.

Of six builds that are equally fast the luckiest leads. A test that holds for two builds which were chosen beforehand is
wrong far more often than it says when it is made against the luckiest. So a build is called slower than another one
only where the range of as many equal builds as are still in question would be as large in at most 5 % of cases (J. W.
Tukey's studentized range, 1953). A build that is shown to be slower is not in question any more, and the others are
tested again among those that are left. That keeps the 5 % for all builds that are as fast as the best, since these stay
in question until one of them is called slower. With two builds it is Student's test.

The spread of a pair's ratios is its own, drawn towards that of all pairs as far as they are alike, as of intervals
(`sweeps.ranking.moderated`): three rounds of one pair say little.

A race looks at its rounds after each of them and may end. So each of its looks has its share of the 5 % (Bonferroni).
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sweeps.distributions import student_t_quantile, studentized_range_quantile
from sweeps.ranking.moderated import FEWEST_VARIANTS, common_spread
from sweeps.ranking.ties import (
    LATENCY,
    Contender,
    RatioSpread,
    Settling,
    from_rounds,
    latency_ratio,
    log_ratios,
    settling,
    told_apart,
)
from sweeps.stats import CONFIDENCE, NEGLIGIBLE, TAIL, Estimate, variance

C = TypeVar("C", bound=Contender)

_FEW = 12
"""Up to so many rows are compared pair by pair, without numpy."""
_NEIGHBOURS = 6
"""With how many others each row is paired to find how much ratios vary: of up to 13 rows, with all."""


@dataclass(frozen=True, slots=True)
class _Excess:
    """By how much a row is slower than another one, in standard errors."""

    errors: float
    degrees: float


class Family(Generic[C]):
    """Rows of one place whose latencies are held against each other."""

    def __init__(self, rows: Sequence[C]) -> None:
        self._rows = rows
        self._spread = _ratio_spread(rows)
        self._looks = max((_looks(row) for row in rows), default=1)

    def ratio(self, row: C, other: C, count: int) -> Estimate | None:
        """As `latency_ratio`, with its upper end. The lower end is above 1 only if `row` is slower than `other` by more
        than the range of `count` equal builds explains."""
        ratio = latency_ratio(row, other)
        if ratio is None or ratio.low is None or ratio.high is None or row is other:
            return ratio
        if from_rounds(row, other):
            logs = log_ratios(row, other)
            own, degrees = self._spread.of(variance(logs), len(logs) - 1)
            error = math.sqrt(own / len(logs))
            low = statistics.fmean(logs) - self._critical(count, degrees) * error
        else:
            low = math.log(ratio.value) - self._critical(count, math.inf) * _error_in_batches(ratio)
        return Estimate(ratio.value, min(math.exp(low), ratio.value), ratio.high)

    def is_slower(self, row: C, other: C, count: int) -> bool:
        """Whether `row` is slower than `other` beyond doubt, and beyond the range of `count` equal builds."""
        excess = self._excess(row, other)
        return excess is not None and excess.errors > self._critical(count, excess.degrees)

    def settling(self, row: C, other: C, count: int) -> Settling | None:
        """As of `sweeps.ranking.ties`, where `count` share the first place."""

        def critical(degrees: float) -> float:
            return self._critical(count, degrees)

        return settling(row.medians_ms, other.medians_ms, self._spread, critical)

    def slower(self, first: C) -> list[bool]:
        """Of each row, whether `first`, or any other that is not slower than that, is faster beyond doubt."""
        beside = {place: self._excess(row, first) for place, row in enumerate(self._rows)}
        left = self._left(beside, {place: [one] for place, one in beside.items() if one is not None})
        # The best estimate may be the noisiest row: so the others are compared with each other, too.
        left = self._left(left, self._excesses(sorted(left)))
        return [place not in left for place in beside]

    def _left(self, places: Iterable[int], excesses: Mapping[int, Sequence[_Excess]]) -> set[int]:
        """Those of `places` that are not shown to be slower; never nobody."""
        left = set(places)
        while True:
            gone = {
                place
                for place in left
                if any(one.errors > self._critical(len(left), one.degrees) for one in excesses.get(place, ()))
            }
            if not gone or gone == left:
                return left
            left -= gone

    def _critical(self, count: int, degrees: float) -> float:
        """So many standard errors are not explained by the range of `count` equal ones."""
        return studentized_range_quantile(max(2, count), degrees, (1 - CONFIDENCE) / self._looks) / math.sqrt(2)

    def _excesses(self, places: Sequence[int]) -> dict[int, list[_Excess]]:
        """Of each of `places`, over all others of them that it is slower than by 2 % or more; of those that have the
        same rounds, the largest."""
        found: dict[int, list[_Excess]] = {place: [] for place in places}
        alike: dict[tuple[int, ...], list[int]] = {}
        for place in places:
            alike.setdefault(tuple(sorted(self._rows[place].medians_ms)), []).append(place)
        for rounds, those in alike.items():
            # Thousands of builds may be near the best: those with the same rounds are compared all at once.
            together = set(those) if len(rounds) > 1 and len(those) > _FEW else set()
            if together:
                some = [self._rows[place] for place in those]
                for place, excess in zip(those, self._excesses_in_rounds(some, rounds), strict=True):
                    found[place].append(excess)
            others = [self._rows[place] for place in places if place not in together]
            for place in those:
                excesses = (self._excess(self._rows[place], other) for other in others)
                found[place] += [excess for excess in excesses if excess is not None]
        return found

    def _excess(self, row: C, other: C) -> _Excess | None:
        """`None` if `row` is not slower by 2 % or more, or the two have one figure."""
        value = row.figure(LATENCY)
        if row is other or (value is not None and value == other.figure(LATENCY)):
            return None
        if from_rounds(row, other):
            logs = log_ratios(row, other)
            if math.exp(statistics.median(logs)) < 1 + NEGLIGIBLE:
                return None
            own, degrees = self._spread.of(variance(logs), len(logs) - 1)
            return _Excess(_errors(statistics.fmean(logs), math.sqrt(own / len(logs))), degrees)
        ratio = latency_ratio(row, other)
        if ratio is None or ratio.value < 1 + NEGLIGIBLE:
            return None
        if ratio.low is None:
            return _Excess(math.inf, math.inf) if told_apart(ratio) == "slower" else None
        return _Excess(_errors(math.log(ratio.value), _error_in_batches(ratio)), math.inf)

    def _excesses_in_rounds(self, rows: Sequence[C], rounds: Sequence[int]) -> Iterator[_Excess]:
        """The largest `_excess` of each of `rows` over the others, all of which have these rounds, two or more."""
        import numpy as np

        logs = np.log(np.array([[row.medians_ms[round_] for round_ in rounds] for row in rows]))
        figures = np.array([row.figure(LATENCY) for row in rows], dtype=np.float64)
        for row, figure in zip(logs, figures, strict=True):
            ratios = row - logs
            own, degrees = self._spread.of(ratios.var(axis=1, ddof=1), len(rounds) - 1)
            counts = (np.exp(np.median(ratios, axis=1)) >= 1 + NEGLIGIBLE) & (figures != figure)
            with np.errstate(divide="ignore", invalid="ignore"):
                errors = ratios.mean(axis=1) / np.sqrt(own / len(rounds))
            yield _Excess(float(np.max(errors, where=counts, initial=-math.inf)), degrees)


def _ratio_spread(rows: Sequence[Contender]) -> RatioSpread:
    """How much the ratio of two rows varies from round to round, as all pairs show it; of few rows, each pair alone."""
    repeated = sorted((row for row in rows if len(row.medians_ms) > 1), key=lambda row: row.job_key)
    if len(repeated) < FEWEST_VARIANTS:
        return RatioSpread()
    steps = range(1, min(_NEIGHBOURS, len(repeated) // 2) + 1)
    pairs = {frozenset((one, (one + step) % len(repeated))): None for step in steps for one in range(len(repeated))}
    ratios = [log_ratios(*(repeated[number] for number in sorted(pair))) for pair in pairs]
    variances = [(variance(logs), len(logs) - 1) for logs in ratios if len(logs) > 1]
    if len(variances) < FEWEST_VARIANTS or not any(own for own, _ in variances):
        return RatioSpread()
    degrees, common = common_spread(*zip(*variances, strict=True))
    # No more degrees than all rows have together, less those of the rounds.
    blocks = sum(len(row.medians_ms) - 1 for row in repeated)
    return RatioSpread(common, degrees, blocks * (1 - 1 / len(repeated)))


def _looks(row: Contender) -> int:
    """How often a race could have ended by what is compared."""
    ended = row.settled
    if ended is None or ended.budget != "race":
        return 1
    return max(1, ended.batches if ended.batches_decide else ended.rounds)


def _error_in_batches(ratio: Estimate) -> float:
    """The standard error of the logarithm of a ratio that has a 95 % interval under a race's model."""
    assert ratio.low is not None
    return (math.log(ratio.value) - math.log(ratio.low)) / student_t_quantile(math.inf, 1 - TAIL)


def _errors(log: float, error: float) -> float:
    return log / error if error > 0 else math.copysign(math.inf, log)
