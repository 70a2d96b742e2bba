"""ExecuTorch: what it builds of one network, what it refuses, and its two runners."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sweeps.device_facts import VIRTUAL_PHONE
from sweeps.errors import BuildError, RunnerError
from sweeps.manifest import Manifest
from sweeps.planning.axes import resolve_variant
from sweeps.variant import Variant
from tests.workers.runtimes.runs import answers, asking_for, evaluating
from workers.devices.local import local_facts
from workers.models.package import BuildInputs
from workers.runtimes import stages
from workers.runtimes.executorch import pte
from workers.runtimes.executorch.runtime import ExecuTorch
from workers.runtimes.interface import RunReport, RunRequest

pytestmark = [pytest.mark.runtime("executorch"), pytest.mark.xdist_group("executorch")]

RUNTIME = ExecuTorch()
CHOICES: dict[str, dict[str, Any]] = {
    "fp32": {},
    "fp32 nhwc": {"layout": "nhwc"},
    "portable": {"backend": "portable"},
    "static per channel": {"precision": "int8"},
    "static per tensor": {"precision": "int8", "granularity": "per_tensor"},
    "dynamic": {"precision": "int8", "quantization": "dynamic"},
}
"""Axes of a sweep file."""
Built = dict[str, tuple[Path, Manifest]]


def variant_of(axes: dict[str, Any]) -> Variant:
    chosen = {"quantization": "static", "granularity": "auto"} | axes
    return resolve_variant(Variant(runtime="executorch", **chosen), "x86_64", ("avx2",))


# plans


def test_layout_means_something_for_xnnpack_alone_and_capture_nowhere() -> None:
    usual = variant_of({})
    assert variant_of({"capture": "trace", "format": "ptl", "fuse": True, "optimize": True, "opset": 20}) == usual
    assert (usual.capture, usual.format, usual.layout) == ("export", "pte", "nchw")
    assert variant_of({"layout": "nhwc"}).layout == "nhwc"
    assert variant_of({"backend": "portable", "layout": "nhwc"}) == variant_of({"backend": "portable"})
    int8 = variant_of({"precision": "int8"})
    assert (int8.granularity, int8.reduced_range) == ("per_channel", False)


def test_what_is_pointless_or_missing_is_skipped_with_the_reason() -> None:
    facts = local_facts()
    assert RUNTIME.supports(variant_of({}), facts) is None
    assert "portable kernels compute int8 in float32" in str(
        RUNTIME.supports(variant_of({"backend": "portable", "precision": "int8"}), facts)
    )
    vulkan = variant_of({"backend": "vulkan"})
    assert "compiled without Vulkan" in str(RUNTIME.supports(vulkan, facts))
    assert RUNTIME.supports(vulkan, replace(facts, backends=(("executorch", ("cpu", "vulkan")),))) is None
    assert "no precision fp16" in str(RUNTIME.supports(replace(variant_of({}), precision="fp16"), facts))


def test_a_file_that_is_none_of_executorch_has_no_head(tmp_path: Path) -> None:
    file = tmp_path / "model.pte"
    for content in (b"", b"\0" * 1000, b"\x08\0\0\0ET12" + b"\xff" * 100, b"\xff\xff\xff\x7fET12" * 20):
        file.write_bytes(content)
        with pytest.raises(pte.NoProgram):
            pte.read(file)


# builds: each lowers for some seconds


@pytest.fixture(scope="module")
def built(tiny: BuildInputs, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Every choice, in one process with one folder for what they share."""
    shared = tmp_path_factory.mktemp("shared")
    found = {}
    for name, axes in CHOICES.items():
        out = tmp_path_factory.mktemp("it's built")
        found[name] = out, RUNTIME.build(variant_of(axes), "k" * 64, tiny, out, shared)
    ran = stages.stages_of(shared).ran
    # Two layouts are two exports; static builds of one layout are calibrated at once.
    assert (ran["executorch export"], ran["executorch calibrate"]) == (2, 1)
    return found


@pytest.mark.system
def test_every_number_format_is_checked_and_says_what_it_is(built: Built) -> None:
    least = {"fp32": 60, "fp32 nhwc": 60, "portable": 60, "dynamic": 30}
    for name, (_, manifest) in built.items():
        figures = manifest.verification
        assert figures.sqnr_db is None or figures.sqnr_db >= least.get(name, 18), name
        layout = "channels_last" if name == "fp32 nhwc" else "contiguous_format"
        assert (manifest.file, manifest.memory_format, manifest.input.dtype) == ("model.pte", layout, "float32")
        assert manifest.versions == RUNTIME.versions()
    assert built["static per channel"][1].file_sha256 != built["static per tensor"][1].file_sha256


