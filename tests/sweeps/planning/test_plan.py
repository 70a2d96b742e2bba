"""The plan: which jobs a sweep has, what their keys depend on, and what is refused before anything is expanded."""

import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sweeps
from sweeps.device_facts import VIRTUAL_PHONE, DeviceFacts, canonical_key
from sweeps.errors import SpecError
from sweeps.planning import size
from sweeps.planning.keys import Identities, ModelIdentity
from sweeps.planning.plan import Plan, expand
from sweeps.planning.size import check_size, count, estimate
from sweeps.protocol.presets import protocol_of, resolve
from sweeps.records import SCHEMA_VERSION, Job
from sweeps.skip_kinds import Skip
from sweeps.spec import catalog
from sweeps.spec.grid import GridSpec
from sweeps.spec.label import label_of
from sweeps.spec.model_inputs import HELD_OUT_DIGITS, DataSpec, DigitsData, FolderData, ModelSpec, SyntheticData
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import ProtocolSpec
from sweeps.spec.sweep import SweepSpec, load
from sweeps.variant import RunAxes, Variant
from tests import builders
from tests.builders import computer_facts
from workers.runtimes import registry

X86 = computer_facts()
ARM = replace(X86, device_id="phone-1", name="phone", model="Phone", abi="arm64-v8a", qengines=("qnnpack",))
HOST = replace(X86, device_id="host-2", emulates=("nnapi", "metal"))


def identities_of(*models: ModelSpec, **changes: Any) -> Identities:
    identities = {
        model.name: ModelIdentity(source=f"torchvision:{model.source}", weights_id=f"random:{position}")
        for position, model in enumerate(models)
    }
    usual: dict[str, Any] = {
        "models": identities,
        "versions": {"torch": "2.12.1", "torchvision": "0.27.1", "builder": "torchscript 1"},
        "runners": {name: f"python-{name} 1" for name in catalog.runtimes()},
        "references": {"nnapi": "reference:nnapi@1", "metal": "reference:metal@1"},
    }
    return builders.identities_of(**usual | changes)


def everything(variant: Variant, facts: DeviceFacts) -> None:
    return None


NET = ModelSpec(source="mobilenet_v2", weights="random")


def sweep_of(*grids: GridSpec, models: tuple[ModelSpec, ...] = (NET,), **parts: Any) -> SweepSpec:
    """A sweep with a preset, so that the number of variants does not decide the budget."""
    return SweepSpec(name="s", models=models, grids=grids, **{"protocol": ProtocolSpec(preset="quick")} | parts)


def planned(
    spec: SweepSpec,
    *devices: DeviceFacts,
    supports: Callable[[Variant, DeviceFacts], str | None] = everything,
    identities: Identities | None = None,
) -> Plan:
    return expand(spec, devices or (X86,), supports, identities or identities_of(*spec.models))


def keys(plan: Plan) -> set[str]:
    return {job.key for job in plan.jobs}


# Combinations


def test_a_grid_is_the_product_of_its_axes_with_int8_axes_ignored_for_fp32() -> None:
    grid = GridSpec(precision=("fp32", "int8"), qengine=("auto", "qnnpack"), layout=("nchw", "nhwc"), threads=(1, 2))
    jobs = planned(sweep_of(grid)).jobs
    assert [(job.variant.precision, job.variant.qengine) for job in jobs].count(("fp32", "none")) == 2 * 2
    assert [(job.variant.precision, job.variant.qengine) for job in jobs].count(("int8", "x86")) == 2 * 2
    assert [(job.variant.precision, job.variant.qengine) for job in jobs].count(("int8", "qnnpack")) == 2 * 2
    assert len(jobs) == 12
    fp32 = next(job.variant for job in jobs if job.variant.precision == "fp32")
    assert (fp32.quantization, fp32.interface) == ("none", "none")
    int8 = next(job.variant for job in jobs if job.variant.precision == "int8")
    assert (int8.quantization, int8.interface) == ("static_fx", "core")


@pytest.mark.parametrize(
    ("abi", "engine"), [("x86_64", "x86"), ("x86", "x86"), ("arm64-v8a", "qnnpack"), ("armeabi-v7a", "qnnpack")]
)
def test_the_auto_engine_follows_the_devices_abi(abi: str, engine: str) -> None:
    grid = GridSpec(precision=("int8",), layout=("nchw",))
    (job,) = planned(sweep_of(grid), replace(X86, abi=abi)).jobs
    assert job.variant.qengine == engine


def test_onednn_is_planned_for_each_device_s_cpu_and_all_else_for_all_alike() -> None:
    exact = replace(X86, device_id="host-9", name="vnni", cpu_features=("avx2", "avx512_vnni"))
    plain = replace(X86, cpu_features=("avx2",))
    grid = GridSpec(layout=("nchw",), qengine=("auto", "onednn", "qnnpack"), quantization=("static_fx", "dynamic"))
    plan = planned(sweep_of(grid), plain, exact)
    builds = {
        device.name: {
            (job.variant.precision, job.variant.quantization, job.variant.qengine): job.build_key
            for job in plan.jobs
            if job.device_id == device.device_id
        }
        for device in (plain, exact)
    }
    assert builds["local"].keys() == builds["vnni"].keys()
    differing = [axes for axes, key in builds["local"].items() if builds["vnni"][axes] != key]
    assert differing == [("int8", "static_fx", "onednn")]
    assert [job.name for job in plan.jobs if job.variant.reduced_range] == [
        "mobilenet_v2 · cpu int8-onednn reduced-range nchw script fused optimized · local"
    ]
    assert len({job.name for job in plan.jobs}) == len(plan.jobs)


