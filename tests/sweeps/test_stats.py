import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.stats import (
    Estimate,
    accuracy_drop,
    mad,
    median,
    outliers,
    p50_estimate,
    ratio_by_rounds,
    share_interval,
    stable,
)

REPLICATES = 2000


@given(st.lists(st.floats() | st.integers(-(2**53), 2**53), min_size=1))
def test_the_median_of_a_few_values_is_numpy_s(values):
    # The mean of two numbers near the largest overflows in both.
    with np.errstate(over="ignore"):
        expected = np.median(np.asarray(values, dtype=np.float64))
        assert np.array_equal(median(values), expected, equal_nan=True)


def test_median_of_no_values_is_refused():
    with pytest.raises(ValueError, match="no median"):
        median([])


def test_mad_is_not_moved_by_one_wild_value():
    assert mad([1.0, 2.0, 3.0, 4.0, 5.0]) == 1.0
    assert mad([1.0, 2.0, 3.0, 4.0, 5000.0]) == 1.0


def test_a_spike_is_an_outlier_and_its_neighbours_are_not():
    assert outliers([10.0, 10.1, 9.9, 10.05, 9.95, 25.0]).tolist() == [False] * 5 + [True]


def test_a_value_is_an_outlier_beyond_three_and_a_half_robust_standard_deviations():
    # Median 3, MAD 1, so one robust standard deviation is 1 / 0.6745 and the limit lies 5.19 above the median.
    assert outliers([1.0, 2.0, 3.0, 4.0, 8.1]).tolist()[-1] is False
    assert outliers([1.0, 2.0, 3.0, 4.0, 8.3]).tolist()[-1] is True


def test_with_a_coarse_clock_one_tick_more_is_no_outlier_but_a_spike_is():
    ticks = [100.0] * 60 + [101.0] * 40
    assert mad(ticks) == 0.0
    assert not outliers(ticks).any()
    assert outliers([*ticks, 160.0]).tolist() == [False] * 100 + [True]


def test_equal_values_have_no_outliers():
    assert not outliers([7.0] * 10).any()


def test_one_block_has_a_p50_and_no_interval():
    assert p50_estimate([4.2]) == Estimate(4.2, None, None)


def test_the_p50_is_the_median_of_block_medians_with_a_student_interval_over_logs():
    estimate = p50_estimate([1.0, 2.0, 4.0])
    # t(0.975, 2) = 4.3027; the standard deviation of the logarithms is ln 2.
    half = 4.30265273 * np.log(2.0) / np.sqrt(3)
    assert estimate.value == 2.0
    assert estimate.low == pytest.approx(2.0 * np.exp(-half), rel=1e-6)
    assert estimate.high == pytest.approx(2.0 * np.exp(half), rel=1e-6)


def test_the_interval_is_widened_to_a_point_estimate_outside_it():
    # Six odd processes of a hundred pull the mean of the logarithms, and Student's interval with it, off the median.
    blocks = [10.0] * 94 + [1000.0] * 6
    estimate = p50_estimate(blocks)
    assert estimate.value == 10.0
    assert estimate.low == 10.0
    assert estimate.high is not None
    assert estimate.high > 10.0


@pytest.mark.parametrize("bad", [[0.0, 1.0], [-1.0, 1.0], [float("nan"), 1.0], [float("inf")], []])
def test_block_medians_that_are_no_times_are_refused(bad):
    with pytest.raises(ValueError, match="positive numbers"):
        p50_estimate(bad)


def test_an_estimate_outside_its_interval_cannot_be_made():
    with pytest.raises(ValueError, match="not in its interval"):
        Estimate(1.0, 2.0, 3.0)
    with pytest.raises(ValueError, match="not in its interval"):
        Estimate(float("nan"), float("nan"), float("nan"))
    with pytest.raises(ValueError, match="two bounds or none"):
        Estimate(1.0, 0.5, None)


def simulated_block_medians(generator, blocks):
    """(REPLICATES, blocks): processes differ by 5 %, samples by 2 %, and 3 % of samples are spikes of 2 to 10 times."""
    samples = 10.0 * np.exp(0.02 * generator.standard_normal((REPLICATES, blocks, 50)))
    spikes = generator.random(samples.shape) < 0.03
    samples *= np.where(spikes, generator.uniform(2.0, 10.0, samples.shape), 1.0)
    processes = np.exp(0.05 * generator.standard_normal((REPLICATES, blocks)))
    return np.median(samples, axis=2) * processes


# With 3 % of spikes above, the p50 of all samples is the 0.5 / 0.97 quantile of the ordinary ones.
TRUE_P50 = 10.0 * np.exp(0.02 * 0.0388)


@pytest.mark.parametrize("blocks", [3, 10])
def test_the_p50_interval_covers_the_truth_95_times_in_100_in_spite_of_spikes(blocks):
    medians = simulated_block_medians(np.random.default_rng(1), blocks)
    estimates = [p50_estimate(list(row)) for row in medians]
    coverage = np.mean([estimate.low <= TRUE_P50 <= estimate.high for estimate in estimates])
    assert 0.93 <= coverage <= 0.97


def test_no_common_round_is_no_comparison():
    assert ratio_by_rounds({0: 1.0}, {1: 1.0}) is None


def test_one_common_round_is_a_ratio_without_an_interval():
    ratio = ratio_by_rounds({0: 3.0, 1: 9.0}, {0: 2.0})
    assert ratio is not None
    assert ratio.value == pytest.approx(1.5)
    assert (ratio.low, ratio.high) == (None, None)


