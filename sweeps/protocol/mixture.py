"""The estimate of each variant's latency from its blocks, if a few of all blocks were disturbed. Pure.

The model is log latency = variant + round + noise (`sweeps.protocol.effects`). The noise of most blocks is normal. Each
variant has its own variance, drawn from one scaled inverse chi-square distribution for all variants: with two rounds, a
variant's own spread says little (limma: Smyth 2004). The other blocks met a burst of other work, or another state of
the clocks: they are slower, seldom faster, by any factor up to 3, and give no information about their variant. Their
share is estimated, too. If two blocks of a variant contradict each other, it stays open which one is right: the
likelihood has two peaks, of which the faster one is higher. This is the mixture of Box and Tiao (Biometrika 55, 1968)
with shifts in place of larger variances. An M-estimate (Huber's) cannot tell which of two blocks is the outlier, and
every outlier biases it.

Arrays are (rounds, variants) unless stated otherwise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeps.protocol.effects import additive
from sweeps.stats import MAD_PER_SIGMA

SPREAD = 0.025
"""The prior standard deviation of one log block median, from process to process ..."""
_SPREAD_DEGREES = 3.0
"""... and its degrees of freedom."""
_OWN_DEGREES = 6.0
"""The ratio of a variant's variance to the common variance is a scaled inverse chi-square variable with this many
degrees of freedom."""
_LARGEST_SHIFT = math.log(3.0)
_SLOWED = 0.05
"""The prior share of blocks that were slowed by a disturbance ..."""
_HASTENED = 0.01
"""... or made faster by one."""
_SHARE_DEGREES = 20.0
"""Both priors count like this many degrees of freedom."""
_MOST = 0.4
"""The largest share of blocks that are slowed; the same limit holds for blocks made faster."""

_STEPS = 4
_SIZES = np.exp(np.linspace(math.log(0.4), math.log(12.0), 12))
"""The ratios of a variant's standard deviation to the common one over which its likelihood is summed."""
_FINE, _COARSE = 121, 120
_FINE_SIGMAS = 12.0
_MARGIN_SIGMAS = 6.0
_BEYOND_SLOWEST = math.log(1.35)
"""The likelihood is computed up to this log distance beyond a variant's slowest block, and up to `_LARGEST_SHIFT`
beyond its fastest block."""
_FLOOR = 1e-9
"""The density of a block that no part of the model explains."""
_LEAST_WEIGHT = 1e-6
"""The smallest weight of a disturbed block: with a weight of 0, a variant could have no estimate at all."""
_CLEAR = 7.0
"""The fit with disturbed blocks is used if it raises the log likelihood of all blocks by more than this. With few
blocks, some lie close together by chance."""
_ROOT = math.sqrt(2.0 * math.pi)