def test_an_abi_without_known_engine_is_skipped_for_int8_only() -> None:
    plan = planned(sweep_of(GridSpec(layout=("nchw",))), replace(X86, abi="riscv64"))
    assert [job.variant.precision for job in plan.jobs] == ["fp32"]
    (skip,) = plan.skipped
    assert skip.reason == "no quantized engine is known for the ABI riscv64; name one in qengine"


def test_supports_sees_resolved_variants_and_its_reason_is_kept() -> None:
    qengines: list[str] = []

    def supports(variant: Variant, facts: DeviceFacts) -> Skip | None:
        qengines.append(variant.qengine)
        return Skip("duplicate", "int8 always fuses") if variant.precision == "int8" and not variant.fuse else None

    grid = GridSpec(fuse=(True, False), layout=("nchw",), qengine=("auto", "x86"))
    plan = planned(sweep_of(grid), supports=supports)
    assert set(qengines) == {"none", "x86"}
    assert len(plan.jobs) == 3
    (skip,) = plan.skipped
    assert (skip.kind, skip.reason) == ("duplicate", "int8 always fuses")
    assert (skip.variant.precision, skip.variant.fuse) == ("int8", False)
    assert skip.device_id == X86.device_id


def test_the_union_of_unnamed_grids_holds_each_combination_once() -> None:
    every, part = GridSpec(), GridSpec(precision=("fp32",))
    assert planned(sweep_of(every, part, every)).jobs == planned(sweep_of(every)).jobs


def test_a_variant_entered_twice_under_two_names_is_built_once_and_measured_twice() -> None:
    grid = {"precision": ("fp32",), "layout": ("nhwc",)}
    first, second = planned(sweep_of(GridSpec(name="first", **grid), GridSpec(name="second", **grid))).jobs
    assert first.build_key == second.build_key
    assert first.key != second.key
    assert first.name.endswith(" · first")
    assert second.name.endswith(" · second")


def test_one_network_under_two_model_names_is_measured_twice() -> None:
    twin = NET.model_copy(update={"name": "twin"})
    identity = ModelIdentity(source="torchvision:mobilenet_v2", weights_id="random:0")
    spec = sweep_of(GridSpec(precision=("fp32",), layout=("nchw",)), models=(NET, twin))
    plan = planned(spec, identities=identities_of(models={NET.name: identity, "twin": identity}))
    assert len({job.build_key for job in plan.jobs}) == 1
    assert len(keys(plan)) == 2


def test_renaming_grids_and_models_measures_nothing_again() -> None:
    def run(first: str, second: str, model: str) -> Plan:
        models = (NET.model_copy(update={"name": model}),)
        return planned(sweep_of(GridSpec(name=first), GridSpec(name=second), GridSpec(), models=models))

    assert keys(run("a", "b", "net")) == keys(run("x", "y", "other"))


def test_a_device_that_is_given_twice_is_measured_once() -> None:
    spec = sweep_of(GridSpec())
    assert planned(spec, X86, X86) == planned(spec, X86)


def test_a_name_says_model_variant_and_what_else_differs() -> None:
    plan = planned(sweep_of(GridSpec(name="g", precision=("int8",), layout=("nhwc",), capture=("trace",))))
    assert [job.name for job in plan.jobs] == ["mobilenet_v2 · cpu int8-x86 nhwc trace fused optimized · g"]
    grid = GridSpec(
        precision=("fp32",), layout=("nchw",), threads=(1, 2), cpus=("all", "0,1"), reuse_input=(True, False)
    )
    names = [job.name for job in planned(sweep_of(grid), X86, ARM).jobs]
    assert "mobilenet_v2 · cpu fp32 nchw script fused optimized · 1 thread · all cpus · reused input · local" in names
    assert "mobilenet_v2 · cpu fp32 nchw script fused optimized · 2 threads · cpus 0,1 · fresh input · phone" in names


def test_two_units_of_one_name_have_different_job_names() -> None:
    jobs = planned(sweep_of(GridSpec()), X86, replace(X86, device_id="host-2")).jobs
    assert len({job.name for job in jobs}) == len(jobs)


def test_big_and_little_cores_are_for_devices_that_are_known_to_have_them() -> None:
    spec = sweep_of(GridSpec(precision=("fp32",), layout=("nchw",), cpus=("all", "big", "little")))
    clusters = replace(ARM, core_clusters=((0, 1, 2, 3), (4, 5)))
    assert [job.run.cpus for job in planned(spec, clusters).jobs] == ["all", "big", "little"]
    assert "big cpus" in planned(spec, clusters).jobs[1].name
    for facts in (X86, replace(X86, core_clusters=((0, 1),))):
        plan = planned(spec, facts)
        assert [job.run.cpus for job in plan.jobs] == ["all"]
        assert [skip.run.cpus for skip in plan.skipped] == ["big", "little"]
        assert plan.skipped[0].reason == (
            "local is not known to have big and little cores; write all, or the numbers of CPUs"
        )


# Checks by a host

EVERY_BACKEND = GridSpec(backend=("cpu", "nnapi", "metal"), capture=("script", "trace"))


def test_a_grid_over_backends_is_exactly_the_variants_that_differ() -> None:
    jobs = planned(sweep_of(EVERY_BACKEND), HOST).jobs
    assert [label_of(job.variant) for job in jobs] == [
        *("cpu fp32 nchw script fused optimized", "cpu fp32 nchw trace fused optimized"),
        *("cpu fp32 nhwc script fused optimized", "cpu fp32 nhwc trace fused optimized"),
        *("cpu int8-x86 nchw script fused optimized", "cpu int8-x86 nchw trace fused optimized"),
        *("cpu int8-x86 nhwc script fused optimized", "cpu int8-x86 nhwc trace fused optimized"),
        *("nnapi fp32 nchw", "nnapi fp32 nhwc", "nnapi int8-qnnpack nchw", "nnapi int8-qnnpack nhwc"),
        *("metal fp32 nchw script", "metal fp32 nchw trace", "metal fp32 nhwc script", "metal fp32 nhwc trace"),
        *("metal int8-qnnpack nchw script", "metal int8-qnnpack nchw trace"),
        *("metal int8-qnnpack nhwc script", "metal int8-qnnpack nhwc trace"),
    ]
    assert len({job.build_key for job in jobs}) == len(jobs) == count(sweep_of(EVERY_BACKEND))


