import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from sweeps.device_facts import VIRTUAL_PHONE
from sweeps.errors import RunnerError, SpecError
from sweeps.label_kinds import TRUST, disqualified, in_order
from sweeps.metrics import Metric
from sweeps.protocol.block_labels import BUSY_LOAD, STEAL_SHARE, block_labels
from sweeps.protocol.blocks import summarize
from sweeps.protocol.presets import DEFAULT_GATE, LAST_DECISION_ROUND, PRESETS, Gate, protocol_of, resolve
from sweeps.protocol.stopping import shuffled_order
from sweeps.records import Block, Conditions
from sweeps.spec import built_in, catalog
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import ModelSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import GateSpec, MinutesBudget, ProtocolSpec
from sweeps.spec.sweep import SweepSpec, json_schema

QUICK = resolve(ProtocolSpec(preset="quick"))
RACE = resolve(ProtocolSpec(), "race")
RECIPE = resolve(ProtocolSpec(preset="recipe"))


def block(round_=0, samples_ms=(10.0,) * 100, **changes) -> Block:
    conditions = Conditions(**changes.pop("conditions", {"load_start": 0.01}))
    fields = {
        "job_key": "job",
        "round": round_,
        # One sample has a microsecond more, so that the clock is a fine one.
        "samples_ns": tuple(round(ms * 1e6) + 1237 * (index == 0) for index, ms in enumerate(samples_ms)),
        "warmup_ns": (11_000_000,),
        "first_inference_ns": 30_000_000,
        "load_ns": 5_000_000,
        "rss_before_load_bytes": 500_000_000,
        "rss_peak_bytes": 520_000_000,
        "backend_ran": "cpu",
        "engine_ran": "x86",
        "threads_ran": 1,
        "runner": "python-torchscript 1",
        "runtime_version": "2.12.1",
        "artifact_sha256": "0" * 64,
        "exit_code": 0,
        "conditions": conditions,
    }
    return Block(**(fields | changes))


def labels_of(block_, backend="cpu", engine="x86", protocol=QUICK):
    return set(block_labels(block_, backend, engine, protocol)) - {"ungated"}


def test_a_time_of_a_virtual_phone_says_that_it_is_none_of_a_phone() -> None:
    assert "virtual_phone" in block_labels(block(conditions={"exec_context": VIRTUAL_PHONE}), "cpu", "x86", QUICK)
    assert "virtual_phone" not in block_labels(block(), "cpu", "x86", QUICK)


def test_quick_is_three_rounds_of_half_a_second_after_a_warm_up_of_a_fifth():
    assert (QUICK.rounds, QUICK.warmup_seconds, QUICK.min_seconds) == (3, 0.2, 0.5)


def test_recipe_is_one_round_of_200_iterations_after_5():
    assert (RECIPE.rounds, RECIPE.warmup_iterations, RECIPE.iterations) == (1, 5, 200)
    assert (RECIPE.warmup_seconds, RECIPE.min_seconds) == (0.0, 0.0)


def test_the_sweep_file_overrides_a_preset_also_with_zero():
    protocol = resolve(ProtocolSpec(preset="quick", rounds=7, warmup_seconds=0.0, max_seconds=2.0, seed=4))
    assert protocol == replace(QUICK, rounds=7, warmup_seconds=0.0, max_seconds=2.0, seed=4)


@pytest.mark.parametrize("override", [{"max_seconds": 0.1}, {"min_seconds": 100.0}])
def test_a_limit_that_contradicts_the_preset_is_refused(override):
    with pytest.raises(SpecError, match="min_seconds") as caught:
        resolve(ProtocolSpec(**override))
    assert "max_seconds" in caught.value.next_step


def test_results_stay_comparable_with_more_rounds_or_another_seed_not_other_blocks():
    assert replace(QUICK, rounds=9, seed=1).comparable() == QUICK.comparable()
    for field in ("warmup_iterations", "warmup_seconds", "iterations", "min_seconds", "max_seconds"):
        changed = replace(QUICK, **{field: getattr(QUICK, field) + 1})
        assert changed.comparable() != QUICK.comparable(), field
    assert RECIPE.comparable()["preset"] == "recipe"


