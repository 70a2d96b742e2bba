"""A tie is settled by more rounds, of which the ranking says how many."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from sweeps.ranking.ties import (
    LATENCY,
    MadeOf,
    Settling,
    latency_ratio,
    made_of,
    settling,
    shown_equal,
    worse,
)
from sweeps.settled import Settled


def with_ratios(logs):
    """Block medians of two variants whose paired log ratios are these; rounds differ wildly in speed."""
    pace = {number: 10.0 * 3.0 ** (number % 4) for number in range(len(logs))}
    return {number: pace[number] * math.exp(log) for number, log in enumerate(logs)}, pace


def scaled(mean, spread, rounds):
    """Log ratios with exactly this mean and standard deviation."""
    shape = np.random.default_rng(rounds).standard_normal(rounds)
    return mean + spread * (shape - shape.mean()) / shape.std(ddof=1)


@pytest.mark.parametrize(("mean", "spread"), [(0.05, 0.08), (0.03, 0.1), (-0.05, 0.08), (0.2, 0.5)])
def test_after_that_many_more_rounds_a_t_test_tells_them_apart_and_one_before_not(mean, spread):
    estimate = settling(*with_ratios(scaled(mean, spread, 3)))
    assert estimate.outcome == "told apart"
    assert ttest_1samp(scaled(mean, spread, 3 + estimate.rounds), 0.0).pvalue < 0.05
    assert estimate.rounds == 1 or ttest_1samp(scaled(mean, spread, 2 + estimate.rounds), 0.0).pvalue > 0.05


@pytest.mark.parametrize(("mean", "spread"), [(0.0, 0.05), (0.01, 0.05), (-0.01, 0.05), (0.015, 0.02)])
def test_a_difference_under_two_percent_is_settled_once_its_upper_end_is_within_that(mean, spread):
    estimate = settling(*with_ratios(scaled(mean, spread, 3)))
    assert estimate.outcome == "equal"

    def lies_within(rounds):
        return ttest_1samp(scaled(mean, spread, rounds), 0.0).confidence_interval().high <= math.log(1.02)

    assert lies_within(3 + estimate.rounds)
    assert not lies_within(2 + estimate.rounds)


@pytest.mark.parametrize(
    ("blocks", "equal"),
    [
        ((10.01, 10.02, 10.01), True),
        ((10.0, 10.3, 9.8), False),
        ((10.0,), False),
        ((9.0, 9.0, 9.0), True),
        ((), False),
    ],
)
def test_two_latencies_are_shown_to_be_equal_by_the_upper_end_of_their_paired_ratio(blocks, equal):
    row, best = (
        SimpleNamespace(name="", settled=None, medians_ms=dict(enumerate(medians)))
        for medians in (blocks, (10.0, 10.01, 10.0))
    )
    assert shown_equal(row, best, LATENCY) is equal


@pytest.mark.parametrize(
    ("metric", "value", "equal"),
    [
        ("artifact_mb", 1.01, True),
        ("load_ms", 1.01, False),
        ("accuracy_drop_points", 1.01, False),
        ("toy_energy_mj", 1.01, False),
        ("toy_energy_mj", 1.0, True),
    ],
)
def test_a_metric_that_may_vary_is_shown_to_be_equal_only_by_the_same_value(metric, value, equal):
    row, best = (SimpleNamespace(figure=lambda _, number=number: number) for number in (value, 1.0))
    assert shown_equal(row, best, metric) is equal


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 7])
def test_a_ratio_is_the_quotient_of_the_two_figures_that_it_is_said_to_be_made_of(rounds):
    medians, other_medians = with_ratios(scaled(0.4, 0.1, 8))
    row, other = (
        SimpleNamespace(settled=None, medians_ms=dict(list(ms.items())[:count]), figure=lambda _: None)
        for ms, count in ((medians, rounds), (other_medians, 8))
    )
    quotient, ratio = made_of(row, other), latency_ratio(row, other)
    assert (quotient.source, quotient.rounds) == ("rounds", rounds)
    assert quotient.ms / quotient.other_ms == pytest.approx(ratio.value, rel=1e-12)
    assert rounds % 2 == 0 or any(quotient.ms == pytest.approx(ms) for ms in row.medians_ms.values()), "a round's own"


def test_without_a_common_round_a_ratio_is_of_the_p50s_and_with_batches_of_no_times():
    ended = Settled(job_key="", budget="race", rounds=0, reason="best", message="", by_key="b", ratio=1.1)
    ended = replace(ended, ratio_low=1.0, ratio_high=1.2)
    row, other = (
        SimpleNamespace(job_key=key, settled=settled, medians_ms={number: ms}, figure=lambda _, ms=ms: ms)
        for key, settled, number, ms in (("a", None, 0, 6.0), ("b", None, 1, 4.0))
    )
    assert made_of(row, other) == MadeOf(source="times", ms=6.0, other_ms=4.0)
    row.settled = ended
    assert made_of(row, other) == made_of(other, row) == MadeOf(source="batches")


def test_what_is_shown_already_is_said_to_be_so():
    assert Settling(rounds=0, outcome="equal").text == "equal in practice: within 2 % at 95 %"


def test_what_no_thousand_rounds_would_settle_is_said_to_be_so():
    estimate = settling(*with_ratios(scaled(math.log(1.02) - 1e-5, 0.3, 5)))
    assert estimate.rounds is None
    assert estimate.text == "not settled in 1,000 more rounds"


def test_the_text_names_the_rounds_and_what_they_would_show():
    apart = settling(*with_ratios(scaled(0.05, 0.08, 5)))
    assert apart.text == f"about {apart.rounds} more rounds would tell them apart"
    equal = settling(*with_ratios(scaled(0.0, 0.05, 5)))
    assert equal.text == f"about {equal.rounds} more rounds would show them equal, within 2 %"


def test_from_a_few_rounds_that_differ_a_thousandfold_no_number_is_promised():
    estimate = settling({0: 30.0, 1: 90.0}, {0: 1.0, 1: 1.0})
    assert estimate.text == "at least 3 more rounds to tell them apart"
    wide = settling(*with_ratios(scaled(0.05, 0.08, 3)))
    assert wide.rounds > 3
    assert wide.text == f"at least {wide.rounds} more rounds to tell them apart"


@pytest.mark.parametrize("rounds", [{}, {1: 10.0}, {7: 10.0, 8: 10.0}])
def test_without_two_common_rounds_nothing_can_be_said(rounds):
    assert settling(rounds, {1: 10.0, 2: 10.0}) is None


@pytest.mark.parametrize(("value", "is_worse"), [(1.0, False), (1.03, False), (1.4, False), (1.6, True)])
def test_a_metric_without_an_interval_lets_runs_differ_as_unrepeated_times_do(value, is_worse):
    row, best = (
        SimpleNamespace(figure=lambda _, number=number: number, name="", settled=None, medians_ms={}, figures={})
        for number in (value, 1.0)
    )
    assert worse(row, best, "toy_energy_mj", smaller=True) is is_worse