def test_a_job_of_a_backend_that_the_host_emulates_names_its_reference() -> None:
    jobs = planned(sweep_of(EVERY_BACKEND), HOST).jobs
    references = {"cpu": "", "nnapi": "reference:nnapi@1", "metal": "reference:metal@1"}
    assert all(job.reference == references[job.variant.backend] for job in jobs)
    assert all(job.emulated is (job.variant.backend != "cpu") for job in jobs)
    assert not any(job.emulated for job in planned(sweep_of(EVERY_BACKEND), ARM).jobs)


def test_what_is_only_checked_has_no_run_axes() -> None:
    grid = GridSpec(
        backend=("cpu", "nnapi"),
        precision=("fp32",),
        layout=("nchw",),
        threads=(2, 4),
        cpus=("all", "big"),
        reuse_input=(True, False),
    )
    emulating = planned(sweep_of(grid), HOST)
    (checked,) = [job for job in emulating.jobs if job.emulated]
    assert checked.run == RunAxes()
    assert checked.name == "mobilenet_v2 · nnapi fp32 nchw"
    assert [skip.variant.backend for skip in emulating.skipped] == ["cpu"] * 4
    on_phone = planned(sweep_of(grid), replace(ARM, core_clusters=((0, 1), (2, 3)))).jobs
    assert [job.variant.backend for job in on_phone] == ["cpu"] * 8 + ["nnapi"] * 8
    assert on_phone[-1].name == "mobilenet_v2 · nnapi fp32 nchw · 4 threads · big cpus · fresh input"


def test_what_a_host_can_check_changes_no_key_of_what_it_times() -> None:
    spec = sweep_of(EVERY_BACKEND)
    plain, emulating = planned(spec, replace(HOST, emulates=())), planned(spec, HOST)
    assert [job.build_key for job in plain.jobs] == [job.build_key for job in emulating.jobs]
    equal_keys = [job.key == other.key for job, other in zip(plain.jobs, emulating.jobs, strict=True)]
    assert equal_keys == [not job.emulated for job in emulating.jobs]


def test_a_reference_stands_in_for_a_backend_of_its_own_runtime_only() -> None:
    grid = GridSpec(runtime=("torchscript", "onnxruntime"), backend=("nnapi",), precision=("fp32",), threads=(1, 2))
    spec = sweep_of(grid)
    own = {"torchscript": {"nnapi": "reference:nnapi@1"}, "onnxruntime": {}}
    phone = replace(ARM, emulates=("nnapi",))
    jobs = planned(spec, phone, identities=identities_of(NET, own_references=own)).jobs
    assert {(job.variant.runtime, job.run.threads, job.reference) for job in jobs} == {
        ("torchscript", 1, "reference:nnapi@1"),
        ("onnxruntime", 1, ""),
        ("onnxruntime", 2, ""),
    }


def test_supports_may_still_skip_what_a_host_emulates() -> None:
    def supports(variant: Variant, facts: DeviceFacts) -> Skip | None:
        int8_on_metal = (variant.backend, variant.precision) == ("metal", "int8")
        return Skip("not_on_metal", "Metal has no int8") if int8_on_metal else None

    plan = planned(sweep_of(EVERY_BACKEND), HOST, supports=supports)
    assert {label_of(skip.variant) for skip in plan.skipped} == {
        f"metal int8-qnnpack {layout} {capture}" for layout in ("nchw", "nhwc") for capture in ("script", "trace")
    }
    assert {skip.reason for skip in plan.skipped} == {"Metal has no int8"}


# Keys


def test_keys_hold_exactly_what_the_design_says() -> None:
    model = ModelSpec(source="net:build", weights="random", arguments={"classes": 10, "width": 0.5})
    spec = sweep_of(GridSpec(precision=("int8",), layout=("nhwc",)), models=(model,), protocol=ProtocolSpec(rounds=7))
    identities = identities_of(model)
    (job,) = planned(spec, identities=identities).jobs
    assert job.build_key == canonical_key(
        {
            "model_source": "torchvision:net:build",
            "arguments": {"width": 0.5, "classes": 10},
            "weights_id": "random:0",
            "input_shape": [1, 3, 224, 224],
            "variant": {
                "runtime": "torchscript",
                "backend": "cpu",
                "precision": "int8",
                "quantization": "static_fx",
                "qengine": "x86",
                "granularity": "per_channel",
                "calibration_images": 0,
                "interface": "core",
                "layout": "nhwc",
                "capture": "script",
                "format": "pt",
                "fuse": True,
                "optimize": True,
                "preference": "none",
                "relaxed_fp16": False,
                "flexible_batch": False,
            },
            "calibration_id": "c" * 64,
            "versions": {"torch": "2.12.1", "torchvision": "0.27.1", "builder": "torchscript 1"},
        }
    )
    assert job.key == canonical_key(
        {
            "build_key": job.build_key,
            "device_id": "host-1",
            "fingerprint": X86.fingerprint,
            "run": {"threads": 1, "cpus": "all", "reuse_input": True},
            "protocol": resolve(ProtocolSpec()).comparable(),
            "runner": "python-torchscript 1",
            "schema_version": SCHEMA_VERSION,
            "replicate": 0,
        }
    )


