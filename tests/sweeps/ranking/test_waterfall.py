"""Each step of a recipe has its gain, and how sure that is."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.ranking.accuracy_change import change
from sweeps.ranking.waterfall import Waterfall, recipe_document, waterfalls
from sweeps.report.waterfall_text import render
from sweeps.results import ResultRow, SweepResults, to_frame
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import ModelSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.stats import Estimate, accuracy_drop, drop_of
from sweeps.variant import RunAxes
from tests.sweeps.conftest import Records

RECORDS = Records()
STEPS = ("1-eager", "2-script", "3-int8")


def row(
    step: str, medians_ms: tuple[float, ...] = (), *, lost: int = 0, images: int = 597, **changes: Any
) -> ResultRow:
    """A measured step with blocks of these medians, in rounds 1, 2, ...; `lost` images of `images` against eager."""
    drop = drop_of(lost, 0, images)
    figures: dict[str, float | None] = {
        "latency_p50_ms": float(np.median(medians_ms)) if medians_ms else None,
        "latency_ci_low_ms": min(medians_ms) if len(medians_ms) > 1 else None,
        "latency_ci_high_ms": max(medians_ms) if len(medians_ms) > 1 else None,
        "artifact_mb": 2.0,
        "top1_percent": 97.0 - drop.value,
        "agreement_percent": 100.0 - drop.value,
        "accuracy_drop_points": drop.value,
        "accuracy_drop_low_points": drop.low,
        "accuracy_drop_high_points": drop.high,
    }
    figures |= changes.pop("figures", {})
    default = RECORDS.row(
        RECORDS.job(0, key=f"job {step}", build_key=f"build {step}", grid=step, run=RunAxes(reuse_input=False)),
        sweep="recipe-net",
        name=f"net · {step}",
        grid=step,
        variant=f"variant of {step}",
        executor="",
        block_medians_ms=tuple(enumerate(medians_ms, 1)),
        rounds=0,
        images=images,
        metrics={name: value for name, value in figures.items() if value is not None},
    )
    return replace(default, **changes)


def waterfall_of(*rows: ResultRow) -> Waterfall:
    (waterfall,) = waterfalls(results_of(*rows))
    return waterfall


def results_of(*rows: ResultRow, more_steps: tuple[str, ...] = ()) -> SweepResults:
    spec = SweepSpec(
        name="recipe-net",
        models=(ModelSpec(source="mobilenet_v2", name="net", weights="random"),),
        grids=tuple(GridSpec(name=step) for step in (*STEPS, *more_steps)),
    )
    return SweepResults(name="recipe-net", spec=spec, frame=to_frame(rows), updated=datetime.now(UTC))


def failed(step: str) -> ResultRow:
    return row(step, outcome="failed", stage="build", kind="not_scriptable", reason="a list of *x", metrics={})


def test_a_step_is_held_against_the_one_before_and_against_the_first() -> None:
    steps = waterfall_of(
        row("1-eager", (12.0, 12.1, 11.9)),
        row("2-script", (6.0, 6.1, 5.9)),
        row("3-int8", (3.0, 3.05, 2.95), figures={"artifact_mb": 0.5}),
    ).steps
    assert [step.name for step in steps] == list(STEPS)
    assert (steps[0].gain, steps[0].total) == (None, None)
    assert steps[2].gain is not None
    assert steps[2].total is not None
    assert (steps[2].gain.over, steps[2].total.over) == ("2-script", "1-eager")
    assert steps[2].gain.speedup is not None
    assert steps[2].gain.speedup.value == pytest.approx(2.0)
    assert steps[2].total.speedup is not None
    assert steps[2].total.speedup.value == pytest.approx(4.0)
    assert steps[2].gain.size_ratio == pytest.approx(0.25)
    assert (steps[2].gain.latency, steps[2].gain.accuracy) == ("faster", "no difference shown")


def test_the_best_of_each_runtime_is_held_against_pytorch_mobile_s_best() -> None:
    other = {"runtime": "executorch", "grid": "runtime-executorch"}
    results = results_of(
        row("1-eager", (1.0, 1.0, 1.0), runtime="eager"),
        row("2-script", (6.0, 6.1, 5.9)),
        row("3-int8", (3.0, 3.05, 2.95)),
        row("executorch fp32", (2.0, 2.1, 1.9), **other),
        # Faster, and one that the usual bound on the accuracy refuses.
        row("executorch int8", (1.0, 1.1, 0.9), lost=60, **other),
        replace(failed("onnxruntime fp32"), runtime="onnxruntime", grid="runtime-onnxruntime"),
        more_steps=("runtime-executorch", "runtime-onnxruntime"),
    )
    (waterfall,) = waterfalls(results)
    assert [step.name for step in waterfall.steps] == list(STEPS)
    mobile, executorch, onnxruntime = waterfall.runtimes
    assert [step.name for step in waterfall.runtimes] == ["torchscript", "executorch", "onnxruntime"]
    assert (mobile.variant, mobile.gain) == ("variant of 3-int8", None)
    assert executorch.variant == "variant of executorch fp32"
    assert executorch.gain is not None
    assert executorch.gain.speedup is not None
    assert (executorch.gain.over, executorch.gain.speedup.value) == ("torchscript", pytest.approx(1.5))
    assert (onnxruntime.outcome, "a list of" in onnxruntime.reason) == ("failed", True)
    assert "gain over PyTorch Mobile" in render("recipe-net", waterfall)
    documents = recipe_document("s", (waterfall,))["recipes"][0]["runtimes"]
    assert [document["step"] for document in documents] == ["torchscript", "executorch", "onnxruntime"]
    assert documents[1]["gain_over_pytorch_mobile"]["over"] == "torchscript"


def test_runtimes_measured_in_separate_runs_have_an_interval_that_names_its_parts() -> None:
    def blocks(start: int, medians_ms: tuple[float, ...]) -> dict[str, Any]:
        visits = (start * 1000 + number for number in range(1, 1 + len(medians_ms)))
        return {"block_medians_ms": tuple(zip(visits, medians_ms, strict=True)), "sessions": (start,)}

    def waterfall_with(medians_ms: tuple[float, ...]) -> Waterfall:
        mobile, of_executorch = (4.0, 4.1, 3.9), {"runtime": "executorch", "grid": "runtime-executorch"}
        rows = (
            row("2-script", mobile, **blocks(1_700_000_000, mobile)),
            row("3-int8", (6.0, 6.1, 5.9), **blocks(1_700_000_000, (6.0, 6.1, 5.9))),
            row("executorch fp32", medians_ms, **of_executorch, **blocks(1_700_086_400, medians_ms)),
        )
        return waterfalls(results_of(*rows, more_steps=("runtime-executorch",)))[0]

    faster = waterfall_with((2.0, 2.1, 1.9))
    gain = faster.runtimes[1].gain
    assert gain is not None
    assert gain.speedup is not None
    assert gain.speedup.low is not None
    assert gain.speedup.high is not None
    # Another day adds 2.5 % of each, of which nobody is sure: wider than the rounds alone would have it.
    assert 1.6 < gain.speedup.low < 1.85
    assert 2.2 < gain.speedup.high < 2.5
    assert gain.made_of is not None
    assert (gain.made_of.source, gain.latency) == ("blocks", "faster")
    assert gain.made_of.ms is not None
    assert gain.made_of.other_ms is not None
    assert gain.made_of.ms / gain.made_of.other_ms == pytest.approx(gain.speedup.value)
    assert "gain in speed: not paired, of all blocks of separate runs" in render("recipe-net", faster)
    [_, document] = recipe_document("recipe-net", (faster,))["recipes"][0]["runtimes"]
    assert document["gain_over_pytorch_mobile"]["speedup_made_of"]["source"] == "blocks"

    alike = waterfall_with((3.8, 3.9, 3.7)).runtimes[1].gain
    assert alike is not None
    assert alike.latency == "no difference shown", "a day's difference may be as much"
    # A single block has no spread of its own.
    single = waterfall_with((2.0,)).runtimes[1].gain
    assert single is not None
    assert single.speedup == Estimate(2.0, None, None)
    assert single.made_of is not None
    assert single.made_of.source == "times"


def test_a_runtime_whose_builds_may_not_win_says_why_and_not_what_else_failed() -> None:
    other = {"runtime": "executorch", "grid": "runtime-executorch"}
    results = results_of(
        row("1-eager", (1.0, 1.0, 1.0), runtime="eager"),
        row("2-script", (6.0, 6.1, 5.9)),
        row("executorch int8", (1.0, 1.1, 0.9), lost=60, **other),
        replace(failed("executorch fp32"), **other),
        more_steps=("runtime-executorch",),
    )
    (waterfall,) = waterfalls(results)
    _, executorch = waterfall.runtimes
    assert executorch.outcome == "fail"
    assert executorch.reason.startswith("none of its builds may win; variant of executorch int8: fail: ")


def test_what_a_whole_round_shares_cancels_in_the_gain() -> None:
    drifting = (10.0, 20.0, 40.0)
    steps = waterfall_of(row("1-eager", drifting), row("2-script", tuple(ms / 1.5 for ms in drifting))).steps
    gain = steps[1].gain
    assert gain is not None
    assert gain.speedup is not None
    assert (gain.speedup.value, gain.speedup.low, gain.speedup.high) == pytest.approx((1.5, 1.5, 1.5))
    assert gain.latency == "faster"


@pytest.mark.parametrize(
    ("before", "after", "resolved"),
    [
        ((10.0, 10.1, 9.9), (8.0, 8.1, 7.9), "faster"),
        ((8.0, 8.1, 7.9), (10.0, 10.1, 9.9), "slower"),
        ((10.0, 12.0, 8.0), (9.0, 9.0, 9.0), "no difference shown"),
        ((10.0, 10.0, 10.0), (9.9, 9.9, 9.9), "no difference shown"),  # under 2 %
        ((10.0,), (8.0,), "no difference shown"),  # fresh processes differ by as much
        ((30.0,), (10.0,), "faster"),
    ],
)
def test_a_gain_is_resolved_as_the_ranking_resolves_it(
    before: tuple[float, ...], after: tuple[float, ...], resolved: str
) -> None:
    gain = waterfall_of(row("1-eager", before), row("2-script", after)).steps[1].gain
    assert gain is not None
    assert gain.speedup is not None
    assert gain.latency == resolved
    assert (gain.speedup.low is None) == (len(before) == 1)


def test_times_under_other_conditions_are_not_compared() -> None:
    gain = waterfall_of(row("1-eager", (10.0, 10.0)), row("2-script", (5.0, 5.0), runtime_version="2.8")).steps[1].gain
    assert gain is not None
    assert (gain.speedup, gain.latency) == (None, None)


def test_a_failed_step_says_why_and_the_next_is_held_against_the_last_that_did_not() -> None:
    waterfall = waterfall_of(row("1-eager", (12.0, 12.0)), failed("2-script"), row("3-int8", (3.0, 3.0)))
    assert waterfall.steps[1].outcome == "failed"
    assert waterfall.steps[1].reason == "build, not_scriptable: a list of *x"
    assert waterfall.steps[2].gain is not None
    assert waterfall.steps[2].gain.over == "1-eager"
    assert "2-script failed: build, not_scriptable: a list of *x" in render("recipe-net", waterfall)


def test_without_its_first_step_a_recipe_has_no_total() -> None:
    steps = waterfall_of(failed("1-eager"), row("2-script", (6.0, 6.0)), row("3-int8", (3.0, 3.0))).steps
    assert steps[1].gain is None
    assert steps[2].gain is not None
    assert [step.total for step in steps] == [None, None, None]


def test_a_step_that_is_not_measured_yet_is_pending() -> None:
    waterfall = waterfall_of(row("1-eager", (12.0, 12.0)))
    assert [step.outcome for step in waterfall.steps] == ["measured", "pending", "pending"]
    assert "3-int8 pending: not measured yet" in render("recipe-net", waterfall)


def test_what_is_no_longer_in_the_recipe_is_not_in_its_waterfall() -> None:
    old = row("2-script", (1.0, 1.0), job_key="old", stale=True)
    assert waterfall_of(row("1-eager", (12.0, 12.0)), old).steps[1].outcome == "pending"


def test_every_model_has_a_waterfall_of_its_own() -> None:
    other = row("1-eager", (5.0, 5.0), model="other", job_key="other")
    several = waterfalls(results_of(row("1-eager", (12.0, 12.0)), other))
    assert [waterfall.model for waterfall in several] == ["net", "other"]


def test_a_loss_of_accuracy_is_resolved_only_where_its_interval_says_so() -> None:
    steps = waterfall_of(row("1-eager", (1.0,)), row("2-script", (1.0,), lost=3), row("3-int8", (1.0,), lost=60)).steps
    assert steps[1].gain is not None
    assert steps[1].gain.accuracy_change is not None
    assert steps[1].gain.accuracy_change.value == pytest.approx(-100 * 3 / 597)
    assert steps[1].gain.accuracy == "no difference shown"
    assert steps[2].gain is not None
    assert steps[2].gain.accuracy == "less accurate"


def test_two_steps_of_one_file_have_the_same_accuracy_for_certain() -> None:
    again = row("3-int8", (1.0,), lost=9, build_key="build 2-script")
    gain = waterfall_of(row("1-eager", (1.0,)), row("2-script", (1.0,), lost=9), again).steps[2].gain
    assert gain is not None
    assert gain.accuracy_change == Estimate(0.0, 0.0, 0.0)


def test_without_labels_agreement_with_eager_takes_the_place_of_accuracy() -> None:
    unlabelled = dict.fromkeys(
        ("top1_percent", "accuracy_drop_points", "accuracy_drop_low_points", "accuracy_drop_high_points")
    )
    rows = [
        row(step, (1.0,), lost=lost, images=100, figures=unlabelled)
        for step, lost in zip(STEPS, (0, 0, 4), strict=True)
    ]
    step = waterfall_of(*rows).steps[2]
    assert (step.accuracy_metric, step.accuracy_percent) == ("agreement_percent", 96.0)
    assert step.accuracy_drop == drop_of(4, 0, 100)
    assert step.gain is not None
    assert step.gain.accuracy_change is not None
    assert step.gain.accuracy_change.value == -4.0
    assert "agreement with eager" in render("recipe-net", waterfall_of(*rows))


def test_the_document_has_units_in_its_keys_and_no_nan() -> None:
    waterfall = waterfall_of(row("1-eager", (12.0, 12.2)), failed("2-script"), row("3-int8", (3.0, 3.1), lost=2))
    document = recipe_document("recipe-net", (waterfall,))
    first, second, third = document["recipes"][0]["steps"]
    assert first["latency_p50_ms"] == pytest.approx(12.1)
    assert first["gain_over_step_before"] is None
    assert second["latency_p50_ms"] is None
    assert third["gain_over_step_before"]["speedup_ratio"] == pytest.approx(4.0, rel=0.05)
    assert third["gain_over_step_before"]["accuracy_change_low_points"] < 0
    assert third["gain_over_first_step"]["over"] == "1-eager"


def test_bars_are_as_long_as_latencies_and_show_what_was_saved() -> None:
    lines = render("s", waterfall_of(row("1-eager", (10.0, 10.0)), row("2-script", (2.5, 2.5)))).splitlines()
    bars = [line for line in lines if "█" in line]
    assert bars[0].count("█") == 4 * bars[1].count("█")
    assert bars[0].count("░") == 0
    assert bars[1].count("█") + bars[1].count("░") == bars[0].count("█")


def test_a_bar_shows_nothing_saved_where_no_difference_is_shown() -> None:
    text = render("s", waterfall_of(row("1-eager", (10.0, 20.0)), row("2-script", (12.0, 8.0))))
    assert "no difference shown" in text
    assert "gain in speed: paired by round (95 %)" in text
    assert "░" not in text
    assert "▓" not in text


def test_no_change_is_not_below_zero() -> None:
    text = render("s", waterfall_of(row("1-eager", (1.0, 1.0)), row("2-script", (1.0, 1.0))))
    assert "+0.00 (-0.46 to +0.46)" in text


def test_text_from_outside_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in render("s", waterfall_of(row("1-eager", (1.0,), device="\x1b[31mred")))


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=300))
def test_a_change_is_exact_and_its_interval_no_narrower_than_the_paired_one(
    images: list[tuple[bool, bool, bool]],
) -> None:
    eager, earlier, now = (np.array(answers) for answers in zip(*images, strict=True))
    difference = change(accuracy_drop(eager, earlier), accuracy_drop(eager, now), len(images))
    paired = accuracy_drop(earlier, now)
    assert difference.value == pytest.approx(-paired.value, abs=1e-9)
    assert difference.low is not None
    assert difference.high is not None
    assert paired.low is not None
    assert paired.high is not None
    assert difference.low <= -paired.high + 1e-9
    assert difference.high >= -paired.low - 1e-9


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=5, max_size=300))
def test_against_a_step_that_answers_as_eager_does_it_is_the_paired_interval(images: list[tuple[bool, bool]]) -> None:
    eager, now = (np.array(answers) for answers in zip(*images, strict=True))
    difference, paired = (
        change(drop_of(0, 0, len(images)), accuracy_drop(eager, now), len(images)),
        accuracy_drop(eager, now),
    )
    assert (difference.value, difference.low, difference.high) == pytest.approx(
        (-paired.value, -(paired.high or 0), -(paired.low or 0))
    )


def test_a_drop_that_no_count_of_images_gives_has_no_interval_of_its_change() -> None:
    assert change(drop_of(0, 0, 597), Estimate(1.0, 0.5, 1.5), 597) == Estimate(-1.0, None, None)
