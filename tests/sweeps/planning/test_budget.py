"""The budget of a sweep file with neither budget nor preset: of a new sweep, and of one that was planned before."""

from dataclasses import replace
from typing import Any

import pytest

from sweeps.device_facts import DeviceFacts
from sweeps.planning.budget import MANY, keep_budget
from sweeps.planning.keys import ModelIdentity
from sweeps.planning.plan import Plan, expand
from sweeps.protocol.presets import protocol_of
from sweeps.skip_kinds import Skip
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import ModelSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import MinutesBudget, ProtocolSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.variant import Variant
from tests.builders import identities_of
from tests.sweeps.conftest import Records

HOST = replace(Records.facts, emulates=("nnapi",))
NET = ModelSpec(source="mobilenet_v2", weights="random")
OTHER = NET.model_copy(update={"name": "other", "seed": 1})
IDENTITIES = identities_of(
    {name: ModelIdentity(source="torchvision:net", weights_id=name) for name in (NET.name, OTHER.name)}
    | {"edgesweep-sentinel": ModelIdentity(source="own", weights_id="random:0")},
    references={"nnapi": "reference:nnapi@1"},
)
TIMED_BOUND = ObjectiveSpec.model_validate({"constraints": ({"metric": "model_rss_mb", "at_most": 50.0},)})


def variants(count: int, **axes: tuple[Any, ...]) -> GridSpec:
    return GridSpec(precision=("fp32",), layout=("nchw",), threads=tuple(range(1, count + 1)), **axes)


def sweep_of(grid: GridSpec, **parts: Any) -> SweepSpec:
    return SweepSpec(name="s", **{"models": (NET,), "grids": (grid,)} | parts)


def planned(spec: SweepSpec, *devices: DeviceFacts) -> Plan:
    def supports(variant: Variant, facts: DeviceFacts) -> Skip | None:
        return Skip("no_effect", "not here") if (variant.backend, variant.capture) == ("cpu", "trace") else None

    return expand(spec, devices or (HOST,), supports, IDENTITIES)


def keys(plan: Plan) -> list[str]:
    return [job.key for job in (*plan.jobs, *plan.sentinels)]


def test_a_new_sweep_of_more_than_8_variants_races_as_if_the_file_said_so() -> None:
    plan = planned(sweep_of(variants(MANY + 1)))
    raced = planned(sweep_of(variants(MANY + 1), budget="race"))
    assert (plan.sweep, keys(plan)) == (raced.sweep, keys(raced))
    assert protocol_of(plan.sweep).preset == "race"
    assert plan.sentinels
    assert plan.budget_reason.startswith("default: 9 variants of one model, more than 8; write budget: full")


def test_a_new_sweep_of_8_variants_is_what_it_was() -> None:
    plan = planned(sweep_of(variants(MANY)))
    assert plan.sweep.budget == "full"
    assert keys(plan) == keys(planned(sweep_of(variants(MANY), protocol=ProtocolSpec(preset="quick"))))
    assert "no model has more than 8 variants on a device" in plan.budget_reason


def test_variants_compete_within_one_model_on_one_device_only() -> None:
    spec = sweep_of(variants(5), models=(NET, OTHER))
    assert planned(spec).sweep.budget == "full"
    assert planned(spec, HOST, replace(HOST, device_id="host-2")).sweep.budget == "full"


def test_one_model_on_one_device_with_more_than_8_makes_the_whole_sweep_race() -> None:
    few = replace(HOST, device_id="phone-1", name="phone")
    many = replace(HOST, device_id="phone-2", name="other phone", core_clusters=((0,), (1,)))
    grid = GridSpec(precision=("fp32",), layout=("nchw",), threads=(1, 2, 3), cpus=("all", "big", "little"))
    assert planned(sweep_of(grid), few).sweep.budget == "full"
    plan = planned(sweep_of(grid), few, many)
    assert plan.sweep.budget == "race"
    assert len({job.device_id for job in plan.jobs}) == 2