def _log_prior(size: float, residual_degrees: float) -> float:
    """Return the log prior of a relative standard deviation, up to a constant; the sizes are evenly spaced in their
    logarithms. The prior allows for the uncertainty of the common variance, too."""
    degrees = 1.0 / (1.0 / _OWN_DEGREES + 1.0 / (_SPREAD_DEGREES + residual_degrees))
    return -degrees * (math.log(size) + 1.0 / (2.0 * size * size))


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks that inform about a variant. A block that is alone in its round gives no information."""

    logs: NDArray[np.float64]
    """Log block medians; NaN if there is no block."""
    weights: NDArray[np.float64]
    """One over the variance, in units of a block's variance; 0 if there is no block."""

    @classmethod
    def of(cls, logs: NDArray[np.float64], weights: NDArray[np.float64]) -> "Blocks":
        """Return the blocks that share their round with another block. `weights`: one per round."""
        present = np.isfinite(logs)
        beside = present & (present.sum(axis=1, keepdims=True) > 1)
        return cls(np.where(beside, logs, np.nan), np.where(beside, weights[:, None], 0.0))

    @property
    def present(self) -> NDArray[np.bool_]:
        present: NDArray[np.bool_] = self.weights > 0
        return present

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the residuals of the additive model."""
        present = self.present
        return max(0.0, float(present.sum() - present.any(axis=0).sum() - present.any(axis=1).sum() + present.any()))

    @property
    def deflation(self) -> NDArray[np.float64]:
        """The array (variants) of the ratio of a block's noise to its residual: the effect of a round is estimated from
        the same blocks, which makes residuals smaller."""
        in_round = self.weights.sum(axis=1, keepdims=True)
        remaining = np.where(self.present, 1.0 - self.weights / np.where(in_round > 0, in_round, 1.0), 0.0).sum(axis=0)
        deflation: NDArray[np.float64] = np.sqrt(
            np.where(remaining > 0, self.present.sum(axis=0) / np.where(remaining > 0, remaining, 1), 1)
        )
        return deflation


@dataclass(frozen=True, slots=True)
class Fit:
    """The additive model and its noise."""

    effects: NDArray[np.float64]
    """The array (variants) of log latencies; 0 for a variant without a block."""
    rounds: NDArray[np.float64]
    """The array (rounds) of the effects of rounds; 0 for a round without a block."""
    spread: float
    """The standard deviation of one block, for most variants."""
    slowed: float
    """The share of blocks that were slowed by a disturbance ..."""
    hastened: float
    """... or made faster by one."""


def fitted(blocks: Blocks) -> Fit:
    """Return the fit after repeating three steps: find the highest likelihood of each variant, find the blocks that
    belong to it, and estimate the rounds and the noise from these blocks."""
    fit = _first(blocks)
    if not blocks.degrees:
        return fit
    for _ in range(_STEPS):
        fit = _better(blocks, fit)
    plain = _plain(blocks)
    return fit if _evidence(blocks, fit) > _evidence(blocks, plain) + _CLEAR else plain


def _plain(blocks: Blocks) -> Fit:
    """Return the fit in which all blocks belong to their variants: no block is disturbed."""
    effects, residuals = additive(blocks.logs, blocks.weights)
    squares = float((blocks.weights * np.where(blocks.present, residuals, 0.0) ** 2).sum())
    return Fit(
        effects=_without_gaps(effects),
        rounds=_of_rounds(blocks.present, blocks.logs - effects - residuals, np.mean),
        spread=_moderated(squares, blocks.degrees),
        slowed=_SLOWED,
        hastened=_HASTENED,
    )


def _evidence(blocks: Blocks, fit: Fit) -> float:
    """Return the logarithm of the blocks' probability, integrated over all effects with a flat prior."""
    points = _points(blocks, fit)[:, ::2]
    logs = np.logaddexp.reduce(_log_likelihoods(blocks, fit, points, _SIZES[::2]), axis=0)
    top = logs.max(axis=1, keepdims=True)
    return float((top[:, 0] + np.log(np.trapezoid(np.exp(logs - top), points, axis=1))).sum())


