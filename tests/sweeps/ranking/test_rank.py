import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sweeps.distributions import studentized_range_quantile
from sweeps.errors import EdgeSweepError
from sweeps.metrics import METRICS, Metric
from sweeps.ranking.document import explain, ranking_document
from sweeps.ranking.rank import rank
from sweeps.settled import Settled
from sweeps.spec import built_in, catalog
from sweeps.spec.objective import ConstraintSpec, ObjectiveSpec
from sweeps.stats import Estimate, drop_of, p50_estimate

TOY = replace(built_in.EAGER, name="toy", unshippable="", metrics=(Metric("beads", "Beads", "", "lower", 0),))
FREE = ObjectiveSpec(constraints=())
DEFAULT = ObjectiveSpec()


def measured(name, blocks=(10.0, 10.1, 9.9), top1=97.0, drop=(0.0, -0.4, 0.4), size=5.0, trust=(), **changes):
    """A row of the store: three rounds, labelled data, no drop, unless said otherwise."""
    p50 = p50_estimate(blocks) if blocks else None
    value, low, high = drop
    row = {
        "sweep": "s",
        "job_key": f"key-{name}",
        "build_key": f"build-{name}",
        "name": name,
        "variant": f"cpu {name}",
        "model": "net",
        "device_id": "unit-1",
        "device": "Maker Phone (SoC)",
        "fingerprint": "f1",
        "preset": "quick",
        "runtime_version": "2.12.1",
        "exec_context": "shell",
        "outcome": "measured",
        "stage": None,
        "kind": None,
        "reason": None,
        "runner": "python-torchscript 1",
        "executor": "f1",
        "emulated": False,
        "stale": False,
        "trust": tuple(trust),
        "block_medians_ms": tuple(enumerate(blocks)),
        **dict.fromkeys(METRICS, math.nan),
        "latency_p50_ms": p50.value if p50 else math.nan,
        "latency_ci_low_ms": math.nan if p50 is None or p50.low is None else p50.low,
        "latency_ci_high_ms": math.nan if p50 is None or p50.high is None else p50.high,
        "artifact_mb": size,
        "top1_percent": top1,
        "agreement_percent": 99.0,
        "accuracy_drop_points": value,
        "accuracy_drop_low_points": low,
        "accuracy_drop_high_points": high,
    }
    return row | changes


def unlabelled(name, **changes):
    nothing = dict.fromkeys(("top1_percent", "accuracy_drop_points"), math.nan)
    ends = dict.fromkeys(("accuracy_drop_low_points", "accuracy_drop_high_points"), math.nan)
    return measured(name, **nothing, **ends, **changes)


def failed(name, **changes):
    text = {"outcome": "failed", "stage": "build", "kind": "unsupported_operator", "reason": "no aten::roll here"}
    unknown = dict.fromkeys(("fingerprint", "preset", "runtime_version", "exec_context"))
    return measured(name, blocks=()) | dict.fromkeys(METRICS, math.nan) | unknown | text | changes


def skipped(name, **changes):
    return failed(name) | {"outcome": "skipped", "stage": None, "kind": None, "reason": "qengine not there"} | changes


def left(by, ratio_low=1.0678, reason="slower", rounds=4):
    """The end of a job that a race sent away."""
    ratio = None if ratio_low is None else ratio_low + 0.05
    about = {
        "job_key": "",
        "budget": "race",
        "message": "",
        "error": 0.02,
        "reason": reason,
        "rounds": rounds,
        "by": by,
    }
    return {"settled": Settled(**about, ratio=ratio, ratio_low=ratio_low)}


def entries(rows, objective=FREE, device=None):
    return rank(pd.DataFrame(rows), objective, "s", device).devices


def entry(rows, objective=FREE):
    (only,) = entries(rows, objective)
    return only


def names(candidates):
    return [candidate.name for candidate in candidates]


def test_the_quickest_wins_where_the_difference_is_resolved():
    ranked = entry([measured("slow", (12.0, 12.1, 11.9)), measured("quick", (8.0, 8.1, 7.9))])
    assert ranked.winner.name == "quick"
    assert ranked.winner.tie is None
    assert ranked.tied == ()
    assert names(ranked.ranking) == ["quick", "slow"]
    assert ranked.ranking[1].ratio_to_winner.value == pytest.approx(1.5, rel=0.01)
    assert ranked.ranking[0].ratio_to_winner == Estimate(1.0, 1.0, 1.0)


def test_a_difference_under_two_percent_is_a_tie_however_well_it_is_resolved():
    ranked = entry([measured("a", (10.0, 10.0001, 9.9999)), measured("b", (10.15, 10.1501, 10.1499), size=4.0)])
    assert ranked.ranking[0].ratio_to_winner is not None
    assert ranked.winner.name == "b"
    assert names(ranked.equal) == ["a"]
    assert [candidate.place for candidate in ranked.ranking] == ["1=", "1="]


def test_an_unresolved_difference_leaves_the_better_estimate_first_despite_accuracy():
    ranked = entry([measured("a", (10.0, 10.0, 10.0)), measured("b", (9.0, 14.0, 20.0), top1=97.5)])
    assert ranked.winner.name == "a"
    assert names(ranked.unresolved) == ["b"]
    assert [candidate.place for candidate in ranked.ranking] == ["", "1?"]
    assert (ranked.equal, ranked.winner.tie) == ((), None)


def test_a_noisy_best_estimate_ties_none_that_are_told_apart_from_each_other():
    rows = [
        measured("noisy", (5.0, 12.0, 5.0)),
        measured("quick", (8.0, 8.1, 7.9), size=2.0),
        measured("slow", (9.0, 9.1, 8.9), size=1.0),
    ]
    ranked = entry(rows)
    # No build is told apart from the noisy one; but slow is slower than quick beyond doubt.
    assert ranked.winner.name == "noisy"
    assert names(ranked.unresolved) == ["quick"]
    assert names(ranked.ranking) == ["noisy", "quick", "slow"]


def decided(reason="best", rounds=3, leads=True):
    about = {"job_key": "", "budget": "race", "message": "", "reason": reason, "rounds": rounds}
    return {"settled": Settled(**about, leads=leads)}


def test_a_decided_race_s_leader_beats_a_better_estimate_and_a_more_accurate_equal():
    rows = [
        measured("leader", (10.0, 10.1, 9.9), **decided()),
        measured("smaller", (9.5, 10.3, 9.6), **decided(leads=False)),
        measured("accurate", (10.0, 10.1, 9.9), top1=98.0, **decided(leads=False)),
    ]
    ranked = entry(rows)
    assert ranked.winner.name == "leader"
    assert names(ranked.equal) == ["accurate"]
    assert names(ranked.unresolved) == ["smaller"]


def test_the_leader_of_an_undecided_race_stands_for_the_best_estimate():
    undecided = decided("undecided", leads=False)
    leader = measured("leader", (10.0, 10.1, 9.9), **decided("undecided"))
    smaller = measured("smaller", (9.5, 10.3, 9.6), top1=98.0, **undecided)
    assert entry([leader, smaller]).winner.name == "leader"
    accurate = measured("accurate", (10.0, 10.1, 9.9), top1=98.0, **undecided)
    assert entry([leader, smaller, accurate]).winner.name == "accurate"


def test_a_race_for_a_front_does_not_say_which_of_it_is_shipped():
    rows = [
        measured("accurate", (20.0, 20.1, 19.9), top1=99.0, **decided()),
        measured("quick", (10.0, 10.1, 9.9), **decided(leads=False)),
    ]
    assert entry(rows, ObjectiveSpec(constraints=(), front="top1_percent")).winner.name == "quick"
    assert entry(rows).winner.name == "accurate"


