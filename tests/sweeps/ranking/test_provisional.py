"""Where nothing may win there is a choice for now, and one thing to do."""

from dataclasses import replace

import pytest

from sweeps.ranking.document import ranking_document
from sweeps.ranking.overview import verdicts_of
from sweeps.ranking.provisional import NextStepHints
from sweeps.ranking.rank import rank_rows
from sweeps.results import ResultRow
from sweeps.spec.objective import ConstraintSpec, ObjectiveSpec
from sweeps.stats import drop_of

DEFAULT = ObjectiveSpec()


@pytest.fixture
def row(records):
    """Makes a row: its latency, the images that it lost and gained, and changes."""
    number = iter(range(0, 100, 2))

    def make(name: str, p50_ms: float, counts=(0, 0, 600), **changes) -> ResultRow:
        drop = drop_of(*counts)
        figures = {
            "accuracy_drop_points": drop.value,
            "accuracy_drop_low_points": drop.low,
            "accuracy_drop_high_points": drop.high,
        }
        default = records.row(records.job(next(number)), p50_ms, name=name, images=counts[2], **changes)
        return replace(default, metrics={**default.metrics, **figures})

    return make


def ranked(rows, objective=DEFAULT):
    (entry,) = rank_rows(rows, objective, "s").devices
    return entry


def test_with_a_winner_there_is_none(row):
    assert ranked([row("a", 10.0), row("b", 9.0, (30, 0, 600))]).provisional is None


def test_images_settle_an_open_constraint_and_an_estimate_that_keeps_it_goes_first(row):
    rows = [
        row("quick", 8.0, (9, 2, 480), accuracy_seconds=20.0),
        row("near", 9.0, (5, 3, 480), accuracy_seconds=20.0),
        row("hot", 7.0, trust=("gate_timeout",)),
        row("bad", 5.0, (60, 0, 480)),
    ]
    entry = ranked(rows)
    assert entry.winner is None
    choice = entry.provisional
    assert choice.name == "near"
    assert "about 1,100 more evaluation images" in choice.why
    assert (choice.settle.field, choice.settle.value) == ("data.evaluation.images", "1551")
    assert choice.settle.command == "edgesweep run SWEEP.yaml"
    assert choice.settle.seconds == pytest.approx(40.0 * 1551 / 480)
    assert choice.settle.timed_text == (
        "have 1,551 images to evaluate with, then write data.evaluation.images: 1551, and run edgesweep run SWEEP.yaml "
        "(about 2 min)"
    )


def test_what_the_state_of_the_device_disqualified_is_measured_again(row):
    rows = [
        row("wrong", 5.0, trust=("invalid_output",)),
        row("b", 8.0, trust=("gate_timeout", "ungated"), device_seconds=30.0),
        row("a", 7.0, trust=("throttled",), device_seconds=10.0),
        row("missed", 6.0, (60, 0, 600), trust=("throttled",)),
    ]
    choice = ranked(rows).provisional
    assert choice.name == "a"
    assert choice.settle.command == "edgesweep run SWEEP.yaml --retry-failed"
    assert "throttled" in choice.why
    assert choice.settle.seconds >= 40.0


def test_of_a_device_that_was_never_ready_the_limit_is_named_that_it_would_have_kept(row):
    hot = {"trust": ("gate_timeout",), "device_seconds": 20.0}
    rows = [
        row("a", 7.0, reason="CPU at 81.0 °C, above 70 °C", lacking='[["max_cpu_temp_c", 81.0]]', **hot),
        row("b", 8.0, lacking='[["max_cpu_temp_c", 88.4]]', **hot),
    ]
    choice = ranked(rows).provisional
    assert choice.name == "a"
    assert "(fields: protocol.gate: " in choice.why
    assert choice.why.endswith("it was not ready: CPU at 81.0 °C, above 70 °C")
    assert (choice.settle.field, choice.settle.value) == ("protocol.gate.max_cpu_temp_c", "89")
    # Another limit makes other jobs: everything is measured again.
    assert (choice.settle.command, choice.settle.seconds) == ("edgesweep run SWEEP.yaml", 40.0)


