"""ONNX Runtime: what it builds of one network, what it refuses, and its two runners."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sweeps.device_facts import VIRTUAL_PHONE, DeviceFacts
from sweeps.errors import BuildError, RunnerError
from sweeps.manifest import Manifest
from sweeps.planning.axes import resolve_variant
from sweeps.variant import Variant
from tests.workers.runtimes.runs import answers, asking_for, evaluating
from workers.devices.local import local_facts
from workers.models.package import BuildInputs
from workers.runtimes import finishing, stages
from workers.runtimes.interface import RunReport, RunRequest
from workers.runtimes.onnxruntime.runtime import OnnxRuntime

pytestmark = [pytest.mark.runtime("onnxruntime"), pytest.mark.xdist_group("onnxruntime")]

RUNTIME = OnnxRuntime()
AVX2, VNNI = ("avx2",), ("avx2", "avx512_vnni")
CHOICES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "fp32": ({}, AVX2),
    "fp16": ({"precision": "fp16"}, AVX2),
    "static per channel": ({"precision": "int8"}, AVX2),
    "static per tensor": ({"precision": "int8", "granularity": "per_tensor"}, AVX2),
    "static for a CPU with VNNI": ({"precision": "int8"}, VNNI),
    "dynamic": ({"precision": "int8", "quantization": "dynamic"}, AVX2),
    "an older opset": ({"opset": 18}, AVX2),
}
"""Axes of a sweep file, and features of an x86 CPU."""
Built = dict[str, tuple[Path, Manifest]]


def variant_of(axes: dict[str, Any], features: tuple[str, ...] = AVX2) -> Variant:
    chosen = {"quantization": "static", "granularity": "auto", "graph_optimization": "all"} | axes
    return resolve_variant(Variant(runtime="onnxruntime", **chosen), "x86_64", features)


@pytest.fixture(scope="module")
def built(tiny: BuildInputs, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Every choice, in one process with one folder for what they share."""
    shared = tmp_path_factory.mktemp("shared")
    found = {}
    for name, (axes, features) in CHOICES.items():
        out = tmp_path_factory.mktemp("it's built")
        found[name] = out, RUNTIME.build(variant_of(axes, features), "k" * 64, tiny, out, shared)
    ran = stages.stages_of(shared).ran
    # Two opsets are two exports; all static builds are calibrated at once.
    assert (ran["onnx export"], ran["onnx prepare"], ran["onnx calibrate"]) == (2, 1, 1)
    return found


def test_every_number_format_is_checked_and_says_what_it_is(built: Built) -> None:
    least = {"fp32": 60, "an older opset": 60, "fp16": 40, "dynamic": 30}
    for name, (_, manifest) in built.items():
        figures = manifest.verification
        assert figures.sqnr_db is None or figures.sqnr_db >= least.get(name, 18), name
        assert (manifest.file, manifest.memory_format, manifest.input.dtype) == (
            "model.onnx",
            "contiguous_format",
            "float32",
        )
        assert manifest.versions == RUNTIME.versions()
    operators = {name: {one.partition("::")[2] for one in manifest.operators} for name, (_, manifest) in built.items()}
    assert "QuantizeLinear" in operators["static per channel"]
    assert {"DynamicQuantizeLinear", "Conv"} < operators["dynamic"]
    assert "Cast" in operators["fp16"]
    sizes = {name: manifest.file_bytes for name, (_, manifest) in built.items()}
    assert sizes["fp16"] < 0.75 * sizes["fp32"]


def test_weights_have_seven_bits_only_where_sums_saturate(built: Built) -> None:
    import onnx
    from onnx import numpy_helper

    def largest(name: str) -> int:
        folder, manifest = built[name]
        weights = [numpy_helper.to_array(one) for one in onnx.load(folder / manifest.file).graph.initializer]
        return max(int(np.abs(one.astype(int)).max()) for one in weights if one.dtype == np.int8 and one.ndim > 1)

    assert largest("static per channel") <= 64
    assert largest("static for a CPU with VNNI") > 64
    executors = {name: manifest.verification.executor for name, (_, manifest) in built.items()}
    assert executors["static for a CPU with VNNI"] == finishing.EXACT_INT8
    assert {executor for name, executor in executors.items() if name != "static for a CPU with VNNI"} == {""}