def test_rounds_that_were_added_after_a_race_may_overrule_its_leader():
    rows = [
        measured("leader", (10.0, 10.1, 9.9, 10.0, 10.1), **decided(rounds=3)),
        measured("other", (9.0, 9.1, 8.9, 9.0, 9.1), **decided(rounds=3, leads=False)),
    ]
    ranked = entry(rows)
    assert (ranked.winner.name, ranked.tied) == ("other", ())


def test_a_leader_that_cannot_win_any_more_leaves_the_choice_to_the_estimates():
    rows = [measured("leader", trust=("throttled",), **decided()), measured("a", (9.9, 10.3, 9.8)), measured("b")]
    ranked = entry(rows)
    assert (ranked.winner.name, names(ranked.unresolved)) == ("a", ["b"])


def test_drift_that_both_share_does_not_hide_a_difference():
    ranked = entry([measured("a", (10.0, 15.0, 30.0)), measured("b", (11.0, 16.5, 33.2))])
    assert ranked.winner.name == "a"
    assert ranked.tied == ()


def test_one_variant_entered_twice_ends_tied():
    ranked = entry(
        [measured("one", (10.0, 10.4, 9.9)), measured("two", (10.2, 9.8, 10.1)), measured("slow", (20.0,) * 3)]
    )
    assert ranked.winner.name == "one"
    assert names(ranked.tied) == ["two"]
    assert ranked.ranking[2].tie is None


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        ({"top1": 97.0}, {"top1": 97.2}, "second"),
        ({"top1": 97.2, "size": 9.0}, {"top1": 97.0, "size": 1.0}, "first"),
        ({"size": 5.0}, {"size": 4.9}, "second"),
        ({}, {}, "first"),
    ],
)
def test_inside_a_tie_the_more_accurate_then_the_smaller_then_the_name_goes_first(first, second, winner):
    assert entry([measured("second", **second), measured("first", **first)]).winner.name == winner


def test_intervals_come_from_the_spread_of_all_variants_that_can_be_trusted():
    factors = np.exp(0.02 * np.random.default_rng(0).standard_normal((7, 3)))
    rows = [measured(f"v{number}", ((10.0 + number) * factors[number]).tolist()) for number in range(6)]
    wild = measured("wild", (10.0, 90.0, 40.0), trust=("throttled",))
    ranked = {candidate.name: candidate.figures for candidate in entry([*rows, wild]).ranking}
    widths = [
        [math.log(figures["latency_ci_high_ms"] / figures["latency_ci_low_ms"]) for figures in several]
        for several in ([ranked[row["name"]] for row in rows], rows)
    ]
    assert sum(widths[0]) < 0.7 * sum(widths[1])
    assert ranked["wild"]["latency_ci_high_ms"] == wild["latency_ci_high_ms"]
    assert all(ranked[row["name"]]["latency_p50_ms"] == row["latency_p50_ms"] for row in rows)


def test_with_a_coarse_clock_the_stored_interval_is_the_least():
    rows = [measured(f"v{number}", (10.0, 10.1, 9.9)) for number in range(4)]
    rows.append(measured("coarse", trust=("coarse_clock",), latency_ci_low_ms=8.0, latency_ci_high_ms=12.0))
    coarse = next(candidate.figures for candidate in entry(rows).ranking if candidate.name == "coarse")
    assert (coarse["latency_ci_low_ms"], coarse["latency_ci_high_ms"]) == (8.0, 12.0)


@pytest.mark.parametrize(("label", "doubted"), [("coarse_clock", True), ("few_samples", False)])
def test_a_winner_says_that_the_clock_may_not_show_who_is_faster(label, doubted):
    winner = entry([measured("a", trust=(label,)), measured("b", (18.0, 18.01, 18.02))])
    assert ("clock is coarse" in winner.winner_reason) is doubted


def test_inside_a_tie_a_hardly_smaller_file_does_not_go_before_the_better_estimate():
    steady = (10.0, 10.001, 9.999)
    rows = [measured("quick", steady, size=1.64), measured("slow", [ms + 0.1 for ms in steady], size=1.639)]
    ranked = entry(rows)
    assert ranked.winner.name == "quick"
    assert names(ranked.equal) == ["slow"]


def test_without_labels_agreement_decides_inside_a_tie():
    rows = [unlabelled("a", agreement_percent=98.0), unlabelled("b", agreement_percent=99.0)]
    assert entry(rows).winner.name == "b"


def test_one_block_each_is_a_tie_within_what_processes_of_one_artifact_differ_by():
    rows = [measured("a", (10.0,)), measured("b", (14.9,), size=1.0), measured("c", (15.1,), size=1.0)]
    ranked = entry(rows)
    assert ranked.winner.name == "a"
    assert names(ranked.unresolved) == ["b"]
    assert ranked.ranking[1].ratio_to_winner == Estimate(pytest.approx(14.9 / 10), None, None)


def test_rounds_that_are_not_common_are_not_paired():
    late = measured("late", (11.0, 11.0, 11.0)) | {"block_medians_ms": ((7, 11.0), (8, 11.0), (9, 11.0))}
    ranked = entry([measured("early", (10.0, 10.0, 10.0)), late])
    assert names(ranked.tied) == ["late"]


@pytest.mark.parametrize(
    ("drop", "verdict"),
    [
        ((0.5, 0.1, 0.9), "pass"),
        ((0.5, -0.3, 1.0), "pass"),
        ((0.9, 0.3, 1.5), "unresolved"),
        ((1.5, 0.9, 2.1), "unresolved"),
        ((2.0, 1.1, 2.9), "fail"),
        ((math.nan,) * 3, "unresolved"),
    ],
)
def test_a_bound_on_the_drop_holds_only_where_the_whole_interval_keeps_it(drop, verdict):
    candidate = entry([measured("a", drop=drop)], DEFAULT).ranking[0]
    assert candidate.verdict == verdict
    (check,) = candidate.constraints
    assert (check.metric, check.bound, check.result) == ("accuracy_drop_points", "at most 1 points", verdict)
    assert (check.why == "") is (verdict == "pass")
    assert candidate.why == check.why


def of_counts(name, lost, gained, images, **changes):
    """A row with an accuracy drop as it is stored."""
    drop = drop_of(lost, gained, images)
    return measured(name, drop=(drop.value, drop.low, drop.high), images=images, **changes)


def test_a_drop_with_known_images_is_one_sided_and_says_how_many_more_settle_it():
    rows = [of_counts("same", 0, 0, 268), of_counts("better", 5, 7, 480), of_counts("open", 5, 3, 480)]
    candidate_of = {
        candidate.name: candidate for candidate in entry([*rows, of_counts("worse", 20, 2, 480)], DEFAULT).ranking
    }
    assert {name: candidate.verdict for name, candidate in candidate_of.items()} == {
        "same": "pass",
        "better": "pass",
        "open": "unresolved",
        "worse": "fail",
    }
    assert candidate_of["open"].why == (
        "accuracy_drop_points is 0.417 points (-0.870–1.70): whether it is at most 1 points is not resolved; 5 lost "
        "and 3 gained of 480 images; about 1,100 more evaluation images would show that it is "
        "(550 to 2,300, by how often answers differ)"
    )
    (check,) = candidate_of["open"].constraints
    assert check.images_needed.more == 1071
    assert candidate_of["worse"].constraints[0].images_needed is None