@dataclass(frozen=True)
class Situation:
    """All inputs of one plan."""

    spec: SweepSpec
    devices: tuple[DeviceFacts, ...]
    identities: Identities

    def plan(self) -> Plan:
        return expand(self.spec, self.devices, everything, self.identities)


def _values(axis: str) -> list[Any]:
    """All values that an axis may have, read off its type: new values join by themselves."""
    (inner, _) = get_args(GridSpec.model_fields[axis].annotation)
    values: dict[str, list[Any]] = {
        "threads": [1, 2, 4],
        "cpus": ["all", "0", "0,1"],
        "calibration_images": ["all", 10, 50],
        "opset": ["auto", 18, 20],
        "toolchain": ["installed", "onnxruntime==1.31.1", "executorch==1.3.0"],
        "runner_toolchain": ["same", "installed", "onnxruntime==1.31.1", "executorch==1.3.0"],
    }
    return values.get(axis) or ([True, False] if inner is bool else list(catalog.values(axis)))


AXES = [name for name in GridSpec.model_fields if name != "name"]
VALUES = {axis: _values(axis) for axis in AXES}
Cell = dict[str, Any]


def _engine(cell: Cell, device: DeviceFacts) -> str:
    """`auto` is qnnpack for Arm; other backends than the CPU quantize as qnnpack does."""
    by_abi = "x86" if device.abi == "x86_64" else "qnnpack"
    return by_abi if cell["qengine"] == "auto" and cell["backend"] == "cpu" else str(cell["qengine"])


def _granularity(cell: Cell, device: DeviceFacts) -> str:
    engine = _engine(cell, device) if cell["backend"] == "cpu" else "qnnpack"
    usual = "per_tensor" if engine == "qnnpack" else "per_channel"
    return usual if cell["granularity"] == "auto" else str(cell["granularity"])


def _meaning(cell: Cell, device: DeviceFacts) -> tuple[Cell, Cell]:
    """The meaning of a grid's cell: the build axes and the run axes that matter for it, with what their values mean.
    Written down here once more, beside `sweeps.planning.axes`, so that one checks the other."""
    timed_as = {axis: cell[axis] for axis in ("threads", "cpus", "reuse_input")}
    if cell["runtime"] == "eager":
        return {"runtime": "eager"}, timed_as
    if cell["runtime"] == "onnxruntime":
        return _meaning_in_onnxruntime(cell), {} if cell["backend"] in device.emulates else timed_as
    if cell["runtime"] == "executorch":
        return _meaning_in_executorch(cell), {} if cell["backend"] in device.emulates else timed_as
    backend, int8 = cell["backend"], cell["precision"] == "int8"
    build = {axis: cell[axis] for axis in ("runtime", "backend", "precision", "layout")}
    if int8:
        quantization = {"static": "static_fx"}.get(cell["quantization"], cell["quantization"])
        build |= {"quantization": quantization, "interface": cell["interface"]}
        build["granularity"] = _granularity(cell, device)
        if cell["quantization"] != "dynamic":
            build["calibration_images"] = cell["calibration_images"]
    if backend == "cpu":
        build |= {axis: cell[axis] for axis in ("capture", "format", "fuse", "optimize")}
        build |= {"qengine": _engine(cell, device)} if int8 else {}
    elif backend == "nnapi":
        build |= {axis: cell[axis] for axis in ("format", "preference", "flexible_batch")}
        build |= {} if int8 else {"relaxed_fp16": cell["relaxed_fp16"]}
    else:
        build["capture"] = cell["capture"]
    return build, {} if backend in device.emulates else timed_as


def _releases(cell: Cell) -> Cell:
    """The releases of the cell's runtime: those of other runtimes mean nothing."""
    built, ran = (cell[axis] for axis in ("toolchain", "runner_toolchain"))
    built = "installed" if "==" in built and not built.startswith(cell["runtime"]) else built
    ran = "same" if "==" in ran and not ran.startswith(cell["runtime"]) else ran
    return {"built by": built, "run by": built if ran == "same" else ran}


def _meaning_in_executorch(cell: Cell) -> Cell:
    axes = ["runtime", "backend", "precision"]
    if cell["backend"] != "cpu":
        return {axis: cell[axis] for axis in axes} | _releases(cell)
    axes += ["layout"]
    if cell["precision"] == "int8":
        axes += ["quantization"] if cell["quantization"] == "dynamic" else ["quantization", "calibration_images"]
        per_tensor = {"per_tensor": cell["granularity"] == "per_tensor"}
        return {axis: cell[axis] for axis in axes} | per_tensor | _releases(cell)
    return {axis: cell[axis] for axis in axes} | _releases(cell)


def _meaning_in_onnxruntime(cell: Cell) -> Cell:
    axes = ["runtime", "backend", "precision", "opset", "graph_optimization"]
    if cell["backend"] == "cpu" and cell["precision"] != "int8":
        blocked = {"blocked": cell["layout"] == "nchw16c"}
        return {axis: cell[axis] for axis in axes} | blocked | _releases(cell)
    if cell["precision"] == "int8":
        axes += ["quantization"] if cell["quantization"] == "dynamic" else ["quantization", "calibration_images"]
        per_tensor = {"per_tensor": cell["granularity"] == "per_tensor"}
        return {axis: cell[axis] for axis in axes} | per_tensor | _releases(cell)
    return {axis: cell[axis] for axis in axes} | _releases(cell)


def _job(cell: Cell, device: DeviceFacts) -> Job | None:
    """The job of a cell; `None` if a value is none of the cell's runtime."""
    return next(
        iter(planned(sweep_of(GridSpec(**{axis: (value,) for axis, value in cell.items()})), device).jobs), None
    )


