"""The additive model of block medians: log latency = variant + round + noise. Least squares, plain and robust. Pure.

Effects that a whole round shares (heat, drift, a state of the clocks) are in the round, so the variants' effects are
free of them. Arrays are (rounds, variants), with NaN where nothing was measured.
"""

import numpy as np
from numpy.typing import NDArray

from sweeps.stats import MAD_PER_SIGMA

_HUBER_CLIP = 2.0
_HUBER_STEPS = 10


def additive(
    logs: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the variants' effects, up to a constant (NaN without any round), and the residuals.

    The effects come from weighted least squares; `weights` (rounds, variants) are those of the measured values, by
    default 1.
    """
    measured = np.isfinite(logs)
    if weights is None and measured.all():
        effects = logs.mean(axis=0)
        return effects, logs - effects - (logs - effects).mean(axis=1, keepdims=True)
    weights = np.where(measured, 1.0 if weights is None else weights, 0.0)
    logs = np.where(measured, logs, 0.0)
    in_round, of_variant = weights.sum(axis=1), weights.sum(axis=0)
    per_variant = weights / np.where(of_variant > 0, of_variant, 1.0)
    # The normal equations after elimination of the variants' effects: one unknown per round, one of them redundant.
    matrix = np.diag(in_round) - per_variant @ weights.T
    right = (weights * logs).sum(axis=1) - per_variant @ (weights * logs).sum(axis=0)
    rounds = np.linalg.lstsq(matrix, right)[0]
    effects = (weights * (logs - rounds[:, None])).sum(axis=0) / np.where(of_variant > 0, of_variant, 1.0)
    residuals = np.where(measured, logs - effects - rounds[:, None], np.nan)
    return np.where(of_variant > 0, effects, np.nan), residuals


def robust_effects(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the variants' effects by Huber's M-estimate (Annals of Mathematical Statistics 35, 1964), by
    pseudo-values.

    Repeats least squares, each time with the residuals clipped at 2 robust standard deviations. With two rounds this is
    plain least squares: of two blocks, it is unknown which one is the outlier.
    """
    effects, residuals = additive(logs)
    for _ in range(_HUBER_STEPS):
        sigma = float(np.nanmedian(np.abs(residuals))) / MAD_PER_SIGMA
        clipped = np.clip(residuals, -_HUBER_CLIP * sigma, _HUBER_CLIP * sigma)
        if np.array_equal(clipped, residuals, equal_nan=True):
            break
        effects, change = additive(logs - residuals + clipped)
        residuals = residuals - clipped + change
    return effects
