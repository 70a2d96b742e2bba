"""ExecuTorch: what it builds of one network, and what it refuses. Its runners: `test_exported_runners`."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sweeps.errors import BuildError, RunnerError
from sweeps.manifest import Manifest
from sweeps.variant import Variant
from tests.workers.runtimes import exported
from tests.workers.runtimes.exported import Exported
from tests.workers.runtimes.forked_runs import FORKS
from tests.workers.runtimes.runs import answers, asking_for, evaluating
from workers.devices.local import local_facts
from workers.models.accuracy import sqnr_db
from workers.models.package import BuildInputs
from workers.runtimes.executorch import export, lowering, pte, quantization
from workers.runtimes.executorch.runtime import ExecuTorch
from workers.runtimes.interface import RunReport, RunRequest

pytestmark = [pytest.mark.runtime("executorch"), pytest.mark.xdist_group("executorch")]

RUNTIME = ExecuTorch()


def variant_of(axes: dict[str, Any]) -> Variant:
    return exported.variant_of("executorch", axes)


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
    assert RUNTIME.supports(vulkan, replace(facts, emulates=("metal", "nnapi", "vulkan"))) is None
    assert "no precision fp16" in str(RUNTIME.supports(replace(variant_of({}), precision="fp16"), facts))


def test_a_file_that_is_none_of_executorch_has_no_head(tmp_path: Path) -> None:
    file = tmp_path / "model.pte"
    for content in (b"", b"\0" * 1000, b"\x08\0\0\0ET12" + b"\xff" * 100, b"\xff\xff\xff\x7fET12" * 20):
        file.write_bytes(content)
        with pytest.raises(pte.NoProgram):
            pte.read(file)


def conv_and_norm() -> list[torch.nn.Module]:
    return [torch.nn.Conv2d(3, 3, 1, bias=False), torch.nn.BatchNorm2d(3)]


class Scaled(torch.nn.Module):
    """Two weights of its own, whose names differ in what fx changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("a-b", torch.nn.Parameter(torch.tensor(2.0)))
        self.register_parameter("a_b", torch.nn.Parameter(torch.tensor(3.0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * getattr(self, "a-b") + self.get_parameter("a_b")


def test_weights_have_names_that_fx_does_not_change_as_fusing_a_batch_norm_needs() -> None:
    parts = OrderedDict({"a-0": torch.nn.Sequential(*conv_and_norm()), "a_0": torch.nn.Sequential(*conv_and_norm())})
    model = torch.nn.Sequential(*conv_and_norm(), torch.nn.Sequential(parts)).eval()
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.fill_(number + 1)
    program = export.loaded(export.saved(export.exported(model, (1, 3, 8, 8), "nchw")))
    weights = program.graph_signature.parameters
    assert [weight for weight in weights if "0_weight" in weight] == [
        "w0_weight",
        "w2_a_0_0_weight",
        "w2_a_0_0_weight_",
    ]
    x = torch.rand(1, 3, 8, 8)
    assert torch.equal(program.module()(x), model(x))
    alike = Scaled()
    program = export.exported(alike, (1, 3, 8, 8), "nchw")
    assert torch.equal(program.module()(x), alike(x)), "a new name is the old one of another weight"
    named = torch.nn.Sequential(OrderedDict(stem=torch.nn.Sequential(*conv_and_norm())))
    assert "stem.0.weight" in export.exported(named, (1, 3, 8, 8), "nchw").graph_signature.parameters


# builds: each lowers for some seconds


@pytest.mark.system
@pytest.mark.parametrize("name", ["0", "block1-0", "größe"])
def test_batch_norms_are_lowered_whatever_their_part_is_called(name: str) -> None:
    model = torch.nn.Sequential(OrderedDict({name: torch.nn.Sequential(*conv_and_norm())})).eval()
    lowered = lowering.lower(export.exported(model, (1, 3, 8, 8), "nchw"), variant_of({}))
    assert (lowered.coverage.delegates, lowered.coverage.left) == (1, {})


def empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture
def built(executorch: Exported) -> Mapping[str, tuple[Path, Manifest]]:
    return executorch.built


@pytest.mark.system
@pytest.mark.parametrize("name", ["fp32 nhwc", "portable", "static per channel", "static per tensor", "dynamic"])
def test_a_build_without_what_is_spared_is_the_same_file(
    executorch: Exported, tiny: BuildInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # Calibrated anew, too: of the builds it is compared with, one calibrated, and the other read what that had seen.
    for module in (quantization, lowering):
        monkeypatch.setattr(module, "quick", nullcontext)
    axes, _ = exported.CHOICES["executorch"][name]
    manifest = RUNTIME.build(variant_of(axes), "k" * 64, tiny, tmp_path, empty(tmp_path / "shared"))
    assert manifest.file_sha256 == executorch.built[name][1].file_sha256


@pytest.mark.system
def test_a_build_alone_is_the_same_file_as_one_that_shares_its_stages(
    executorch: Exported, tiny: BuildInputs, tmp_path: Path
) -> None:
    axes, _ = exported.CHOICES["executorch"]["static nhwc"]
    manifest = RUNTIME.build(variant_of(axes), "k" * 64, tiny, tmp_path, empty(tmp_path / "shared"))
    assert manifest.file_sha256 == executorch.built["static nhwc"][1].file_sha256


@pytest.mark.system
def test_what_builds_share_is_made_once(executorch: Exported) -> None:
    # Two layouts are two exports; how a model is observed and quantized depends on no layout.
    stages = {name.removeprefix("executorch "): count for name, count in executorch.stages.items()}
    assert stages == {"export": 2, "calibrate": 1, "quantize": 3}


@pytest.mark.system
def test_every_number_format_is_checked_and_says_what_it_is(built: Mapping[str, tuple[Path, Manifest]]) -> None:
    least = {"fp32": 60, "fp32 nhwc": 60, "portable": 60, "dynamic": 30}
    for name, (_, manifest) in built.items():
        figures = manifest.verification
        assert figures.sqnr_db is None or figures.sqnr_db >= least.get(name, 18), name
        layout = "channels_last" if name.endswith("nhwc") else "contiguous_format"
        assert (manifest.file, manifest.memory_format, manifest.input.dtype) == ("model.pte", layout, "float32")
        assert manifest.versions == RUNTIME.versions()
    assert built["static per channel"][1].file_sha256 != built["static per tensor"][1].file_sha256


@pytest.mark.system
def test_the_manifest_says_what_is_delegated(built: Mapping[str, tuple[Path, Manifest]]) -> None:
    coverage = built["fp32"][1].coverage
    assert coverage is not None
    assert coverage.delegates == 1
    assert coverage.operations["aten::convolution"] == 5
    assert (coverage.left, coverage.multiply_adds_covered_percent) == ({}, 100.0)
    # Five convolutions and two linears, counted by hand: 16x16 pixels after the first one.
    convolutions = 256 * (3 * 9 * 16 + 9 * 16 + 2 * 16 * 16 + 16 * 24)
    assert coverage.multiply_adds == convolutions + 24 * 16 + 16 * 5
    assert built["fp32"][1].metrics["delegated_percent"] == 100.0
    assert built["fp32"][1].metrics["delegated_operators_percent"] == 100.0
    portable = built["portable"][1]
    assert portable.coverage is not None
    assert (portable.coverage.delegates, portable.coverage.multiply_adds) == (0, coverage.multiply_adds)
    shares = [portable.metrics[name] for name in ("delegated_percent", "delegated_operators_percent")]
    assert shares == [0.0, 0.0]
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

    def ran(request: RunRequest) -> RunReport:
        return RUNTIME.parse(FORKS.run(RUNTIME.command(request), 600.0).stdout)

    def refused(request: RunRequest) -> str:
        with pytest.raises(RunnerError) as caught:
            ran(request)
        return caught.value.kind

    timed = asking_for(manifest, tmp_path)
    assert refused(timed) == "backend_missing"
    reference = RUNTIME.reference("vulkan", tmp_path)
    assert refused(replace(timed, reference=reference)) == "emulated"
    # The graph that is evaluated is that of the file, not of another model's.
    request = replace(timed, reference=reference, **evaluating(tmp_path, torch.from_numpy(tiny.verification)))
    report = ran(request)
    assert report.reference
    sqnr = sqnr_db(tiny.verification_logits, answers(tmp_path, report))
    assert sqnr is None or sqnr > 60
    file = tmp_path / "other.pte"
    file.write_bytes((tmp_path / manifest.file).read_bytes().replace(b"VulkanBackend", b"VulkanBackenX"))
    assert refused(replace(request, model=str(file))) == "bad_reference"
    with pytest.raises(BuildError, match="delete"):
        RUNTIME.reference("vulkan", tmp_path / "older")


@pytest.mark.system
@pytest.mark.parametrize("backend", ["cpu", "vulkan"])
def test_constants_that_a_delegate_takes_stay_for_what_is_built_next(
    make_inputs: Callable[..., BuildInputs], tmp_path: Path, backend: str
) -> None:
    inputs, shared = make_inputs("nets:Blurred"), empty(tmp_path / "shared")
    for axes in ({"backend": backend}, {"backend": "portable"}, {"precision": "int8"}):
        out = empty(tmp_path / str(len(list(tmp_path.iterdir()))))
        manifest = RUNTIME.build(variant_of(axes), "k" * 64, inputs, out, shared)
        assert manifest.verification.sqnr_db is None or manifest.verification.sqnr_db > 18
        if axes == {"backend": "vulkan"}:
            assert manifest.eval is not None
            program = export.loaded((out / manifest.eval.file).read_bytes())
            assert {"kernel", "edge"} <= {name.rpartition(".")[2] for name in program.constants}


FAULTS = {
    "Bessel": (
        "unsupported_operator",
        r"executorch 1\.\S+ has no kernel for \S*bessel_j0\S* \(no multiply-adds are counted\)",
    ),
    "ValueDependent": ("not_exportable", r"torch 2\.\S+ exports no control flow to \w+"),
    "BrightPixels": ("not_exportable", r"torch 2\.\S+ exports no shape to \w+.* that depends on the values"),
    "TwoAnswers": ("bad_output", "2 outputs"),
    "TwoNamed": ("bad_output", "2 outputs"),
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
def test_what_only_channels_last_needs_is_in_an_int8_file_for_it(
    make_inputs: Callable[..., BuildInputs], tmp_path: Path
) -> None:
    inputs = make_inputs("nets:ContiguousBeforeView")
    manifest = RUNTIME.build(variant_of({"precision": "int8", "layout": "nhwc"}), "k" * 64, inputs, tmp_path)
    assert manifest.memory_format == "channels_last"
    assert manifest.verification.sqnr_db is not None
    assert manifest.verification.sqnr_db > 18


@pytest.mark.system
def test_a_model_without_a_linear_layer_has_no_dynamic_int8(
    make_inputs: Callable[..., BuildInputs], tmp_path: Path
) -> None:
    with pytest.raises(BuildError, match=r"no layer that .* of executorch 1\.") as caught:
        RUNTIME.build(
            variant_of({"precision": "int8", "quantization": "dynamic"}),
            "k" * 64,
            make_inputs("nets:NoLinear"),
            tmp_path,
        )
    assert caught.value.kind == "nothing_to_quantize"


# programs


def test_a_real_phone_gets_the_runner_that_the_user_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESWEEP_RUNNERS", str(tmp_path))
    phone = replace(local_facts(), name="adb:1", abi="arm64-v8a", exec_context="shell")
    with pytest.raises(BuildError, match="has neither edgesweep_runner_executorch nor executor_runner") as caught:
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
