"""Load that comes in bursts, and what only looks like it."""

import numpy as np
import pytest

from sweeps.protocol.bursts import BURST_SHARE, burst_share

COUNT = 200


def noise(seed: int, cv: float = 0.03) -> np.ndarray:
    return 1e7 * np.exp(cv * np.random.default_rng(seed).standard_normal(COUNT))


def test_consecutive_slow_samples_are_a_burst_with_its_share_of_the_time():
    samples = noise(0)
    samples[50:80] *= 1.5
    assert burst_share(samples.tolist()) == pytest.approx(samples[50:80].sum() / samples.sum())
    shuffled = np.random.default_rng(1).permutation(samples)
    assert burst_share(shuffled.tolist()) == 0.0, "the same samples as independent spikes"


def test_several_bursts_are_counted_and_a_short_one_is_below_the_limit():
    samples = noise(2)
    for begins in (20, 90, 160):
        samples[begins : begins + 12] *= 1.4
    assert burst_share(samples.tolist()) > 0.2
    short = noise(3)
    short[100:105] *= 1.4
    assert 0.0 < burst_share(short.tolist()) < BURST_SHARE


@pytest.mark.parametrize("slower", [1.0, 1.1])
def test_what_is_less_than_15_percent_slower_is_no_burst(slower: float):
    samples = noise(4, cv=0.01)
    samples[:60] *= slower
    assert burst_share(samples.tolist()) == 0.0


def test_noise_of_any_size_is_no_burst():
    for seed in range(200):
        random = np.random.default_rng([seed, 9])
        correlated = np.zeros(COUNT)
        for at in range(1, COUNT):
            correlated[at] = 0.8 * correlated[at - 1] + 0.6 * random.standard_normal()
        spikes = np.where(random.random(COUNT) < 0.2, random.uniform(1.3, 3.0, COUNT), 1.0)
        for factors in (np.exp(0.1 * correlated), np.exp(0.05 * random.standard_t(2.5, COUNT)), spikes):
            assert burst_share((1e7 * factors).tolist()) < BURST_SHARE


def test_a_few_samples_show_no_burst_whatever_they_are():
    assert burst_share([10.0]) == 0.0
    assert burst_share([10.0, 10.0, 10.0, 20.0, 20.0]) == 0.0
