"""The posterior of each variant's latency from the rounds of a race: a distribution per variant. Pure.

The posterior is the likelihood of a variant's blocks (`sweeps.protocol.mixture`) times a normal prior of the variants'
effects. The centre and spread of the prior are those of the candidates near the best, as in empirical Bayes: of several
equal candidates, the smallest estimate is partly luck. Distributions are tables, because a variant with two blocks that
contradict each other has two peaks.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeps.protocol.mixture import Blocks, fitted, likelihoods
from sweeps.stats import TAIL, Estimate

_NEAR_SPREAD = 0.02
"""The prior standard deviation of the effects of candidates that are near the best ..."""
_NEAR_DEGREES = 2.0
"""... and its degrees of freedom."""
_FAR_SPREAD = 0.3
"""The prior standard deviation of the effects of all other candidates."""
_HALVINGS = 40
"""The range in which a bound is searched is halved this many times: enough for every digit that is shown."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """Independent distributions of the variants' log latencies, up to a common constant; NaN for a variant that was
    never measured."""

    effects: NDArray[np.float64]
    """The estimates without the prior."""
    means: NDArray[np.float64]
    edges: NDArray[np.float64]
    """The log latencies at the table's edges: an array (variants, points)."""
    cumulative: NDArray[np.float64]
    """The probability of a latency below each edge: an array (variants, points)."""

    def not_slower(self, places: NDArray[np.intp], than: int) -> NDArray[np.float64]:
        """Return the probability, for each of `places`, that it is not slower than `than`."""
        return self._below(places, than, 0.0)

    def faster(self, places: NDArray[np.intp], than: int, by: float) -> NDArray[np.float64]:
        """Return the probability, for each of `places`, that it is faster than `than` by more than `by` (in
        logarithms)."""
        return self._below(places, than, by)

    def none_faster(self, places: NDArray[np.intp], than: int, by: float) -> float:
        """Return the probability that none of `places` is faster than `than` by more than `by` (in logarithms)."""
        mass = np.diff(self.cumulative[than])
        above = 1.0 - self._cdf(places, self.edges[than] - by)
        return float(mass @ _middles(above.prod(axis=0)))

    def log_ratio_low(self, place: int, other: int, error: float) -> float:
        """Return the lower bound of log(latency of `place` / that of `other`), wrong with probability `error`."""
        low, high = self.edges[place, 0] - self.edges[other, -1], self.edges[place, -1] - self.edges[other, 0]
        mass = np.diff(self.cumulative[other])
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            chance = mass @ _middles(self._cdf(np.array([place]), self.edges[other] + middle))[0]
            low, high = (middle, high) if chance < error else (low, middle)
        return float(low)

    def ratio(self, place: int, other: int) -> Estimate | None:
        """Return the latency of `place` / that of `other`, with its 95 % interval; `None` unless both were measured."""
        middle = float(self.means[place] - self.means[other])
        if math.isnan(middle):
            return None
        low = self.log_ratio_low(place, other, TAIL)
        # The upper bound is not the lower one mirrored: with two blocks that contradict each other, one side is longer.
        high = -self.log_ratio_low(other, place, TAIL)
        return Estimate(math.exp(middle), math.exp(min(low, middle)), math.exp(max(high, middle)))

    def _below(self, places: NDArray[np.intp], than: int, by: float) -> NDArray[np.float64]:
        mass = np.diff(self.cumulative[than])
        chances: NDArray[np.float64] = _middles(self._cdf(places, self.edges[than] - by)) @ mass
        chances[places == than] = 0.0
        return chances

    def _cdf(self, places: NDArray[np.intp], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability that each place's log latency is below each value: an array (places, values)."""
        rows = [np.interp(values, self.edges[place], self.cumulative[place]) for place in places]
        return np.array(rows).reshape(len(places), values.size)


def _middles(values: NDArray[np.float64]) -> NDArray[np.float64]:
    middles: NDArray[np.float64] = (values[..., 1:] + values[..., :-1]) / 2
    return middles


def posterior(logs: NDArray[np.float64], weights: NDArray[np.float64], near: NDArray[np.bool_]) -> Posterior:
    """Return the distributions of the variants' log latencies. `logs` (rounds, variants) has NaN for missing blocks; a
    round of weight 0.5 has twice the variance.

    `near` (variants): the candidates near the best. At least one variant was measured.
    """
    measured = np.asarray(np.isfinite(logs).any(axis=0))
    blocks = Blocks.of(logs, weights)
    fit = fitted(blocks)
    edges, likelihood = likelihoods(blocks, fit)
    centres, spreads = _prior(fit.effects, measured, near & measured)
    density = likelihood * np.exp(-(((edges - centres[:, None]) / spreads[:, None]) ** 2) / 2)
    mass = _middles(density) * np.diff(edges, axis=1)
    mass /= mass.sum(axis=1, keepdims=True)
    cumulative = np.concatenate([np.zeros((len(mass), 1)), mass.cumsum(axis=1)], axis=1)
    return Posterior(
        effects=np.where(measured, fit.effects, np.nan),
        means=np.where(measured, (mass * _middles(edges)).sum(axis=1), np.nan),
        edges=edges,
        cumulative=cumulative,
    )


def _prior(
    effects: NDArray[np.float64], measured: NDArray[np.bool_], near: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centre and the spread of each variant's prior."""
    centres, spreads = np.full(effects.size, effects[measured].mean()), np.full(effects.size, _FAR_SPREAD)
    if near.any():
        centre = effects[near].mean()
        squared = float(((effects[near] - centre) ** 2).sum())
        centres[near] = centre
        spreads[near] = np.sqrt((_NEAR_DEGREES * _NEAR_SPREAD**2 + squared) / (_NEAR_DEGREES + near.sum() - 1))
    return centres, spreads