def test_a_round_is_a_permutation_that_ignores_the_order_of_the_input():
    keys = [f"job-{number}" for number in range(40)]
    assert sorted(shuffled_order(keys, 0, 0)) == sorted(keys)
    assert shuffled_order(reversed(keys), 0, 0) == shuffled_order(keys, 0, 0) != keys


def test_rounds_and_seeds_are_shuffled_apart():
    keys = [f"job-{number}" for number in range(40)]
    orders = [tuple(shuffled_order(keys, round_, seed)) for round_ in range(3) for seed in range(3)]
    assert len(set(orders)) == 9


def test_every_job_comes_first_about_equally_often():
    keys = ["a", "b", "c", "d"]
    firsts = [shuffled_order(keys, round_, 0)[0] for round_ in range(2000)]
    # Four standard deviations of a fair draw are 77.
    assert all(abs(firsts.count(key) - 500) < 78 for key in keys)


def test_adding_a_job_moves_no_other():
    keys = [f"job-{number}" for number in range(40)]
    assert [key for key in shuffled_order([*keys, "new"], 1, 2) if key != "new"] == shuffled_order(keys, 1, 2)


def test_the_order_is_the_same_in_processes_with_other_hash_seeds():
    program = (
        "import json; from sweeps.protocol.stopping import shuffled_order; "
        "print(json.dumps(shuffled_order({'a', 'b', 'c', 'd', 'e'}, 3, 1)))"
    )
    orders = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(orders) == 1
    assert json.loads(orders.pop()) == shuffled_order(["a", "b", "c", "d", "e"], 3, 1)


@pytest.mark.parametrize(("protocol", "label"), [(RACE, "device_moved"), (QUICK, "device_changed")])
def test_a_shift_of_the_device_is_only_a_warning_in_a_race(protocol, label):
    timing = summarize("job", [block(round_, labels=("device_changed",)) for round_ in range(3)], protocol)
    assert [name for name in timing.labels if name.startswith("device_")] == [label]


def test_blocks_in_doubt_are_left_out_where_there_are_enough_others():
    doubtful = [block(round_, labels=("device_moved",)) for round_ in range(2)]
    sound = [block(round_) for round_ in range(2, 5)]
    left_out, needed = summarize("job", [*doubtful, *sound], QUICK), summarize("job", [*doubtful, *sound[:2]], QUICK)
    assert (left_out.rounds, "device_moved" in left_out.labels) == (3, False)
    assert (needed.rounds, "device_moved" in needed.labels) == (4, True), "a doubt is no reason to disqualify"


def test_the_winner_of_a_race_is_doubted_only_for_the_blocks_that_make_its_p50():
    def labels(*confirming):
        blocks = [block(round_, labels=("device_changed",)) for round_ in range(2)]
        blocks += [block(2 + number, confirms=True, labels=labels) for number, labels in enumerate(confirming)]
        timing = summarize("job", blocks, RACE)
        return timing.labels, len(timing.confirmed_medians_ms)

    changed = ("device_changed",)
    assert labels((), (), ()) == ((), 3)
    assert labels((), (), changed) == (("device_moved",), 3)
    assert labels(changed, changed, changed, (), (), ()) == ((), 3), "measured again"


def test_the_list_of_trust_labels_is_closed_and_each_gives_advice():
    disqualifying = {name for name, label in TRUST.items() if label.disqualifying}
    assert disqualifying == {
        "throttled",
        "gate_timeout",
        "backend_fell_back",
        "engine_differs",
        "device_changed",
        "invalid_output",
        "invalid_timing",
        "profiled",
    }
    assert TRUST.keys() - disqualifying == {
        "ungated",
        "virtual_phone",
        "hot_start",
        "unstable",
        "device_moved",
        "two_speeds",
        "few_samples",
        "one_block",
        "coarse_clock",
        "bursts",
        "outliers",
        "reference_at_chance",
        "reference_one_answer",
        "reference_other_order",
        "reference_other_classes",
        "reference_split",
        "part_of_images",
        "host_answers",
        "threads_unknown",
        "mean_only",
        "busy_host",
    }
    assert all(label.name == name and len(label.advice) > 20 for name, label in TRUST.items())


