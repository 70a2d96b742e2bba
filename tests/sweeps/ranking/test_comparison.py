"""One set of results against another, measured on another day."""

import json
import math
from dataclasses import MISSING, fields, replace

import numpy as np
import pytest
from scipy.stats import ttest_ind

from sweeps.ranking.comparison import EXIT_NOT_COMPARED, EXIT_SLOWER, EXIT_UNRESOLVED, compare
from sweeps.ranking.comparison_input import Origin, Result, SessionConditions
from sweeps.ranking.latency_findings import latency_finding
from sweeps.ranking.session_ratio import PRIOR, Series, ratio
from sweeps.report.comparison_text import print_comparison
from sweeps.results import ResultRow, read_rows, to_frame
from sweeps.stats import Estimate
from tests.builders import result_of

QUICK = {"preset": "quick", "min_seconds": 0.5, "gate": {"max_thermal_status": 0}, "fixed_performance": True}

BLANK = {
    field.name: {"bool": False, "int": 0}.get(getattr(field.type, "__name__", ""), "")
    for field in fields(ResultRow)
    if field.default is MISSING and field.default_factory is MISSING
} | {"sweep": "monday"}


def like(**changes):
    usual = {
        "preset": "quick",
        "runtime_version": "2.12.1",
        "runner": "edgesweep-torchscript 1",
        "exec_context": "shell",
        "gate": "gated",
        "fixed_performance": "on",
        "protocol": json.dumps(QUICK),
    }
    return SessionConditions(**usual | changes)


def unchecked(value, low, high):
    """An estimate as it would be if it did not refuse an interval that is none."""
    estimate = object.__new__(Estimate)
    for name, figure in (("value", value), ("low", low), ("high", high)):
        object.__setattr__(estimate, name, figure)
    return estimate


def result(name, medians_ms, **changes):
    """A result measured in one run with all others, so that sessions add nothing."""
    usual = {"setup": (name, "", "1", "all", "True"), "conditions": like(), "trust": ("ungated",)}
    origins = changes.pop("origins", (Origin(run="1"),) * len(medians_ms))
    return result_of(f"net · {name}", medians_ms, origins, **usual | changes)


def changed(base, **changes):
    """A copy of a result that is still of that run."""
    copy = replace(base, **changes)
    return replace(copy, origins=(Origin(run="1"),) * len(copy.medians_ms))


def over_sessions(name, medians_ms, *sessions, **changes):
    """The same blocks once in each session, which has an effect: a number of each, and a factor."""
    medians = [factor * ms for _, factor in sessions for ms in medians_ms]
    origins = tuple(Origin(run=str(number), session=number) for number, _ in sessions for _ in medians_ms)
    return result(name, medians, origins=origins, **changes)


def against(a, b, margin_percent=5.0, **options):
    return compare(("monday", a), ("tuesday", b), margin_percent, **options)


STEADY = (10.0, 10.1, 9.9, 10.05)


@pytest.mark.parametrize(
    ("value", "low", "high", "margin_percent", "judgement"),
    [
        (1.03, 1.01, 1.05, 5, "slower"),
        (1.019, 1.018, 1.02, 5, "the same"),
        (1.03, 0.999, 1.049, 5, "the same"),
        (1.03, 0.999, 1.051, 5, "unresolved"),
        (1.015, 1.001, 1.06, 5, "unresolved"),
        (1.2, 0.9, 1.6, 5, "unresolved"),
        (1.2, 0.9, 1.6, 60, "the same"),
        (1.0, 0.953, 1.049, 5, "the same"),
        (1.0, 0.951, 1.049, 5, "not slower"),
        (1.0, 0.951, 1.051, 5, "unresolved"),
        (0.97, 0.95, 0.99, 5, "faster"),
        (0.985, 0.98, 0.999, 5, "the same"),
        (0.8, 0.6, 1.1, 5, "unresolved"),
        (1.0, None, None, 100, "unresolved"),
        (math.nan, None, None, 100, "unresolved"),
        (math.nan, math.nan, math.nan, 100, "unresolved"),
    ],
)
def test_only_an_interval_within_the_margin_is_the_same(value, low, high, margin_percent, judgement):
    assert latency_finding(unchecked(value, low, high), margin_percent) == judgement