def test_the_interval_of_latency_counts_too_and_without_one_the_point_decides():
    bound = ObjectiveSpec(constraints=(ConstraintSpec(metric="latency_p50_ms", at_most=10.5),))
    rows = [measured("wide", (10.0, 11.5, 9.0)), measured("narrow", (10.0, 10.01, 9.99)), measured("single", (10.4,))]
    verdicts = {candidate.name: candidate.verdict for candidate in entry(rows, bound).ranking}
    assert verdicts == {"wide": "unresolved", "narrow": "pass", "single": "pass"}


@pytest.mark.parametrize(("at_least", "verdict"), [(5.0, "pass"), (5.1, "fail")])
def test_a_lower_bound_is_one(at_least, verdict):
    bound = ObjectiveSpec(constraints=(ConstraintSpec(metric="artifact_mb", at_least=at_least),))
    assert entry([measured("a", size=5.0)], bound).ranking[0].verdict == verdict


def test_missing_labels_are_said_and_never_pass():
    ranked = entry([unlabelled("a")], DEFAULT)
    assert ranked.winner is None
    assert "no labels" in ranked.ranking[0].why
    assert "no labels" in ranked.no_winner_reason


def test_outputs_equal_to_the_bit_keep_any_bound_on_sqnr():
    bound = ObjectiveSpec(constraints=(ConstraintSpec(metric="sqnr_db", at_least=20.0),))
    rows = [measured("equal"), measured("close", sqnr_db=30.0), measured("far", sqnr_db=12.0)]
    ranked = entry(rows, bound)
    assert {c.name: c.verdict for c in ranked.ranking} == {"equal": "pass", "close": "pass", "far": "fail"}
    assert {c.name: c.figures["sqnr_db"] for c in ranked.ranking} == {"equal": None, "close": 30.0, "far": 12.0}
    assert entry(rows, ObjectiveSpec(maximize="sqnr_db", constraints=())).winner.name == "equal"


def test_a_quick_variant_that_fails_or_is_not_resolved_does_not_win_and_is_shown():
    rows = [
        measured("slow", (20.0, 20.1, 19.9), drop=(0.0, -0.4, 0.4)),
        measured("fails", (5.0, 5.1, 4.9), drop=(5.0, 3.0, 7.0)),
        measured("unsure", (8.0, 8.1, 7.9), drop=(0.8, -0.2, 1.8)),
        measured("hot", (4.0, 4.1, 3.9), trust=("throttled",)),
    ]
    ranked = entry(rows, DEFAULT)
    assert names(ranked.ranking) == ["slow", "unsure", "fails", "hot"]
    assert [c.verdict for c in ranked.ranking] == ["pass", "unresolved", "fail", "disqualified"]
    assert "5.00 points (3.00–7.00), not at most 1 points" in ranked.ranking[2].why


def test_what_runs_on_no_phone_is_ranked_to_compare_with_and_never_wins():
    ranked = entry([measured("python", (5.0,) * 3, runtime="eager"), measured("slow", (9.0,) * 3)])
    assert ranked.winner.name == "slow"
    assert "runs on no phone" in ranked.ranking[-1].why


@pytest.mark.parametrize(
    "label", ["throttled", "engine_differs", "backend_fell_back", "invalid_output", "from_tomorrow"]
)
def test_a_disqualifying_or_unknown_label_never_wins(label):
    ranked = entry([measured("quick", (5.0,) * 3, trust=("ungated", label)), measured("slow", (9.0,) * 3)])
    assert ranked.winner.name == "slow"
    assert ranked.ranking[-1].verdict == "disqualified"
    assert label in ranked.ranking[-1].why


def test_an_advisory_label_may_win():
    assert entry([measured("a", trust=("ungated", "unstable"))]).winner.trust == ("ungated", "unstable")


def checked(name, **changes):
    """A row that a host only checked: an accuracy by a reference, no conditions, no time."""
    apart = {"emulated": True, "executor": "reference:nnapi@1", "preset": None, "exec_context": None}
    return measured(name, ()) | {"trust": ()} | apart | changes


def test_what_was_only_checked_stands_apart_and_never_wins_on_latency():
    ranked = entry([measured("slow", (90.0,) * 3, top1=90.0), checked("checked", top1_percent=99.0)])
    assert ranked.winner.name == "slow"
    assert ranked.tied == ()
    assert names(ranked.ranking) == ["slow"]
    assert names(ranked.checked) == ["checked"]
    (only_checked,) = ranked.checked
    assert (only_checked.executor, only_checked.emulated, only_checked.timed, only_checked.tie) == (
        "reference:nnapi@1",
        True,
        False,
        None,
    )
    assert only_checked.ratio_to_winner is None
    assert not ranked.winner.emulated


def test_where_all_was_only_checked_there_is_no_winner_on_latency_and_the_reason():
    ranked = entry([checked("a"), checked("b"), failed("c")])
    assert ranked.winner is None
    assert (ranked.ranking, names(ranked.checked)) == ((), ["a", "b"])
    assert ranked.no_winner_reason == "nothing was timed: 2 only checked, 1 failed"


@pytest.mark.parametrize(
    ("drop", "trust", "verdict"),
    [
        ((0.1, -0.2, 0.4), (), "pass"),
        ((0.9, 0.3, 1.5), (), "unresolved"),
        ((5.0, 4.0, 6.0), (), "fail"),
        ((0.1, -0.2, 0.4), ("invalid_output",), "disqualified"),
    ],
)
def test_what_was_only_checked_has_its_verdict_on_the_constraints(drop, trust, verdict):
    ends = dict(
        zip(("accuracy_drop_points", "accuracy_drop_low_points", "accuracy_drop_high_points"), drop, strict=True)
    )
    (only_checked,) = entry([measured("a"), checked("b", trust=trust, **ends)], DEFAULT).checked
    assert only_checked.verdict == verdict
    assert (only_checked.why == "") is (verdict == "pass")
    assert "latency" not in only_checked.why


def test_the_most_accurate_checked_build_comes_first_and_a_missed_constraint_last():
    missed = {"accuracy_drop_points": 5.0, "accuracy_drop_low_points": 4.0, "accuracy_drop_high_points": 6.0}
    rows = [checked("a", top1_percent=96.0), checked("b", top1_percent=98.0), checked("c", top1_percent=99.0, **missed)]
    assert names(entry(rows, DEFAULT).checked) == ["b", "a", "c"]


def test_without_a_need_for_time_what_was_only_checked_may_win_and_says_so():
    rows = [measured("timed", top1=90.0), checked("checked", top1_percent=99.0)]
    ranked = entry(rows, ObjectiveSpec(maximize="top1_percent", constraints=()))
    assert ranked.winner.name == "checked"
    assert (ranked.winner.emulated, ranked.winner.timed, ranked.checked) == (True, False, ())
    assert explain(ranked) == "99.0 % (only checked, not timed)"
    assert ranked.ranking[1].ratio_to_winner is None


@pytest.mark.parametrize("metric", ["latency_p99_ms", "load_ms", "first_inference_ms", "model_rss_mb"])
def test_a_bound_that_only_a_device_can_keep_sets_what_was_only_checked_apart(metric):
    bound = ConstraintSpec(metric=metric, at_most=100.0)
    objective = ObjectiveSpec(maximize="top1_percent", constraints=(bound,))
    ranked = entry([measured("timed", **{metric: 50.0}), checked("checked", top1_percent=99.0)], objective)
    assert ranked.winner.name == "timed"
    (only_checked,) = ranked.checked
    assert only_checked.verdict == "unresolved"
    assert "only checked, not timed" in only_checked.why


def test_a_time_of_the_device_with_an_accuracy_by_a_reference_is_ranked_and_marked():
    ranked = entry([measured("phone", emulated=True, executor="reference:nnapi@1")])
    assert (ranked.winner.timed, ranked.winner.emulated, ranked.checked) == (True, True, ())


