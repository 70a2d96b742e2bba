"""A set of builds that was measured in the same sessions before and after."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

from sweeps.ranking.comparison import EXIT_SLOWER, EXIT_UNRESOLVED, compare
from sweeps.ranking.comparison_input import Origin, Result
from sweeps.ranking.peer_evidence import Peer, _medians_of_others, peers
from sweeps.ranking.session_ratio import PRIOR, Spread
from sweeps.report.comparison_text import print_comparison
from tests.builders import result_of

BUILDS = 24


def side(medians_ms, days) -> list[Result]:
    """One result for each build. `medians_ms`: builds x sessions x rounds; `days`: one for each session."""
    return [
        result_of(
            f"build {number}",
            (float(ms) for session in build for ms in session),
            (Origin(run=str(day), session=day) for day, session in zip(days, build, strict=True) for _ in session),
        )
        for number, build in enumerate(medians_ms)
    ]


def drawn(seed, factors, *, sessions=3, shared=0.01, own=0.0, processes=0.02) -> tuple[list[Result], list[Result]]:
    """Both sides, three rounds a session; `factors`: how much slower each build has become."""
    random, count = np.random.default_rng(seed), len(factors)
    true = 10.0 * np.exp(0.35 * random.standard_normal(count))

    def measured(true_ms, days):
        noise = shared * random.standard_normal(len(days)) + own * random.standard_normal((count, len(days)))
        rounds = processes * random.standard_normal((count, len(days), 3))
        return side(true_ms[:, None, None] * np.exp(noise[..., None] + rounds), days)

    return measured(true, range(1, 1 + sessions)), measured(true * np.asarray(factors), range(101, 101 + sessions))


def against(sides, margin_percent=5.0):
    return compare(("before", sides[0]), ("after", sides[1]), margin_percent)


def one_changed(factor, usual=1.0):
    return [factor, *[usual] * (BUILDS - 1)]


@pytest.mark.parametrize(
    ("factors", "passed", "slower"),
    [
        (one_changed(1.0), range(8, 11), range(1)),
        (one_changed(1.05), range(1), range(3, 10)),
        (one_changed(1.1), range(1), range(10, 11)),
        ([1.05] * BUILDS, range(1), range(3, 11)),
    ],
    ids=["unchanged", "one by the margin", "one by twice the margin", "all by the margin"],
)
def test_a_set_of_three_sessions_a_side_passes_if_nothing_changed(factors, passed, slower):
    """The numbers are of 10 comparisons; `tests/benchmarks/bench_gate.py` has the figures."""
    comparisons = [against(drawn(seed, factors)) for seed in range(10)]
    assert sum(comparison.exit_code == 0 for comparison in comparisons) in passed
    assert (
        sum(
            any(each.name == "build 0" and each.finding == "slower" for each in comparison.results)
            for comparison in comparisons
        )
        in slower
    )
    unchanged = {f"build {number}" for number, factor in enumerate(factors) if factor == 1.0}
    assert not any(
        each.finding == "slower" and each.name in unchanged for comparison in comparisons for each in comparison.results
    )


def test_one_build_that_became_much_faster_does_not_make_the_others_slower():
    comparison = against(drawn(1, one_changed(1 / 3), processes=0.01))
    assert comparison.exit_code == 0
    assert {pair.finding for pair in comparison.results} == {"faster", "the same"}


def test_builds_that_stayed_where_most_became_faster_are_not_called_slower():
    for seed in range(5):
        comparison = against(drawn(seed, [1.0] * 4 + [0.85] * 20))
        assert comparison.exit_code != EXIT_SLOWER


def test_what_the_whole_set_shares_is_not_hidden_by_its_builds_agreeing():
    comparison = against(drawn(3, [1.1] * BUILDS))
    assert {pair.finding for pair in comparison.results} == {"slower"}
    assert comparison.wholes[0].builds == BUILDS
    assert comparison.wholes[0].ratio == pytest.approx(1.1, abs=0.03)
    assert comparison.wholes[0].ratio_low < comparison.wholes[0].ratio < comparison.wholes[0].ratio_high


def test_a_set_that_became_a_little_faster_is_not_slower_and_passes(capsys):
    comparison = against(drawn(4, [0.965] * BUILDS, shared=0.002, processes=0.005))
    assert comparison.exit_code == 0
    assert "not slower" in {pair.finding for pair in comparison.results}
    print_comparison(comparison)
    assert "not slower: shown to be slower by less than 5 %, if at all" in capsys.readouterr().out


def test_one_session_of_each_side_is_no_set_and_does_not_pass():
    comparison = against(drawn(5, [1.0] * BUILDS, sessions=1))
    assert (comparison.exit_code, comparison.wholes) == (EXIT_UNRESOLVED, ())
    assert {pair.set_of for pair in comparison.results} == {1}


def test_one_session_against_a_few_calls_nothing_of_a_set_slower():
    a, b = drawn(7, [1.4] * 8)
    first = [row.only({"1"}) for row in a]
    comparison = against((first, b))
    assert {pair.finding for pair in comparison.results} == {"slower (one session)"}
    assert ({pair.set_of for pair in comparison.results}, comparison.exit_code) == ({8}, EXIT_UNRESOLVED)
    assert "within these sessions" in comparison.results[0].why
    assert {pair.finding for pair in against((a, b)).results} == {"slower"}


def test_what_is_left_of_a_set_is_said_with_the_sessions_that_settle_it(capsys):
    noisy = {"shared": 0.02, "processes": 0.02}
    comparison = against(drawn(6, [1.0] * BUILDS, **noisy))
    assert comparison.exit_code == EXIT_UNRESOLVED
    needed = comparison.sessions_needed
    assert 3 < needed < 10
    assert comparison.document()["sessions_needed"] == needed
    assert against(drawn(6, [1.0] * BUILDS, sessions=needed, **noisy)).exit_code == 0
    print_comparison(comparison)
    text = " ".join(capsys.readouterr().out.split())
    left = len(comparison.open_results)
    assert f"left: {left} of 24; about {needed} sessions of each side would settle all of them" in text
    assert "set of 24 builds on Maker Phone (SoC): " in text
    assert "measure both again at least 30 minutes later, or both in one run, or allow more with --margin" in text
    open_claims = comparison.open_results[0].why.partition(";")[0]
    assert open_claims.startswith(
        ("the set of 24 as a whole ", "against the others of the set ", "within these sessions ")
    )


def test_a_set_that_passed_has_nothing_left(capsys):
    comparison = against(drawn(2, [1.0] * BUILDS, processes=0.005))
    assert (comparison.exit_code, comparison.sessions_needed, comparison.open_results) == (0, None, ())
    print_comparison(comparison)
    assert "left:" not in capsys.readouterr().out


def pairs(sides):
    return list(zip(*sides, strict=True))


def test_builds_of_other_sessions_and_few_builds_are_judged_alone():
    assert peers(pairs(drawn(0, [1.0] * 3)), PRIOR) == [None] * 3
    assert peers(pairs(drawn(0, [1.0] * 4, sessions=1)), PRIOR) == [None] * 4
    a, b = drawn(0, [1.0] * 9)
    odd = replace(b[0], medians_ms=b[0].medians_ms[:6], origins=b[0].origins[:6])
    mixed = replace(b[1], origins=a[1].origins[:3] + b[1].origins[3:])
    evidence = peers(list(zip(a, [odd, mixed, *b[2:]], strict=True)), PRIOR)
    assert evidence[:2] == [None, None]
    assert {peer.builds for peer in evidence[2:] if peer is not None} == {7}


def test_the_parts_of_a_ratio_are_those_of_the_analysis_of_variance():
    sides = drawn(8, [1.0] * BUILDS, sessions=2)
    evidence = peers(pairs(sides), PRIOR)
    logs = [np.log([row.medians_ms for row in each]).reshape(BUILDS, 2, 3) for each in sides]
    means = [each.mean(axis=2) for each in logs]
    totals = means[1].mean(axis=1) - means[0].mean(axis=1)
    assert [peer.total for peer in evidence] == pytest.approx(totals)
    assert {peer.whole for peer in evidence} == {float(np.median(totals))}
    assert [peer.own for peer in evidence] == pytest.approx(
        [total - np.median(np.delete(totals, place)) for place, total in enumerate(totals)]
    )
    (spread,) = {peer.shared for peer in evidence}
    assert spread.variance == pytest.approx(sum(each.mean(axis=0).var(ddof=1) for each in means) / 2)
    assert spread.degrees == 2
    # All spreads are one, so each build has the variance of all, as the mean of squares has it.
    rest = [each - each.mean(axis=1, keepdims=True) - (each.mean(axis=0) - each.mean()) for each in means]
    pooled = sum(float((each**2).sum()) for each in rest) / (2 * (BUILDS - 1))
    alone = np.mean([peer.alone.variance for peer in evidence])
    assert alone == pytest.approx(pooled, rel=0.25)


def test_the_interval_of_the_shared_part_is_the_wider_of_the_two():
    still = Spread(0.0, 1.0)
    usual = {
        "total": 0.0,
        "whole": 0.0,
        "own": 0.0,
        "builds": 24,
        "alone": still,
        "inside": still,
        "place": still,
        "in_one_run": False,
    }
    for device, spread, variance, degrees in (
        (Spread(0.03**2, 7), Spread(0.001**2, 4), 0.03**2, 7),
        (Spread(0.03**2, 7), Spread(0.06**2, 4), 0.06**2, 4),
    ):
        peer = Peer(**usual, sessions=(3, 3), device=device, shared=spread)
        half = t.ppf(0.975, degrees) * math.sqrt(variance * 2 / 3)
        assert peer.ratio().high == pytest.approx(math.exp(half))
        assert peer.after(12).ratio().high < math.exp(half / 2)


def test_the_median_of_all_others_is_found_for_each():
    for count in range(2, 9):
        values = np.random.default_rng(count).normal(size=count).round(1)
        expected = [np.median(np.delete(values, place)) for place in range(count)]
        assert _medians_of_others(values).tolist() == pytest.approx(expected)


def test_a_set_of_one_run_has_no_session_between_its_sides():
    a, b = drawn(9, [1.0] * BUILDS, sessions=1, processes=0.01)
    b = [replace(row, origins=a[0].origins) for row in b]
    (device,) = {peer.device for peer in peers(pairs((a, b)), PRIOR)}
    assert device.variance == 0.0
    assert against((a, a)).exit_code == 0