def test_a_block_as_asked_for_is_only_ungated():
    assert block_labels(block(), "cpu", "x86", QUICK) == ("ungated",)


def test_threads_that_the_runner_does_not_report_are_labelled_and_may_win():
    labels = block_labels(block(), "cpu", "x86", QUICK, threads_known=False)
    assert labels == ("ungated", "threads_unknown")
    assert disqualified(labels) == []


def test_a_mean_of_all_iterations_is_not_called_few_samples_and_may_win():
    labels = block_labels(block(samples_ns=(1_000_000,)), "cpu", "x86", QUICK, mean_only=True)
    assert labels == ("ungated", "mean_only")
    assert disqualified(labels) == []


def test_a_sensor_does_not_make_a_gate():
    assert "ungated" in block_labels(block(conditions={"temp_start_c": 40.0}), "cpu", "x86", QUICK)


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"engine_ran": "qnnpack"}, "engine_differs"),
        ({"backend_ran": "nnapi"}, "backend_fell_back"),
        ({"conditions": {"throttled": True}}, "throttled"),
        ({"conditions": {"load_start": 0.16}}, "busy_host"),
        ({"samples_ms": [10.0, 10.1, 9.9, 10.0, 10.1, 9.9, 10.0, 30.0] * 12}, "outliers"),
        ({"samples_ms": [10.0, 10.1, 9.9] * 31 + [15.0] * 7}, "bursts"),
    ],
)
def test_what_went_wrong_in_a_block_is_labelled(changes, label):
    assert labels_of(block(**changes)) == {label}


@pytest.mark.parametrize(
    "changes",
    [
        {"conditions": {"throttled": False}},
        {"conditions": {"throttled": None, "load_start": None}},
        {"conditions": {"load_start": 0.15}},
        {"samples_ms": [10.0, 10.1, 9.9] * 32 + [30.0] * 4},
        {"samples_ms": [10.0, 10.1, 9.9, 10.0, 30.0]},
    ],
)
def test_what_is_normal_in_a_block_is_not_labelled(changes):
    assert labels_of(block(**changes)) == set()


@pytest.mark.parametrize(
    ("samples_ns", "protocol"),
    [
        pytest.param((1,) * 500, QUICK, id="a nanosecond"),
        pytest.param((42, 83) * 250, RECIPE, id="a tick or two of a clock of 24 MHz, for no least time"),
        pytest.param((60, 61) * 500 + (600_000_000,), QUICK, id="one sample as long as the block"),
        pytest.param(tuple(12_000 + 7 * (index % 11) for index in range(40)), QUICK, id="microseconds as nanoseconds"),
        pytest.param((10_000, 10_100, 10_030) * 160, QUICK, id="the hundredth part of the block"),
        pytest.param((300_000, 350_000, 310_000, 303_000, 308_100), RACE.in_batch(), id="an item of a batch"),
    ],
)
def test_times_that_do_not_fit_their_block_cannot_win(samples_ns, protocol):
    labels = block_labels(block(samples_ns=samples_ns), "cpu", "x86", protocol)
    assert disqualified(labels) == ["invalid_timing"]


@pytest.mark.parametrize(
    ("samples_ns", "protocol", "mean_only"),
    [
        pytest.param((1_100, 1_200, 1_150) * 4_000, QUICK, False, id="a tiny model, whose input takes longer to fill"),
        pytest.param((10_000_123,) * 49 + (10_004_000,), QUICK, False, id="a block filled to its end"),
        pytest.param((2_500_000, 2_600_000, 2_550_000), RACE.in_batch(brief=True), False, id="a brief item"),
        pytest.param((300, 310, 305) * 70, RECIPE, False, id="so many iterations, in no least time"),
        pytest.param((1_000_000,), QUICK, True, id="a tool that tells only the mean of its iterations"),
    ],
)
def test_short_times_that_fit_their_block_may_win(samples_ns, protocol, mean_only):
    labels = block_labels(block(samples_ns=samples_ns), "cpu", "x86", protocol, mean_only=mean_only)
    assert "invalid_timing" not in labels


