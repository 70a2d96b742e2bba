"""NNAPI against the CPU: like with like, by rounds, and no figure where no phone timed anything on NNAPI."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from sweeps.ranking.document import ranking_document
from sweeps.ranking.nnapi_gain import NONE_COUNTS, NOT_MEASURED, BackendFigure, BackendPair
from sweeps.ranking.rank import rank
from sweeps.report.ranking_text import print_ranking
from sweeps.results import ResultRow, to_frame
from sweeps.settled import Settled
from sweeps.spec.label import label_of
from sweeps.spec.objective import ConstraintSpec, ObjectiveSpec
from sweeps.variant import Variant

FREE = ObjectiveSpec(constraints=())
CPU = Variant(layout="nhwc", fuse=True, optimize=True)
NNAPI = Variant(backend="nnapi", layout="nhwc", capture="trace", fuse=True, preference="sustained_speed")
INT8 = {"precision": "int8", "quantization": "static_fx", "interface": "core", "qengine": "qnnpack"}
EVIL = "<script>alert(1)</script> **b** \x1b[31m\x1b]0;t\x07"


@pytest.fixture
def row(records):
    """One result: timed in rounds of these medians (ms), or (none) only checked."""

    def row(number: int, variant: Variant, *medians: float, **changes: object) -> ResultRow:
        if not medians:
            job = replace(records.checked_job(number), variant=variant)
            return records.row(job, ms=None, **changes)
        middle = sorted(medians)[len(medians) // 2]
        job = records.job(number, variant=variant)
        return records.row(job, middle, block_medians_ms=tuple(enumerate(medians)), **changes)

    return row


def figure(rows: Sequence[ResultRow], objective: ObjectiveSpec = FREE) -> BackendFigure:
    comparison = rank(to_frame(rows), objective, "s").backends
    assert comparison is not None
    return comparison


def only(rows: Sequence[ResultRow], objective: ObjectiveSpec = FREE) -> BackendPair:
    (pair,) = figure(rows, objective).pairs
    return pair


def test_a_sweep_on_one_backend_has_no_such_figure(row) -> None:
    for rows in ([row(0, CPU, 8.0)], [row(0, NNAPI)], []):
        ranking = rank(to_frame(rows), FREE, "s")
        assert ranking.backends is None
        assert ranking_document(ranking)["backends"] is None


def test_the_quickest_build_of_each_backend_is_compared(row) -> None:
    other = replace(CPU, layout="nchw"), replace(NNAPI, layout="nchw")
    rows = [
        row(0, CPU, 8.0, 8.1, 7.9),
        row(1, other[0], 24.0, 24.1, 23.9),
        row(2, NNAPI, 4.0, 4.05, 3.95),
        row(3, other[1], 6.0, 6.1, 5.9),
    ]
    pair = only(rows)
    assert (pair.precision, pair.finding, pair.note) == ("fp32", "NNAPI is faster", "")
    assert pair.cpu is not None
    assert pair.nnapi is not None
    assert (pair.cpu.variant, pair.cpu.p50_ms) == (label_of(CPU), 8.0)
    assert (pair.nnapi.variant, pair.nnapi.p50_ms) == (label_of(NNAPI), 4.0)
    assert pair.ratio is not None
    assert pair.ratio.value == pytest.approx(0.5)
    assert figure(rows).headline == ""


def test_heat_shared_in_a_round_does_not_widen_the_ratio_which_is_called_paired(row, capsys) -> None:
    rows = [row(0, CPU, 8.0, 12.0, 16.0), row(1, NNAPI, 10.0, 15.0, 20.01)]
    print_ranking(rank(to_frame(rows), FREE, "s"))
    shown = capsys.readouterr().out
    assert "paired ratio: NNAPI's latency to the CPU's in the same rounds" in shown
    pair = only(rows)
    assert pair.finding == "the CPU is faster"
    assert pair.ratio is not None
    assert pair.ratio.low == pytest.approx(1.25, rel=0.01)
    assert pair.ratio.high == pytest.approx(1.25, rel=0.01)


def test_what_is_not_resolved_is_not_told_apart(row) -> None:
    noisy = only([row(0, CPU, 8.0, 9.0, 7.0), row(1, NNAPI, 7.0, 7.5, 8.5)])
    assert noisy.finding == "not told apart"
    assert noisy.ratio is not None
    assert noisy.ratio.low is not None
    assert noisy.ratio.high is not None
    assert noisy.ratio.low < 1 < noisy.ratio.high
    one_round = only([row(0, CPU, 8.0), row(1, NNAPI, 7.0)])
    assert (one_round.finding, one_round.ratio and one_round.ratio.low) == ("not told apart", None)


def test_each_precision_and_device_has_a_pair_of_its_own(row) -> None:
    rows = [
        row(0, CPU, 8.0, 8.1, 7.9),
        row(1, NNAPI, 4.0, 4.1, 3.9),
        row(2, replace(CPU, **INT8), 5.0, 5.1, 4.9),
        row(3, replace(NNAPI, **INT8), 1.0, 1.1, 0.9),
    ]
    second_unit = {"device_id": "unit-2", "device": "Other Phone (SoC)", "fingerprint": "other"}
    rows += [replace(row, job_key=f"2{row.job_key}", **second_unit) for row in rows]
    pairs = figure(rows).pairs
    assert [(pair.device_id, pair.precision) for pair in pairs] == [
        ("local-1", "fp32"),
        ("local-1", "int8"),
        ("unit-2", "fp32"),
        ("unit-2", "int8"),
    ]
    assert [pair.ratio and round(pair.ratio.value, 2) for pair in pairs] == [0.5, 0.2, 0.5, 0.2]


def test_a_virtual_phone_has_an_accuracy_and_no_time_and_the_figure_says_so(row, capsys) -> None:
    rows = [row(0, CPU, 8.0, 8.1, 7.9), row(1, NNAPI)]
    comparison = figure(rows)
    assert comparison.headline == NOT_MEASURED
    (pair,) = comparison.pairs
    assert (pair.nnapi, pair.ratio, pair.finding) == (None, None, "")
    assert pair.note == "NNAPI: only checked, not timed: Top-1 97.50 %, NNAPI reference"
    print_ranking(rank(to_frame(rows), FREE, "s"))
    output = " ".join(capsys.readouterr().out.split())
    assert NOT_MEASURED in output
    assert "only checked, not timed" in output


def test_what_fell_back_to_the_cpu_is_no_figure_of_nnapi(row) -> None:
    rows = [row(0, CPU, 8.0, 8.1, 7.9), row(1, NNAPI, 4.0, 4.1, 3.9, trust=("backend_fell_back",))]
    comparison = figure(rows)
    (pair,) = comparison.pairs
    assert (pair.nnapi, pair.ratio, comparison.headline) == (None, None, NOT_MEASURED)
    assert pair.note.startswith(f"NNAPI: {label_of(NNAPI)} does not count: backend_fell_back: ")


def test_a_phone_whose_nnapi_builds_do_not_count_was_measured_all_the_same(row, capsys) -> None:
    bound = ObjectiveSpec(constraints=(ConstraintSpec(metric="artifact_mb", at_most=10.0),))
    cpu, large = row(0, CPU, 8.0, 8.1, 7.9), row(1, NNAPI, 4.0, 4.1, 3.9)
    large = replace(large, metrics=large.metrics | {"artifact_mb": 40.0})
    throttled = row(1, NNAPI, 4.0, 4.1, 3.9, trust=("throttled",))
    cases = (([cpu, throttled], FREE, "throttled: "), ([cpu, large], bound, "artifact_mb is 40.0 MB"))
    for rows, objective, why in cases:
        comparison = figure(rows, objective)
        (pair,) = comparison.pairs
        assert (pair.nnapi, pair.ratio, comparison.headline) == (None, None, NONE_COUNTS)
        assert pair.note.startswith(f"NNAPI: {label_of(NNAPI)} does not count: {why}"), pair.note
    fell_back = replace(throttled, trust=("backend_fell_back", "throttled"))
    assert figure([cpu, fell_back]).headline == NOT_MEASURED
    print_ranking(rank(to_frame([cpu, throttled]), FREE, "s"))
    output = " ".join(capsys.readouterr().out.split())
    assert NONE_COUNTS in output
    assert NOT_MEASURED not in output


def test_an_nnapi_build_that_left_a_race_in_batches_was_measured(row) -> None:
    message = "left after 2 batches: 1.500 times as slow as net · cpu, and at least 1.400 times"
    left = Settled(job_key="", budget="race", rounds=0, reason="slower", message=message, batches=2, ratio=1.5)
    comparison = figure([row(0, CPU, 8.0, 8.1, 7.9), replace(row(1, NNAPI), settled=left)])
    (pair,) = comparison.pairs
    assert (pair.nnapi, pair.ratio, comparison.headline) == (None, None, NONE_COUNTS)
    assert pair.note == f"NNAPI: {label_of(NNAPI)} {message}"


def test_a_build_that_misses_a_constraint_gives_way_to_a_slower_one_that_keeps_it(row) -> None:
    bound = ObjectiveSpec(constraints=(ConstraintSpec(metric="artifact_mb", at_most=10.0),))
    large = row(1, NNAPI, 2.0, 2.1, 1.9)
    large = replace(large, metrics=large.metrics | {"artifact_mb": 40.0})
    rows = [row(0, CPU, 8.0, 8.1, 7.9), large, row(2, replace(NNAPI, layout="nchw"), 4.0, 4.1, 3.9)]
    pair = only(rows, bound)
    assert pair.nnapi is not None
    assert pair.nnapi.p50_ms == 4.0


def test_unlike_conditions_are_not_compared(row) -> None:
    rows = [row(0, CPU, 8.0, 8.1, 7.9), row(1, NNAPI, 4.0, 4.1, 3.9, preset="full")]
    assert [(pair.cpu is None, pair.nnapi is None, pair.ratio, pair.note) for pair in figure(rows).pairs] == [
        (True, False, None, "the CPU: not timed under these conditions"),
        (False, True, None, "NNAPI: not timed under these conditions"),
    ]


def test_why_nothing_was_measured_on_nnapi_is_told(row) -> None:
    cpu = row(0, CPU, 8.0, 8.1, 7.9)
    skipped = row(1, NNAPI, outcome="skipped", reason="the phone has no NNAPI", metrics={})
    assert only([cpu, skipped]).note == "NNAPI: skipped: the phone has no NNAPI"
    int8 = row(2, replace(NNAPI, **INT8), 4.0, 4.1, 3.9)
    assert [pair.note for pair in figure([cpu, int8]).pairs] == [
        "NNAPI: not in this sweep",
        "the CPU: not in this sweep",
    ]


def test_the_document_holds_figures_with_their_intervals_and_hostile_names_stay_text(row, capsys) -> None:
    rows = [row(0, CPU, 8.0, 8.1, 7.9, device=EVIL), row(1, NNAPI, 4.0, 4.1, 3.9, device=EVIL)]
    ranking = rank(to_frame(rows), FREE, "s")
    document = json.loads(json.dumps(ranking_document(ranking), allow_nan=False))["backends"]
    (pair,) = document["pairs"]
    assert document["headline"] == ""
    assert pair["device"] == EVIL
    assert pair["cpu"]["p50_ms"] == 8.0
    assert set(pair["ratio"]) == {"value", "low", "high"}
    assert pair["ratio"]["low"] <= pair["ratio"]["value"] <= pair["ratio"]["high"]
    print_ranking(ranking)
    output = capsys.readouterr().out
    assert "NNAPI against the CPU" in output
    assert "\x1b" not in output
