import numpy as np
import pytest
from numpy.typing import NDArray

from sweeps.protocol.mixture import Blocks, Fit, fitted, likelihoods

VARIANTS = np.log([10.0, 10.3, 11.0, 12.0, 14.0, 15.0])


def logs_of(rounds: int, spread: float = 0.01, seed: int = 1) -> NDArray[np.float64]:
    """Each round has an effect of its own."""
    random = np.random.default_rng(seed)
    own = random.normal(0.0, 0.1, (rounds, 1))
    logs: NDArray[np.float64] = VARIANTS + own + random.normal(0.0, spread, (rounds, VARIANTS.size))
    return logs


def fit_of(logs: NDArray[np.float64]) -> tuple[Blocks, Fit]:
    blocks = Blocks.of(logs, np.ones(len(logs)))
    return blocks, fitted(blocks)


def peaks(values: NDArray[np.float64]) -> NDArray[np.intp]:
    inner = values[1:-1]
    places: NDArray[np.intp] = 1 + np.flatnonzero((inner > values[:-2]) & (inner >= values[2:]))
    return places


def test_a_burst_in_one_block_changes_no_estimate() -> None:
    logs = logs_of(4)
    _, without = fit_of(np.where(np.arange(24).reshape(4, 6) == 13, np.nan, logs))
    logs[2, 1] += np.log(2.0)
    _, fit = fit_of(logs)
    assert fit.effects == pytest.approx(without.effects, abs=1e-3)
    assert fit.spread == pytest.approx(without.spread, rel=0.1)


def test_the_share_of_disturbed_blocks_is_learned() -> None:
    calm = logs_of(12)
    _, before = fit_of(calm)
    busy = calm.copy()
    busy[np.arange(12), np.arange(12) % 6] += 0.4
    _, fit = fit_of(busy)
    assert before.slowed == 0.05, "nothing speaks for more or less than was assumed"
    assert 0.1 < fit.slowed < 0.25
    assert fit.hastened < 0.01


def test_of_two_blocks_that_contradict_each_other_the_faster_one_is_the_likelier() -> None:
    logs = logs_of(2)
    logs[1, 3] += 0.5
    blocks, fit = fit_of(logs)
    effects, likelihood = likelihoods(blocks, fit)
    likely = [at for at in peaks(likelihood[3]) if likelihood[3, at] > 1e-3 * likelihood[3].max()]
    assert len(likely) == 2
    fast, slow = likely
    assert likelihood[3, fast] > likelihood[3, slow] > 0
    assert effects[3, slow] - effects[3, fast] > 0.3


def test_a_variant_with_a_wide_spread_keeps_all_of_its_blocks() -> None:
    logs = logs_of(8, spread=0.005)
    own = np.array([-0.08, 0.06, -0.05, 0.09, -0.07, 0.05, 0.07, -0.06])
    logs[:, 2] += own
    blocks, fit = fit_of(logs)
    effects, likelihood = likelihoods(blocks, fit)
    mass = likelihood * np.gradient(effects, axis=1)
    mass /= mass.sum(axis=1, keepdims=True)
    means = (mass * effects).sum(axis=1)
    widths = np.sqrt((mass * (effects - means[:, None]) ** 2).sum(axis=1))
    assert widths[2] > 2 * widths[3]
    assert widths[2] == pytest.approx(own.std(ddof=1) / np.sqrt(8), rel=0.5)
    assert means[2] - means[0] == pytest.approx(VARIANTS[2] - VARIANTS[0], abs=2 * widths[2])


def test_the_width_of_a_difference_is_that_of_two_means() -> None:
    logs = np.log([[10.0, 10.0], [10.2, 10.0], [10.0, 10.2], [10.1, 10.0], [10.0, 10.1], [10.0, 10.0]])
    blocks, fit = fit_of(logs)
    effects, likelihood = likelihoods(blocks, fit)
    mass = likelihood * np.gradient(effects, axis=1)
    mass /= mass.sum(axis=1, keepdims=True)
    means = (mass * effects).sum(axis=1)
    variance = (mass * (effects - means[:, None]) ** 2).sum()
    assert np.sqrt(variance) == pytest.approx(fit.spread * np.sqrt(2 / 6), rel=0.35)


def test_a_block_that_is_alone_in_its_round_says_nothing() -> None:
    logs = logs_of(3)
    alone = np.full((1, VARIANTS.size), np.nan)
    alone[0, 0] = np.log(99.0)
    _, without = fit_of(logs)
    _, fit = fit_of(np.vstack([logs, alone]))
    assert fit.effects == pytest.approx(without.effects)
    assert fit.slowed == pytest.approx(without.slowed)


@pytest.mark.parametrize("logs", [np.zeros((1, 3)), np.zeros((4, 3)), np.full((2, 3), np.nan), logs_of(1)])
def test_blocks_without_noise_or_without_repeats_give_finite_numbers(logs: NDArray[np.float64]) -> None:
    blocks, fit = fit_of(logs)
    effects, likelihood = likelihoods(blocks, fit)
    assert np.isfinite(effects).all()
    assert np.isfinite(likelihood).all()
    assert (likelihood.max(axis=1) > 0).all()
    assert fit.spread > 0