def test_failed_and_skipped_variants_are_listed_with_their_reasons():
    ranked = entry([measured("a"), skipped("c"), failed("b")])
    assert [(row.name, row.outcome, row.reason) for row in ranked.not_ranked] == [
        ("b", "failed", "build, unsupported_operator: no aten::roll here"),
        ("c", "skipped", "qengine not there"),
    ]
    assert [row.next_step for row in ranked.not_ranked] == ["replace that operator, or use backend: [cpu]", ""]


def test_where_everything_failed_there_is_an_entry_without_a_winner_that_says_why():
    ranked = entry([failed("a"), failed("b"), skipped("c")])
    assert ranked.winner is None
    assert ranked.no_winner_reason == "nothing was measured: 2 failed, 1 skipped"
    assert len(ranked.not_ranked) == 3


def test_where_nothing_passed_the_reason_counts_the_verdicts():
    rows = [measured("a", drop=(5.0, 3.0, 7.0)), unlabelled("b"), measured("c", trust=("throttled",))]
    reason = entry(rows, DEFAULT).no_winner_reason
    assert "of 3 measured none may win (1 unresolved, 1 missing a constraint, 1 disqualified)" in reason


@pytest.mark.parametrize("column", ["fingerprint", "preset", "runtime_version", "exec_context", "model", "device_id"])
def test_unlike_conditions_never_meet(column):
    ranked = entries([measured("slow", (20.0,) * 3), measured("quick", (5.0,) * 3, **{column: "other"})])
    assert sorted(names(e.winner for e in ranked)) == ["quick", "slow"]
    assert all(len(e.ranking) == 1 for e in ranked)


def test_rounds_of_two_runs_are_not_paired_since_the_device_may_have_changed():
    monday, tuesday = (10.0, 10.1, 9.9), (11.0, 11.1, 10.9)
    (same_run,) = entries([measured("a", monday), measured("b", tuesday)])
    assert same_run.tied == ()
    later = tuple((1_795_000_000_000 + round_, ms) for round_, ms in enumerate(tuesday))
    (two_runs,) = entries([measured("a", monday), measured("b", tuesday, block_medians_ms=later)])
    assert [candidate.name for candidate in two_runs.tied] == ["b"]


def test_one_device_of_two_by_id_or_by_part_of_its_text():
    rows = [measured("a"), measured("b", device_id="unit-2", device="Maker Tablet (SoC)"), failed("c")]
    assert len(entries(rows)) == 2
    for text in ("unit-2", "Maker Tablet (SoC)", "tablet", "adb:unit-2", "unit:2"):
        (only,) = entries(rows, device=text)
        assert (only.device_id, only.winner.name, only.not_ranked) == ("unit-2", "b", ())


def test_a_device_without_results_is_an_error_that_names_those_there_are():
    with pytest.raises(EdgeSweepError, match="unit-9") as caught:
        entries([measured("a")], device="unit-9")
    assert "unit-1" in caught.value.next_step


def test_stale_rows_and_other_sweeps_are_left_out():
    rows = [measured("a"), measured("old", (1.0,) * 3, stale=True), measured("other", (1.0,) * 3, sweep="t")]
    assert names(entry(rows).ranking) == ["a"]


def test_no_results_are_an_empty_ranking():
    assert rank(pd.DataFrame(), DEFAULT, "s").devices == ()


@pytest.mark.parametrize(
    ("objective", "winner", "tied"),
    [
        ({"minimize": "artifact_mb"}, "a", ["b"]),
        ({"maximize": "top1_percent"}, "c", ["a", "b"]),
        ({"minimize": "load_ms"}, "a", ["c"]),
        ({"minimize": "accuracy_drop_points"}, "c", ["b"]),
    ],
)
def test_other_objectives_have_ties_too(objective, winner, tied):
    rows = [
        measured("a", size=1.0, top1=96.0, load_ms=10.0, drop=(3.0, 2.0, 4.0)),
        measured("b", size=1.019, top1=96.0, load_ms=16.0, drop=(1.0, 0.0, 2.0)),
        measured("c", size=1.03, top1=97.0, load_ms=14.0, drop=(0.5, -0.5, 1.5)),
    ]
    ranked = entry(rows, ObjectiveSpec(**objective, constraints=()))
    assert (ranked.winner.name, names(ranked.tied)) == (winner, tied)


def test_an_objective_without_a_value_is_not_resolved():
    ranked = entry(
        [measured("a"), measured("b", latency_p90_ms=11.0)], ObjectiveSpec(minimize="latency_p90_ms", constraints=())
    )
    assert ranked.winner.name == "b"
    assert "too few samples" in ranked.ranking[1].why


def test_the_order_of_rows_does_not_matter():
    rows = [measured(f"v{n}", tuple(np.random.default_rng(n).uniform(9, 14, 3))) for n in range(12)]
    rows += [failed("f"), skipped("s"), measured("d", trust=("throttled",))]
    forward, backward = (ranking_document(rank(pd.DataFrame(r), FREE, "s")) for r in (rows, rows[::-1]))
    assert forward == backward


def test_the_json_holds_the_whole_ranking_without_nan():
    rows = [measured("a"), measured("b"), unlabelled("c"), checked("d"), failed("f"), skipped("s")]
    ranking = rank(pd.DataFrame(rows), DEFAULT, "s")
    document = json.loads(json.dumps(ranking_document(ranking), allow_nan=False))
    assert document["sweep"] == "s"
    assert document["objective"] == "smallest latency_p50_ms with accuracy_drop_points at most 1 points"
    bounds = ({"metric": "accuracy_drop_points", "at_most": 0.12345678}, {"metric": "sqnr_db", "at_least": 1234567})
    exact = ObjectiveSpec(constraints=tuple(ConstraintSpec.model_validate(bound) for bound in bounds))
    sentence = (
        "smallest latency_p50_ms with accuracy_drop_points at most 0.12345678 points and sqnr_db at least 1234567 dB"
    )
    assert rank(pd.DataFrame(rows), exact, "s").objective == sentence
    (device,) = document["devices"]
    assert {"device", "winner", "tied", "ranking", "not_ranked", "imported"} <= device.keys()
    assert device["winner"]["name"] == "a"
    assert device["winner"]["latency_p50_ms"] == 10.0
    assert device["winner"]["latency_p99_ms"] is None
    assert METRICS.keys() <= device["winner"].keys()
    assert [candidate["name"] for candidate in device["tied"]] == ["b"]
    assert device["tied"][0]["latency_ratio_to_winner"]["value"] == 1.0
    assert [candidate["verdict"] for candidate in device["ranking"]] == ["pass", "pass", "unresolved"]
    assert device["ranking"][2]["constraints"][0]["result"] == "unresolved"
    (apart,) = device["checked"]
    assert (apart["name"], apart["executor"], apart["emulated"]) == ("d", "reference:nnapi@1", True)
    assert (apart["latency_p50_ms"], apart["top1_percent"], apart["verdict"]) == (None, 97.0, "pass")
    assert (device["winner"]["executor"], device["winner"]["emulated"]) == ("f1", False)
    assert device["winner"]["runner"] == "python-torchscript 1"
    assert [row["name"] for row in device["not_ranked"]] == ["f", "s"]
    assert device["imported"] == []


def test_the_json_of_a_device_without_a_winner_says_so():
    ranking = rank(pd.DataFrame([failed("f")]), DEFAULT, "s")
    document = json.loads(json.dumps(ranking_document(ranking), allow_nan=False))
    assert document["devices"][0]["winner"] is None
    assert document["devices"][0]["no_winner_reason"] == "nothing was measured: 1 failed"