def test_what_is_skipped_or_only_checked_does_not_compete() -> None:
    skipped = planned(sweep_of(variants(6, capture=("script", "trace"))))
    assert (len(skipped.jobs), len(skipped.skipped), skipped.sweep.budget) == (6, 6, "full")
    two_backends = GridSpec(backend=("cpu", "nnapi"), capture=("script",), relaxed_fp16=(False, True))
    planned_here = planned(sweep_of(two_backends))
    assert len(planned_here.jobs) > MANY > sum(not job.emulated for job in planned_here.jobs)
    assert planned_here.sweep.budget == "full"
    assert planned(sweep_of(two_backends), replace(HOST, emulates=())).sweep.budget == "race"


@pytest.mark.parametrize(
    ("parts", "budget", "preset"),
    [
        ({"protocol": ProtocolSpec(preset="quick")}, "full", "quick"),
        ({"protocol": ProtocolSpec(preset="full")}, "full", "full"),
        ({"protocol": ProtocolSpec(preset="race")}, "race", "race"),
        ({"budget": "full"}, "full", "quick"),
        ({"budget": MinutesBudget(device_minutes=3.0)}, MinutesBudget(device_minutes=3.0), "race"),
    ],
)
def test_a_file_that_gives_a_preset_or_a_budget_is_not_changed(parts: dict[str, Any], budget: Any, preset: str) -> None:
    spec = sweep_of(variants(20), **parts)
    plan = planned(spec)
    assert (plan.sweep, plan.budget_reason) == (spec, "")
    assert (plan.sweep.budget, protocol_of(plan.sweep).preset) == (budget, preset)
    assert keep_budget(spec, protocol_of(sweep_of(variants(2), budget="race"))) == (spec, "")


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"objective": ObjectiveSpec(maximize="top1_percent")}, "the objective is top1_percent"),
        ({"objective": ObjectiveSpec(front="load_ms")}, "load_ms is timed"),
        ({"objective": TIMED_BOUND}, "a bound on model_rss_mb"),
        ({"protocol": ProtocolSpec(rounds=1)}, "a race needs 2 rounds or more"),
    ],
)
def test_where_a_race_would_be_refused_all_rounds_stay_the_default(parts: dict[str, Any], reason: str) -> None:
    plan = planned(sweep_of(variants(20), **parts))
    assert plan.sweep.budget == "full"
    assert protocol_of(plan.sweep).preset == "quick"
    assert plan.budget_reason.startswith("default: 20 variants would race, but a race ")
    assert reason in plan.budget_reason


@pytest.mark.parametrize("budget", ["full", "race", MinutesBudget(device_minutes=3.0)])
@pytest.mark.parametrize("now", [2, 20])
def test_a_planned_sweep_keeps_its_budget_however_many_variants_it_has_now(budget: Any, now: int) -> None:
    before = protocol_of(sweep_of(variants(9), budget=budget))
    spec, reason = keep_budget(sweep_of(variants(now)), before)
    plan = planned(spec)
    assert plan.sweep.budget == budget
    assert keys(plan) == keys(planned(sweep_of(variants(now), budget=budget)))
    other = "race" if budget == "full" else "full"
    assert reason == f"kept, as this sweep had it before; write budget: {other} to change it"


def test_a_sweep_that_raced_has_all_rounds_where_its_new_objective_refuses_a_race() -> None:
    before = protocol_of(sweep_of(variants(9), budget="race"))
    spec, reason = keep_budget(sweep_of(variants(9), objective=TIMED_BOUND), before)
    assert spec.budget == "full"
    assert reason.startswith("this sweep raced before, but now a race cannot check a bound on model_rss_mb")


def test_what_was_stored_before_the_default_changed_is_read_as_it_was() -> None:
    stored = '{"name": "s", "models": [{"source": "resnet18", "weights": "random"}], "grids": [{}], "budget": "full"}'
    assert SweepSpec.model_validate_json(stored).budget == "full"
    raced = planned(sweep_of(variants(9))).sweep
    assert SweepSpec.model_validate_json(raced.model_dump_json()) == raced