def test_drift_that_a_round_shares_cancels():
    drift = {0: 1.0, 1: 3.0, 2: 0.4}
    ratio = ratio_by_rounds({r: 1.1 * d for r, d in drift.items()}, drift)
    assert ratio is not None
    assert ratio.value == pytest.approx(1.1)
    assert ratio.low == pytest.approx(1.1)
    assert ratio.high == pytest.approx(1.1)


def test_swapping_the_two_jobs_inverts_the_ratio_and_its_interval():
    first, second = {0: 5.0, 1: 6.0, 2: 5.5}, {0: 4.0, 1: 5.5, 2: 4.2}
    forward, backward = ratio_by_rounds(first, second), ratio_by_rounds(second, first)
    assert forward is not None
    assert backward is not None
    assert backward.value == pytest.approx(1 / forward.value)
    assert (backward.low, backward.high) == (pytest.approx(1 / forward.high), pytest.approx(1 / forward.low))


def test_the_ratio_interval_covers_the_truth_95_times_in_100_in_spite_of_drift():
    generator = np.random.default_rng(2)
    drift = np.exp(0.3 * generator.standard_normal((REPLICATES, 10)))
    slow, quick = (simulated_block_medians(generator, 10) * drift * factor for factor in (1.03, 1.0))
    ratios = [
        ratio_by_rounds(dict(enumerate(a)), dict(enumerate(b)))
        for a, b in zip(slow.tolist(), quick.tolist(), strict=True)
    ]
    coverage = np.mean([ratio.low <= 1.03 <= ratio.high for ratio in ratios])
    assert 0.93 <= coverage <= 0.97


def test_the_accuracy_drop_counts_images_lost_less_images_gained():
    reference = np.array([True] * 90 + [False] * 10)
    variant = reference.copy()
    variant[:5] = False
    variant[-2:] = True
    drop = accuracy_drop(reference, variant)
    assert drop.value == pytest.approx(3.0)
    # Bonett and Price: 6 / 102 lost and 3 / 102 gained, 1.96 standard errors of 0.02927 around the difference.
    assert drop.low == pytest.approx(100 * (3 / 102 - 1.959964 * 0.0292672), abs=1e-3)
    assert drop.high == pytest.approx(100 * (3 / 102 + 1.959964 * 0.0292672), abs=1e-3)


@pytest.mark.parametrize(("images", "half"), [(597, 0.46), (200, 1.37)])
def test_no_disagreement_is_not_taken_for_certainty(images, half):
    answers = np.arange(images) % 3 > 0
    drop = accuracy_drop(answers, answers)
    assert drop.value == 0.0
    assert drop.high == pytest.approx(half, abs=0.01)
    assert drop.low == pytest.approx(-half, abs=0.01)


@pytest.mark.parametrize(("reference", "variant", "points"), [(True, False, 100.0), (False, True, -100.0)])
def test_a_total_loss_stays_within_a_hundred_points(reference, variant, points):
    drop = accuracy_drop([reference] * 40, [variant] * 40)
    assert drop.value == points
    assert drop.low is not None
    assert drop.high is not None
    assert -100.0 <= drop.low <= points <= drop.high <= 100.0


@pytest.mark.parametrize(("first", "second"), [([], []), ([True], [True, False]), ([[True]], [[True]])])
def test_answers_that_are_not_paired_are_refused(first, second):
    with pytest.raises(ValueError, match="not paired"):
        accuracy_drop(first, second)


@pytest.mark.parametrize(("lost", "gained", "at_most"), [(0.02, 0.005, 0.98), (0.004, 0.004, 0.999)])
def test_the_drop_interval_covers_the_truth_at_least_95_times_in_100(lost, gained, at_most):
    # Where disagreement is rare (two or three images of either kind) the interval is wider than it had to be.
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(REPLICATES):
        kind = generator.random(597)
        reference = kind >= gained
        variant = ~((kind >= gained) & (kind < gained + lost))
        drop = accuracy_drop(reference, variant)
        covered += drop.low <= 100 * (lost - gained) <= drop.high
    assert 0.94 <= covered / REPLICATES <= at_most


def test_a_job_is_stable_when_its_last_three_medians_agree_within_five_percent():
    assert stable([20.0, 10.0, 10.2, 10.49])
    assert not stable([10.0, 10.2, 10.52])
    assert not stable([10.0, 10.0, 20.0])
    assert stable([10.0, 10.5, 11.0], within=0.10)


def test_fewer_than_three_medians_are_never_stable():
    assert not stable([])
    assert not stable([10.0, 10.0])


@pytest.mark.parametrize("sigma", [0.005, 0.02, 0.035])
def test_stopping_when_stable_keeps_the_coverage_of_the_interval(sigma: float):
    random = np.random.default_rng(3)
    covered = 0
    for medians in np.exp(sigma * random.standard_normal((REPLICATES, 10))).tolist():
        rounds = next((count for count in range(3, 10) if stable(medians[:count])), 10)
        estimate = p50_estimate(medians[:rounds])
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= 1.0 <= estimate.high
    assert 0.93 <= covered / REPLICATES <= 0.97


def test_the_interval_of_a_share_is_wilson_s() -> None:
    from scipy.stats import binomtest

    for hits, count in ((0, 10), (1, 3), (5, 10), (88, 100), (40, 40)):
        expected = binomtest(hits, count).proportion_ci(method="wilson")
        assert share_interval(hits, count) == pytest.approx((expected.low, expected.high), abs=1e-12)