@pytest.mark.parametrize(
    ("rows", "objective", "text"),
    [
        ([measured("a", (7.8, 7.8, 7.8))], {}, "7.80 ms (7.80–7.80)"),
        ([measured("a", (0.4123,) * 3), measured("b", (0.4123,) * 3)], {}, "0.412 ms (0.412–0.412), equal to 1 other"),
        ([measured(n, (1234.0,) * 3) for n in "abc"], {}, "1234 ms (1234–1234), equal to 2 others"),
        ([measured("a", (10.0,)), measured("b", (11.0,))], {}, "10.0 ms, 1 other unresolved"),
        ([measured("a", (7.8,), trust=("one_block",))], {}, "7.80 ms (one block, no interval)"),
        ([measured("a")], {"minimize": "artifact_mb"}, "5.00 MB"),
        ([failed("a")], {}, "no winner: nothing was measured: 1 failed"),
    ],
)
def test_the_winner_is_explained_in_one_line(rows, objective, text):
    assert explain(entry(rows, ObjectiveSpec(**objective, constraints=()))) == text


def test_an_eliminated_build_never_wins_nor_ties_and_keeps_its_figure_and_evidence():
    rows = [
        measured("winner", (10.0, 10.1, 9.9)),
        measured("behind", (14.0, 14.1, 13.9)),
        # The build's few rounds were cool ones.
        measured("gone", (9.0, 9.1, 8.9), **left("net · winner")),
    ]
    ranked = entry(rows)
    assert names(ranked.ranking) == ["winner", "behind", "gone"]
    assert (ranked.winner.name, ranked.tied) == ("winner", ())
    eliminated = ranked.ranking[2]
    assert eliminated.eliminated == "left after 4 rounds: at least 1.06 times as slow as winner"
    assert (eliminated.state, eliminated.verdict, eliminated.figures["latency_p50_ms"]) == ("eliminated", "pass", 9.0)
    assert eliminated.ratio_to_winner is not None


@pytest.mark.parametrize(("low", "words"), [(1.2, "1.20"), (1.019, "1.01"), (1.00321, "1.0032")])
def test_the_evidence_never_says_more_than_the_bound(low, words):
    eliminated = entry([measured("a"), measured("b", **left("a", ratio_low=low))]).ranking[1]
    assert eliminated.eliminated == f"left after 4 rounds: at least {words} times as slow as a"


def test_whom_a_race_kept_is_not_eliminated():
    settled = left("", None, reason="best")
    ranked = entry([measured("a", **settled), measured("b", **settled)])
    assert [candidate.eliminated for candidate in ranked.ranking] == ["", ""]
    assert names(ranked.tied) == ["b"]
    assert ranked.winner.settled.reason == "best"


def test_where_all_that_pass_were_eliminated_there_is_no_winner_and_it_is_said():
    rows = [measured("a", trust=("throttled",)), measured("b", **left("a"))]
    ranked = entry(rows)
    assert ranked.winner is None
    assert ranked.no_winner_reason == (
        "of 2 measured none may win (1 eliminated, 1 disqualified); the nearest, b: "
        "left after 4 rounds: at least 1.06 times as slow as a"
    )


def test_an_elimination_by_a_constraint_counts_as_long_as_the_constraint_is_missed():
    settled = left("a", None, reason="constraint", rounds=2)
    rows = [measured("a"), measured("b", (8.0, 8.1, 7.9), drop=(2.0, 1.1, 2.9), **settled)]
    strict, free = entry(rows, DEFAULT), entry(rows)
    assert strict.ranking[1].eliminated == "left after 2 rounds: it cannot win at any latency, and a can"
    assert strict.ranking[1].state == "fail"
    assert free.winner.name == "b"


def test_an_elimination_for_latency_does_not_count_where_latency_is_not_asked_for():
    rows = [measured("a", size=5.0), measured("b", size=1.0, **left("a"))]
    assert entry(rows, ObjectiveSpec(minimize="artifact_mb", constraints=())).winner.name == "b"


def test_inside_a_tie_of_equal_accuracy_and_size_the_better_estimate_beats_the_name():
    rows = [measured("a", (10.0, 10.6, 10.2)), measured("b", (10.3, 9.9, 10.1))]
    assert entry(rows).winner.name == "b"


def test_what_would_settle_a_tie_is_said_of_each_that_is_tied_in_latency():
    rows = [
        measured("a", (10.0, 10.4, 9.9), size=1.0),
        measured("open", (10.9, 10.2, 11.1)),
        measured("same", (10.0, 10.4, 9.901)),
        measured("slow", (20.0, 20.1, 19.9)),
    ]
    ranked = entry(rows)
    settling_of = {candidate.name: candidate.settling for candidate in ranked.ranking}
    assert settling_of["a"] is None
    assert settling_of["slow"] is None
    assert settling_of["same"].rounds == 0
    assert settling_of["open"].rounds > 0
    assert ranked.rounds_to_settle == settling_of["open"].rounds
    document = json.loads(json.dumps(ranking_document(rank(pd.DataFrame(rows), FREE, "s")), allow_nan=False))
    assert document["devices"][0]["rounds_to_settle"] == ranked.rounds_to_settle
    assert document["devices"][0]["tied"][0]["settling"].keys() == {"rounds", "outcome", "at_least", "text"}


def test_a_tie_in_size_cannot_be_settled_by_rounds():
    ranked = entry([measured("a"), measured("b")], ObjectiveSpec(minimize="artifact_mb", constraints=()))
    assert names(ranked.tied) == ["b"]
    assert (ranked.tied[0].settling, ranked.rounds_to_settle) == (None, None)


@pytest.mark.parametrize("changes", [{"gate": "gated"}, {"fixed_performance": "on"}, {"fixed_performance": "off"}])
def test_gated_and_fixed_performance_blocks_do_not_meet_others(changes):
    likewise = {"gate": "none", "fixed_performance": ""}
    rows = [measured("a", **likewise), measured("b", (5.0,) * 3, **likewise | changes)]
    assert [len(ranking.ranking) for ranking in entries(rows)] == [1, 1]
    assert len(entries([row | changes for row in rows])) == 1


FRONT = ObjectiveSpec(constraints=(), front="top1_percent")


def test_the_front_holds_what_no_other_beats_in_both():
    rows = [
        measured("quick", (5.0, 5.1, 4.9), top1=90.0),
        measured("accurate", (10.0, 10.1, 9.9), top1=97.0),
        measured("neither", (11.0, 11.1, 10.9), top1=90.0),
        measured("gone", (4.0, 4.1, 3.9), top1=90.0, **left("quick")),
        measured("hot", (1.0, 1.1, 0.9), top1=99.0, trust=("throttled",)),
    ]
    on_front = {candidate.name: candidate.on_front for candidate in entry(rows, FRONT).ranking}
    assert on_front == {"quick": True, "accurate": True, "neither": False, "gone": False, "hot": False}
    assert all(candidate.on_front is None for candidate in entry(rows).ranking)


def test_a_doubtful_difference_takes_none_off_the_front():
    rows = [measured("a", (10.0, 10.4, 9.9)), measured("b", (10.2, 10.1, 10.3))]
    assert [candidate.on_front for candidate in entry(rows, FRONT).ranking] == [True, True]


def test_an_unknown_figure_is_on_no_front():
    rows = [measured("a"), unlabelled("b")]
    assert {candidate.name: candidate.on_front for candidate in entry(rows, FRONT).ranking} == {"a": True, "b": None}