@pytest.mark.system
def test_the_manifest_says_what_is_delegated(built: Built) -> None:
    coverage = built["fp32"][1].coverage
    assert coverage is not None
    assert coverage.delegates == 1
    assert coverage.operations["aten::convolution"] == 5
    assert (coverage.left, coverage.multiply_adds_covered_percent) == ({}, 100.0)
    # Five convolutions and two linears, counted by hand: 16x16 pixels after the first one.
    convolutions = 256 * (3 * 9 * 16 + 9 * 16 + 2 * 16 * 16 + 16 * 24)
    assert coverage.multiply_adds == convolutions + 24 * 16 + 16 * 5
    assert built["fp32"][1].metrics["delegated_percent"] == 100.0
    assert built["portable"][1].coverage is None
    dynamic = built["dynamic"][1].coverage
    assert dynamic is not None
    assert dynamic.multiply_adds_covered_percent == 100.0


@pytest.mark.system
def test_vulkan_is_an_export_that_is_checked_in_pytorch(tiny: BuildInputs, tmp_path: Path) -> None:
    manifest = RUNTIME.build(variant_of({"backend": "vulkan"}), "k" * 64, tiny, tmp_path)
    assert manifest.verification.executor == "the exported graph"
    assert manifest.verification.sqnr_db is None or manifest.verification.sqnr_db > 60
    assert pte.read(tmp_path / manifest.file).delegates == ("VulkanBackend",)
    assert manifest.coverage is not None
    assert manifest.coverage.multiply_adds_covered_percent > 0
    assert refused(asking_for(manifest, tmp_path)).kind == "backend_missing"


FAULTS = {
    "Bessel": ("unsupported_operator", r"executorch 1\.\S+ has no kernel for .*bessel_j0"),
    "ValueDependent": ("not_exportable", "control flow"),
    "TwoAnswers": ("bad_output", "2 outputs"),
}


@pytest.mark.system
@pytest.mark.parametrize("network", FAULTS)
def test_what_cannot_be_exported_has_a_kind_and_a_reason(
    network: str, make_inputs: Callable[..., BuildInputs], tmp_path: Path
) -> None:
    kind, message = FAULTS[network]
    with pytest.raises(BuildError, match=message) as caught:
        RUNTIME.build(variant_of({}), "k" * 64, make_inputs(f"nets:{network}"), tmp_path)
    assert caught.value.kind == kind


@pytest.mark.system
def test_a_model_without_a_linear_layer_has_no_dynamic_int8(
    make_inputs: Callable[..., BuildInputs], tmp_path: Path
) -> None:
    with pytest.raises(BuildError, match="no layer") as caught:
        RUNTIME.build(variant_of(CHOICES["dynamic"]), "k" * 64, make_inputs("nets:NoLinear"), tmp_path)
    assert caught.value.kind == "nothing_to_quantize"


# runners


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
    return RUNTIME.programs(facts)["pte"].path


@pytest.fixture(params=["python", pytest.param("native", marks=pytest.mark.compiler)])
def program(request: pytest.FixtureRequest) -> str | None:
    return str(request.getfixturevalue("native")) if request.param == "native" else None


@pytest.mark.system
def test_both_runners_keep_the_contract(built: Built, tiny: BuildInputs, program: str | None, tmp_path: Path) -> None:
    for name in ("static per channel", "fp32 nhwc"):
        folder, manifest = built[name]
        request = replace(asking_for(manifest, folder), sha256=manifest.file_sha256, iterations=5, warmup_iterations=2)
        report = ran(replace(request, threads=2), program)
        assert (len(report.samples_ns), len(report.warmup_ns), report.threads_ran) == (5, 2, 2)
        assert (report.backend_ran, report.engine_ran) == ("cpu", "none")
        assert report.runtime_version.startswith("executorch 1.")
        assert report.load_ns is not None
        assert 5 < report.extra_metrics["runtime_mb"] < 100
        assert ran(replace(request, reuse_input=False), program).samples_ns
        images = torch.from_numpy(tiny.verification)
        report = ran(replace(request, **evaluating(tmp_path, images)), program)
        logits = answers(tmp_path, report)
        noise = np.square(logits - tiny.verification_logits).sum()
        sqnr_db = 10 * np.log10(np.square(tiny.verification_logits).sum() / noise)
        # Two releases: their fp32 sums differ in the last digits.
        least = 60.0 if name == "fp32 nhwc" else float(manifest.verification.sqnr_db or 0) - 0.5
        assert sqnr_db > least, name


