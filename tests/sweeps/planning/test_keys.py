"""Keys stay: what was built and measured once is found again, whatever other runtimes and axes there are by then."""

from dataclasses import replace

from sweeps.device_facts import canonical_key
from sweeps.journal.plans import skipped_key
from sweeps.planning.keys import Identities, ModelIdentity
from sweeps.planning.plan import Plan, expand
from sweeps.skip_kinds import Skip
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import ModelSpec
from sweeps.spec.protocol import ProtocolSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.variant import Variant
from tests.builders import computer_facts

HOST = computer_facts(cpu_features=("avx2",), qengines=("onednn", "qnnpack", "x86"))
PHONE = replace(
    HOST,
    device_id="phone-1",
    name="adb:phone-1",
    model="Phone",
    abi="arm64-v8a",
    cpu_features=(),
    runners=(("torchscript", "native-torchscript 0123456789ab"),),
    qengines=("qnnpack",),
    nnapi_level=30,
)
VERSIONS = {"torch": "2.12.1", "torchvision": "0.27.1"}
NET = ModelSpec(source="mobilenet_v2", weights="random", arguments={"num_classes": 10})
SEVERAL = GridSpec(
    backend=("cpu", "nnapi", "metal"),
    quantization=("static_fx", "static_eager", "dynamic", "qat"),
    qengine=("auto", "onednn"),
    granularity=("auto", "per_tensor"),
    calibration_images=("all", 16),
    capture=("script", "trace"),
    format=("pt", "ptl"),
    fuse=(True, False),
    relaxed_fp16=(False, True),
    reuse_input=(True, False),
)


def planned(*grids: GridSpec, runtimes: tuple[str, ...] = ("torchscript", "eager")) -> Plan:
    own = {name: {**VERSIONS, "builder": f"{name} 1"} for name in runtimes}
    identities = Identities(
        models={"mobilenet_v2": ModelIdentity(source="torchvision:mobilenet_v2", weights_id="random:0")},
        calibration_id="c" * 64,
        evaluation_id="e" * 64,
        versions={name: version for versions in own.values() for name, version in versions.items()},
        own_versions=own,
        runners={name: f"python-{name} 1" for name in runtimes},
        references={"nnapi": "reference:nnapi@1", "metal": "reference:metal@1"},
    )
    spec = SweepSpec(name="s", models=(NET,), grids=grids, protocol=ProtocolSpec(preset="quick"))
    return expand(
        spec, (HOST, PHONE), lambda variant, _: Skip("odd", "odd") if variant.interface == "full" else None, identities
    )


def all_of(keys: list[str]) -> tuple[int, str]:
    return len(keys), canonical_key({"keys": keys})


def test_keys_of_jobs_builds_and_skipped_combinations_stay() -> None:
    plan = planned(SEVERAL, GridSpec(runtime=("eager",)), GridSpec(quantization=("static_fx",), interface=("full",)))
    assert all_of([job.key for job in plan.jobs]) == (
        1906,
        "4524aba970d894ecf772bc8e96566f527b232dbe4072552457b2b1ac97235b32",
    )
    assert all_of([job.build_key for job in plan.jobs]) == (
        1906,
        "f92e9842e7ac1644f7bee1a0f6084d1a33db01a5039a23bc25c753fc99de836c",
    )
    assert all_of([skipped_key(skipped) for skipped in plan.skipped]) == (
        4,
        "9e11cf2a2d8837df0bef768e92abe5f228c14831c69c8292f8c4a0c1223f092f",
    )


def test_one_key_of_each_kind() -> None:
    """Keys of one job, of facts and of axes that the sums above would not tell apart."""
    job = planned(GridSpec(precision=("fp32",))).jobs[0]
    assert job.key == "af95e52fab0c50bd63cfdc092710514b102c0629a071d77024f03cb5e3466b9d"
    assert job.build_key == "2649c4ca7c13172ccc5befea83ad6f5a5b3d8fd1f53b261d55a84045871a7731"
    assert (HOST.fingerprint, PHONE.fingerprint) == ("2aad0d263d123253", "4afa9a4af2d5eb3c")
    assert "opset" not in Variant().axes()
    assert Variant(opset=20).axes()["opset"] == 20


def test_keys_of_executorch() -> None:
    """The keys are those of the runtime that came third."""
    grid = GridSpec(
        runtime=("executorch",),
        backend=("cpu", "portable", "vulkan"),
        quantization=("static", "dynamic"),
        granularity=("auto", "per_tensor"),
        layout=("nchw", "nhwc"),
    )
    plan = planned(grid, runtimes=("executorch",))
    assert all_of([job.key for job in plan.jobs]) == (
        28,
        "41d106538866f3d39244fa4a951f6ac50ecd45052baeb24c6a0034727a4439bb",
    )
    assert all_of([job.build_key for job in plan.jobs]) == (
        28,
        "81ffe6ec4128437504017aa8b9cf2b155cc84f3823ddddcd9b1235f853485ca4",
    )


