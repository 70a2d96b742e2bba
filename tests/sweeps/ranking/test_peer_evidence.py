"""A set of builds that was measured in the same sessions before and after."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

from sweeps.ranking.comparison import EXIT_SLOWER, EXIT_UNRESOLVED, compare
from sweeps.ranking.comparison_input import Origin, Result, SessionConditions
from sweeps.ranking.peer_evidence import Peer, _medians_of_others, peers
from sweeps.ranking.session_ratio import PRIOR, Spread
from sweeps.report.comparison_text import print_comparison

CONDITIONS = SessionConditions(
    preset="quick",
    runtime_version="2.12.1",
    exec_context="shell",
    gate="gated",
    fixed_performance="on",
    runner="r 1",
    protocol="",
)
BUILDS = 24


def side(medians_ms, days) -> list[Result]:
    """One result for each build. `medians_ms`: builds x sessions x rounds; `days`: one for each session."""
    return [
        Result(
            name=f"build {number}",
            model="net",
            setup=(str(number),),
            device="Maker Phone (SoC)",
            device_id="unit-1",
            fingerprint="f",
            conditions=CONDITIONS,
            medians_ms=tuple(float(one) for session in build for one in session),
            origins=tuple(
                Origin(run=str(day), session=day) for day, session in zip(days, build, strict=True) for _ in session
            ),
            trust=(),
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


def one_changed(factor, others=1.0):
    return [factor, *[others] * (BUILDS - 1)]


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
    """Of 10 comparisons; `tests/benchmarks/bench_gate.py` has the figures."""
    found = [against(drawn(seed, factors)) for seed in range(10)]
    assert sum(one.exit_code == 0 for one in found) in passed
    assert (
        sum(any(each.name == "build 0" and each.finding == "slower" for each in one.results) for one in found) in slower
    )
    unchanged = {f"build {number}" for number, factor in enumerate(factors) if factor == 1.0}
    assert not any(each.finding == "slower" and each.name in unchanged for one in found for each in one.results)


def test_one_build_that_became_much_faster_does_not_make_the_others_slower():
    found = against(drawn(1, one_changed(1 / 3), processes=0.01))
    assert found.exit_code == 0
    assert {one.finding for one in found.results} == {"faster", "the same"}


def test_builds_that_stayed_where_most_became_faster_are_not_called_slower():
    for seed in range(5):
        found = against(drawn(seed, [1.0] * 4 + [0.85] * 20))
        assert found.exit_code != EXIT_SLOWER


def test_what_the_whole_set_shares_is_not_hidden_by_its_builds_agreeing():
    found = against(drawn(3, [1.1] * BUILDS))
    assert {one.finding for one in found.results} == {"slower"}
    assert found.wholes[0].builds == BUILDS
    assert found.wholes[0].ratio == pytest.approx(1.1, abs=0.03)
    assert found.wholes[0].ratio_low < found.wholes[0].ratio < found.wholes[0].ratio_high


def test_a_set_that_became_a_little_faster_is_not_slower_and_passes(capsys):
    found = against(drawn(4, [0.965] * BUILDS, shared=0.002, processes=0.005))
    assert found.exit_code == 0
    assert "not slower" in {one.finding for one in found.results}
    print_comparison(found)
    assert "not slower: shown to be slower by less than 5 %, if at all" in capsys.readouterr().out


def test_one_session_of_each_side_is_no_set_and_does_not_pass():
    found = against(drawn(5, [1.0] * BUILDS, sessions=1))
    assert (found.exit_code, found.wholes) == (EXIT_UNRESOLVED, ())
    assert {one.set_of for one in found.results} == {1}


def test_one_session_against_a_few_calls_nothing_of_a_set_slower():
    a, b = drawn(7, [1.4] * 8)
    first = [one.only({"1"}) for one in a]
    found = against((first, b))
    assert {one.finding for one in found.results} == {"slower (one session)"}
    assert ({one.set_of for one in found.results}, found.exit_code) == ({8}, EXIT_UNRESOLVED)
    assert "within these sessions" in found.results[0].why
    assert {one.finding for one in against((a, b)).results} == {"slower"}


def test_what_is_left_of_a_set_is_said_with_the_sessions_that_settle_it(capsys):
    noisy = {"shared": 0.02, "processes": 0.02}
    found = against(drawn(6, [1.0] * BUILDS, **noisy))
    assert found.exit_code == EXIT_UNRESOLVED
    needed = found.sessions_needed
    assert 3 < needed < 10
    assert found.document()["sessions_needed"] == needed
    assert against(drawn(6, [1.0] * BUILDS, sessions=needed, **noisy)).exit_code == 0
    print_comparison(found)
    text = " ".join(capsys.readouterr().out.split())
    left = len(found.open_results)
    assert f"left: {left} of 24; about {needed} sessions of each side would settle all of them" in text
    assert "set of 24 builds on Maker Phone (SoC): " in text
    assert "measure both again at least 30 minutes later, or both in one run, or allow more with --margin" in text
    open_claims = found.open_results[0].why.partition(";")[0]
    assert open_claims.startswith(
        ("the set of 24 as a whole ", "against the others of the set ", "within these sessions ")
    )


def test_a_set_that_passed_has_nothing_left(capsys):
    found = against(drawn(2, [1.0] * BUILDS, processes=0.005))
    assert (found.exit_code, found.sessions_needed, found.open_results) == (0, None, ())
    print_comparison(found)
    assert "left:" not in capsys.readouterr().out


def pairs(sides):
    return list(zip(*sides, strict=True))


def test_builds_of_other_sessions_and_few_builds_are_judged_alone():
    assert peers(pairs(drawn(0, [1.0] * 3)), PRIOR) == [None] * 3
    assert peers(pairs(drawn(0, [1.0] * 4, sessions=1)), PRIOR) == [None] * 4
    a, b = drawn(0, [1.0] * 9)
    odd = replace(b[0], medians_ms=b[0].medians_ms[:6], origins=b[0].origins[:6])
    mixed = replace(b[1], origins=a[1].origins[:3] + b[1].origins[3:])
    found = peers(list(zip(a, [odd, mixed, *b[2:]], strict=True)), PRIOR)
    assert found[:2] == [None, None]
    assert {one.builds for one in found[2:] if one is not None} == {7}


def test_the_parts_of_a_ratio_are_those_of_the_analysis_of_variance():
    sides = drawn(8, [1.0] * BUILDS, sessions=2)
    found = peers(pairs(sides), PRIOR)
    logs = [np.log([one.medians_ms for one in each]).reshape(BUILDS, 2, 3) for each in sides]
    means = [each.mean(axis=2) for each in logs]
    totals = means[1].mean(axis=1) - means[0].mean(axis=1)
    assert [one.total for one in found] == pytest.approx(totals)
    assert {one.whole for one in found} == {float(np.median(totals))}
    assert [one.own for one in found] == pytest.approx(
        [total - np.median(np.delete(totals, place)) for place, total in enumerate(totals)]
    )
    (seen,) = {one.seen for one in found}
    assert seen.variance == pytest.approx(sum(each.mean(axis=0).var(ddof=1) for each in means) / 2)
    assert seen.degrees == 2
    # All spreads are one, so each build has the variance of all, as the mean of squares has it.
    rest = [each - each.mean(axis=1, keepdims=True) - (each.mean(axis=0) - each.mean()) for each in means]
    pooled = sum(float((each**2).sum()) for each in rest) / (2 * (BUILDS - 1))
    alone = np.mean([one.alone.variance for one in found])
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
    for device, seen, variance, degrees in (
        (Spread(0.03**2, 7), Spread(0.001**2, 4), 0.03**2, 7),
        (Spread(0.03**2, 7), Spread(0.06**2, 4), 0.06**2, 4),
    ):
        peer = Peer(**usual, sessions=(3, 3), device=device, seen=seen)
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
    b = [replace(one, origins=a[0].origins) for one in b]
    (device,) = {one.device for one in peers(pairs((a, b)), PRIOR)}
    assert device.variance == 0.0
    assert against((a, a)).exit_code == 0