def test_any_engine_will_do_where_nothing_is_quantized():
    assert labels_of(block(engine_ran="onednn"), engine="none") == set()


def test_a_block_cut_short_has_few_samples():
    assert labels_of(block(samples_ms=[10.0] * 199), protocol=RECIPE) == {"few_samples"}
    assert labels_of(block(samples_ms=[10.0] * 200), protocol=RECIPE) == set()


def test_ordinary_noise_is_seldom_called_outliers():
    generator = np.random.default_rng(0)
    labelled = [
        "outliers" in labels_of(block(samples_ms=10 * np.exp(0.05 * generator.standard_normal(size))))
        for size in [20, 50, 200] * 100
    ]
    assert np.mean(labelled) < 0.03


@pytest.mark.parametrize("samples", [(), (5, 0), (5, -3), (5, float("nan")), (5, float("inf"))])
def test_times_that_cannot_be_end_the_job(samples):
    with pytest.raises(RunnerError) as caught:
        block_labels(block(samples_ns=samples), "cpu", "x86", QUICK)
    assert caught.value.kind == "invalid_samples"


def test_a_summary_holds_medians_over_blocks_in_the_units_of_their_names():
    timing = summarize(
        "job",
        [
            block(1, [11.0] * 50, load_ns=7_000_000, rss_peak_bytes=540_000_000),
            block(0, [10.0] * 40, first_inference_ns=90_000_000),
            block(2, [10.4] * 30, rss_peak_bytes=525_500_000),
        ],
        QUICK,
    )
    assert timing.job_key == "job"
    assert (timing.rounds, timing.samples) == (3, 120)
    assert timing.block_medians_ms == ((0, 10.0), (1, 11.0), (2, 10.4))
    assert timing.figures["latency_p50_ms"] == 10.4
    assert timing.figures["latency_ci_low_ms"] < 10.4 < timing.figures["latency_ci_high_ms"]
    assert timing.figures["latency_p90_ms"] == 11.0
    assert timing.figures.get("latency_p99_ms") is None
    assert timing.figures["spread_within"] == 0.0
    assert timing.figures["spread_between"] == pytest.approx(1.0 / 10.4)
    assert (
        timing.figures["first_inference_ms"],
        timing.figures["load_ms"],
        timing.figures["model_rss_mb"],
    ) == (30.0, 5.0, 25.5)


def test_the_figure_of_a_confirmed_winner_is_of_the_blocks_that_did_not_make_it_win():
    won = [block(round_, [9.0] * 50) for round_ in range(3)]
    confirming = [replace(block(round_, [10.0] * 50), confirms=True) for round_ in (3, 4)]
    added = [replace(block(round_, [11.0] * 50), added=True) for round_ in (5, 6, 7)]
    timing = summarize("job", [*won, *confirming, *added], QUICK)
    assert timing.figures["latency_p50_ms"] == 11.0
    assert timing.confirmed_medians_ms == ((3, 10.0), (4, 10.0), (5, 11.0), (6, 11.0), (7, 11.0))
    assert timing.block_medians_ms == ((0, 9.0), (1, 9.0), (2, 9.0), (5, 11.0), (6, 11.0), (7, 11.0))
    loser = summarize("job", [*won, *added], QUICK)
    assert (loser.figures["latency_p50_ms"], loser.confirmed_medians_ms) == (10.0, ())


def test_what_a_runner_does_not_tell_is_unknown_in_a_summary():
    silent = {"first_inference_ns": None, "load_ns": None, "rss_before_load_bytes": None, "rss_peak_bytes": None}
    timing = summarize("job", [block(round_, **silent) for round_ in range(3)], QUICK)
    assert not {"first_inference_ms", "load_ms", "model_rss_mb"} & timing.figures.keys()
    summary = summarize("job", [block(0, **silent), block(1, load_ns=7_000_000)], QUICK)
    assert (summary.figures["first_inference_ms"], summary.figures["load_ms"]) == (30.0, 7.0)