def test_what_measuring_cost_is_added_up():
    rows = [measured("a", device_seconds=60.0, waited_seconds=5.0), measured("b", device_seconds=30.0), failed("c")]
    assert (entry(rows).device_seconds, entry(rows).waited_seconds) == (90.0, 5.0)


def test_the_seconds_of_batches_count_once_even_for_a_build_in_two_groups():
    in_batches = left("net · a")
    in_batches["settled"] = replace(in_batches["settled"], rounds=0, batches=2)
    rows = [
        measured("a", device_seconds=60.0, batch_seconds=8.0, timed_seconds=12.0),
        measured("b", device_seconds=30.0, batch_seconds=8.0, preset="full"),
        measured("c", blocks=(), batch_seconds=8.0, timed_seconds=3.0, waited_seconds=2.0, **in_batches),
    ]
    groups = entries(rows)
    assert [names(group.ranking) for group in groups] == [["b", "c"], ["a", "c"]]
    assert [(group.device_seconds, group.batch_seconds) for group in groups] == [(46.0, 16.0), (68.0, 8.0)]
    assert sum(group.timed_seconds for group in groups) == 12.0 + 3.0
    assert sum(group.waited_seconds for group in groups) == 2.0
    assert groups[1].cost_text == "device time: 68 s (18 % timed iterations), and 0 s of waiting"
    old = [row | {"batch_seconds": 0.0} for row in rows]
    assert entries(old)[1].cost_text.endswith("and batches, whose time edgesweep status shows")


def test_a_metric_of_another_package_s_runner_ranks_and_bounds_and_makes_a_front(monkeypatch):
    monkeypatch.setitem(catalog.runtimes(), "toy", TOY)
    rows = [
        measured("few", blocks=(12.0, 12.1, 11.9), extra_metrics={"beads": 10.0}),
        measured("some", blocks=(10.0, 10.1, 9.9), extra_metrics={"beads": 20.0}),
        measured("many", blocks=(8.0, 8.1, 7.9), extra_metrics={"beads": 30.0}),
        measured("none told", blocks=(6.0, 6.1, 5.9)),
    ]
    fewest = ObjectiveSpec(minimize="beads", constraints=())
    device = rank(pd.DataFrame(rows), fewest, "s").devices[0]
    assert [candidate.name for candidate in device.ranking] == ["few", "some", "many", "none told"]
    assert device.ranking[3].verdict == "unresolved"
    assert device.ranking[3].why == "beads is not known: it was not measured"
    bound = ConstraintSpec(metric="beads", at_most=20.0)
    device = rank(pd.DataFrame(rows), ObjectiveSpec(constraints=(bound,)), "s").devices[0]
    assert {candidate.name: candidate.verdict for candidate in device.ranking} == {
        "some": "pass",
        "few": "pass",
        "none told": "unresolved",
        "many": "fail",
    }
    assert device.winner.name == "some"
    device = rank(pd.DataFrame(rows), ObjectiveSpec(constraints=(), front="beads"), "s").devices[0]
    assert {candidate.name: candidate.on_front for candidate in device.ranking} == {
        "few": True,
        "some": True,
        "many": True,
        "none told": None,
    }


def test_what_was_only_checked_has_no_metric_that_a_runner_tells_as_it_times(monkeypatch):
    monkeypatch.setitem(catalog.runtimes(), "toy", TOY)
    rows = [measured("timed", extra_metrics={"beads": 1.0}), measured("checked", blocks=())]
    device = rank(pd.DataFrame(rows), ObjectiveSpec(minimize="beads", constraints=()), "s").devices[0]
    assert [candidate.name for candidate in device.ranking] == ["timed"]
    assert [candidate.name for candidate in device.checked] == ["checked"]


def test_jobs_of_one_build_share_its_accuracy_pass():
    shared = {"build_key": "one", "accuracy_seconds": 4.0}
    rows = [measured("a", push_seconds=0.5, **shared), measured("b", **shared), measured("c", accuracy_seconds=1.0)]
    assert (entry(rows).push_seconds, entry(rows).accuracy_seconds) == (0.5, 5.0)


def test_a_variant_that_left_in_batches_is_ranked_as_eliminated_and_has_no_time():
    in_batches = left("net · a", ratio_low=1.4567)
    in_batches["settled"] = replace(in_batches["settled"], rounds=0, batches=2)
    bounded = ObjectiveSpec(constraints=({"metric": "latency_p50_ms", "at_most": 100.0},))
    for objective in (FREE, bounded):
        device = entry([measured("a"), measured("b", blocks=(), **in_batches)], objective)
        assert [(candidate.name, candidate.timed) for candidate in device.ranking] == [("a", True), ("b", False)]
        assert device.checked == (), "it was not checked on a host"
        b = device.ranking[1]
        assert b.eliminated == "left after 2 batches: at least 1.45 times as slow as a"
        assert b.ratio_to_winner is None
    assert "it was measured in batches only, which give ratios" in b.why


def test_a_build_of_the_winner_s_program_stands_beneath_it_without_a_time():
    same_program = left("net · a", ratio_low=None, reason="same_program", rounds=0)
    same_program["settled"] = replace(same_program["settled"], ratio=None)
    bounded = ObjectiveSpec(constraints=({"metric": "latency_p50_ms", "at_most": 100.0},))
    for objective in (FREE, bounded):
        device = entry([measured("a"), measured("b", blocks=(), **same_program)], objective)
        assert (device.winner.name, names(device.ranking), device.checked) == ("a", ["a", "b"], ())
        assert device.ranking[1].eliminated == "the same program as a, which was measured for both"
    assert "another build is the same program" in device.ranking[1].why


def test_a_build_that_is_the_same_program_as_a_loser_stands_beside_it():
    settled = {name: left("net · a", ratio_low=low) for name, low in (("b", 1.2), ("c", 2.0))}
    for fields in settled.values():
        fields["settled"] = replace(fields["settled"], rounds=0, batches=2)
    same_program = left("net · c", ratio_low=None, reason="same_program", rounds=0)
    same_program["settled"] = replace(same_program["settled"], ratio=None, by_key=measured("c")["job_key"])
    rows = [
        measured("a"),
        *(measured(name, blocks=(), **settled[name]) for name in "cb"),
        measured("d", blocks=(), **same_program),
    ]
    assert names(entry(rows).ranking) == ["a", "b", "c", "d"]


def test_a_build_that_was_timed_after_all_is_held_against_the_same_program():
    same_program = left("net · a", ratio_low=None, reason="same_program", rounds=0)
    device = entry([measured("a"), measured("b", **same_program)])
    assert [candidate.eliminated for candidate in device.ranking] == ["", ""]


def test_a_race_whose_time_ran_out_in_batches_has_no_winner_and_says_why():
    about = {"job_key": "", "budget": "race", "rounds": 0, "reason": "out_of_time", "batches": 1, "device_minutes": 1.0}
    ended = {"settled": Settled(**about, message="the 1 minutes of the device were used up before this was decided")}
    device = entry([measured(name, blocks=(), **ended) for name in ("a", "b")])
    assert device.winner is None
    assert [candidate.verdict for candidate in device.ranking] == ["unresolved", "unresolved"]
    assert device.checked == ()
    assert "the 1 minutes of the device were used up" in " ".join(device.reasons)


def test_the_winner_s_figure_and_interval_are_those_of_the_blocks_that_confirm_it():
    confirmed = {"confirmed_medians_ms": ((7, 10.4), (8, 10.5), (9, 10.6))}
    rows = [measured("a", (10.0, 10.1, 9.9), **confirmed)]
    rows += [measured(name, (12.0, 12.1, 11.9)) for name in ("b", "c", "d")]
    winner = entry(rows).winner
    assert winner.name == "a"
    assert winner.figures["latency_ci_high_ms"] > 10.5
    plain = entry([measured("a", (10.0, 10.1, 9.9)), *rows[1:]]).winner
    assert plain.figures["latency_ci_high_ms"] < 10.5


