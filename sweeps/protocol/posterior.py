"""What the rounds of a race say of each variant's latency: a Student distribution per variant. Pure.

The model is log latency = variant + round + noise (`sweeps.protocol.effects`), fitted robustly (Huber's weights). The
spread of one block is estimated for each variant, and drawn towards the spread of all, which itself starts from a prior
of `SPREAD` with few degrees of freedom: with two rounds a variant's own spread says little. This is the shrinkage of
limma (Smyth 2004), with fixed degrees. The variants' effects have a normal prior whose centre and spread are those of
the candidates that are near the best, as in empirical Bayes: of several that are equal, the smallest estimate is partly
luck.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from sweeps.protocol.effects import MAD_PER_SIGMA, additive
from sweeps.stats import student_t_quantile

SPREAD = 0.025
"""The prior standard deviation of one log block median, from process to process ..."""
_SPREAD_DEGREES = 3.0
"""... and its degrees of freedom."""
_SHARED_DEGREES = 6.0
"""A variant's variance is drawn towards that of all with this weight."""
_HUBER_CLIP = 2.5
_REWEIGHTINGS = 4
_LEAST_SPREAD = 1e-3
"""No block is an outlier because of less: with two rounds most residuals may be almost 0 by chance."""
_NEAR_SPREAD = 0.02
"""The prior standard deviation of the effects of candidates that are near the best ..."""
_NEAR_DEGREES = 2.0
"""... and its degrees of freedom."""
_FAR_SPREAD = 0.3
"""The standard deviation of the effects of all others."""

_GRID = 400
_GRID_SIGMAS = 8.0


@dataclass(frozen=True, slots=True)
class Posterior:
    """Independent Student distributions of log latencies, up to a common constant; NaN where never measured."""

    effects: NDArray[np.float64]
    """The estimates without the prior."""
    means: NDArray[np.float64]
    scales: NDArray[np.float64]
    degrees: NDArray[np.float64]

    def not_slower(self, places: NDArray[np.intp], than: int) -> NDArray[np.float64]:
        """For each of `places`, the probability that it is not slower than `than`."""
        return self._below(places, than, 0.0)

    def faster(self, places: NDArray[np.intp], than: int, by: float) -> NDArray[np.float64]:
        """For each of `places`, the probability that it is faster than `than` by more than `by` (in logarithms)."""
        return self._below(places, than, by)

    def none_faster(self, places: NDArray[np.intp], than: int, by: float) -> float:
        """The probability that none of `places` is faster than `than` by more than `by` (in logarithms)."""
        edges, mass = self._grid(than)
        above = 1.0 - self._cdf(places, edges - by)
        return float(mass @ _middles(above.prod(axis=0)))

    def log_ratio_low(self, place: int, other: int, error: float) -> float:
        """The lower bound of log(latency of `place` / that of `other`), wrong with probability `error`."""
        degrees = float(min(self.degrees[place], self.degrees[other]))
        scale = float(np.hypot(self.scales[place], self.scales[other]))
        return float(self.means[place] - self.means[other]) - student_t_quantile(degrees, 1 - error) * scale

    def _below(self, places: NDArray[np.intp], than: int, by: float) -> NDArray[np.float64]:
        edges, mass = self._grid(than)
        found: NDArray[np.float64] = _middles(self._cdf(places, edges - by)) @ mass
        found[places == than] = 0.0
        return found

    def _grid(self, place: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Edges around one variant's mean, and its probability between each two of them; the rest is at the ends."""
        half = _GRID_SIGMAS * self.scales[place]
        edges = np.linspace(self.means[place] - half, self.means[place] + half, _GRID + 1)
        cumulative = self._cdf(np.array([place]), edges)[0]
        cumulative[0], cumulative[-1] = 0.0, 1.0
        return edges, np.diff(cumulative)

    def _cdf(self, places: NDArray[np.intp], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(places, values)"""
        scores = (values[None, :] - self.means[places, None]) / self.scales[places, None]
        found: NDArray[np.float64] = stdtr(self.degrees[places, None], scores)
        return found


def _middles(values: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = (values[..., 1:] + values[..., :-1]) / 2
    return found


def posterior(logs: NDArray[np.float64], weights: NDArray[np.float64], near: NDArray[np.bool_]) -> Posterior:
    """`logs` (rounds, variants) has NaN where nothing was measured; a round of weight 0.5 has twice the variance.

    `near` (variants): the candidates that are near the best. At least one variant was measured.
    """
    seen = np.isfinite(logs)
    measured = seen.any(axis=0)
    each = np.where(seen, weights[:, None], 0.0)
    degrees = float(seen.sum() - measured.sum() - seen.any(axis=1).sum() + 1)
    effects, clipped, whole = _robust(logs, each, degrees)
    squares = (each * clipped**2).sum(axis=0)
    shared = (_SPREAD_DEGREES * SPREAD**2 + squares.sum()) / (_SPREAD_DEGREES + max(0.0, degrees))

    repeats = np.maximum(seen.sum(axis=0) - 1.0, 0.0)
    own_degrees = repeats * max(0.0, degrees) / max(1.0, repeats.sum())
    variances = (_SHARED_DEGREES * shared + squares) / (_SHARED_DEGREES + own_degrees)
    # The variance of Huber's estimate: that of the clipped residuals, over the squared share of those not clipped.
    precisions = whole.sum(axis=0) ** 2 / np.where(measured, each.sum(axis=0), 1.0) / variances

    centres, spreads = np.full(effects.size, effects[measured].mean()), np.full(effects.size, _FAR_SPREAD)
    near = near & measured
    if near.any():
        centre = effects[near].mean()
        squared = float(((effects[near] - centre) ** 2).sum())
        spread = (_NEAR_DEGREES * _NEAR_SPREAD**2 + squared) / (_NEAR_DEGREES + near.sum() - 1)
        centres[near], spreads[near] = centre, np.sqrt(spread)
    total = precisions + spreads**-2
    means = (precisions * np.where(measured, effects, 0.0) + centres * spreads**-2) / total
    return Posterior(
        effects=effects,
        means=np.where(measured, means, np.nan),
        scales=total**-0.5,
        degrees=np.minimum(_SHARED_DEGREES + own_degrees, _SPREAD_DEGREES + max(0.0, degrees)),
    )


def _robust(
    logs: NDArray[np.float64], weights: NDArray[np.float64], degrees: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Effects; residuals, clipped at 2.5 standard deviations; and the weights of those that are not clipped.

    Where nothing was measured, residuals and weights are 0.
    """
    effects, residuals = additive(logs, weights)
    seen = weights > 0
    clipped, whole = np.where(seen, residuals, 0.0), weights
    for _ in range(_REWEIGHTINGS if degrees > 0 else 0):
        sizes = np.abs(np.where(seen, residuals, 0.0)) * np.sqrt(weights)
        sigma = float(np.median(sizes[seen])) / MAD_PER_SIGMA * np.sqrt(seen.sum() / degrees)
        limit = _HUBER_CLIP * max(sigma, _LEAST_SPREAD)
        factors = limit / np.maximum(limit, sizes)
        effects, residuals = additive(logs, weights * factors)
        limits = np.where(seen, limit / np.sqrt(np.where(seen, weights, 1.0)), 0.0)
        clipped = np.clip(np.where(seen, residuals, 0.0), -limits, limits)
        whole = np.where(factors >= 1.0, weights, 0.0)
    return effects, clipped, whole