def test_a_margin_under_two_percent_is_also_the_least_slower_so_more_rounds_end_it():
    assert latency_finding(Estimate(1.015, 1.014, 1.016), 1.0) == "slower"
    assert latency_finding(Estimate(1 / 1.015, 1 / 1.016, 1 / 1.014), 1.0) == "faster"
    assert latency_finding(Estimate(1.005, 1.004, 1.006), 1.0) == "the same"


@pytest.mark.parametrize(
    ("factor", "finding", "code"), [(1.1, "slower", 3), (0.9, "faster", 0), (1.0, "the same", 0), (1.01, "the same", 0)]
)
def test_a_variant_is_slower_faster_or_the_same(factor, finding, code):
    comparison = against([result("a", STEADY)], [result("a", [factor * ms for ms in STEADY])])
    (pair,) = comparison.results
    assert (pair.finding, comparison.exit_code) == (finding, code)
    assert pair.ratio == pytest.approx(factor)
    assert pair.ratio_low < factor < pair.ratio_high
    assert pair.ratio == pytest.approx(pair.b_mean_ms / pair.a_mean_ms)


def test_under_two_percent_is_the_same_however_well_it_is_resolved():
    (pair,) = against([result("a", [10.0] * 4)], [result("a", [10.15] * 4)]).results
    assert (pair.finding, pair.ratio_low) == ("the same", pytest.approx(1.015))


def test_what_the_rounds_leave_open_is_unresolved_and_no_pass():
    comparison = against([result("a", (9.0, 10.0, 11.0))], [result("a", (10.5, 12.0, 13.5))])
    (pair,) = comparison.results
    assert (pair.finding, comparison.exit_code) == ("unresolved", EXIT_UNRESOLVED)
    assert pair.ratio == pytest.approx(1.2, abs=0.01)
    assert (
        pair.why == f"{pair.ratio_low:.4g}× to {pair.ratio_high:.4g}×; measure more rounds, or allow more with --margin"
    )


def test_a_wider_margin_allows_what_a_narrow_one_leaves_open():
    a, b = [result("a", (9.9, 10.0, 10.1))], [result("a", (9.7, 10.0, 10.3))]
    assert against(a, b, 1.0).exit_code == EXIT_UNRESOLVED
    comparison = against(a, b, 10.0)
    assert (comparison.exit_code, comparison.results[0].finding, comparison.results[0].why) == (0, "the same", "")


def test_many_variants_pass_with_the_rounds_that_one_passes_with():
    ms = (10.0, 10.2, 9.8, 10.1)
    for count in (1, 3, 24):
        many = [result(str(n), ms) for n in range(count)]
        comparison = against(many, many)
        assert ({pair.finding for pair in comparison.results}, comparison.exit_code) == ({"the same"}, 0)