@pytest.mark.parametrize(
    ("lacking", "field", "value", "command"),
    [
        ('[["min_battery_percent", 12.0]]', "protocol.gate.min_battery_percent", "11", "--retry-failed"),
        (
            '[["max_battery_temp_c", 40.0], ["max_thermal_status", 1.0]]',
            "protocol.gate",
            "{max_battery_temp_c: 41, max_thermal_status: 1}",
            "SWEEP.yaml",
        ),
        ('[["", 0.0]]', "protocol.gate", "none", "SWEEP.yaml"),
    ],
)
def test_each_condition_of_the_gate_has_its_line(row, lacking, field, value, command):
    settle = ranked([row("a", 8.0, trust=("gate_timeout",), lacking=lacking)]).provisional.settle
    assert (settle.field, settle.value) == (field, value)
    assert settle.command.endswith(command)


def test_no_more_images_are_asked_for_than_there_are(row):
    rows = [row("a", 8.0, (5, 3, 480))]
    (some,) = rank_rows(rows, DEFAULT, "s", hints=NextStepHints(most_images=597)).devices
    assert some.provisional.settle.field == "objective.constraints, accuracy_drop_points: at_most"
    (enough,) = rank_rows(rows, DEFAULT, "s", hints=NextStepHints(most_images=1551)).devices
    assert enough.provisional.settle.field == "data.evaluation.images"


@pytest.mark.parametrize(
    ("samples", "field", "value"), [(100, "protocol.rounds", "20"), (10, "protocol.iterations", "221")]
)
def test_an_objective_that_has_too_few_samples_asks_for_so_many(row, samples, field, value):
    objective = ObjectiveSpec(minimize="latency_p99_ms", constraints=())
    settle = ranked([row("a", 8.0, rounds=3, samples=samples, device_seconds=6.0)], objective).provisional.settle
    assert (settle.field, settle.value) == (field, value)
    assert settle.seconds > 6.0


def test_a_figure_that_nothing_can_tell_is_no_bound_of_0(row):
    bound = ObjectiveSpec(constraints=(ConstraintSpec(metric="model_rss_mb", at_most=50.0),))
    choice = ranked([row("a", 8.0)], bound).provisional
    assert choice.name == "a"
    assert choice.settle.timed_text == (
        "take model_rss_mb out of objective.constraints, as nothing can tell it, then edgesweep run SWEEP.yaml "
        "(it measures nothing again)"
    )
    settle = ranked([row("a", 8.0)], ObjectiveSpec(minimize="model_rss_mb", constraints=())).provisional.settle
    assert (settle.field, settle.value) == ("objective.minimize", "latency_p50_ms")


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ("failed", "see to why they failed (each reason is listed under Not ranked), then "),
        ("skipped", "vary more axes under grids: every combination was skipped, then "),
    ],
)
def test_without_any_figure_there_is_something_to_do(row, outcome, text):
    rows = [row("a", 8.0, outcome=outcome, reason="why")]
    (entry,) = rank_rows(rows, DEFAULT, "s", hints=NextStepHints(seconds=lambda lacking: 60.0 * len(lacking))).devices
    choice = entry.provisional
    assert choice is not None
    assert (choice.name, choice.job_key) == ("", "")
    assert choice.settle.seconds == (60.0 if outcome == "failed" else None)
    assert choice.settle.text.startswith(f"{text}edgesweep run SWEEP.yaml")
    assert ("--retry-failed" in choice.settle.text) == (outcome == "failed")


def test_where_all_are_shown_to_break_a_bound_the_bound_of_the_nearest_is_named(row):
    choice = ranked([row("a", 8.0, (30, 0, 600)), row("b", 9.0, (40, 0, 600))]).provisional
    assert choice.name == ""
    assert choice.settle.field == "objective.constraints, accuracy_drop_points: at_most"
    looser = ConstraintSpec(metric="accuracy_drop_points", at_most=float(choice.settle.value))
    assert ranked([row("a", 8.0, (30, 0, 600))], ObjectiveSpec(constraints=(looser,))).winner.name == "a"
    assert choice.settle.timed_text.endswith("(it measures nothing again)")