@pytest.mark.parametrize(("slow_ms", "tail"), [(10.0, 1.0), (25.0, 2.5)])
def test_the_tail_is_the_p99_of_all_samples_divided_by_their_median(slow_ms, tail):
    samples = [10.0] * 980 + [slow_ms] * 20
    timing = summarize("job", [block(0, samples), block(1, samples)], QUICK)
    assert timing.figures["p99_over_p50"] == pytest.approx(tail)


def test_one_odd_process_does_not_move_the_p50():
    timing = summarize("job", [block(0, [10.0] * 99), block(1, [10.0] * 99), block(2, [80.0] * 500)], QUICK)
    assert timing.figures["latency_p50_ms"] == 10.0


def test_one_block_is_marked_and_has_no_interval():
    timing = summarize("job", [block()], RECIPE)
    assert timing.labels == ("one_block",)
    assert not {"latency_ci_low_ms", "latency_ci_high_ms", "spread_between"} & timing.figures.keys()


@pytest.mark.parametrize(
    ("samples", "p90", "p99"), [(63, False, False), (64, True, False), (661, True, False), (662, True, True)]
)
def test_percentiles_are_given_only_where_the_samples_carry_them(samples, p90, p99):
    timing = summarize("job", [block(samples_ms=[10.0] * samples)], RECIPE)
    assert ("latency_p90_ms" in timing.figures, "latency_p99_ms" in timing.figures) == (p90, p99)
    assert ("p99_over_p50" in timing.figures) is p99
    assert ("few_samples" in timing.labels) is not p90


def test_percentiles_are_over_the_samples_of_all_blocks():
    timing = summarize("job", [block(0, np.arange(1, 334)), block(1, np.arange(334, 668))], replace(QUICK, rounds=2))
    assert timing.figures["latency_p90_ms"] == pytest.approx(1 + 0.90 * 666)
    assert timing.figures["latency_p99_ms"] == pytest.approx(1 + 0.99 * 666)


@pytest.mark.parametrize(
    ("medians", "unstable"),
    [
        ([10.0, 10.2, 10.4], False),
        ([10.0, 10.2, 10.8], True),
        ([20.0, 10.0, 10.2, 10.4], False),
        ([10.0, 10.2, 10.4, 20.0], True),
        ([10.0, 11.0], True),
        ([10.0, 10.1], False),
    ],
)
def test_stability_is_that_of_the_last_three_rounds(medians, unstable):
    blocks = [block(round_, [ms] * 100) for round_, ms in enumerate(medians)]
    assert ("unstable" in summarize("job", blocks, replace(QUICK, rounds=len(medians))).labels) is unstable


def test_missing_rounds_are_few_samples():
    blocks = [block(0), block(1)]
    assert "few_samples" in summarize("job", blocks, QUICK).labels
    assert "few_samples" not in summarize("job", blocks, replace(QUICK, rounds=2)).labels


def test_a_label_of_any_block_is_one_of_the_job_in_the_order_of_the_list():
    blocks = [block(0, labels=("busy_host", "ungated")), block(1, labels=("throttled",)), block(2)]
    assert summarize("job", blocks, QUICK).labels == ("throttled", "ungated", "busy_host")


def test_a_stored_label_of_another_version_comes_after_known_ones_and_is_distrusted():
    blocks = [block(number, labels=("haunted", "ungated")) for number in range(3)]
    labels = summarize("job", blocks, QUICK).labels
    assert labels == ("ungated", "haunted")
    assert disqualified(labels) == ["haunted"]


def test_a_label_that_is_made_has_to_be_one_of_the_list():
    with pytest.raises(ValueError, match="no such trust labels: haunted"):
        in_order(["ungated", "haunted"])


def test_unknown_sensors_stay_unknown_and_known_ones_are_kept():
    blocks = [
        block(0, rss_peak_bytes=None),
        block(1, rss_before_load_bytes=None, conditions={"temp_start_c": 30.0, "temp_end_c": 35.0}),
        block(2, rss_peak_bytes=None, conditions={"temp_start_c": 32.0}),
    ]
    timing = summarize("job", blocks, QUICK)
    assert timing.figures.get("model_rss_mb") is None
    assert (timing.figures["temp_start_c"], timing.figures["temp_end_c"]) == (31.0, 35.0)


