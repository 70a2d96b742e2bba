"""The test which of several latencies are slower than another one, with an error of 5 % for all of them together. Pure.

Of six equally fast builds the luckiest leads. A test for two builds that were chosen beforehand has a far larger error
than stated if one of the two is the luckiest of many. So the first place is shared by the smallest number of builds
such that each of the others is farther behind than the range of that many equal builds plus one explains in 5 % of
cases (J. W. Tukey's studentized range, 1953). With two builds it is Student's test; five builds that are all behind the
best are stronger evidence together than the last of them alone. Counting up from two costs little: of normal values
with one spread, any of up to 24 equal ones is found slower in 5.4 % at most, and in 5.2 % if the count goes down from
all (simulated, 40,000 draws).

The spread of a pair's ratios is that pair's own, shrunk towards that of all pairs as far as they are similar, as for
intervals (`sweeps.ranking.moderated_intervals`): three rounds of one pair say little.

A race tests after each of its rounds and may end after any. So each of these tests has an equal share of the 5 %
(Bonferroni). If batches decided, their intervals are those of the race's own model, whose probabilities hold whenever
the race ends. But the race also eliminates candidates: half of the 5 % is left for those that are still in it.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Generic, TypeVar

from sweeps.distributions import student_t_quantile, studentized_range_quantile
from sweeps.ranking.moderated_intervals import FEWEST_VARIANTS, common_spread
from sweeps.ranking.ties import (
    LATENCY,
    UNREPEATED_SPREAD,
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
"""Up to this many rows are compared pair by pair, without numpy."""
_NEIGHBOURS = 6
"""Each row is paired with this many others to estimate how much ratios vary: of up to 13 rows, with all."""
_LEFT_BY_BATCHES = 0.5
"""The share of the error that is left after a race that batches decided. The share was simulated: such a race
eliminates an equally fast build in 2 to 3 % of cases."""


@dataclass(frozen=True, slots=True)
class _Excess:
    """The amount by which a row is slower than another one, in standard errors."""

    errors: float
    degrees: float


class Family(Generic[C]):
    """The rows of one place whose latencies are compared with each other."""

    def __init__(self, rows: Sequence[C]) -> None:
        self._rows = rows
        self._spread = _ratio_spread(rows)
        self._error = (1 - CONFIDENCE) * min((_share(row) for row in rows), default=1.0)

    def ratio(self, row: C, other: C, count: int) -> Estimate | None:
        """Return the ratio as `latency_ratio` does, with the same upper end. The lower end is above 1 only if `row` is
        slower than `other` by more than the range of `count` equal builds explains."""
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
        """Tell whether `row` is slower than `other` beyond doubt, i.e. by more than the range of `count` equal builds
        explains."""
        excess = self._excess(row, other)
        return excess is not None and excess.errors > self._critical(count, excess.degrees)

    def settling(self, row: C, other: C, count: int) -> Settling | None:
        """Return how many rounds settle the tie, as in `sweeps.ranking.ties`, if `count` rows share the first place."""

        def critical(degrees: float) -> float:
            return self._critical(count, degrees)

        return settling(row.medians_ms, other.medians_ms, self._spread, critical)

    def slower(self, first: C) -> list[bool]:
        """Return for each row whether it is shown to be slower than `first`, or than any other row that is not itself
        shown to be slower than `first`."""
        beside = {place: self._excess(row, first) for place, row in enumerate(self._rows)}
        left = self._left(beside, {place: [excess] for place, excess in beside.items() if excess is not None})
        # The best estimate may be the noisiest row: so the other rows are compared with each other, too.
        left = self._left(left, self._excesses(sorted(left)))
        return [place not in left for place in beside]

    def _left(self, places: Iterable[int], excesses: Mapping[int, Sequence[_Excess]]) -> set[int]:
        """Return those of `places` that are not shown to be slower: the smallest such set, but at least one."""
        everybody, count = set(places), 1
        while True:
            left = {
                place
                for place in everybody
                if all(excess.errors <= self._critical(count + 1, excess.degrees) for excess in excesses.get(place, ()))
            }
            # The range of more builds explains larger differences: no number between `count` and the new count is
            # enough.
            if len(left) <= count:
                return left or everybody
            count = len(left)

    def _critical(self, count: int, degrees: float) -> float:
        """Return the largest difference, in standard errors, that the range of `count` equal rows explains."""
        return studentized_range_quantile(max(2, count), degrees, self._error) / math.sqrt(2)

    def _excesses(self, places: Sequence[int]) -> dict[int, list[_Excess]]:
        """Return the excesses of each of `places` over all others of them that it is slower than by 2 % or more; for
        many rows, only the largest excess for each number of degrees of freedom."""
        rows = [self._rows[place] for place in places]
        every = (
            map(self._excesses_one_by_one, rows, repeat(rows)) if len(rows) <= _FEW else self._excesses_at_once(rows)
        )
        return dict(zip(places, every, strict=True))

    def _excesses_one_by_one(self, row: C, rivals: Sequence[C]) -> list[_Excess]:
        return [excess for rival in rivals if (excess := self._excess(row, rival)) is not None]

    def _excess(self, row: C, other: C) -> _Excess | None:
        """Return the excess; `None` if `row` is not slower by 2 % or more, or the two share the same figure."""
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

    def _excesses_at_once(self, rows: Sequence[C]) -> Iterator[list[_Excess]]:
        """Yield for each of `rows` its excesses over all of them, as `_excess` does, but vectorized: thousands of rows
        may be near the best."""
        import numpy as np

        columns = {round_: column for column, round_ in enumerate(sorted({n for row in rows for n in row.medians_ms}))}
        # The last column stands for no common round.
        logs = np.full((len(rows), len(columns) + 1), np.nan)
        for number, row in enumerate(rows):
            for round_, ms in row.medians_ms.items():
                logs[number, columns[round_]] = math.log(ms)
        figures = np.array([row.figure(LATENCY) for row in rows], dtype=np.float64)
        keys = np.array([row.job_key for row in rows])
        leaders = np.array(["" if row.settled is None else row.settled.by_key for row in rows])
        for number, row in enumerate(rows):
            had = np.isfinite(logs[number])
            had[-1] = True
            ratios = np.sort(logs[number, had] - logs[:, had], axis=1)  # The sort puts NaN last.
            common = np.isfinite(ratios).sum(axis=1)
            middles = [np.take_along_axis(ratios, place[:, None], axis=1) for place in ((common - 1) // 2, common // 2)]
            middle = np.where(common > 0, (middles[0] + middles[1])[:, 0] / 2, np.log(figures[number] / figures))
            counts = (middle >= math.log1p(NEGLIGIBLE)) & (figures != figures[number])
            in_batches = (common < 2) & ((leaders == keys[number]) | (keys == leaders[number]))
            excesses = self._excesses_one_by_one(row, [rows[other] for other in np.flatnonzero(in_batches).tolist()])
            unrepeated = counts & (common < 2) & ~in_batches
            if bool((middle[unrepeated] >= math.log(UNREPEATED_SPREAD)).any()):
                excesses.append(_Excess(math.inf, math.inf))
            for rounds in np.unique(common[counts & (common > 1)]).tolist():
                paired = ratios[counts & (common == rounds), :rounds]
                own, degrees = self._spread.of(paired.var(axis=1, ddof=1), rounds - 1)
                with np.errstate(divide="ignore"):
                    errors = paired.mean(axis=1) / np.sqrt(own / rounds)
                excesses.append(_Excess(float(errors.max()), degrees))
            yield excesses


def _ratio_spread(rows: Sequence[Contender]) -> RatioSpread:
    """Return how much the ratio of two rows varies from round to round, estimated from many pairs; with few rows, each
    pair has only its own spread."""
    repeated = sorted((row for row in rows if len(row.medians_ms) > 1), key=lambda row: row.job_key)
    if len(repeated) < FEWEST_VARIANTS:
        return RatioSpread()
    steps = range(1, min(_NEIGHBOURS, len(repeated) // 2) + 1)
    pairs = {
        frozenset((number, (number + step) % len(repeated))): None for step in steps for number in range(len(repeated))
    }
    ratios = [log_ratios(*(repeated[number] for number in sorted(pair))) for pair in pairs]
    variances = [(variance(logs), len(logs) - 1) for logs in ratios if len(logs) > 1]
    if len(variances) < FEWEST_VARIANTS or not any(own for own, _ in variances):
        return RatioSpread()
    degrees, common = common_spread(*zip(*variances, strict=True))
    # The spread has no more degrees than all rows have together, less those of the rounds.
    blocks = sum(len(row.medians_ms) - 1 for row in repeated)
    return RatioSpread(common, degrees, blocks * (1 - 1 / len(repeated)))


def _share(row: Contender) -> float:
    """Return the share of the error that a race leaves for the comparison at its end; 1 without a race."""
    ended = row.settled
    if ended is None or ended.budget != "race":
        return 1.0
    return _LEFT_BY_BATCHES if ended.batches_decide else 1 / max(1, ended.rounds)


def _error_in_batches(ratio: Estimate) -> float:
    """Return the standard error of the logarithm of a ratio, from its 95 % interval under a race's model."""
    assert ratio.low is not None
    return (math.log(ratio.value) - math.log(ratio.low)) / student_t_quantile(math.inf, 1 - TAIL)


def _errors(log: float, error: float) -> float:
    return log / error if error > 0 else math.copysign(math.inf, log)