def test_the_interval_is_welchs_on_logarithms():
    now, then = np.random.default_rng(1).lognormal(2.4, 0.2, 5), np.random.default_rng(2).lognormal(2.3, 0.05, 9)
    reference = ttest_ind(np.log(now), np.log(then), equal_var=False).confidence_interval()
    interval = ratio(result("a", now), result("a", then), PRIOR)
    assert (math.log(interval.low), math.log(interval.high)) == pytest.approx((reference.low, reference.high))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"device": "Maker Tablet (SoC)", "fingerprint": "f2"},
            "device class: Maker Phone (SoC) and Maker Tablet (SoC)",
        ),
        ({"fingerprint": "f2"}, "device fingerprint (OS build, runtimes): f1 and f2"),
        ({"conditions": like(runtime_version="2.13.0")}, "runtime version: 2.12.1 and 2.13.0"),
        (
            {"conditions": like(runner="speed_benchmark_torch 0f")},
            "runner: edgesweep-torchscript 1 and speed_benchmark_torch 0f",
        ),
        ({"conditions": like(preset="full")}, "preset: quick and full"),
        ({"conditions": like(exec_context="app")}, "execution context: shell and app"),
        ({"conditions": like(gate="none")}, "gate: gated and none"),
        ({"conditions": like(fixed_performance="")}, "fixed-performance mode: on and none"),
        ({"conditions": like(protocol=json.dumps(QUICK | {"min_seconds": 2}))}, "min_seconds 0.5 and 2.0"),
        ({"conditions": like(protocol="")}, "and not recorded"),
        ({"trust": ("throttled",)}, "B is throttled"),
        ({"trust": ("from_tomorrow",)}, "B is from_tomorrow"),
        ({"medians_ms": (10.0,)}, "B has one timed block, 2 are needed"),
        ({"medians_ms": ()}, "B has no timed blocks, 2 are needed"),
    ],
)
def test_unlike_results_are_not_compared_and_it_is_said_why(changes, words):
    comparison = against([result("a", STEADY)], [changed(result("a", STEADY), **changes)])
    (pair,) = comparison.results
    assert pair.finding == "not comparable"
    assert words in pair.why
    assert comparison.exit_code == EXIT_NOT_COMPARED


def test_a_runner_that_was_not_recorded_is_no_other_runner():
    before = result("a", STEADY, conditions=like(runner=""))
    for a, b in ((before, result("a", STEADY)), (result("a", STEADY), before)):
        (pair,) = against([a], [b]).results
        assert (pair.finding, pair.why) == ("the same", "")


def test_a_limit_is_the_same_however_its_number_is_written():
    whole = like(protocol=json.dumps({"gate": {"limit": 0}}))
    assert whole == like(protocol=json.dumps({"gate": {"limit": 0.0}}))


def test_two_rounds_of_a_thousand_variants_are_unresolved_and_no_overflow():
    many = [result(str(n), (10.0, 20.0)) for n in range(1000)]
    comparison = against(many, many)
    assert (comparison.exit_code, len(comparison.results)) == (EXIT_UNRESOLVED, 1000)
    json.dumps(comparison.document(), allow_nan=False)


def test_medians_whose_ratio_no_float_holds_are_slower_and_no_overflow():
    comparison = against([result("a", (1e-300, 1.1e-300))], [result("a", (1e300, 1.1e300))])
    assert comparison.exit_code == EXIT_SLOWER
    assert against([result("a", (1e-300, 1e-300))], [result("a", (1e300, 1e300))]).exit_code == EXIT_SLOWER
    json.dumps(comparison.document(), allow_nan=False)


@pytest.mark.parametrize("damaged", [math.nan, math.inf, 0.0, -1.0])
def test_a_median_that_is_no_positive_number_is_not_known(damaged):
    row = ResultRow(**BLANK, block_medians_ms=((0, 10.0), (1, damaged), (2, 10.1)), device_seconds=math.inf)
    (row,) = read_rows(to_frame([row]), "monday")
    assert (row.block_medians_ms, row.device_seconds) == (((0, 10.0), (2, 10.1)), 0.0)
    (pair,) = against([Result.of_row(row)], [Result.of_row(replace(row, block_medians_ms=((0, 10.0),)))]).results
    assert (pair.finding, pair.why) == ("not comparable", "B has one timed block, 2 are needed")


def test_slower_outweighs_not_comparable_which_outweighs_unresolved():
    # Bonferroni over four pairs, so their rounds agree better than those of one.
    steady = result("same", (10.0, 10.01, 9.99, 10.0))
    slow = changed(steady, name="net · slow", setup=("slow",), medians_ms=(20.0, 20.1, 19.9, 20.0))
    wide = changed(steady, name="net · wide", setup=("wide",), medians_ms=(8.0, 9.0, 11.0, 12.0))
    other = replace(steady, name="net · other", setup=("other",), fingerprint="f2")
    base = [
        steady,
        *(changed(changing, medians_ms=steady.medians_ms, fingerprint="f1") for changing in (slow, wide, other)),
    ]
    comparison = against(base, [steady, slow, wide, other])
    assert [pair.finding for pair in comparison.results] == ["slower", "unresolved", "the same", "not comparable"]
    assert comparison.exit_code == EXIT_SLOWER
    assert against([*base[:1], *base[2:]], [steady, wide, other]).exit_code == EXIT_NOT_COMPARED
    assert against(base[:3:2], [steady, wide]).exit_code == EXIT_UNRESOLVED
    assert against(base, [steady, wide]).exit_code == EXIT_NOT_COMPARED
    assert against(base[:1], [steady]).exit_code == 0


