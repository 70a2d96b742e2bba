"""A race for a Pareto front: variants leave the rounds as soon as they cannot be on the front any more. Pure.

**Rule.** After each round in `DECISION_ROUNDS`, candidate j is eliminated if some candidate i with the same or a higher
precedence is faster beyond doubt: the lower bound of log(j / i) is above 0. Only differences of block medians within a
round are used, so effects that a whole round shares (drift, heat) cancel. A block counts once, even if its samples
depend on each other.

**Bound.** Let n be the number of differences of one pair, and m their mean after the largest is replaced by the second
largest, which can only lower m. The bound is

    m - t(1 - a, df) * s * sqrt(2 / n),    a = error / (variants - 1) / len(DECISION_ROUNDS)

s is the standard deviation of one log block median, pooled over all variants and rounds so far: the residual of the
additive model variant + round, with df its degrees of freedom. Two or three rounds of one pair alone are too few for a
t test. If a pair has six or more differences and they vary more than that, their own standard deviation is used.

**Error.** The best variant is eliminated, or a leader more than 2 % slower than the best is called best, only if the
bound fails for some pair with the best variant, after some round in `DECISION_ROUNDS`. By the union bound over its
`variants - 1` pairs and these rounds, the probability is at most `error`. This assumes that block medians are lognormal
around variant x round, independent between blocks, and have the same spread for all variants. The pair's own standard
deviation protects against unequal spread, but that is not proven. One block slowed by a daemon cannot decide a pair,
because the largest difference is replaced. This is successive elimination with a union bound over arms and tests
(Even-Dar, Mannor and Mansour, Journal of Machine Learning Research 7, 2006; before it the races of Maron and Moore,
NIPS 6, 1993), with Student's quantile instead of Hoeffding's. Testing after few fixed rounds gives a tighter bound.
Anytime-valid t tests (Wang and Ramdas, arXiv 2310.03722) allow a test after every round, but their bounds are wider
after two and three rounds, which matter most here.

**Precedence** says which candidate may eliminate which: one number per candidate, the front's second metric
(`sweeps.ranking.precedence`). A race for one winner is `sweeps.protocol.racing`.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sweeps.distributions import student_t_quantile
from sweeps.protocol.effects import additive, robust_effects
from sweeps.protocol.presets import DECISION_ROUNDS
from sweeps.protocol.race_medians import Evidence, candidates
from sweeps.protocol.racing import ERROR, Elimination
from sweeps.stats import NEGLIGIBLE

_OWN_SPREAD_FROM = 6
"""From this many differences on, a pair's own standard deviation is used: with fewer, it is too uncertain."""