@pytest.mark.parametrize("axis", AXES)
def test_another_value_of_an_axis_is_another_job_exactly_where_its_meaning_differs(axis: str) -> None:
    # A seed with which each axis differs somewhere: of most cells one value is as good as another.
    seeded, differing = Random(f"{axis} 3"), 0
    for _ in range(240):
        cell = {name: seeded.choice(values) for name, values in VALUES.items()}
        changed = {**cell, axis: seeded.choice(VALUES[axis])}
        device = seeded.choice((X86, ARM, HOST))
        (build, run), (build_now, run_now) = _meaning(cell, device), _meaning(changed, device)
        job, now = _job(cell, device), _job(changed, device)
        if job is None or now is None:
            continue
        assert (job.build_key != now.build_key) == (build != build_now), (cell, changed)
        assert (job.key != now.key) == ((build, run) != (build_now, run_now)), (cell, changed)
        differing += job.key != now.key
    assert differing or len(VALUES[axis]) == 1


@st.composite
def grids(draw: st.DrawFn) -> GridSpec:
    """Any value of every axis, two of up to four of them."""
    several = draw(st.sets(st.sampled_from(AXES), max_size=4))
    sizes = {axis: 2 if axis in several else 1 for axis in AXES}
    axes = {
        axis: st.lists(st.sampled_from(values), min_size=1, max_size=sizes[axis], unique=True).map(tuple)
        for axis, values in VALUES.items()
    }
    return GridSpec(**draw(st.fixed_dictionaries(axes)))


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    sources = draw(
        st.lists(st.sampled_from(["resnet18", "vgg11", "mobilenet_v2"]), min_size=1, max_size=2, unique=True)
    )
    models = tuple(ModelSpec(source=source, weights="random", arguments={"num_classes": 10}) for source in sources)
    drawn = draw(st.lists(grids(), min_size=1, max_size=2))
    named = draw(st.sets(st.integers(0, len(drawn) - 1)))
    drawn = [grid.model_copy(update={"name": f"g{i}" if i in named else ""}) for i, grid in enumerate(drawn)]
    devices = draw(st.sampled_from([(X86,), (ARM,), (X86, ARM), (HOST,), (HOST, ARM)]))
    return Situation(sweep_of(*drawn, models=models), devices, identities_of(*models))


def change_model(situation: Situation, position: int, **update: Any) -> Situation:
    models = list(situation.spec.models)
    models[position] = models[position].model_copy(update=update)
    return replace(situation, spec=situation.spec.model_copy(update={"models": tuple(models)}))


def change_identity(situation: Situation, position: int, **update: str) -> Situation:
    name = situation.spec.models[position].name
    models = {**situation.identities.models, name: replace(situation.identities.models[name], **update)}
    return replace(situation, identities=replace(situation.identities, models=models))


def change_identities(situation: Situation, **update: Any) -> Situation:
    return replace(situation, identities=replace(situation.identities, **update))


def change_device(situation: Situation, **update: Any) -> Situation:
    return replace(situation, devices=(replace(situation.devices[0], **update), *situation.devices[1:]))


def change_spec(situation: Situation, **update: Any) -> Situation:
    return replace(situation, spec=situation.spec.model_copy(update=update))


def rename_model(situation: Situation, position: int) -> Situation:
    old = situation.spec.models[position].name
    models = {("renamed" if name == old else name): value for name, value in situation.identities.models.items()}
    return change_identities(change_model(situation, position, name="renamed"), models=models)


def rename_grids(situation: Situation) -> Situation:
    grids = tuple(g.model_copy(update={"name": f"new-{g.name}"}) if g.name else g for g in situation.spec.grids)
    return change_spec(situation, grids=grids)


def change_reference(situation: Situation, backend: str) -> Situation:
    references = {**situation.identities.references, backend: f"reference:{backend}@2"}
    return change_identities(situation, references=references)


Which = Literal["none", "all", "of the model", "of the device", "calibrated", "checked by nnapi", "checked by metal"]
# Changes, and the keys that must change with each: those of builds, those of jobs.
CHANGES: dict[str, tuple[Callable[[Situation], Situation], Which, Which]] = {
    "source of the code": (lambda g: change_identity(g, 0, source="torchvision:other"), "of the model", "of the model"),
    "weights": (lambda g: change_identity(g, 0, weights_id="sha256:1"), "of the model", "of the model"),
    "an argument": (lambda g: change_model(g, 0, arguments={"num_classes": 11}), "of the model", "of the model"),
    "an argument's type": (
        lambda g: change_model(g, 0, arguments={"num_classes": 10.0}),
        "of the model",
        "of the model",
    ),
    "an argument's name": (lambda g: change_model(g, 0, arguments={"classes": 10}), "of the model", "of the model"),
    "input shape": (lambda g: change_model(g, 0, input_shape=(1, 3, 224, 192)), "of the model", "of the model"),
    "calibration data": (lambda g: change_identities(g, calibration_id="d" * 64), "calibrated", "calibrated"),
    "a library": (lambda g: change_identities(g, versions={**g.identities.versions, "torch": "3"}), "all", "all"),
    "the builder": (lambda g: change_identities(g, versions={**g.identities.versions, "builder": "2"}), "all", "all"),
    "the runners": (
        lambda g: change_identities(g, runners={name: f"{runner}.2" for name, runner in g.identities.runners.items()}),
        "none",
        "all",
    ),
    "the NNAPI reference": (lambda g: change_reference(g, "nnapi"), "none", "checked by nnapi"),
    "the Metal reference": (lambda g: change_reference(g, "metal"), "none", "checked by metal"),
    "the unit": (lambda g: change_device(g, device_id="unit-9"), "none", "of the device"),
    "an update of the phone": (lambda g: change_device(g, os_build="15"), "none", "of the device"),
    "the runtime on the phone": (
        lambda g: change_device(g, runtime_versions=(("torchscript", "2.8"),)),
        "none",
        "of the device",
    ),
    "the device's name": (lambda g: change_device(g, name="other"), "none", "none"),
    "the device's clusters of cores": (lambda g: change_device(g, core_clusters=((0,), (1,))), "none", "none"),
    "the device's memory": (lambda g: change_device(g, ram_bytes=1), "none", "none"),
    "block length": (lambda g: change_spec(g, protocol=ProtocolSpec(min_seconds=0.75)), "none", "all"),
    "warm-up": (lambda g: change_spec(g, protocol=ProtocolSpec(warmup_iterations=3)), "none", "all"),
    "preset": (lambda g: change_spec(g, protocol=ProtocolSpec(preset="recipe")), "none", "all"),
    "rounds": (lambda g: change_spec(g, protocol=ProtocolSpec(rounds=9)), "none", "none"),
    "order of rounds": (lambda g: change_spec(g, protocol=ProtocolSpec(seed=9)), "none", "none"),
    "evaluation data": (lambda g: change_identities(g, evaluation_id="f" * 64), "none", "none"),
    "objective": (lambda g: change_spec(g, objective=ObjectiveSpec(maximize="top1_percent")), "none", "none"),
    "name of the sweep": (lambda g: change_spec(g, name="other"), "none", "none"),
    "name of the model": (lambda g: rename_model(g, 0), "none", "none"),
    "names of grids": (rename_grids, "none", "none"),
}