def likelihoods(blocks: Blocks, fit: Fit) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the effects, ascending, and the likelihood of each, up to a factor; both arrays are (variants, points).
    The likelihood of a variant without any block is flat."""
    points = _points(blocks, fit)
    logs = _log_likelihoods(blocks, fit, points, _SIZES)
    likelihood = np.exp(logs - logs.max(axis=(0, 2), keepdims=True)).sum(axis=0)
    # The effects are treated as independent, though those of one round share its effect.
    return fit.effects[:, None] + (points - fit.effects[:, None]) * blocks.deflation[:, None], likelihood


def _first(blocks: Blocks) -> Fit:
    """Return a first fit by least squares, with rounds and spread from medians, which a few blocks do not move."""
    if not blocks.present.any():
        effects, rounds = np.zeros(blocks.logs.shape[1]), np.zeros(blocks.logs.shape[0])
        return Fit(effects, rounds, SPREAD, _SLOWED, _HASTENED)
    effects = _without_gaps(additive(blocks.logs, blocks.weights)[0])
    rounds = _of_rounds(blocks.present, blocks.logs - effects, np.median)
    sizes = np.abs(blocks.logs - effects - rounds[:, None])[blocks.present]
    degrees = blocks.degrees
    squares = (np.median(sizes) / MAD_PER_SIGMA) ** 2 * sizes.size if degrees else 0.0
    return Fit(effects, rounds, _moderated(squares, degrees), _SLOWED, _HASTENED)


def _better(blocks: Blocks, fit: Fit) -> Fit:
    """Return the fit after one more step of `fitted`."""
    present = blocks.present
    points = _points(blocks, fit)[:, ::2]
    logs = _log_likelihoods(blocks, fit, points, sizes := _SIZES[::2])
    highest = np.logaddexp.reduce(logs, axis=0).argmax(axis=1)
    each = np.arange(highest.size)
    sizes = sizes[logs[:, each, highest].argmax(axis=0)]
    residuals = np.where(present, blocks.logs - fit.rounds[:, None] - points[each, highest], 0.0)
    normal = _normal(blocks, fit, residuals, sizes)
    share = np.where(present, normal / (normal + _shifted(fit, residuals)), 0.0)

    weights = np.where(present, np.maximum(blocks.weights * share / sizes**2, _LEAST_WEIGHT), 0.0)
    effects, residuals = additive(blocks.logs, weights)
    rounds = _of_rounds(blocks.present, blocks.logs - effects - residuals, np.mean)
    residuals = np.where(present, residuals, 0.0)
    other = present.sum() - share.sum()
    spread = _moderated(float((blocks.weights * share * residuals**2).sum()), max(0.0, blocks.degrees - float(other)))
    strange = np.where(present, 1.0 - share, 0.0)
    return Fit(
        effects=_without_gaps(effects),
        rounds=rounds,
        spread=spread,
        slowed=_share(_SLOWED, float(strange[residuals > 0].sum()), blocks.degrees),
        hastened=_share(_HASTENED, float(strange[residuals <= 0].sum()), blocks.degrees),
    )


def _points(blocks: Blocks, fit: Fit) -> NDArray[np.float64]:
    """Return points (variants, points) that are dense around the effects, and cover all other possible effects."""
    present = blocks.present
    measured = present.any(axis=0)
    at = np.where(present, blocks.logs - fit.rounds[:, None], np.nan)
    margin = _MARGIN_SIGMAS * fit.spread
    lowest = np.where(measured, np.where(present, at, np.inf).min(axis=0), 0.0) - _LARGEST_SHIFT - margin
    highest = np.where(measured, np.where(present, at, -np.inf).max(axis=0), 0.0) + _BEYOND_SLOWEST + margin
    widths = _FINE_SIGMAS * fit.spread / np.sqrt(np.maximum(1, present.sum(axis=0)))
    fine = fit.effects[:, None] + np.linspace(-1.0, 1.0, _FINE) * widths[:, None]
    coarse = np.linspace(lowest, highest, _COARSE, axis=1)
    return np.sort(np.concatenate([fine, coarse], axis=1), axis=1)


def _log_likelihoods(
    blocks: Blocks, fit: Fit, points: NDArray[np.float64], sizes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return an array (sizes, variants, points): the log likelihood of an effect, given a relative spread of the
    variant."""
    variants, rounds = np.nonzero(blocks.present.T)
    residuals = (blocks.logs[rounds, variants] - fit.rounds[rounds])[:, None] - points[variants]
    belongs = (variants == np.arange(points.shape[0])[:, None]).astype(np.float64)
    shifted = _shifted(fit, residuals)
    sigmas = (fit.spread / np.sqrt(blocks.weights[rounds, variants]))[:, None]
    squares = -((residuals * blocks.deflation[variants, None] / sigmas) ** 2) / 2
    heights = (1.0 - fit.slowed - fit.hastened) / (_ROOT * sigmas)
    logs = np.empty((sizes.size, *points.shape))
    for place, size in enumerate(sizes):
        logs[place] = belongs @ np.log(np.exp(squares / size**2) * (heights / size) + shifted) + _log_prior(
            size, blocks.degrees
        )
    return logs


def _normal(
    blocks: Blocks, fit: Fit, residuals: NDArray[np.float64], sizes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the density of blocks that belong to their variant."""
    sigmas = fit.spread * sizes / np.sqrt(np.where(blocks.present, blocks.weights, 1.0))
    scaled = residuals * blocks.deflation / sigmas
    density: NDArray[np.float64] = (1.0 - fit.slowed - fit.hastened) * np.exp(-(scaled**2) / 2) / (_ROOT * sigmas)
    return density


def _shifted(fit: Fit, residuals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the density of disturbed blocks."""
    share = np.where(residuals > 0, fit.slowed, fit.hastened)
    return np.where(np.abs(residuals) < _LARGEST_SHIFT, share / _LARGEST_SHIFT, 0.0) + _FLOOR


def _moderated(squares: float, degrees: float) -> float:
    return math.sqrt((_SPREAD_DEGREES * SPREAD**2 + squares) / (_SPREAD_DEGREES + degrees))


def _share(prior: float, count: float, degrees: float) -> float:
    return min(_MOST, (_SHARE_DEGREES * prior + count) / (_SHARE_DEGREES + degrees))


def _of_rounds(
    present: NDArray[np.bool_], values: NDArray[np.float64], middle: Callable[[NDArray[np.float64]], np.floating]
) -> NDArray[np.float64]:
    """Return the array (rounds) of the `middle` of each round's values; 0 for a round without a block."""
    return np.array(
        [middle(row[in_round]) if in_round.any() else 0.0 for row, in_round in zip(values, present, strict=True)]
    )


def _without_gaps(effects: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(effects), effects, np.nanmean(effects))