def test_slower_outweighs_not_comparable_and_all_of_a_has_to_be_compared():
    slow = result("slow", [20.0, 20.1, 19.9])
    other = result("b", STEADY, fingerprint="f2")
    steady = result("same", STEADY)
    base = [changed(slow, medians_ms=STEADY), replace(other, fingerprint="f1"), steady]
    assert against(base, [slow, other, steady]).exit_code == EXIT_SLOWER
    assert against(base, [other, steady]).exit_code == EXIT_NOT_COMPARED
    assert [pair.finding for pair in against(base, [steady, other, slow]).results] == [
        "slower",
        "the same",
        "not comparable",
    ]


def test_what_only_one_has_is_named_and_nothing_in_common_is_nothing_comparable():
    comparison = against([result("a", STEADY)], [result("b", STEADY)])
    assert (comparison.results, comparison.only_a, comparison.only_b) == ((), ("net · a",), ("net · b",))
    assert comparison.exit_code == EXIT_NOT_COMPARED


def test_each_unit_is_compared_with_itself_where_both_measured_it():
    units = [result("a", [ms * factor for ms in STEADY], device_id=f"unit-{factor}") for factor in (1, 2, 3)]
    comparison = against(units, units[::-1])
    assert [pair.ratio for pair in comparison.results] == [1.0, 1.0, 1.0]
    assert comparison.only_a == ()


def test_another_unit_of_the_same_fingerprint_stands_in_for_one_that_is_not_there():
    other = result("a", STEADY, device_id="unit-9")
    unlike = result("a", STEADY, device_id="unit-8", fingerprint="f2")
    (pair,) = against([unlike, other], [result("a", STEADY)], 20.0).results
    assert pair.finding == "the same"
    (pair,) = against([unlike], [result("a", STEADY)], 20.0).results
    assert pair.finding == "not comparable"


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("fingerprint", ["f1", "f2"])
def test_a_unit_that_only_b_has_takes_nothing_from_what_was_compared(named, fingerprint):
    known = result("a", STEADY)
    new = replace(known, name="new", device_id="unit-2", fingerprint=fingerprint)
    for units in ([known, new], [new, known]):
        comparison = against([known], units, named=named)
        assert [(pair.name, pair.finding) for pair in comparison.results] == [("net · a", "the same")]
        assert (comparison.only_a, comparison.only_b, comparison.exit_code) == ((), ("new",), 0)
        comparison = against(units, [known], named=named)
        assert (comparison.only_a, comparison.only_b, comparison.exit_code) == (("new",), (), EXIT_NOT_COMPARED)


def test_units_of_only_one_side_stand_in_for_each_other_once_the_nearest_are_matched():
    a = [result("a", STEADY, device_id="left"), result("a", STEADY, device_id="both")]
    b = [result("a", [2 * ms for ms in STEADY], device_id=unit) for unit in ("right", "both", "late")]
    comparison = against(a, [replace(unit, name=unit.device_id) for unit in b])
    assert [(pair.name, pair.finding) for pair in comparison.results] == [
        ("both", "slower"),
        ("right", "slower (one session)"),
    ]
    assert (comparison.only_a, comparison.only_b) == ((), ("late",))


def test_two_results_that_are_named_are_compared_though_they_are_two_variants():
    a, b = result("a", STEADY), result("b", [2 * ms for ms in STEADY])
    assert against([a], [b]).results == ()
    (pair,) = against([a], [b], named=True).results
    assert (pair.finding, pair.ratio) == ("slower", pytest.approx(2.0))


