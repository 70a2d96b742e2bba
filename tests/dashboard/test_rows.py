"""The table that charts and page share, made from real rankings."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dashboard.charts.drawing import STATUS
from dashboard.margin_sentences import beats
from dashboard.ranked_place import Ranked
from dashboard.report.sections import sections
from dashboard.rows import accuracy_metric, checked, partly_delegated, ranked, shown_names
from dashboard.words import build_names
from sweeps.journal.result_place import Place
from sweeps.ranking.rank import rank, rank_rows
from sweeps.ranking.values import DeviceRanking
from sweeps.results import ResultRow, to_frame
from sweeps.settled import Settled
from sweeps.spec.label import label_of
from sweeps.spec.objective import ObjectiveSpec
from sweeps.variant import RunAxes, Variant
from tests.sweeps.conftest import Records

RECORDS = Records()


def row(name: str, ms: float | None, variant: Variant | None = None, **figures: float) -> ResultRow:
    variant = variant or Variant(capture=name)
    medians = () if ms is None else tuple((round_, ms * factor) for round_, factor in enumerate((1.0, 1.003, 0.997)))
    timing = (
        {} if ms is None else {"latency_p50_ms": ms, "latency_ci_low_ms": 0.99 * ms, "latency_ci_high_ms": 1.01 * ms}
    )
    accuracy = {
        "top1_percent": 97.0,
        "accuracy_drop_points": 0.2,
        "accuracy_drop_low_points": -0.1,
        "accuracy_drop_high_points": 0.5,
        "agreement_percent": 99.0,
        "artifact_mb": 1.5,
    }
    return RECORDS.row(
        RECORDS.job(0, key=f"key {name}", build_key=f"build {name}", variant=variant, run=RunAxes()),
        name=name,
        device_id="d",
        device="Acme Board 3 (SoC)",
        fingerprint="f",
        executor="",
        trust=("ungated",),
        block_medians_ms=medians,
        rounds=0,
        metrics=timing | accuracy | figures,
    )


def ranking(*entries: ResultRow) -> DeviceRanking:
    (device,) = rank(to_frame(entries), ObjectiveSpec(), "s").devices
    return device


@pytest.mark.fault(57, "several equal variants", "they share the first place")
def test_ties_share_the_first_place_and_the_next_one_counts_on() -> None:
    table = ranked(ranking(row("a", 3.0), row("b", 3.01), row("c", 9.0)))
    assert list(table["place"]) == ["1=", "1=", "3"]
    assert list(table["status"]) == ["winner", "tied with it", "may ship"]


def test_a_clear_winner_is_first_alone() -> None:
    table = ranked(ranking(row("a", 3.0), row("b", 9.0)))
    assert list(table["place"]) == ["1", "2"]


def test_what_cannot_win_has_no_place() -> None:
    far = {"accuracy_drop_points": 9.0, "accuracy_drop_low_points": 8.0, "accuracy_drop_high_points": 10.0}
    near = {"accuracy_drop_points": 0.9, "accuracy_drop_low_points": 0.4, "accuracy_drop_high_points": 1.4}
    throttled = replace(row("d", 0.5), trust=("throttled",))
    table = ranked(ranking(row("a", 3.0), row("b", 1.0, **far), row("c", 1.0, **near), throttled))
    assert list(table["place"]) == ["1", "", "", ""]
    assert list(table["status"]) == ["winner", "unresolved", "may not ship", "may not ship"]
    assert "at most 1 points" in table["why"][1]


def test_figures_have_their_units_and_intervals() -> None:
    table = ranked(ranking(row("a", 3.0)))
    only = table.iloc[0]
    assert only["latency_text"] == "3.000 ms"
    assert only["interval_text"] == "2.970 to 3.030 ms"
    assert only["drop_interval_text"] == "-0.10 to 0.50 points"
    assert only["accuracy_text"] == "97.00 %"
    # The reference has 97.2 %; a drop of 0.5 points is 96.7 %.
    assert round(only["accuracy_low"], 6) == 96.7
    assert round(only["accuracy_high"], 6) == 97.3


def test_libraries_are_in_the_table_and_are_worth_a_column_where_they_differ() -> None:
    figures = ranking(row("a", 1.0, runtime_mb=9.4), row("b", 3.0, runtime_mb=24.0), row("c", 5.0))
    assert figures.libraries_differ
    table = ranked(figures)
    assert list(table["runtime_mb"][:2]) == [9.4, 24.0]
    assert np.isnan(table["runtime_mb"][2])
    assert not ranking(row("a", 1.0, runtime_mb=9.4), row("b", 3.0)).libraries_differ


def test_what_is_not_wholly_delegated_has_a_line() -> None:
    figures = ranking(
        row("a", 1.0, delegated_percent=100.0, delegated_operators_percent=66.5),
        row("b", 3.0, delegated_percent=100.0, delegated_operators_percent=100.0),
        row("c", 5.0),
    )
    (line,) = partly_delegated(figures)
    assert line.startswith("cpu fp32 nchw a: 100.0 % of its multiply-adds and 66.5 % of its operators are delegated; ")


@pytest.mark.parametrize("timed", [True, False])
def test_what_is_not_wholly_delegated_is_said_once_in_a_report_also_if_only_checked(timed: bool) -> None:
    rows = [only_checked("b", delegated_percent=62.5), *([row("a", 3.0)] if timed else [])]
    [section] = sections(rows, rank_rows(rows, ObjectiveSpec(), "s"), ObjectiveSpec())
    assert [table.title for table in section.tables] == ["Ranking"] * timed + ["Checked, not timed"]
    name = build_names(rows)["key b"]
    line = f"{name}: 62.5 % of its multiply-adds are delegated; the rest runs in slow kernels"
    assert [line in table.notes for table in section.tables] == [True] + [False] * timed


def test_without_repeated_rounds_there_is_no_interval() -> None:
    once = replace(row("a", 3.0), block_medians_ms=((0, 3.0),), metrics={"latency_p50_ms": 3.0})
    only = ranked(ranking(once)).iloc[0]
    assert only["interval_text"] == "none"
    assert pd.isna(only["latency_ci_high_ms"])


def only_checked(name: str, **figures: float) -> ResultRow:
    return replace(row(name, None, **figures), emulated=True, executor="reference:nnapi@1")


BY_ACCURACY = ObjectiveSpec(maximize="top1_percent", constraints=())


def test_what_was_only_checked_is_no_row_of_the_ranking_by_latency() -> None:
    figures = ranking(row("a", 3.0), only_checked("b"))
    assert list(ranked(figures)["job_key"]) == ["key a"]
    assert list(checked(figures)["job_key"]) == ["key b"]


def test_what_was_only_checked_has_figures_a_status_and_what_checked_it() -> None:
    far = {"accuracy_drop_points": 9.0, "accuracy_drop_low_points": 8.0, "accuracy_drop_high_points": 10.0}
    near = {"accuracy_drop_points": 0.9, "accuracy_drop_low_points": 0.4, "accuracy_drop_high_points": 1.4}
    invalid = replace(only_checked("d"), trust=("invalid_output",))
    table = checked(
        ranking(only_checked("a", sqnr_db=61.52), only_checked("b", **far), only_checked("c", **near), invalid)
    )
    assert list(table["job_key"]) == ["key a", "key c", "key b", "key d"]
    assert list(table["status"]) == ["constraints kept", "unresolved", "constraint missed", "disqualified"]
    assert list(table["sqnr_text"])[:2] == ["61.5 dB", "bit-identical"]
    assert set(table["executor"]) == {"NNAPI reference"}
    first = table.iloc[0]
    assert (first["accuracy"], first["agreement"], first["artifact_mb"]) == (97.0, 99.0, 1.5)
    assert (first["drop_text"], first["drop_interval_text"]) == ("0.20 points", "-0.10 to 0.50 points")
    assert "at most 1 points" in table["why"][2]


def test_without_checked_variants_there_is_an_empty_table() -> None:
    assert checked(ranking(row("a", 3.0))).empty


def test_an_accuracy_by_a_reference_is_labelled_so_where_it_is_ranked() -> None:
    (figures,) = rank(to_frame([row("a", 3.0), only_checked("b", top1_percent=99.5)]), BY_ACCURACY, "s").devices
    table = ranked(figures)
    best = table.iloc[0]
    assert (best["job_key"], best["place"], best["status"]) == ("key b", "1", "winner")
    assert best["accuracy_text"] == "99.50 % (emulated)"
    assert best["emulated_by"] == "NNAPI reference"
    assert (best["latency_text"], best["latency_short"], best["interval_text"]) == ("not timed", "–", "not timed")
    assert pd.isna(best["latency_p50_ms"])
    assert table.iloc[1]["emulated_by"] == ""


def test_data_without_labels_is_shown_by_agreement() -> None:
    nan = float("nan")
    unlabelled = ranking(row("a", 3.0, top1_percent=nan, accuracy_drop_points=nan))
    assert accuracy_metric(unlabelled) == "agreement_percent"
    assert ranked(unlabelled)["accuracy"][0] == 99.0
    only = only_checked("b", top1_percent=nan, accuracy_drop_points=nan)
    assert checked(ranking(only))["accuracy_text"][0] == "–"


def test_variants_that_differ_in_run_axes_only_go_by_their_whole_names() -> None:
    variant = Variant()
    table = ranking(row("net, 1 thread", 3.0, variant), row("net, 2 threads", 2.0, variant), row("c", 9.0))
    assert shown_names(table.ranking) == ["net, 2 threads", "net, 1 thread", label_of(Variant(capture="c"))]


def test_no_candidates_make_an_empty_table() -> None:
    failed = replace(row("a", None), outcome="failed", metrics={})
    assert ranked(ranking(failed)).empty


def test_who_was_eliminated_has_a_verdict_of_its_own_no_place_and_the_evidence() -> None:
    left = Settled(job_key="", budget="race", rounds=4, reason="slower", message="", by="a", ratio=1.1, ratio_low=1.07)
    table = ranked(ranking(row("a", 3.0), replace(row("b", 2.0), settled=left), row("c", 9.0)))
    assert list(table["job_key"]) == ["key a", "key c", "key b"]
    assert list(table["place"]) == ["1", "2", ""]
    eliminated = table.iloc[2]
    assert (eliminated["status"], eliminated["verdict"]) == ("may ship", "eliminated")
    assert eliminated["why"] == "left after 4 rounds: at least 1.07 times as slow as a"
    assert set(table["status"]) <= set(STATUS)


def test_who_was_left_by_batches_has_a_ratio_and_no_time() -> None:
    ended = Settled(job_key="", budget="race", rounds=0, reason="best", message="", batches=6, batches_decide=True)
    beside = replace(ended, by_key="key a", ratio=1.05, ratio_low=1.03, ratio_high=1.07)
    table = ranked(
        ranking(replace(row("a", 3.0), settled=replace(ended, leads=True)), replace(row("b", None), settled=beside))
    )
    assert list(table["job_key"]) == ["key a", "key b"]
    left = table.iloc[1]
    assert (left["place"], left["status"], left["verdict"]) == ("2", "may ship", "pass")
    assert (left["latency_text"], left["latency_short"]) == ("in batches", "–")
    assert left["paired_text"] == "1.05× (1.03 to 1.07) in batches", "half of the error is left by eliminations"
    assert pd.isna(left["latency_p50_ms"])
    assert pd.isna(left["ratio"])


def test_a_ratio_beside_two_figures_is_their_quotient_also_where_rounds_differ() -> None:
    """Rounds of one build alone change its p50, and not the ratio to the other build."""
    slow = ((0, 30.1), (1, 29.0), (2, 33.0), (3, 10.0), (4, 10.0), (5, 10.0))
    rows = (replace(row("script", 3.0), block_medians_ms=((0, 5.0), (1, 5.2), (2, 4.8))), row("trace", 12.0))
    rows = (rows[0], replace(rows[1], block_medians_ms=slow))
    (device,) = (ranking_of := rank_rows(rows, ObjectiveSpec(), "s")).devices
    table = ranked(device)
    ranked_place = Ranked(Place("s", "d", "net"), rows, build_names(rows), ObjectiveSpec(), ranking_of)
    (sentence,) = beats(ranked_place, device.winner, table.iloc[0], table, str)
    assert sentence.strong == "6.02× as fast"
    ms, winners = (float(text) for text in re.findall(r"([\d.]+) ms", sentence.rest))
    assert (ms, winners) == (30.10, 5.0)
    assert f"{ms / winners:.2f}× as fast" == sentence.strong
    assert sentence.rest.endswith("30.10 ms against 5.000 ms in the middle one of 3 common rounds.")
    assert table["paired_text"][1].startswith("6.02× (")
    assert f"{table['ratio'][1]:.2f}" == "4.00", "the quotient of the two p50s, and called so"
    assert f"{table['latency_p50_ms'][1] / table['latency_p50_ms'][0]:.2f}" == "4.00"


def test_without_a_common_round_nothing_is_called_paired() -> None:
    late = replace(row("b", 9.0), block_medians_ms=((7, 9.0), (8, 9.1)))
    assert list(ranked(ranking(row("a", 3.0), late))["paired_text"]) == ["–", "–"]
