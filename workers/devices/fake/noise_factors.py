"""The noise of a simulated phone, as factors on the latency of samples and processes. Pure."""

import math
import zlib
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from workers.devices.fake.phones import Phone

_TRUTH_DRAWS: Final = 1_000_000
"""The number of random samples for the median: with so many, it is within 0.02 % of the true median at a coefficient of
variation of 10 %."""

_SMALLEST_WEIGHT = 1e-4
"""The autoregression is summed until the weight of a past sample is below this."""

_SLOWEST_SAMPLE = 20.0
"""The limit of heavy tails: no sample takes longer than this multiple of the median."""


@lru_cache
def median_factor(phone: Phone, slowed: bool | None = None) -> float:
    """Return the median of process x sample x spike x daemon, over all samples of all processes, from random numbers
    with a separate seed. `slowed`: only over the samples that a daemon slows, or only over those that none slows."""
    if slowed is not None and phone.daemon_every_s:
        return median_factor(replace(phone, daemon_every_s=0.0)) * (phone.daemon_slower if slowed else 1.0)
    random = np.random.Generator(np.random.SFC64(0))
    # The correlation of neighbouring samples does not change the median, so these samples are independent.
    factors = sample_factors(phone, random, past_weights(0.0), sigma_of(phone.sample_cv), _TRUTH_DRAWS)
    factors *= np.exp(sigma_of(phone.process_cv) * random.standard_normal(_TRUTH_DRAWS))
    factors[random.random(_TRUTH_DRAWS) < phone.little_share] *= phone.little_slower
    if phone.daemon_every_s:
        awake = phone.daemon_s / (phone.daemon_s + phone.daemon_every_s)
        factors[random.random(_TRUTH_DRAWS) < awake] *= phone.daemon_slower
    return float(np.median(factors))


def sample_factors(
    phone: Phone, random: np.random.Generator, past: NDArray[np.float64], sigma: float, count: int
) -> NDArray[np.float64]:
    """Return the factors of `count` samples, including spikes; their median without spikes is 1."""
    if phone.tail_degrees is not None:
        logs = np.minimum(random.standard_t(phone.tail_degrees, count), math.log(_SLOWEST_SAMPLE) / sigma)
    else:
        logs = random.standard_normal(count + past.size - 1)
        if past.size > 1:
            logs = np.convolve(logs, past, "valid")
    logs *= sigma
    factors: NDArray[np.float64] = np.exp(logs)
    if phone.spike_share:
        spikes = np.flatnonzero(random.random(count) < phone.spike_share)
        factors[spikes] *= random.uniform(*phone.spike_slower, spikes.size)
    return factors


def spread_factor(phone: Phone, true_ms: float) -> float:
    """Return the factor by which the processes of the variant with this true latency differ more than usual. Only the
    latency decides it, since a simulation distinguishes its variants by latency: two variants of equal latency have the
    same spread."""
    wild = zlib.crc32(repr(true_ms).encode()) < phone.wild_share * 2**32
    return phone.wild_factor if wild else 1.0


def cores_factor(phone: Phone, random: np.random.Generator) -> float:
    """Return a random factor for the cores on which one process runs."""
    return phone.little_slower if phone.little_share and random.random() < phone.little_share else 1.0


def past_weights(ar1: float) -> NDArray[np.float64]:
    """Return the weights of the past shocks in an AR(1) of variance 1, the newest first."""
    terms = 1 if ar1 == 0.0 else math.ceil(math.log(_SMALLEST_WEIGHT) / math.log(abs(ar1)))
    weights: NDArray[np.float64] = ar1 ** np.arange(terms, dtype=np.float64)
    return weights / math.sqrt(float((weights**2).sum()))


def sigma_of(cv: float) -> float:
    """Return the standard deviation of the logarithm of a lognormal variable with this coefficient of variation."""
    return math.sqrt(math.log1p(cv * cv))