def _is_hit(which: Which, job: Job, situation: Situation) -> bool:
    return {
        "none": False,
        "all": True,
        "of the model": job.model == situation.spec.models[0].name,
        "of the device": job.device_id == situation.devices[0].device_id,
        "calibrated": job.variant.precision == "int8" and job.variant.quantization != "dynamic",
        "checked by nnapi": job.reference == "reference:nnapi@1",
        "checked by metal": job.reference == "reference:metal@1",
    }[which]


@pytest.mark.parametrize("change", CHANGES)
@settings(max_examples=12, derandomize=True)
@given(situation=situations())
def test_a_single_change_changes_the_keys_it_must_and_no_other(change: str, situation: Situation) -> None:
    apply, of_builds, of_jobs = CHANGES[change]
    before, after = situation.plan(), apply(situation).plan()
    assert len(before.jobs) == len(after.jobs)
    for old, new in zip(before.jobs, after.jobs, strict=True):
        assert (old.variant, old.run, old.grid == "") == (new.variant, new.run, new.grid == "")
        assert (old.build_key != new.build_key) == _is_hit(of_builds, old, situation), change
        assert (old.key != new.key) == _is_hit(of_jobs, old, situation), change


@settings(max_examples=60)
@given(situation=situations())
def test_names_and_keys_are_unique_and_builds_are_shared_exactly_by_equal_variants(situation: Situation) -> None:
    plan = situation.plan()
    assert len({job.key for job in plan.jobs}) == len(plan.jobs)
    assert len({job.name for job in plan.jobs}) == len(plan.jobs)
    by_key: dict[str, set[tuple[str, Variant]]] = {}
    for job in plan.jobs:
        by_key.setdefault(job.build_key, set()).add((job.model, job.variant))
    assert all(len(builds) == 1 for builds in by_key.values())
    assert len(by_key) == len({(job.model, job.variant) for job in plan.jobs})


@settings(max_examples=60)
@given(situation=situations(), data=st.data())
def test_the_order_of_grids_models_devices_and_axes_changes_no_job(situation: Situation, data: st.DataObject) -> None:
    def shuffled(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(data.draw(st.permutations(values)))

    axes = (
        grid.model_copy(update={axis: shuffled(getattr(grid, axis)) for axis in AXES}) for grid in situation.spec.grids
    )
    other = Situation(
        situation.spec.model_copy(update={"grids": shuffled(tuple(axes)), "models": shuffled(situation.spec.models)}),
        shuffled(situation.devices),
        change_identities(situation, models=dict(reversed(situation.identities.models.items()))).identities,
    )
    before, after = situation.plan(), other.plan()
    assert keys(before) == keys(after)
    assert {job.name for job in before.jobs} == {job.name for job in after.jobs}
    twins = {job.build_key for job in before.jobs if sum(job.build_key == twin.build_key for twin in before.jobs) > 1}
    alone = {job for job in before.jobs if job.build_key not in twins}
    assert alone <= set(after.jobs)


@settings(max_examples=40)
@given(situation=situations(), grid=grids())
def test_a_grid_that_is_added_last_changes_no_key_that_was_there(situation: Situation, grid: GridSpec) -> None:
    extended = change_spec(situation, grids=(*situation.spec.grids, grid.model_copy(update={"name": "added"})))
    assert keys(situation.plan()) <= keys(extended.plan())


@settings(max_examples=40)
@given(situation=situations())
@pytest.mark.fault(38, "grids of any axes", "each combination a job, or skipped with its reason")
def test_every_combination_ends_as_one_job_or_one_skip(situation: Situation) -> None:
    def supports(variant: Variant, facts: DeviceFacts) -> Skip | None:
        return Skip("no_effect", "no") if variant.layout == "nhwc" and facts.abi == "x86_64" else None

    whole = situation.plan()
    plan = expand(situation.spec, situation.devices, supports, situation.identities)
    assert [job for job in whole.jobs if supports(job.variant, X86) is None or job.device_id == ARM.device_id] == list(
        plan.jobs
    )
    # In the whole plan too, values that are none of a runtime's are skipped.
    combinations = len(whole.jobs) + len(whole.skipped)
    assert len(plan.skipped) + len(plan.jobs) == combinations
    assert len({skip.name for skip in plan.skipped} | {job.name for job in plan.jobs}) == combinations
    assert combinations <= count(situation.spec) * len(situation.devices)


PROGRAM = """
import json, sys
sys.path.insert(0, {folder!r})
import test_plan
spec = test_plan.sweep_of(test_plan.GridSpec(name="a", threads=(1, 2)), test_plan.GridSpec())
plan = test_plan.planned(spec, test_plan.X86, test_plan.ARM)
print(json.dumps([[job.key, job.build_key, job.name] for job in plan.jobs]))
"""


def test_a_plan_is_the_same_in_every_process() -> None:
    def run(seed: str) -> list[list[str]]:
        program = PROGRAM.format(folder=str(Path(__file__).parent))
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=120,
        )
        jobs: list[list[str]] = json.loads(done.stdout)
        return jobs

    plan = planned(sweep_of(GridSpec(name="a", threads=(1, 2)), GridSpec()), X86, ARM)
    assert run("1") == run("2") == [[job.key, job.build_key, job.name] for job in plan.jobs]