@pytest.mark.parametrize("blocks", [[], [block(0), block(0)], [block(0, job_key="another")]])
def test_blocks_that_are_not_one_a_round_of_one_job_are_refused(blocks):
    with pytest.raises(ValueError, match="one a round"):
        summarize("job", blocks, QUICK)


def test_a_race_is_about_latency_and_says_what_to_write_instead() -> None:
    sweep = SweepSpec(
        name="race",
        models=(ModelSpec(source="mobilenet_v2", weights="random"),),
        grids=(GridSpec(),),
        budget="race",
        objective=ObjectiveSpec(maximize="top1_percent"),
    )
    with pytest.raises(SpecError, match=r"latency_p50_ms, but the objective is top1_percent"):
        protocol_of(sweep)
    timed = protocol_of(sweep.model_copy(update={"objective": ObjectiveSpec()}))
    looser = ObjectiveSpec(constraints=())
    assert timed.question != protocol_of(sweep.model_copy(update={"objective": looser})).question


@pytest.mark.parametrize(
    ("spec", "budget"),
    [
        (ProtocolSpec(preset="race"), "full"),
        (ProtocolSpec(preset="recipe"), "race"),
        (ProtocolSpec(preset="full", max_rounds=2), "full"),
        (ProtocolSpec(preset="quick", min_seconds=70.0), "full"),
        (ProtocolSpec(preset="quick", min_seconds=0.0), "full"),
    ],
)
def test_limits_that_contradict_each_other_are_refused(spec: ProtocolSpec, budget: Any) -> None:
    with pytest.raises(SpecError):
        resolve(spec, budget)


def test_a_race_without_a_preset_has_the_blocks_of_the_race_preset() -> None:
    assert resolve(ProtocolSpec(), "race").preset == "race"
    quick = resolve(ProtocolSpec(preset="quick"), MinutesBudget(device_minutes=3.0))
    assert (quick.preset, quick.budget, quick.device_minutes) == ("quick", "race", 3.0)
    assert quick.last_round > quick.rounds


@pytest.mark.parametrize("budget", ["race", MinutesBudget(device_minutes=3.0)])
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_rounds": LAST_DECISION_ROUND + 1}, "max_rounds"),
        ({"rounds": LAST_DECISION_ROUND + 1}, "rounds"),
        ({"rounds": LAST_DECISION_ROUND + 1, "max_rounds": LAST_DECISION_ROUND + 1}, "rounds"),
    ],
)
def test_a_race_has_no_round_after_its_last_look(budget: Any, options: dict[str, int], named: str) -> None:
    with pytest.raises(
        SpecError, match=rf"protocol: {named} \({LAST_DECISION_ROUND + 1}\) .* {LAST_DECISION_ROUND} rounds"
    ) as caught:
        resolve(ProtocolSpec(**options), budget)
    assert f"protocol.{named} to {LAST_DECISION_ROUND} or less" in caught.value.next_step
    allowed = {name: rounds - 1 for name, rounds in options.items()}
    assert resolve(ProtocolSpec(**allowed), budget).last_round == LAST_DECISION_ROUND
    assert resolve(ProtocolSpec(**options), "full").last_round == LAST_DECISION_ROUND + 1


def test_the_race_of_every_preset_ends_by_its_last_look() -> None:
    for preset in PRESETS:
        assert resolve(ProtocolSpec(preset=preset, rounds=2), "race").last_round <= LAST_DECISION_ROUND