BY_ACCURACY = ObjectiveSpec(maximize="top1_percent")


def test_the_upper_end_of_the_winner_s_interval_allows_for_its_selection():
    noise = 0.05 * np.random.default_rng(1).standard_normal((6, 4))
    blocks = {f"v{number}": (10.0 * np.exp(row)).tolist() for number, row in enumerate(noise)}
    slower = measured("slower", tuple(3.0 * ms for ms in blocks["v0"]))
    rows = [measured(name, tuple(medians)) for name, medians in blocks.items()]
    device = entry([*rows, slower])
    assert len(device.tied) > 1
    name = device.winner.name
    # Where nothing depends on latency, nobody was selected by it.
    free = {candidate.name: candidate.figures for candidate in entry([*rows, slower], BY_ACCURACY).ranking}
    assert device.winner.figures["latency_ci_high_ms"] > free[name]["latency_ci_high_ms"]
    assert device.winner.figures["latency_ci_low_ms"] == free[name]["latency_ci_low_ms"]
    assert all(candidate.figures == free[candidate.name] for candidate in device.ranking if candidate.name != name)
    again = {"confirmed_medians_ms": ((7, 9.7), (8, 9.6), (9, 9.8))}
    confirmed = [row | again if row["name"] == name else row for row in rows]
    race = entry([*confirmed, slower])
    free = {candidate.name: candidate.figures for candidate in entry([*confirmed, slower], BY_ACCURACY).ranking}
    assert race.winner.name == name
    assert race.winner.figures == free[name], "measured again after it had won"


def in_batches(ratio=None, low=None, high=None, reason="best", by="a", **changes):
    """The end of a race that batches decided: of its leader, or of one beside it with its ratio."""
    ended = Settled(job_key="", budget="race", message="in batches", rounds=0, batches=6, reason=reason)
    if ratio is None:
        ended = replace(ended, leads=True, confirmations=3)
    else:
        ended = replace(ended, by=by, by_key=f"key-{by}", ratio=ratio, ratio_low=low, ratio_high=high)
    return {"settled": replace(ended, batches_decide=True, **changes)}


def leader(name="a", **changes):
    p50 = {"latency_p50_ms": 10.0, "latency_ci_low_ms": 9.9, "latency_ci_high_ms": 10.1}
    confirmed = {"confirmed_medians_ms": ((7, 9.9), (8, 10.0), (9, 10.1))}
    return measured(name, blocks=()) | p50 | confirmed | in_batches() | changes


def beside(name, *ratio, **changes):
    return measured(name, blocks=(), **changes) | in_batches(*ratio)


def test_a_build_left_by_batches_stands_beside_the_winner_with_a_ratio_and_no_time():
    rows = [
        beside("open", 1.01, 0.99, 1.03, top1=99.0),
        beside("equal", 1.002, 0.99, 1.015, top1=99.0),
        beside("behind", 1.06, 1.04, 1.08),
        leader(),
    ]
    device = entry(rows)
    assert device.winner.name == "a", "only the leader was measured in processes of its own"
    assert names(device.equal) == ["equal"]
    assert names(device.unresolved) == ["open"]
    assert names(device.ranking) == ["a", "equal", "open", "behind"]
    assert [candidate.timed for candidate in device.ranking] == [True, False, False, False]
    assert [candidate.verdict for candidate in device.ranking] == ["pass"] * 4
    ratio = device.ranking[3].ratio_to_winner
    assert (ratio.value, ratio.high) == (1.06, 1.08)
    # The interval is of the three that share the first place: Tukey's quantile in place of a single pair's.
    # Eliminations have half.
    wider = studentized_range_quantile(3, math.inf, 0.05 / 2) / math.sqrt(2) / 1.96
    assert ratio.low == pytest.approx(1.06 * (1.04 / 1.06) ** wider, rel=1e-4)
    assert device.ranking[3].tie is None
    assert device.ranking[2].settling is None
    [reason] = [reason for reason, those in device.reasons.items() if names(those) == ["equal", "open", "behind"]]
    assert reason.startswith("measured in batches only")
    assert device.alarm == ""

    document = ranking_document(rank(pd.DataFrame(rows), FREE, "s"))["devices"][0]
    assert [candidate["only_in_batches"] for candidate in document["ranking"]] == [False, True, True, True]
    assert [candidate["latency_p50_ms"] for candidate in document["ranking"]] == [10.0, None, None, None]
    assert [candidate["latency_interval_of"] for candidate in document["ranking"]] == ["one_state", "", "", ""]
    low = pytest.approx(1.01 * (0.99 / 1.01) ** wider, rel=1e-4)
    assert document["ranking"][2]["latency_ratio_to_winner"] == {"value": 1.01, "low": low, "high": 1.03}
    assert document["ranking"][2]["latency_ratio_made_of"]["source"] == "batches"
    where = "in the state that the device was in while it was confirmed"
    assert explain(device) == f"10.0 ms (9.90–10.1, {where}), equal to 1 other, 1 other unresolved"
    json.dumps(document, allow_nan=False)


def test_an_open_race_that_ended_in_batches_still_ships_what_was_confirmed():
    first = leader(**in_batches(reason="undecided"))
    equal = beside("b", 1.0, 0.99, 1.01, top1=99.0) | in_batches(1.0, 0.99, 1.01, reason="undecided")
    assert entry([first, equal]).winner.name == "a"


def test_a_bound_on_latency_is_not_resolved_by_a_ratio():
    bounded = ObjectiveSpec(constraints=({"metric": "latency_p50_ms", "at_most": 100.0},))
    device = entry([leader(), beside("b", 1.01, 0.99, 1.03)], bounded)
    assert [candidate.verdict for candidate in device.ranking] == ["pass", "unresolved"]
    assert "it was measured in batches only, which give ratios" in device.ranking[1].why


def test_beside_a_leader_that_may_not_win_a_ratio_wins_nothing():
    rows = [leader(trust=("engine_mismatch",)), beside("b", 1.01, 0.99, 1.03), beside("c", 1.0, 0.99, 1.01)]
    device = entry(rows)
    assert device.winner is None
    assert [(candidate.name, candidate.verdict) for candidate in device.ranking] == [
        ("c", "unresolved"),
        ("b", "unresolved"),
        ("a", "disqualified"),
    ]
    assert device.ranking[0].why == "only its ratio to a is known, which has no time with which it may win"
    assert entry(rows[1:]).winner is None, "its confirmation failed"


def test_rounds_that_settle_replace_the_ratio_of_batches():
    later = {"block_medians_ms": ((7, 10.0), (8, 10.1), (9, 10.2))}
    slower = {"block_medians_ms": ((7, 11.0), (8, 11.1), (9, 11.2)), "latency_p50_ms": 11.1}
    device = entry([leader(**later), beside("b", 1.0, 0.99, 1.01) | slower])
    assert device.winner.name == "a"
    assert device.tied == ()
    assert device.ranking[1].ratio_to_winner.value == pytest.approx(1.1, rel=0.01)


def check(name, ms=9.0, run=0, low=0.99, high=1.03, **changes):
    """The winner's nearest rival, with a block of its own that checks the batches."""
    return measured(name, blocks=(), **changes) | in_batches(1.01, low, high, checks=1) | checks_ms(ms, run)


