"""Intervals of latencies from the spread between processes of all variants on a device. Pure.

Three rounds say little about the spread of one variant: Student's t with 2 degrees of freedom makes the interval twice
as wide as necessary. The variants of a sweep ran on one device, so their spreads are similar. How similar they are is
estimated from the spreads themselves, and each variant's variance is shrunk towards the common one by as much as that
justifies. This is the empirical Bayes method of limma: G. K. Smyth, Linear models and empirical Bayes methods for
assessing differential expression in microarray experiments, Statistical Applications in Genetics and Molecular Biology
3(1), 2004. If the spreads differ much, as with bursts, they are shrunk little.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sweeps.distributions import digamma, student_t_quantile, tetragamma, trigamma
from sweeps.stats import TAIL, Estimate, log, p50_estimate, variance

FEWEST_VARIANTS = 4
"""With fewer variants it is not known how similar their spreads are: each variant keeps its own."""

_SMALLEST_SHARE = 1e-5
"""Variances are at least this share of their median: the logarithm of 0 would outweigh all others."""

_NEWTON_STEPS = 50
_NOBODY: Mapping[int, float] = MappingProxyType({})


def moderated(block_medians: Sequence[Sequence[float]], above: Mapping[int, float] = _NOBODY) -> list[Estimate]:
    """Return the p50 of each variant, in the unit of `block_medians`; one entry per variant, each with at least one
    median.

    The estimate is the median, as in `sweeps.stats.p50_estimate`. Its interval is Student's, over the logarithms of the
    medians, with the moderated variance. A variant with one block has no interval. `above`: by index in
    `block_medians`, the chance that the true value lies above the interval, if it is not 2.5 %. Raises `ValueError` for
    a median that is not a positive number.
    """
    repeated = [number for number, medians in enumerate(block_medians) if len(medians) > 1]
    logs = {number: [log(ms) for ms in block_medians[number]] for number in repeated}
    variances = [variance(logs[number]) for number in repeated]
    if len(repeated) < FEWEST_VARIANTS or not any(variances):
        return [p50_estimate(medians, above.get(number, TAIL)) for number, medians in enumerate(block_medians)]
    degrees = [len(logs[number]) - 1 for number in repeated]
    estimates = [Estimate(statistics.median(medians), None, None) for medians in block_medians]
    for number, (shrunk, total) in zip(repeated, moderated_variances(variances, degrees), strict=True):
        quantiles = [student_t_quantile(total, 1 - tail) for tail in (TAIL, above.get(number, TAIL))]
        below_mean, above_mean = (math.sqrt(shrunk / len(logs[number])) * quantile for quantile in quantiles)
        mean, value = statistics.fmean(logs[number]), estimates[number].value
        low, high = math.exp(mean - below_mean), math.exp(mean + above_mean)
        estimates[number] = Estimate(value, min(low, value), max(high, value))
    return estimates


def moderated_variances(variances: Sequence[float], degrees: Sequence[int]) -> list[tuple[float, float]]:
    """Return each variance after shrinking it towards the common one, with its new degrees of freedom.

    `degrees`: of each variance, 1 or more. With fewer than `FEWEST_VARIANTS` variances, or if all are 0, they stay
    unchanged.
    """
    if len(variances) < FEWEST_VARIANTS or not any(variances):
        return [(own, float(freedom)) for own, freedom in zip(variances, degrees, strict=True)]
    prior_degrees, prior = common_spread(variances, degrees)
    moderated = []
    for own, freedom in zip(variances, degrees, strict=True):
        if math.isinf(prior_degrees):
            shrunk, total = prior, math.inf
        else:
            total = prior_degrees + freedom
            shrunk = (prior_degrees * prior + freedom * own) / total
        # A variance has no more degrees than all variants have together.
        moderated.append((shrunk, min(total, float(sum(degrees)))))
    return moderated


def common_spread(variances: Sequence[float], degrees: Sequence[int]) -> tuple[float, float]:
    """Return the degrees of freedom (infinite: all spreads are equal) and the variance of the prior, by the moments of
    log variances."""
    least = _SMALLEST_SHARE * statistics.median(value for value in variances if value > 0)
    halves = {
        freedom: (digamma(freedom / 2) - math.log(freedom / 2), trigamma(freedom / 2)) for freedom in set(degrees)
    }
    logs = [math.log(max(value, least)) - halves[freedom][0] for value, freedom in zip(variances, degrees, strict=True)]
    mean = statistics.fmean(logs)
    excess = variance(logs) - statistics.fmean(halves[freedom][1] for freedom in degrees)
    if excess <= 0:
        return math.inf, math.exp(mean)
    half = _trigamma_inverse(excess)
    return 2 * half, math.exp(mean + digamma(half) - math.log(half))


def _trigamma_inverse(value: float) -> float:
    """Return the x with trigamma(x) = `value` > 0, by Newton's method on 1 / trigamma, which is convex (Smyth,
    appendix)."""
    x = 0.5 + 1 / value
    for _ in range(_NEWTON_STEPS):
        slope = trigamma(x)
        step = slope * (1 - slope / value) / tetragamma(x)
        x += step
        if abs(step) < 1e-8 * x:
            break
    return x