def test_a_file_tells_nothing_of_the_machine_that_made_it(built: Built) -> None:
    folder, manifest = built["fp32"]
    content = (folder / manifest.file).read_bytes()
    assert b"/" + Path(__file__).parts[1].encode() + b"/" not in content
    assert b"site-packages" not in content


FAULTS = {
    "Bessel": ("unsupported_operator", "nothing for .*bessel_j0"),
    "ValueDependent": ("not_exportable", "control flow"),
    "TwoAnswers": ("bad_output", "2 outputs"),
}


@pytest.mark.parametrize("network", FAULTS)
def test_what_cannot_be_exported_has_a_kind_and_a_reason(
    network: str, make_inputs: Callable[..., BuildInputs], tmp_path: Path
) -> None:
    kind, message = FAULTS[network]
    with pytest.raises(BuildError, match=message) as caught:
        RUNTIME.build(variant_of({}), "k" * 64, make_inputs(f"nets:{network}"), tmp_path)
    assert caught.value.kind == kind


def test_a_model_without_a_linear_layer_has_no_dynamic_int8(
    make_inputs: Callable[..., BuildInputs], tmp_path: Path
) -> None:
    with pytest.raises(BuildError, match="no layer") as caught:
        RUNTIME.build(variant_of(CHOICES["dynamic"][0]), "k" * 64, make_inputs("nets:NoLinear"), tmp_path)
    assert caught.value.kind == "nothing_to_quantize"


def ran(request: RunRequest, program: str | None = None) -> RunReport:
    return RUNTIME.parse(subprocess.run(RUNTIME.command(request, program), capture_output=True, check=False).stdout)


def refused(request: RunRequest, program: str | None = None) -> RunnerError:
    ended = subprocess.run(RUNTIME.command(request, program), capture_output=True, check=False, timeout=120)
    assert ended.returncode != 0
    with pytest.raises(RunnerError) as caught:
        RUNTIME.parse(ended.stdout)
    return caught.value


@pytest.fixture(scope="module")
def native() -> str:
    facts = replace(local_facts(), exec_context=VIRTUAL_PHONE, abi="x86_64")
    return RUNTIME.programs(facts)["onnx"].path


@pytest.fixture(params=["python", pytest.param("native", marks=pytest.mark.compiler)])
def program(request: pytest.FixtureRequest) -> str | None:
    return str(request.getfixturevalue("native")) if request.param == "native" else None


def test_both_runners_keep_the_contract(built: Built, tiny: BuildInputs, program: str | None, tmp_path: Path) -> None:
    folder, manifest = built["static per channel"]
    request = replace(asking_for(manifest, folder), sha256=manifest.file_sha256, iterations=5, warmup_iterations=2)
    report = ran(request, program)
    assert (len(report.samples_ns), len(report.warmup_ns), report.threads_ran) == (5, 2, 1)
    assert (report.backend_ran, report.engine_ran) == ("cpu", "none")
    assert report.runtime_version == f"onnxruntime {RUNTIME.versions()['onnxruntime']}"
    assert report.load_ns is not None
    assert 5 < report.extra_metrics["runtime_mb"] < 100
    assert ran(replace(request, reuse_input=False, graph_optimization="disabled"), program).samples_ns
    images = torch.from_numpy(tiny.verification)
    report = ran(replace(request, **evaluating(tmp_path, images)), program)
    logits = answers(tmp_path, report)
    assert logits.shape == tiny.verification_logits.shape
    noise = np.square(logits - tiny.verification_logits).sum()
    sqnr_db = 10 * np.log10(np.square(tiny.verification_logits).sum() / noise)
    assert sqnr_db == pytest.approx(manifest.verification.sqnr_db, abs=0.01)