# The shipped sweep files


def shipped(name: str) -> Plan:
    spec = load(Path(sweeps.__file__).parent / "specs" / f"{name}.yaml")
    return planned(spec, supports=registry.get("torchscript").supports)


def test_the_demo_has_thirteen_variants_and_says_why_others_are_skipped() -> None:
    plan = shipped("demo")
    assert len({job.build_key for job in plan.jobs}) == len(plan.jobs) == 13
    assert {job.variant.qengine for job in plan.jobs} == {"none", "x86", "qnnpack"}
    assert len(plan.skipped) == 4
    assert all(not skip.variant.fuse and skip.variant.precision == "int8" and skip.reason for skip in plan.skipped)


def test_the_tie_is_one_artifact_measured_twice() -> None:
    plan = shipped("tie")
    assert len({job.build_key for job in plan.jobs}) == 1
    assert [job.grid for job in plan.jobs] == ["first", "second"]


def test_the_recipe_compares_layouts_and_precisions_on_one_thread() -> None:
    plan = shipped("recipe")
    assert {(job.variant.precision, job.variant.layout) for job in plan.jobs} == set(
        itertools.product(("fp32", "int8"), ("nchw", "nhwc"))
    )
    assert {job.run for job in plan.jobs} == {RunAxes(threads=1)}
    assert all(job.variant.fuse and job.variant.optimize for job in plan.jobs)


# Size and time


def test_count_is_exact_where_no_combination_repeats() -> None:
    grid = GridSpec(qengine=("auto", "qnnpack"), threads=(1, 2, 3), fuse=(True, False))
    assert count(sweep_of(grid)) == len(planned(sweep_of(grid)).jobs) == (1 + 2) * 2 * 2 * 3


@settings(max_examples=60)
@given(grid=grids(), device=st.sampled_from([X86, ARM, HOST]))
def test_count_is_never_too_small_and_exact_where_auto_names_nothing_twice(grid: GridSpec, device: DeviceFacts) -> None:
    spec = sweep_of(grid)
    plan = planned(spec, device)
    combinations = len(plan.jobs) + len(plan.skipped)
    assert combinations <= count(spec)
    several_autos = any("auto" in axis and len(axis) > 1 for axis in (grid.qengine, grid.granularity))
    several_autos |= {"static", "static_fx"} <= {*grid.quantization}
    # An eager model has no other build axis, and what is only checked no run axis.
    if not several_autos and not device.emulates and grid.runtime == ("torchscript",):
        assert combinations == count(spec)


@pytest.mark.fault(37, "a grid of too many cells", "refused before any device is touched")
def test_more_combinations_than_can_be_listed_are_refused() -> None:
    pairs = tuple(f"{low},{high}" for low in range(500) for high in range(500, 1000))
    grid = GridSpec(threads=tuple(range(1, 1001)), cpus=pairs)
    spec = sweep_of(grid)
    with pytest.raises(SpecError, match=r"1,000,000,000 jobs, more than 10,000") as caught:
        check_size(spec, 1, yes=False)
    assert caught.value.next_step == "shorten the axes"
    with pytest.raises(SpecError, match=r"1,000,000,000 jobs, more than 200,000"):
        check_size(spec, 1, yes=True)
    fewer = sweep_of(GridSpec(threads=tuple(range(1, 1001)), cpus=pairs[:40]))
    with pytest.raises(SpecError, match=r"160,000 jobs, more than 10,000") as caught:
        check_size(fewer, 1, yes=False)
    assert "--yes" in caught.value.next_step
    check_size(fewer, 1, yes=True)


def test_values_of_an_axis_that_makes_no_difference_are_not_multiplied_out() -> None:
    # A million combinations, of which a thousand differ.
    thousand = tuple(range(1, 1001))
    spec = sweep_of(GridSpec(precision=("fp32",), layout=("nchw",), threads=thousand, calibration_images=thousand))
    assert count(spec) == len(planned(spec).jobs) == 1_000


def test_the_limit_counts_all_devices() -> None:
    spec = sweep_of(GridSpec(threads=tuple(range(1, 1001))))
    assert count(spec) == 4_000
    check_size(spec, 2, yes=False)
    with pytest.raises(SpecError, match="12,000"):
        check_size(spec, 3, yes=False)


def test_a_protocol_that_contradicts_itself_is_refused_before_anything_is_planned() -> None:
    with pytest.raises(SpecError):
        planned(sweep_of(GridSpec(), protocol=ProtocolSpec(max_seconds=0.1)))


def seconds(plan: Plan, done: set[str] | None = None, builds_done: set[str] | None = None) -> float:
    return estimate(plan, protocol_of(plan.sweep), done or set(), builds_done or set()).seconds