@pytest.mark.system
def test_both_runners_refuse_what_is_not_meant(built: Built, program: str | None, tmp_path: Path) -> None:
    folder, manifest = built["fp32"]
    request = asking_for(manifest, folder)
    assert refused(replace(request, sha256="0" * 64), program).kind == "wrong_artifact"
    assert refused(replace(request, backend="portable"), program).kind == "wrong_backend"
    assert refused(replace(request, backend="vulkan"), program).kind in ("backend_missing", "wrong_backend")
    assert refused(replace(request, exact_int8=True), program).kind == "emulated"
    assert refused(replace(request, model="/nowhere/model.pte"), program).kind == "no_model"
    # Both would run, and answer wrongly.
    assert refused(replace(request, memory_format="channels_last"), program).kind == "wrong_layout"
    other, nhwc = built["fp32 nhwc"]
    wrong = replace(asking_for(nhwc, other), memory_format="contiguous_format")
    assert refused(wrong, program).kind == "wrong_layout"
    whole = (folder / manifest.file).read_bytes()
    damaged = tmp_path / "model.pte"
    for content, kind in (
        (whole[: len(whole) // 2], "load_failed"),
        (b"", "load_failed"),
        (b"\x00" * 1000, "load_failed"),
        (whole.replace(b"ET12", b"ET99", 1), "runtime_skew"),
        (whole.replace(b"XnnpackBackend", b"XnnpackBackenX"), "wrong_backend"),
    ):
        damaged.write_bytes(content)
        assert refused(replace(request, model=str(damaged)), program).kind == kind


@pytest.mark.system
def test_a_batch_times_each_item_and_names_the_one_that_fails(
    built: Built, program: str | None, tmp_path: Path
) -> None:
    names = ("fp32", "static per tensor")
    one, other = (replace(asking_for(built[name][1], built[name][0]), iterations=3) for name in names)
    file = tmp_path / "batch.jsonl"
    file.write_bytes(RUNTIME.batch_file([one, replace(one, model="/nowhere/model.pte"), other]))
    ended = subprocess.run(RUNTIME.batch_command(str(file), 60.0, program), capture_output=True, check=True)
    hashes = [built[names[0]][1].file_sha256, "0" * 64, built[names[1]][1].file_sha256]
    first, second, third = RUNTIME.parse_batch(ended.stdout, hashes)
    assert isinstance(first, RunReport)
    assert isinstance(third, RunReport)
    assert (len(first.samples_ns), len(third.samples_ns)) == (3, 3)
    assert isinstance(second, RunnerError)
    assert second.kind == "no_model"


@pytest.mark.system
@pytest.mark.compiler
def test_the_native_runner_says_who_it_is_and_what_it_has(native: str, tmp_path: Path) -> None:
    from workers.runtimes.executorch import native_runner

    ended = subprocess.run(RUNTIME.introduction(native), capture_output=True, check=True)
    identity = RUNTIME.identity(ended.stdout)
    assert identity.runner == native_runner.runner()
    assert identity.runtime_version == f"executorch {native_runner.LIBRARIES}"
    assert identity.backends == ("cpu", "portable")


def test_a_real_phone_gets_the_runner_that_the_user_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESWEEP_RUNNERS", str(tmp_path))
    phone = replace(local_facts(), name="adb:1", abi="arm64-v8a", exec_context="shell")
    with pytest.raises(BuildError, match="edgesweep_runner_executorch is missing") as caught:
        RUNTIME.programs(phone)
    assert caught.value.kind == "no_runner"
    (tmp_path / "arm64-v8a").mkdir()
    runner = tmp_path / "arm64-v8a" / "edgesweep_runner_executorch"
    runner.write_bytes(b"\x7fELF\x02\x01\x01" + b"\0" * 11 + (183).to_bytes(2, "little"))
    assert RUNTIME.programs(phone)["pte"].path == str(runner)
    (tmp_path / "armeabi-v7a").mkdir()
    (tmp_path / "armeabi-v7a" / runner.name).write_bytes(runner.read_bytes())
    with pytest.raises(BuildError, match="not for armeabi-v7a"):
        RUNTIME.programs(replace(phone, abi="armeabi-v7a"))
