"""Intervals that borrow the spread of the other variants."""

import math

import numpy as np
import pytest
from scipy.special import polygamma

from sweeps.ranking.moderated_intervals import FEWEST_VARIANTS, _trigamma_inverse, common_spread, moderated
from sweeps.stats import Estimate, p50_estimate


def drawn(seed: int, variants: int, rounds: int, cv: float | np.ndarray) -> np.ndarray:
    """(variants, rounds): block medians around 10 ms."""
    return 10.0 * np.exp(cv * np.random.default_rng(seed).standard_normal((variants, rounds)))


def half_width(estimate: Estimate) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return math.log(estimate.high / estimate.low) / 2


@pytest.mark.parametrize("cv", [0.02, 0.10, 0.20])
def test_intervals_of_three_rounds_are_much_narrower_and_still_hold_the_truth(cv: float) -> None:
    covered, widths, students = 0, [], []
    for seed in range(200):
        blocks = drawn(seed, 24, 3, cv).tolist()
        for medians, interval in zip(blocks, moderated(blocks), strict=True):
            assert interval.low is not None
            assert interval.high is not None
            covered += interval.low <= 10.0 <= interval.high
            widths.append(half_width(interval))
            students.append(half_width(p50_estimate(medians)))
    assert 0.93 <= covered / len(widths) <= 0.97
    assert np.median(widths) < 0.65 * np.median(students)


def test_where_spreads_differ_each_variant_keeps_most_of_its_own() -> None:
    noisy = 5
    blocks = drawn(3, 24, 8, np.where(np.arange(24)[:, None] < noisy, 0.2, 0.002)).tolist()
    widths = [half_width(interval) for interval in moderated(blocks)]
    assert min(widths[:noisy]) > 10 * max(widths[noisy:])


def test_the_estimate_is_the_median_and_inside_its_interval() -> None:
    blocks = [[10.0, 10.1, 12.0], [5.0, 5.1, 4.9], [8.0, 8.3, 8.1], [20.0, 20.1, 19.0]]
    for medians, interval in zip(blocks, moderated(blocks), strict=True):
        assert interval.value == np.median(medians)
        assert interval.low is not None
        assert interval.high is not None
        assert interval.low < interval.value < interval.high


def test_a_single_block_has_no_interval_and_too_few_variants_keep_their_own() -> None:
    blocks = drawn(0, FEWEST_VARIANTS, 3, 0.02).tolist()
    assert moderated([[7.0], *blocks])[0] == Estimate(7.0, None, None)
    few = blocks[1:]
    assert moderated(few) == [p50_estimate(medians) for medians in few]


def test_variants_that_never_vary_have_no_interval_to_borrow() -> None:
    still = [[10.0] * 3] * FEWEST_VARIANTS
    assert moderated(still) == [p50_estimate(medians) for medians in still]
    widened = moderated([*still, [10.0, 10.2, 9.8]])
    assert half_width(widened[0]) > 0.0


def test_the_prior_is_found_from_the_variances() -> None:
    random = np.random.default_rng(1)
    degrees = np.full(20_000, 4.0)
    spread = 0.01 * 6.0 / random.chisquare(6.0, degrees.size)
    variances = spread * random.chisquare(degrees) / degrees
    freedom, prior = common_spread(variances, degrees)
    assert freedom == pytest.approx(6.0, rel=0.1)
    assert prior == pytest.approx(0.01, rel=0.05)
    degrees_of_equal, _ = common_spread(0.01 * np.linspace(0.99, 1.01, 10), np.full(10, 2.0))
    assert math.isinf(degrees_of_equal)


@pytest.mark.parametrize("value", [1e-4, 0.1, 1.0, 30.0, 1e4])
def test_the_inverse_of_trigamma(value: float) -> None:
    assert float(polygamma(1, _trigamma_inverse(value))) == pytest.approx(value, rel=1e-6)


def test_a_median_that_is_no_positive_number_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        moderated([[1.0, math.nan], [1.0, 2.0]])


@pytest.mark.parametrize("variants", [FEWEST_VARIANTS - 1, 24])
def test_a_smaller_chance_above_moves_the_upper_end_of_that_variant_alone(variants: int) -> None:
    blocks = drawn(7, variants, 5, 0.05).tolist()
    plain, moved = moderated(blocks), moderated(blocks, {1: 0.005})
    assert [interval for place, interval in enumerate(moved) if place != 1] == [plain[0], *plain[2:]]
    assert (moved[1].value, moved[1].low) == (plain[1].value, plain[1].low)
    assert moved[1].high is not None
    assert plain[1].high is not None
    assert moved[1].high > plain[1].high