def checks_ms(ms, run=0):
    return {"check_medians_ms": ((1000 * run + 10, ms),)}


def test_a_rival_s_block_that_checks_the_batches_is_no_time_and_ships_nothing():
    rival = check("b", 5.0, top1=99.0)
    further = {"block_medians_ms": ((20, 10.0), (21, 10.1))}
    for first in (leader(), leader(**further)):
        device = entry([first, rival])
        assert device.winner.name == "a"
        assert not device.ranking[1].timed
        assert device.ranking[1].figures["latency_p50_ms"] is None
    assert entry([leader(trust=("throttled",)), rival]).winner is None
    assert entry([rival]).winner is None, "its leader is not measured yet"


def test_the_leader_of_batches_is_known_by_its_key_whatever_it_is_called_now():
    renamed = in_batches(1.002, 0.99, 1.015, by="a")["settled"]
    renamed = {"settled": replace(renamed, by="the name of a before another device was added")}
    twin = leader("a") | {"name": "a · phone 1"}
    device = entry([twin, measured("b", blocks=(), top1=99.0) | renamed])
    assert (device.winner.name, names(device.equal)) == ("a · phone 1", ["b"])
    assert device.ranking[1].ratio_to_winner.value == 1.002
    stranger = replace(renamed["settled"], by="a · phone 1", by_key="key-of-another")
    device = entry([twin, measured("b", blocks=()) | {"settled": stranger}])
    assert device.ranking[1].verdict == "unresolved", "it was held against another build that has the name now"


@pytest.mark.parametrize(("rounds", "winner"), [((9.0,), "a"), ((9.7, 10.6), "a"), ((9.0, 9.1, 9.05), "b")])
def test_settling_rounds_take_the_first_place_only_if_they_show_the_leader_slower(rounds, winner):
    visits = range(20, 20 + len(rounds))
    first = leader(block_medians_ms=tuple((visit, 10.0 + 0.05 * (visit % 3)) for visit in visits))
    added = tuple(zip(visits, rounds, strict=True))
    rival = measured("b", rounds, top1=99.0) | in_batches(1.0, 0.99, 1.015) | {"block_medians_ms": added}
    device = entry([first, rival])
    assert device.winner.name == winner


def test_what_has_no_time_is_not_shipped_where_the_estimates_decide():
    slower = leader(block_medians_ms=((20, 12.0), (21, 12.1), (22, 12.05)))
    faster = measured("b", (10.0, 10.1, 10.05)) | in_batches(1.0, 0.99, 1.01)
    faster |= {"block_medians_ms": ((20, 10.0), (21, 10.1), (22, 10.05))}
    device = entry([slower, faster, beside("c", 1.0, 0.99, 1.01, top1=99.0)])
    assert device.winner.name == "b"
    assert next(candidate.name for candidate in device.ranking if candidate.timed) == "b"


def test_what_has_no_block_that_counts_in_batches_is_disqualified_and_says_so():
    aside = in_batches(reason="disqualified", leads=False, confirmations=0, batches=2)
    device = entry([leader(), measured("b", blocks=()) | aside])
    assert [(candidate.name, candidate.verdict) for candidate in device.ranking] == [
        ("a", "pass"),
        ("b", "disqualified"),
    ]
    assert device.ranking[1].why.startswith("none of its blocks counts, in 2 batches")


def test_without_enough_batches_for_a_leader_the_ranking_says_what_it_takes():
    late = {"reason": "out_of_time", "message": "the 1 minutes were used up; raise device_minutes"}
    rows = [measured(name, blocks=()) | in_batches(leads=False, confirmations=0, **late) for name in "ab"]
    device = entry(rows)
    assert device.winner is None
    assert device.no_winner_reason.endswith("raise device_minutes")


@pytest.mark.parametrize(
    ("ms", "alarmed"), [(10.1, False), (10.7, False), (9.4, False), (12.5, True), (8.2, True), (11.0, False)]
)
def test_a_block_that_contradicts_the_batches_beyond_noise_raises_an_alarm(ms, alarmed):
    device = entry([leader(), check("b", ms), beside("c", 1.02, 0.99, 1.05)])
    assert device.winner.name == "a"
    assert device.ranking[1].ratio_to_winner.value == 1.01, "one block says less than the batches"
    assert bool(device.alarm) is alarmed
    if alarmed:
        assert f"b took {ms / 10:.2f} times as long as the winner in a process of its own" in device.alarm
        assert "1.01 times in batches" in device.alarm
        assert "in at most 2.5 % of races" in device.alarm
        document = ranking_document(rank(pd.DataFrame([leader(), check("b", ms)]), FREE, "s"))
        assert document["devices"][0]["alarm"] == device.alarm


def test_the_alarm_knows_the_device_s_noise_and_leaves_out_blocks_of_another_run():
    quiet = check("b", 11.0)
    quiet["settled"] = replace(quiet["settled"], noise=0.004)
    assert entry([leader(), quiet]).alarm
    loud = {"confirmed_medians_ms": ((7, 9.0), (8, 10.0), (9, 11.0))}
    assert not entry([leader(**loud), check("b", 12.5)]).alarm, "the winner's own blocks differ by as much"
    assert not entry([leader(), check("b", 12.5, run=1)]).alarm
    assert not entry([leader(), measured("b", blocks=()) | in_batches(1.01, 0.99, 1.03, checks=1)]).alarm
    assert not entry([leader(), check("b", 12.5, low=0.8, high=1.3)]).alarm, "the batches say little"


def test_a_winner_says_what_it_is_preferred_to_and_why():
    assert entry([measured("a")]).winner_reason == "no other variant has been measured here"
    alone = entry([measured("a"), failed("b"), measured("c", (), emulated=True, executor="reference:nnapi@1")])
    assert alone.winner_reason == "no other variant has been measured here (1 failed, 1 only checked)"
    apart = entry([measured("a"), measured("b", (8.0, 8.01, 8.02))], FREE).winner_reason
    assert apart.startswith(
        "no other that may win is shown to be better in latency_p50_ms (1 is shown to be worse, the "
    )
    assert "the nearest with 1.25× its latency, " in apart
    equal = entry([measured("a", top1=96.0), measured("b", top1=97.0), measured("c", top1=96.0)], FREE)
    assert equal.winner.name == "b"
    assert "(2 are equal to it, within 2 %: the winner is more accurate)" in equal.winner_reason
    smaller = entry([measured("a", size=2.0), measured("b", size=1.0)], FREE).winner_reason
    assert "(1 is equal to it, within 2 %: the winner's file is smaller)" in smaller
    untimed = entry([leader(), beside("b", 1.0, 0.99, 1.01)]).winner_reason
    assert "(1 is equal to it, within 2 %: the winner led the race)" in untimed
    open_tie = entry([measured("a"), measured("b", (9.0, 10.1, 11.4))], FREE).winner_reason
    assert "(1 is not told apart from the best: more rounds may decide)" in open_tie


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        (("best", 3), "the winner led the race"),
        (("undecided", 3), "the winner is more accurate"),
        (("best", 2), "the winner is more accurate"),
    ],
    ids=["decided", "undecided", "rounds were added"],
)
def test_only_the_leader_of_a_decided_race_wins_as_its_leader(ended, why):
    leading = measured("a", (10.0, 10.01, 10.02), top1=97.0, **decided(*ended))
    device = entry([leading, measured("b", (10.0, 10.01, 10.02), top1=96.0, **decided(*ended, leads=False))], FREE)
    assert (device.winner.name, names(device.equal)) == ("a", ["b"])
    assert f"(1 is equal to it, within 2 %: {why})" in device.winner_reason