def test_the_document_is_json_without_nan():
    document = against([result("a", STEADY)], [result("a", (10.0,)), result("b", STEADY)]).document()
    document = json.loads(json.dumps(document, allow_nan=False))
    assert (document["exit_code"], document["only_b"]) == (4, ["net · b"])
    assert document["results"][0]["ratio"] is None
    assert document["margin_percent"] == 5.0


def test_the_table_says_what_is_slower_and_what_is_not_comparable(capsys):
    rows = [result("a\x1b[2J", [20.0, 20.1]), result("b", STEADY, fingerprint="f2"), result("new", STEADY)]
    print_comparison(against([changed(rows[0], medians_ms=STEADY), result("b", STEADY), result("old", STEADY)], rows))
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "not comparable: net · b: device fingerprint (OS build, runtimes): f1 and f2" in text
    assert "only in monday: net · old" in text
    assert "only in tuesday: net · new" in text
    assert text.splitlines()[-1] == "1 slower, 1 not comparable"
    assert "2.003×" in text
    assert text.splitlines()[:2] == [line.ljust(len(text.splitlines()[0])) for line in ("A: monday", "B: tuesday")]


def test_the_table_says_in_words_how_wide_an_unresolved_interval_is(capsys):
    print_comparison(against([result("a", (5.0, 20.0))], [result("a", (10.0, 40.0))]))
    text = " ".join(capsys.readouterr().out.split())
    assert "unresolved: net · a: 0.02946× to 135.8×; measure" in text
    assert "; measure more rounds, or allow more with --margin" in text
    assert text.endswith("1 unresolved")


ONE = [(100, 1.0)]
OTHER = [(200, 1.0)]


def test_with_one_session_a_side_slower_is_slower_in_one_session_and_ends_with_five():
    b = over_sessions("a", [1.1 * ms for ms in STEADY], *OTHER)
    comparison = against([over_sessions("a", STEADY, *ONE)], [b])
    (pair,) = comparison.results
    assert (pair.finding, comparison.exit_code) == ("slower (one session)", EXIT_UNRESOLVED)
    assert (pair.a_sessions, pair.b_sessions, pair.session_spread_percent) == (1, 1, 2.5)
    assert pair.ratio_low < 0.99 < 1.21 < pair.ratio_high
    within, _, between = pair.why.partition(" within these sessions, ")
    assert (within.split("×")[0], between.split("×")[0]) == ("1.084", f"{pair.ratio_low:.4g}")
    assert "measure both again at least 30 minutes later (" in pair.why
    # However large it is.
    b = over_sessions("a", [5 * ms for ms in STEADY], *OTHER)
    assert against([over_sessions("a", STEADY, *ONE)], [b]).exit_code == EXIT_UNRESOLVED


def test_the_same_blocks_in_the_same_run_are_slower():
    b = over_sessions("a", [1.1 * ms for ms in STEADY], *ONE)
    comparison = against([over_sessions("a", STEADY, *ONE)], [b])
    assert (comparison.results[0].finding, comparison.exit_code) == ("slower", EXIT_SLOWER)
    assert comparison.results[0].session_spread_percent is None
    elsewhere = replace(b, device_id="unit-2")
    assert against([over_sessions("a", STEADY, *ONE)], [elsewhere]).exit_code == EXIT_UNRESOLVED


def test_an_unchanged_build_of_one_session_fails_and_is_told_how_many_would_do():
    a, b = over_sessions("a", STEADY, *ONE), over_sessions("a", STEADY, *OTHER)
    comparison = against([a], [b])
    assert (comparison.results[0].finding, comparison.exit_code) == ("unresolved", EXIT_UNRESOLVED)
    needed = int(comparison.results[0].why.partition("minutes later (")[2].split()[0])
    assert needed > 2
    days = [(day, 1.0 + 0.025 * (-1) ** day) for day in range(1, 2 * needed + 3)]
    sides = (over_sessions("a", STEADY, *some) for some in (days[: needed + 1], days[needed + 1 :]))
    assert against([next(sides)], [next(sides)]).exit_code == 0
    assert against([a], [b], 15.0).exit_code == 0, "a wide margin passes"