@pytest.mark.system
def test_both_runners_refuse_what_is_not_meant(built: Built, program: str | None, tmp_path: Path) -> None:
    folder, manifest = built["fp32"]
    request = asking_for(manifest, folder)
    assert refused(replace(request, sha256="0" * 64), program).kind == "wrong_artifact"
    assert refused(replace(request, backend="xnnpack"), program).kind == "backend_missing"
    assert refused(replace(request, exact_int8=True), program).kind == "emulated"
    assert refused(replace(request, model="/nowhere/model.onnx"), program).kind == "no_model"
    whole = (folder / manifest.file).read_bytes()
    damaged = tmp_path / "model.onnx"
    for content in (whole[: len(whole) // 2], b"", b"\x00" * 1000, whole[:200] + b"\xff" * 50 + whole[250:]):
        damaged.write_bytes(content)
        assert refused(replace(request, model=str(damaged)), program).kind in ("load_failed", "runtime_skew")


def test_a_file_of_a_newer_format_is_a_runtime_skew(built: Built, program: str | None, tmp_path: Path) -> None:
    import onnx

    folder, manifest = built["fp32"]
    model = onnx.load(folder / manifest.file)
    model.ir_version = 99
    newer = tmp_path / "model.onnx"
    newer.write_bytes(model.SerializeToString())
    error = refused(replace(asking_for(manifest, folder), model=str(newer)), program)
    assert (error.kind, "99" in error.message) == ("runtime_skew", True)


def test_a_batch_times_each_item_and_names_the_one_that_fails(
    built: Built, program: str | None, tmp_path: Path
) -> None:
    one, other = (replace(asking_for(m, folder), iterations=3) for folder, m in (built["fp32"], built["fp16"]))
    requests = [one, replace(one, model="/nowhere/model.onnx"), other]
    file = tmp_path / "batch.jsonl"
    file.write_bytes(RUNTIME.batch_file(requests))
    ended = subprocess.run(RUNTIME.batch_command(str(file), 60.0, program), capture_output=True, check=True)
    hashes = [built["fp32"][1].file_sha256, "0" * 64, built["fp16"][1].file_sha256]
    first, second, third = RUNTIME.parse_batch(ended.stdout, hashes)
    assert isinstance(first, RunReport)
    assert isinstance(third, RunReport)
    assert (len(first.samples_ns), len(third.samples_ns)) == (3, 3)
    assert isinstance(second, RunnerError)
    assert second.kind == "no_model"


@pytest.mark.compiler
def test_the_native_runner_says_who_it_is(native: str) -> None:
    from workers.runtimes.onnxruntime import native_runner

    ended = subprocess.run(RUNTIME.introduction(native), capture_output=True, check=True)
    identity = RUNTIME.identity(ended.stdout)
    assert identity.runner == native_runner.runner()
    assert identity.backends == ("cpu",)
    assert identity.qengines == ()


@pytest.mark.compiler
def test_a_phone_gets_the_runner_and_its_library_as_one_program(
    native: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workers.runtimes.onnxruntime import native_runner
    from workers.runtimes.onnxruntime.programs import LIBRARY, RUNNER

    monkeypatch.setenv("EDGESWEEP_RUNNERS", str(tmp_path))
    phone = replace(local_facts(), name="adb:1", abi="x86_64", exec_context="shell")
    with pytest.raises(BuildError, match=RUNNER) as caught:
        RUNTIME.programs(phone)
    assert caught.value.kind == "no_runner"
    (tmp_path / "x86_64").mkdir()
    (tmp_path / "x86_64" / RUNNER).write_bytes(Path(native).read_bytes())
    (tmp_path / "x86_64" / LIBRARY).write_bytes(native_runner.library().read_bytes())
    monkeypatch.setenv("EDGESWEEP_CACHE", str(tmp_path / "cache"))
    together = RUNTIME.programs(phone)["onnx"].path
    for _ in range(2):
        ended = subprocess.run(RUNTIME.introduction(together), capture_output=True, check=True)
        assert RUNTIME.identity(ended.stdout).runtime_version.startswith("onnxruntime ")
    assert Path(f"{together}.libonnxruntime.so").is_file()


def test_where_a_device_has_no_such_provider_the_variant_is_skipped_with_the_reason() -> None:
    facts: DeviceFacts = local_facts()
    for backend in ("xnnpack", "nnapi", "qnn", "coreml"):
        variant = variant_of({"backend": backend})
        assert f"without the provider for {backend}" in str(RUNTIME.supports(variant, facts))
        with_it = replace(facts, backends=(("onnxruntime", ("cpu", backend)),))
        assert RUNTIME.supports(variant, with_it) is None


def test_layout_and_capture_mean_nothing_here() -> None:
    usual = variant_of({})
    assert variant_of({"layout": "nhwc", "capture": "trace", "format": "ptl", "fuse": True, "optimize": True}) == usual
    assert (usual.capture, usual.format, usual.layout) == ("export", "onnx", "nchw")