def test_the_estimate_adds_builds_rounds_and_accuracy() -> None:
    spec = sweep_of(
        GridSpec(precision=("fp32",), layout=("nhwc",)),
        protocol=ProtocolSpec(preset="quick"),
        data=DataSpec(evaluation=SyntheticData(source="synthetic", images=100)),
    )
    quick = protocol_of(spec)
    rounds = quick.rounds * (size.PROCESS_START_S + quick.warmup_seconds + quick.min_seconds)
    accuracy = size.PROCESS_START_S + 100 * size.INFERENCE_224_S
    assert seconds(planned(spec)) == pytest.approx(size.BUILD_S + rounds + accuracy)


def test_what_is_done_is_not_in_the_estimate() -> None:
    plan = planned(sweep_of(GridSpec(threads=(1, 2))))
    assert seconds(plan, keys(plan)) == 0
    builds = {job.build_key for job in plan.jobs}
    assert seconds(plan) - seconds(plan, builds_done=builds) == pytest.approx(len(builds) * size.BUILD_S)
    steps = [seconds(plan, {job.key for job in plan.jobs[:number]}) for number in range(len(plan.jobs) + 1)]
    assert all(before > after for before, after in itertools.pairwise(steps))


def test_accuracy_is_estimated_once_for_all_thread_counts_of_a_build() -> None:
    single, three = (
        planned(sweep_of(GridSpec(precision=("fp32",), layout=("nhwc",), threads=threads)))
        for threads in ((1,), (1, 2, 3))
    )
    builds = {job.build_key for job in single.jobs}
    quick = resolve(ProtocolSpec())
    block = quick.rounds * (size.PROCESS_START_S + quick.warmup_seconds + quick.min_seconds)
    assert seconds(three, builds_done=builds) - seconds(single, builds_done=builds) == pytest.approx(2 * block)


def test_what_is_only_checked_costs_its_build_and_its_accuracy() -> None:
    spec = sweep_of(
        GridSpec(backend=("nnapi",), precision=("fp32",), layout=("nhwc",)),
        data=DataSpec(evaluation=SyntheticData(source="synthetic", images=100)),
    )
    accuracy = size.PROCESS_START_S + 100 * size.INFERENCE_224_S
    assert seconds(planned(spec, HOST)) == pytest.approx(size.BUILD_S + accuracy)


def test_a_phone_is_estimated_to_measure_while_the_builds_of_others_are_made() -> None:
    spec = sweep_of(GridSpec(precision=("fp32",)), GridSpec(precision=("int8",), threads=(1, 2, 3)))
    busy, other = ARM, replace(ARM, device_id="phone-2", name="phone-2")

    def supports(variant: Variant, facts: DeviceFacts) -> Skip | None:
        is_its_own = (variant.precision == "int8") == (facts.device_id == busy.device_id)
        return None if is_its_own else Skip("no_effect", "elsewhere")

    alone = [planned(spec, device, supports=supports) for device in (busy, other)]
    first, second = ({job.build_key for job in plan.jobs} for plan in alone)
    work_s, less_s = (seconds(plan, builds_done=first | second) for plan in alone)
    assert work_s > less_s
    both_s = (len(first) + len(second)) * size.BUILD_S
    assert seconds(planned(spec, other, busy, supports=supports)) == pytest.approx(
        max(len(first) * size.BUILD_S + work_s, both_s + less_s)
    )
    virtual = replace(busy, exec_context=VIRTUAL_PHONE)
    assert seconds(planned(spec, other, virtual, supports=supports)) == pytest.approx(both_s + work_s), "it waits"


def test_this_computer_is_estimated_to_measure_after_the_phones() -> None:
    spec = sweep_of(GridSpec(precision=("fp32",)))
    built = {job.build_key for job in planned(spec, X86).jobs}
    here_s = seconds(planned(spec, X86), builds_done=built)
    assert seconds(planned(spec, X86, ARM)) == pytest.approx(seconds(planned(spec, ARM)) + here_s)


def test_large_inputs_are_estimated_longer() -> None:
    recipe = ProtocolSpec(preset="recipe")
    small, large = (
        seconds(planned(sweep_of(GridSpec(), models=(NET.model_copy(update={"input_shape": shape}),), protocol=recipe)))
        for shape in ((1, 3, 64, 64), (1, 3, 512, 512))
    )
    assert small < large


@pytest.mark.parametrize(
    ("source", "images"),
    [
        (DigitsData(source="digits"), HELD_OUT_DIGITS),
        (DigitsData(source="digits", images=50), 50),
        (DigitsData(source="digits", images=5000), HELD_OUT_DIGITS),
        (FolderData(source="folder", path=Path("x"), images=5000), 5000),
        (FolderData(source="folder", path=Path("x")), size.UNKNOWN_IMAGES),
        (SyntheticData(source="synthetic"), 32),
    ],
)
def test_the_estimate_knows_how_many_images_are_evaluated(source: Any, images: int) -> None:
    def estimate(data: DataSpec) -> float:
        return seconds(planned(sweep_of(GridSpec(precision=("fp32",), layout=("nchw",)), data=data)))

    single = estimate(DataSpec(evaluation=SyntheticData(source="synthetic", images=1)))
    estimated = (estimate(DataSpec(evaluation=source)) - single) / size.INFERENCE_224_S + 1
    assert math.isclose(estimated, images, rel_tol=1e-6)


def test_run_axes_of_a_job_are_those_of_its_cell() -> None:
    grid = GridSpec(precision=("fp32",), layout=("nchw",), threads=(3,), cpus=("0,1",), reuse_input=(False,))
    (job,) = planned(sweep_of(grid)).jobs
    assert job.run == RunAxes(threads=3, cpus="0,1", reuse_input=False)