class FrontRace:
    """The state of one race. The state depends only on the arguments and on the rounds given to `add_round`,
    in their order.

    After an interruption, the recorded rounds restore the state.
    """

    def __init__(self, precedence: Mapping[str, float], error: float = ERROR) -> None:
        """Begin a race. `precedence` has a number for each candidate, by its key.

        Raises `ValueError` for no candidate, a precedence that is not finite, or an error not between 0 and 0.5.
        """
        self._keys, self._precedence = candidates(precedence, error)
        self._error = error
        self._evidence = Evidence(self._keys)
        self._in = np.ones(len(self._keys), dtype=np.bool_)
        self._bounds: NDArray[np.float64] | None = None
        self._eliminations: list[Elimination] = []

    @property
    def contending(self) -> tuple[str, ...]:
        return tuple(key for key, still in zip(self._keys, self._in, strict=True) if still)

    @property
    def active(self) -> tuple[str, ...]:
        """All candidates in the race are active: none rests."""
        return self.contending

    @property
    def rounds(self) -> int:
        return self._evidence.rounds

    @property
    def eliminations(self) -> tuple[Elimination, ...]:
        """All eliminations so far, in their order."""
        return tuple(self._eliminations)

    def add_round(self, medians_ms: Mapping[str, float]) -> tuple[Elimination, ...]:
        """Add one round's block medians and return the new eliminations, the clearest one first.

        Candidates without a block in this round may be missing. Raises `ValueError` for a key that is not in the race
        and for a median that is not a positive number.
        """
        if unknown := medians_ms.keys() - set(self.contending):
            raise ValueError(f"not in the race: {', '.join(sorted(unknown))}")
        self._evidence.add(medians_ms)
        if self.rounds not in DECISION_ROUNDS:
            return ()
        self._bounds = self._lower_bounds()
        leaving = tuple(self._slower(self._bounds))
        self._eliminations += leaving
        return leaving

    def withdraw(self, key: str) -> None:
        """Remove a candidate that failed. Raises `ValueError` if it is not in the race."""
        if key not in self.contending:
            raise ValueError(f"not in the race: {key}")
        self._in[self._keys.index(key)] = False

    @property
    def leader(self) -> str | None:
        """The fastest of the candidates with the highest precedence; `None` before the first round."""
        places = np.flatnonzero(self._in & self._evidence.measured())
        if not places.size:
            return None
        return self._keys[self._fastest(places[self._precedence[places] == self._precedence[places].max()])]

    @property
    def decided(self) -> bool:
        return bool(self.why)

    @property
    def why(self) -> str:
        """The reason for which the race is decided, for people; empty while it is undecided."""
        left = np.flatnonzero(self._in)
        if left.size < 2:
            return "one variant is left" if left.size else "no variant is left"
        if self._bounds is None:
            return ""
        for level in np.unique(self._precedence[left]):
            rivals = left[self._precedence[left] >= level]
            if not self._evidence.measured()[rivals].all():
                return ""
            good = self._bounds[np.ix_(rivals, rivals)] >= -math.log1p(NEGLIGIBLE)
            np.fill_diagonal(good, True)
            proven = rivals[np.all(good, axis=0)]
            if not proven.size or self._fastest(rivals) not in proven:
                return ""
        confidence = f"{100 * (1 - self._error):g} % confidence"
        return f"every variant left is on the front, within 2 % with {confidence}"

    def _fastest(self, places: NDArray[np.intp]) -> int:
        """Return the fastest candidate by the additive model variant + round: a missed round is no advantage, and
        single slow blocks have little effect."""
        return int(places[np.argmin(robust_effects(self._evidence.logs)[places])])

    def _lower_bounds(self) -> NDArray[np.float64]:
        """Return an array (variants, variants) of lower bounds of log(row / column); -infinity for pairs with too
        little data."""
        bounds = np.full((len(self._keys), len(self._keys)), -math.inf)
        _, residuals = additive(self._evidence.logs)
        measured = np.isfinite(self._evidence.logs)
        degrees = int(measured.sum()) - int(measured.any(axis=0).sum()) - int(measured.any(axis=1).sum()) + 1
        if degrees < 1 or len(self._keys) < 2:
            return bounds
        pooled = float(np.nansum(residuals**2)) / degrees
        share = self._error / (len(self._keys) - 1) / len(DECISION_ROUNDS)
        quantile = student_t_quantile(degrees, 1 - share)

        places = np.flatnonzero(self._in)
        logs = self._evidence.logs[:, places]
        differences = logs[:, :, None] - logs[:, None, :]
        common = np.isfinite(differences).sum(axis=0)
        enough = common >= 2
        # Sorting moves rounds that are not common (NaN) to the end, so the largest of n is at n - 1.
        ordered = np.sort(differences, axis=0)
        largest, second = (np.take_along_axis(ordered, np.maximum(common - k, 0)[None], axis=0)[0] for k in (1, 2))
        n = np.maximum(common, 2)
        mean = np.nansum(differences, axis=0) / n
        own = np.nansum((differences - mean) ** 2, axis=0) / (n - 1) / 2
        variance = np.where(common >= _OWN_SPREAD_FROM, np.maximum(own, pooled), pooled)
        low = mean - (largest - second) / n - quantile * np.sqrt(2 * variance / n)
        bounds[np.ix_(places, places)] = np.where(enough, low, -math.inf)
        np.fill_diagonal(bounds, -math.inf)
        return bounds

    def _slower(self, bounds: NDArray[np.float64]) -> list[Elimination]:
        may_beat = self._precedence[None, :] >= self._precedence[:, None]
        beaten: NDArray[np.bool_] = (bounds > 0) & may_beat & self._in[:, None] & self._in[None, :]
        losing: NDArray[np.bool_] = np.any(beaten, axis=1)
        # Only a candidate that stays may eliminate others. So one candidate is always left, even if rounds are missing.
        by = np.where(beaten & ~losing[None, :], bounds, -math.inf)
        leaving = [place for place in np.argsort(-by.max(axis=1), kind="stable") if by[place].max() > 0]
        return [self._leaves(int(place), int(by[place].argmax())) for place in leaving]

    def _leaves(self, place: int, by: int) -> Elimination:
        assert self._bounds is not None
        self._in[place] = False
        differences = self._evidence.logs[:, place] - self._evidence.logs[:, by]
        common = int(np.isfinite(differences).sum())
        return Elimination(
            key=self._keys[place],
            by=self._keys[by],
            rounds=self.rounds,
            common=common,
            ratio=float(np.exp(np.nanmean(differences))) if common else None,
            ratio_low=float(np.exp(self._bounds[place, by])),
            error=self._error,
            reason="slower",
        )