@pytest.mark.parametrize(
    "objective",
    [
        {"front": "load_ms"},
        {"constraints": ({"metric": "model_rss_mb", "at_most": 50.0},)},
        {"front": "beads"},
        {"constraints": ({"metric": "beads", "at_most": 50.0},)},
    ],
)
def test_a_race_refuses_what_is_known_only_after_it(objective: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    told_by_a_runner = replace(built_in.EAGER, name="toy", metrics=(Metric("beads", "Beads", "", "lower", 0),))
    monkeypatch.setitem(catalog.runtimes(), "toy", told_by_a_runner)
    sweep = SweepSpec(
        name="race",
        models=(ModelSpec(source="mobilenet_v2", weights="random"),),
        grids=(GridSpec(),),
        budget="race",
        objective=ObjectiveSpec.model_validate(objective),
    )
    with pytest.raises(SpecError, match="budget: full"):
        protocol_of(sweep)
    assert protocol_of(sweep.model_copy(update={"budget": "full"})).budget == "full"


@pytest.mark.parametrize(("preset", "budget"), [("quick", "full"), ("full", "full"), ("race", "race")])
@pytest.mark.parametrize("figure", [{"max_load": 0.5}, {"max_battery_temp_c": 29.0}, {"load_wait_seconds": 5.0}, {}])
def test_one_figure_of_the_gate_leaves_the_others_as_the_preset_has_them(
    preset: str, budget: Any, figure: dict[str, float]
) -> None:
    gate = PRESETS[preset].gate
    assert gate is not None
    spec = ProtocolSpec.model_validate({"preset": preset, "gate": figure})
    assert resolve(spec, budget).gate == replace(gate, **figure)
    assert resolve(ProtocolSpec.model_validate_json(spec.model_dump_json()), budget).gate == replace(gate, **figure)


def test_a_preset_without_a_gate_gets_the_default_one_with_what_the_file_says() -> None:
    recipe = ProtocolSpec(preset="recipe", gate=GateSpec(max_load=0.5))
    assert resolve(recipe).gate == replace(DEFAULT_GATE, max_load=0.5)


def test_a_gate_that_was_stored_with_all_its_figures_is_read_as_it_was() -> None:
    whole = asdict(replace(DEFAULT_GATE, max_load=0.5))
    stored = ProtocolSpec.model_validate_json(json.dumps({"preset": "quick", "gate": whole}))
    assert resolve(stored).gate == Gate(**whole)


def test_the_schema_shows_the_figures_of_the_gate_that_a_file_leaves_out() -> None:
    shown = json_schema()["$defs"]["GateSpec"]["properties"]
    assert {name: part["default"] for name, part in shown.items()} == asdict(DEFAULT_GATE)
    quick = QUICK.gate
    assert quick is not None
    for name, value in asdict(quick).items():
        assert value == shown[name]["default"] or f"quick: {value:g}." in shown[name]["description"], name


@pytest.mark.parametrize("wait_seconds", [0.0, 5.0, 30.0])
def test_who_only_shortens_the_wait_shortens_the_wait_for_other_programs_with_it(wait_seconds: float) -> None:
    for preset in ("quick", "full"):
        gate = resolve(ProtocolSpec(preset=preset, gate=GateSpec(wait_seconds=wait_seconds))).gate
        before = PRESETS[preset].gate
        assert gate is not None
        assert before is not None
        assert gate.wait_seconds == wait_seconds
        assert gate.load_wait_seconds == min(wait_seconds, before.load_wait_seconds)


def test_a_wait_for_other_programs_beyond_the_preset_s_whole_wait_is_refused() -> None:
    longer = GateSpec(load_wait_seconds=90.0)
    with pytest.raises(
        SpecError, match=r"load_wait_seconds \(90\) .* wait_seconds of the preset quick \(60\)"
    ) as caught:
        resolve(ProtocolSpec(preset="quick", gate=longer))
    assert "raise wait_seconds" in caught.value.next_step
    assert resolve(ProtocolSpec(preset="full", gate=longer)).gate == replace(DEFAULT_GATE, load_wait_seconds=90.0)


def test_the_advice_on_a_busy_host_names_both_that_make_it_one() -> None:
    advice = TRUST["busy_host"].advice
    assert f"other programs used over {BUSY_LOAD:.0%}".replace("%", " %") in advice
    assert f"the hypervisor over {STEAL_SHARE:.0%}".replace("%", " %") in advice