@pytest.mark.parametrize(("factor", "finding", "code"), [(1.2, "slower", 3), (0.8, "faster", 0), (1.0, "the same", 0)])
def test_what_sessions_of_each_side_show_is_decided(factor, finding, code):
    a = over_sessions("a", STEADY, (100, 1.0), (200, 1.01), (300, 0.99), (400, 1.0))
    b = over_sessions("a", [factor * ms for ms in STEADY], (500, 0.99), (600, 1.0), (700, 1.01), (800, 1.0))
    comparison = against([a], [b])
    assert (comparison.results[0].finding, comparison.exit_code) == (finding, code)
    assert comparison.results[0].why == ""


def test_a_difference_that_sessions_resolve_is_slower_whatever_the_margin():
    days = [(day, 1.0) for day in range(1, 25)]
    a, b = over_sessions("a", STEADY, *days[:12]), over_sessions("a", [1.05 * ms for ms in STEADY], *days[12:])
    for margin in (1.0, 5.0, 50.0):
        assert against([a], [b], margin).exit_code == EXIT_SLOWER


def test_a_device_that_differs_from_day_to_day_is_believed_less():
    calm = [over_sessions("a", STEADY, (day, 1.0), (day + 1, 1.0), (day + 2, 1.0)) for day in (1, 4)]
    wild = [over_sessions("a", STEADY, (day, 1.0), (day + 1, 1.15), (day + 2, 0.9)) for day in (1, 4)]
    slower = [replace(b, medians_ms=tuple(1.12 * ms for ms in b.medians_ms)) for b in (calm[1], wild[1])]
    assert against([calm[0]], [slower[0]]).results[0].finding == "slower"
    pair = against([wild[0]], [slower[1]]).results[0]
    assert (pair.finding, pair.session_spread_percent > 8) == ("unresolved", True)


def test_the_sentinel_says_what_the_device_does_from_day_to_day():
    a = over_sessions("a", STEADY, (1, 1.0), (2, 1.0))
    b = over_sessions("a", STEADY, (3, 1.12), (4, 1.12))
    assert against([a], [b]).results[0].finding == "slower"
    moved = Series((5.0, 5.0, 5.0, 5.0, 5.6, 5.6, 5.6, 5.6), (1, 1, 2, 2, 3, 3, 4, 4))
    steady = replace(moved, medians_ms=(5.0,) * 8)
    assert against([a], [b], sentinels={"unit-1": [moved]}).results[0].finding == "unresolved"
    assert against([a], [b], sentinels={"unit-1": [steady]}).results[0].finding == "slower"
    assert against([a], [b], sentinels={"unit-2": [moved]}).results[0].finding == "slower"


def test_the_terminal_says_slower_in_one_session_and_with_which_spread(capsys):
    a = over_sessions("a", STEADY, *ONE)
    print_comparison(against([a], [over_sessions("a", [1.3 * ms for ms in STEADY], *OTHER)]))
    text = " ".join(capsys.readouterr().out.split())
    assert "slower (one session): net · a: " in text
    assert "sessions: 1 of A, 1 of B; intervals contain a spread between sessions of 2.5 %" in text
    assert text.endswith("1 slower (one session)")
    print_comparison(against([a], [a]))
    assert "measured in the same runs" in capsys.readouterr().out


def test_what_was_measured_in_batches_only_is_said_not_to_be_compared(capsys):
    comparison = compare(
        ("a", [result("x", (10.0, 10.1))]), ("b", [result("x", (10.0, 10.1))]), 5.0, in_batches=("y", "y")
    )
    assert comparison.in_batches == ("y",)
    print_comparison(comparison)
    assert "y: measured in batches only, which give a ratio to the winner and no time: not compared" in " ".join(
        capsys.readouterr().out.split()
    )