def test_keys_of_onnxruntime() -> None:
    grid = GridSpec(
        runtime=("onnxruntime",),
        backend=("cpu", "xnnpack", "nnapi", "qnn", "coreml"),
        precision=("fp32", "fp16", "int8"),
        quantization=("static", "dynamic"),
        granularity=("auto", "per_tensor"),
        opset=("auto", 18),
        graph_optimization=("all", "disabled"),
    )
    plan = planned(grid, runtimes=("onnxruntime",))
    assert all_of([job.key for job in plan.jobs]) == (
        240,
        "ed20420358f23154e78ea2da5a8cf14c84977b977c7924e7f79ed0f67f6bdd26",
    )
    assert all_of([job.build_key for job in plan.jobs]) == (
        240,
        "e0746aca94faef58c303503113244dff9c08c94841719652ef21e2a9544edec8",
    )


def test_keys_of_releases_hold_theirs_and_not_the_installed_one_which_has_no_part() -> None:
    usual = planned(GridSpec(runtime=("onnxruntime",)), runtimes=("onnxruntime",))
    grid = GridSpec(runtime=("onnxruntime",), toolchain=("installed", "onnxruntime==1.31.1"))
    plan = planned(grid, runtimes=("onnxruntime",))
    assert {job.key for job in usual.jobs} < {job.key for job in plan.jobs}
    assert len(plan.jobs) == 2 * len(usual.jobs)
    alone = planned(replace_grid(grid, runner_toolchain=("installed",)), runtimes=("onnxruntime",))
    for subject, updated in ((plan, True), (alone, False)):
        keys, later = (
            {job.build_key for job in expanded.jobs} for expanded in (subject, with_newer_onnxruntime(subject))
        )
        assert len(keys & later) == (len(keys) // 2 if updated else 0)


def test_a_phone_s_library_has_no_part_in_a_job_that_another_release_runs() -> None:
    grid = GridSpec(runtime=("onnxruntime",), toolchain=("installed", "onnxruntime==1.31.1"))
    plan = planned(grid, runtimes=("onnxruntime",))

    def job_keys(library: str) -> dict[str, set[str]]:
        """The keys of jobs by the release that runs them."""
        phone = replace(PHONE, runners=(*PHONE.runners, ("onnxruntime", f"native-onnxruntime 0123 and {library}")))
        expanded = expand(plan.sweep, (phone,), lambda *_: None, plan.identities)
        return {
            release: {job.key for job in expanded.jobs if job.variant.runner_toolchain == release}
            for release in ("installed", "onnxruntime==1.31.1")
        }

    before, after = job_keys("onnxruntime 1.32.0"), job_keys("onnxruntime 1.33.0")
    assert before["onnxruntime==1.31.1"] == after["onnxruntime==1.31.1"]
    assert before["installed"].isdisjoint(after["installed"])
    assert all(before.values())


def replace_grid(grid: GridSpec, **changes: tuple[str, ...]) -> GridSpec:
    return grid.model_copy(update=changes)


def with_newer_onnxruntime(plan: Plan) -> Plan:
    own = {name: {**versions, "onnxruntime": "1.33.0"} for name, versions in plan.identities.own_versions.items()}
    identities = replace(plan.identities, own_versions=own)
    return expand(plan.sweep, plan.devices, lambda *_: None, identities)


def test_static_is_what_each_runtime_calls_so() -> None:
    """The word came later than the keys."""
    named, usual = (planned(GridSpec(quantization=(word,))) for word in ("static_fx", "static"))
    assert [job.key for job in usual.jobs] == [job.key for job in named.jobs]


def test_another_runtime_in_the_sweep_or_on_the_device_changes_no_key() -> None:
    alone = planned(GridSpec())
    combined = planned(
        GridSpec(runtime=("torchscript", "onnxruntime")), runtimes=("torchscript", "eager", "onnxruntime")
    )
    own = [job for job in combined.jobs if job.variant.runtime == "torchscript"]
    assert [(job.key, job.build_key) for job in own] == [(job.key, job.build_key) for job in alone.jobs]
    assert len(combined.jobs) > len(own)
    brought = replace(
        PHONE, runners=(*PHONE.runners, ("onnxruntime", "a runner")), backends=(("onnxruntime", ("cpu",)),)
    )
    assert brought.fingerprint == PHONE.fingerprint