def test_what_can_never_win_is_no_choice(row):
    choice = ranked([row("a", 8.0, trust=("invalid_output",))]).provisional
    assert (choice.name, choice.settle.note) == ("", "vary more axes under grids")


def test_a_bound_on_latency_that_is_open_asks_for_rounds(row):
    bound = ObjectiveSpec(constraints=(ConstraintSpec(metric="latency_p50_ms", at_most=8.0),))
    plain = row("a", 8.0, rounds=3, device_seconds=9.0)
    wide = {**plain.metrics, "latency_ci_low_ms": 7.0, "latency_ci_high_ms": 9.0}
    choice = ranked([replace(plain, metrics=wide, block_medians_ms=((0, 7.0), (1, 8.0), (2, 9.0)))], bound).provisional
    assert (choice.settle.field, choice.settle.value) == ("protocol.rounds", "6")
    assert choice.settle.seconds == pytest.approx(9.0)


def test_it_is_in_the_document_and_in_the_overview(row):
    ranking = rank_rows([row("a", 8.0, (5, 3, 480))], DEFAULT, "s")
    (device,) = ranking_document(ranking)["devices"]
    assert device["provisional"]["name"] == "a"
    assert device["provisional"]["settle"]["field"] == "data.evaluation.images"
    assert device["provisional"]["settle"]["text"].endswith("edgesweep run SWEEP.yaml")
    (verdict,) = verdicts_of("s", ranking.devices, [])
    assert verdict.provisional == "a"
    assert "data.evaluation.images: 1551" in verdict.settle


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("reference_at_chance", "the original itself is at chance"),
        ("reference_one_answer", "the original gives one answer far too often"),
        ("reference_other_order", "the original's classes stand in another order"),
        ("reference_other_classes", "the original's classes are not those of the folders"),
        ("reference_split", "folders may be no classes"),
    ],
)
@pytest.mark.parametrize(
    "objective",
    [
        DEFAULT,
        ObjectiveSpec(constraints=(ConstraintSpec(metric="top1_percent", at_least=50.0),)),
        ObjectiveSpec(constraints=(ConstraintSpec(metric="agreement_percent", at_least=50.0),)),
        ObjectiveSpec(maximize="top1_percent", constraints=()),
    ],
)
def test_where_the_original_itself_is_doubted_no_build_keeps_a_bound_on_accuracy(row, objective, label, words):
    rows = [
        row("fp32", 9.0, trust=(label,)),
        row("int8", 5.0, trust=(label,)),
        row("few", 7.0, (2, 1, 50), trust=(label,)),
    ]
    entry = ranked(rows, objective)
    assert entry.winner is None
    assert {candidate.verdict for candidate in entry.ranking} == {"unresolved"}
    assert all(words in candidate.why for candidate in entry.ranking)
    for candidate in entry.ranking:
        assert all((check.doubts, check.images_needed) == ((label,), None) for check in candidate.constraints)
    assert "see to the original itself (edgesweep plan SWEEP.yaml --check" in entry.provisional.settle.text
    [shown] = ranking_document(rank_rows(rows, objective, "s"))["devices"]
    assert shown["winner"] is None
    assert words in shown["provisional"]["why"]


def test_a_doubted_original_hinders_no_objective_without_accuracy(row):
    entry = ranked([row("fp32", 9.0, trust=("reference_at_chance",))], ObjectiveSpec(constraints=()))
    assert entry.winner is not None
    assert entry.winner.trust == ("reference_at_chance",)
    # A build that breaks a bound all the same still breaks it.
    [broken] = ranked([row("int8", 5.0, (90, 0, 600), trust=("reference_at_chance",))]).ranking
    assert broken.verdict == "fail"
