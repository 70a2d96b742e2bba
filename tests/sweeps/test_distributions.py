"""Quantiles and gamma functions against scipy's, over the ranges that rankings use."""

import itertools
import math

import pytest
from scipy.special import digamma, ndtri, polygamma, stdtrit

from sweeps import distributions
from sweeps.distributions import (
    EXACT_DEGREES,
    binomial_tail,
    chi_square_quantile,
    normal_quantile,
    student_t_quantile,
    studentized_range_quantile,
    tetragamma,
    trigamma,
)
from sweeps.stats import CONFIDENCE, TAIL

DEGREES = (0.3, 1, 1.5, 2, 2.7, 3, 4, 5.5, 8, 13, 21.25, 34, 55, 89.9, 144, 233, 500, 1000.5, 5000, 1e5, 1e6, 1e8)
PROBABILITIES = (1e-6, 0.001, 0.025, 0.1, 0.3, 0.45, 0.55, 0.75, 0.9, 0.975, 0.99, 0.9975, 0.99999)


def test_quantiles_of_student_agree_with_scipy() -> None:
    for degrees, probability in itertools.product(DEGREES, PROBABILITIES):
        expected = float(stdtrit(degrees, probability))
        assert student_t_quantile(degrees, probability) == pytest.approx(expected, rel=1e-10), (degrees, probability)


@pytest.mark.parametrize("degrees", [2, 3, 5.5, 8, 21.25, 55, 144, 999])
@pytest.mark.parametrize("tied", [1, 2, 3, 7, 50])
def test_quantiles_of_intervals_agree_to_twelve_digits(degrees: float, tied: int) -> None:
    probability = 1 - min(TAIL, (1 - CONFIDENCE) / tied)
    assert student_t_quantile(degrees, probability) == pytest.approx(float(stdtrit(degrees, probability)), rel=1e-12)


def test_stored_intervals_keep_their_last_digit() -> None:
    expected = [float(stdtrit(degrees, 0.975)) for degrees in range(1, EXACT_DEGREES + 1)]
    assert [student_t_quantile(degrees, 1 - TAIL) for degrees in range(1, EXACT_DEGREES + 1)] == expected


def test_the_table_continues_what_is_computed() -> None:
    for degrees in range(1, EXACT_DEGREES + 1):
        assert distributions._upper(degrees, TAIL) == pytest.approx(student_t_quantile(degrees, 0.975), rel=1e-12)


def test_infinite_degrees_are_the_normal_distribution() -> None:
    assert student_t_quantile(math.inf, 0.975) == pytest.approx(float(ndtri(0.975)), rel=1e-14)
    assert student_t_quantile(math.inf, 0.025) == pytest.approx(float(ndtri(0.025)), rel=1e-14)
    assert student_t_quantile(7, 0.5) == 0.0


@pytest.mark.parametrize(("degrees", "probability"), [(0, 0.9), (-1, 0.9), (3, 0), (3, 1), (math.nan, 0.9)])
def test_there_is_no_quantile_outside_the_distribution(degrees: float, probability: float) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        student_t_quantile(degrees, probability)


def test_normal_quantiles_agree_with_scipy() -> None:
    for probability in (1e-9, *PROBABILITIES, 1 - 1e-9):
        assert normal_quantile(probability) == pytest.approx(float(ndtri(probability)), rel=1e-12)
    assert (normal_quantile(0.0), normal_quantile(1.0)) == (-math.inf, math.inf)


@pytest.mark.parametrize("above", [0.05, 0.5, 0.9, 0.95, 0.975])
def test_a_chi_square_variable_of_two_degrees_is_an_exponential_one(above: float) -> None:
    assert chi_square_quantile(2, above) == pytest.approx(-2 * math.log(above), rel=1e-12)


def test_gamma_functions_agree_with_scipy() -> None:
    for x in (0.02, 0.5, 1.0, 1.7, 2.5, 6.0, 11.99, 12.0, 30.5, 400.0, 1e6):
        assert distributions.digamma(x) == pytest.approx(float(digamma(x)), rel=1e-12, abs=1e-14)
        assert trigamma(x) == pytest.approx(float(polygamma(1, x)), rel=1e-12)
        assert tetragamma(x) == pytest.approx(float(polygamma(2, x)), rel=1e-12)


@pytest.mark.parametrize("chance", [0.0, 0.1, 1 / 3, 0.5, 1.0])
def test_tails_of_the_binomial_distribution_are_the_sum_of_its_terms(chance: float) -> None:
    terms = [math.comb(20, hits) * chance**hits * (1 - chance) ** (20 - hits) for hits in range(21)]
    for hits in range(-1, 22):
        expected = math.fsum(terms[max(0, hits) :])
        assert binomial_tail(hits, 20, chance) == pytest.approx(expected, rel=1e-12, abs=1e-15), hits


@pytest.mark.parametrize(
    ("count", "degrees", "above", "expected"),
    [
        (2, 10, 0.05, 3.1511),
        (3, 2, 0.05, 8.3308),
        (3, math.inf, 0.05 / 12, 4.5009),
        (6, 2, 0.05 / 12, 41.3406),
        (6, 10, 0.05, 4.9120),
        (6, math.inf, 0.05, 4.0301),
        (24, 4.3, 0.05 / 12, 17.3376),
        (24, 50, 0.05, 5.4386),
        (200, 10, 0.05, 8.9815),
    ],
)
def test_the_range_of_several_is_scipys(count: int, degrees: float, above: float, expected: float) -> None:
    """scipy.stats.studentized_range.ppf, which takes up to a second for each."""
    assert studentized_range_quantile(count, degrees, above) == pytest.approx(expected, rel=2e-4)


def test_one_has_no_range() -> None:
    with pytest.raises(ValueError, match="no range"):
        studentized_range_quantile(1, 10, 0.05)
