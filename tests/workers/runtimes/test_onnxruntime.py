"""ONNX Runtime: what it builds of one network, and what it refuses. Its runners: `test_exported_runners`."""

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweeps.batches import Batch
from sweeps.device_facts import DeviceFacts
from sweeps.errors import BuildError
from sweeps.manifest import Manifest
from sweeps.protocol.presets import resolve
from sweeps.records import Failed
from sweeps.spec.protocol import ProtocolSpec
from sweeps.variant import Variant
from tests.workers.runtimes import exported
from tests.workers.runtimes.exported import Exported
from tests.workers.tiny_model import tiny_job
from workers.devices.interface import Sensors
from workers.devices.local import LocalDevice, local_facts
from workers.measure.attach import attach
from workers.measure.batch_request import BatchRequest
from workers.measure.device_files import Evaluation
from workers.measure.device_runner import DeviceRunner
from workers.measure.evaluation_request import Evaluated, LogitsRequest
from workers.measure.partition import Partition, partition
from workers.measure.readiness import Readiness
from workers.measure.timed_block import BlockRequest
from workers.models import accuracy
from workers.models.package import BuildInputs
from workers.runtimes import artifact_check, finishing
from workers.runtimes.interface import Program, RunRequest
from workers.runtimes.onnxruntime.perf_test import PerfTest
from workers.runtimes.onnxruntime.runtime import OnnxRuntime

pytestmark = [pytest.mark.runtime("onnxruntime"), pytest.mark.xdist_group("onnxruntime")]

RUNTIME = OnnxRuntime()


def variant_of(axes: dict[str, Any]) -> Variant:
    return exported.variant_of("onnxruntime", axes)


def commands(monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """Collect the requests that the runner gets from now on."""
    requests: list[RunRequest] = []
    usual = OnnxRuntime.command

    def command(self: OnnxRuntime, request: RunRequest, program: str | None = None) -> list[str]:
        requests.append(request)
        return usual(self, request, program)

    monkeypatch.setattr(OnnxRuntime, "command", command)
    return requests


@pytest.fixture
def built(onnxruntime: Exported) -> Mapping[str, tuple[Path, Manifest]]:
    return onnxruntime.built


def test_blocks_of_16_channels_are_for_floats_on_a_cpu_with_avx_512() -> None:
    usual, blocked = variant_of({}), variant_of({"layout": "nchw16c"})
    assert (usual.layout, blocked.layout) == ("nchw", "nchw16c")
    assert variant_of({"layout": "nhwc"}) == usual
    assert variant_of({"layout": "nchw16c", "precision": "int8"}) == variant_of({"precision": "int8"})
    assert variant_of({"layout": "nchw16c", "backend": "xnnpack"}) == variant_of({"backend": "xnnpack"})
    older, newer = (replace(local_facts(), cpu_features=features) for features in (("avx2",), ("avx2", "avx512f")))
    assert "CPUs with AVX-512" in str(RUNTIME.supports(blocked, older))
    assert RUNTIME.supports(blocked, newer) is None
    assert RUNTIME.supports(usual, older) is None
    less = variant_of({"layout": "nchw16c", "graph_optimization": "extended"})
    assert "is for graph_optimization: all" in str(RUNTIME.supports(less, newer))


@pytest.mark.system
def test_what_builds_share_is_made_once(onnxruntime: Exported) -> None:
    # Two opsets are two exports; all static builds are calibrated at once.
    ran = onnxruntime.stages
    assert (ran["onnx export"], ran["onnx prepare"], ran["onnx calibrate"]) == (2, 1, 1)


@pytest.mark.system
def test_every_number_format_is_checked_and_says_what_it_is(built: Mapping[str, tuple[Path, Manifest]]) -> None:
    least = {"fp32": 60, "an older opset": 60, "blocked": 60, "fp16": 40, "blocked fp16": 40, "dynamic": 30}
    for name, (_, manifest) in built.items():
        figures = manifest.verification
        assert figures.sqnr_db is None or figures.sqnr_db >= least.get(name, 18), name
        assert (manifest.file, manifest.memory_format, manifest.input.dtype) == (
            "model.onnx",
            "contiguous_format",
            "float32",
        )
        assert manifest.versions == RUNTIME.versions()
        # This machine's library has no other provider.
        assert {*manifest.providers} == {"CPUExecutionProvider"}
        assert manifest.providers["CPUExecutionProvider"] >= 7
    operators = {
        name: {operator.partition("::")[2] for operator in manifest.operators} for name, (_, manifest) in built.items()
    }
    assert "QuantizeLinear" in operators["static per channel"]
    assert {"DynamicQuantizeLinear", "Conv"} < operators["dynamic"]
    assert "Cast" in operators["fp16"]
    assert "GlobalAveragePool" in operators["blocked"] - operators["fp32"]
    sizes = {name: manifest.file_bytes for name, (_, manifest) in built.items()}
    assert sizes["fp16"] < 0.75 * sizes["fp32"]


@pytest.mark.system
def test_weights_have_seven_bits_only_where_sums_saturate(built: Mapping[str, tuple[Path, Manifest]]) -> None:
    import onnx
    from onnx import numpy_helper

    def largest(name: str) -> int:
        folder, manifest = built[name]
        weights = [numpy_helper.to_array(tensor) for tensor in onnx.load(folder / manifest.file).graph.initializer]
        return max(
            int(np.abs(tensor.astype(int)).max()) for tensor in weights if tensor.dtype == np.int8 and tensor.ndim > 1
        )

    assert largest("static per channel") <= 64
    assert largest("static for a CPU with VNNI") > 64
    executors = {name: manifest.verification.executor for name, (_, manifest) in built.items()}
    assert executors["static for a CPU with VNNI"] == finishing.EXACT_INT8
    assert {executor for name, executor in executors.items() if name != "static for a CPU with VNNI"} == {""}


@pytest.mark.system
def test_what_a_provider_took_is_counted_on_the_device(
    onnxruntime: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, manifest = onnxruntime.built["fp32"]
    shutil.copytree(folder, tmp_path / "artifacts" / manifest.build_key)
    bench = DeviceRunner(LocalDevice(tmp_path), tmp_path)
    job = tiny_job(manifest.build_key, manifest.axes)
    assert partition(bench, job, 120.0) == Partition(), "the CPU leaves nothing to itself"
    # The one provider here stands for one that took all, and for the rest that another one left.
    nodes = float(manifest.providers["CPUExecutionProvider"])
    monkeypatch.setattr(OnnxRuntime, "profiled_as", lambda *_: "CPUExecutionProvider")
    assert partition(bench, job, 120.0) == Partition({"backend_nodes": nodes, "cpu_nodes": 0.0})
    monkeypatch.setattr(OnnxRuntime, "profiled_as", lambda *_: "QNNExecutionProvider")
    nothing = Partition({"backend_nodes": 0.0, "cpu_nodes": nodes}, ("backend_fell_back",))
    assert partition(bench, job, 120.0) == nothing


@pytest.mark.system
def test_a_build_for_a_provider_that_is_not_here_says_what_checked_it(
    make_inputs: Callable[..., BuildInputs], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = commands(monkeypatch)
    variant = variant_of({"backend": "nnapi", "precision": "int8"})
    manifest = RUNTIME.build(variant, "k" * 64, make_inputs("nets:NoLinear"), tmp_path)
    assert (manifest.backend, manifest.verification.executor) == ("nnapi", "ONNX Runtime's CPU provider")
    assert Manifest.read(tmp_path) == manifest
    # On a CPU without VNNI, the sums of its weights of 8 bits would saturate.
    assert [request.exact_int8 for request in requests] == [True]


@pytest.mark.system
def test_what_its_tool_does_not_answer_is_answered_here_as_on_the_device(
    onnxruntime: Exported, tiny: BuildInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = commands(monkeypatch)
    program = Program(path="onnxruntime_perf_test", tool=PerfTest("0123"))
    for name in ("static for a CPU with VNNI", "static per channel", "fp32"):
        folder, manifest = onnxruntime.built[name]
        device_folder = tmp_path / name
        shutil.copytree(folder, device_folder / "artifacts" / manifest.build_key)
        bench = DeviceRunner(
            LocalDevice(device_folder), device_folder, local_facts(), {("onnxruntime", "onnx"): program}
        )
        job = tiny_job(manifest.build_key, manifest.axes)
        answer = bench.ask(LogitsRequest(job, Evaluation(evaluation_id="test", images=tiny.verification)))
        assert isinstance(answer, Evaluated), answer
        assert answer.labels == ("host_answers",)
        sqnr_db = float(manifest.verification.sqnr_db or 0)
        assert accuracy.sqnr_db(tiny.verification_logits, answer.logits) == pytest.approx(sqnr_db, abs=0.01)
    assert [request.exact_int8 for request in requests] == [True, False, False]


def test_an_older_release_keeps_no_ranges_calibrates_anew_and_gives_the_same_file(
    built: Mapping[str, tuple[Path, Manifest]], tiny: BuildInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workers.runtimes.onnxruntime import numbers

    usual = numbers.quantize_static

    def older(source: Path, target: Path, reader: Any, per_channel: bool = False, **options: Any) -> None:
        assert reader is not None
        usual(source, target, reader, per_channel=per_channel, **options)

    monkeypatch.setattr(numbers, "quantize_static", older)
    manifest = RUNTIME.build(variant_of({"precision": "int8"}), "k" * 64, tiny, tmp_path)
    assert manifest.file_sha256 == built["static per channel"][1].file_sha256


@pytest.mark.parametrize("quantization", ["static", "dynamic"])
def test_layers_that_share_a_weight_can_be_checked_in_exact_arithmetic(quantization: str) -> None:
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

    from workers.runtimes.onnxruntime import numbers

    random = np.random.default_rng(0)
    weight = numpy_helper.from_array(random.normal(size=(8, 8)).astype("float32"), "weight")
    floats = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 8]) for name in ("input", "output")]
    nodes = [helper.make_node("MatMul", [a, "weight"], [b]) for a, b in (("input", "x"), ("x", "y"), ("y", "output"))]
    graph = helper.make_graph(nodes, "tied", floats[:1], floats[1:], [weight])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])
    prepared = numbers.prepare(model.SerializeToString())
    images = random.normal(size=(4, 8)).astype("float32")

    def built_bytes(variant: Variant) -> bytes:
        if quantization == "dynamic":
            return numbers.to_dynamic_int8(prepared, variant)
        return numbers.calibrated_int8(prepared, images, 1, variant)

    def weights(content: bytes) -> int:
        return sum(
            tensor.name.startswith("weight_quantized") for tensor in onnx.load_from_string(content).graph.initializer
        )

    content = built_bytes(variant_of({}))
    assert (weights(content), weights(built_bytes(replace(variant_of({}), reduced_range=True)))) == (3, 1)
    assert numbers.unshared(content) == content
    for exact in ("0", "1"):
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.x64quantprecision", exact)
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        answer = session.run(None, {"input": images[:1]})[0]
        right = images[:1] @ np.linalg.matrix_power(numpy_helper.to_array(weight), 3)
        assert accuracy.sqnr_db(right, answer) > 20


@pytest.mark.system
def test_a_file_tells_nothing_of_the_machine_that_made_it(built: Mapping[str, tuple[Path, Manifest]]) -> None:
    folder, manifest = built["fp32"]
    content = (folder / manifest.file).read_bytes()
    assert b"/" + Path(__file__).parts[1].encode() + b"/" not in content
    assert b"site-packages" not in content


def test_what_is_verified_is_the_file_that_was_saved(tiny: BuildInputs, tmp_path: Path) -> None:
    saved = finishing.Saved(file=tmp_path / "model.onnx", operators=(), file_version=1, bytecode_version=None)
    saved.file.write_bytes(b"a model")
    request = finishing.request_of(saved, variant_of({}), tiny)
    assert request.sha256 == hashlib.sha256(b"a model").hexdigest()
    assert RUNTIME.command(request)[-2:] == ["--sha256", request.sha256]


@pytest.mark.parametrize("release", ["installed", "onnxruntime==1.31.1"])
def test_answers_that_are_refused_say_which_release_gave_them(release: str, tiny: BuildInputs) -> None:
    variant = replace(variant_of({"precision": "int8"}), runner_toolchain=release)
    inputs = replace(tiny, versions=RUNTIME.versions())
    version = inputs.versions["onnxruntime"] if release == "installed" else "1.31.1"
    right = tiny.verification_logits
    standard = artifact_check.Standard(logits=right, against="fp32 eager", least_sqnr_db=10.0)
    for answers, kind in (
        (-right, "low_sqnr"),
        (right[:, :-1], "invalid_output"),
        (np.full_like(right, np.inf), "invalid_output"),
    ):
        with pytest.raises(BuildError) as caught:
            artifact_check.judge(variant, "none", answers, inputs, standard)
        assert caught.value.kind == kind
        assert caught.value.message.startswith(f"onnxruntime {version}: ")


@pytest.mark.system
@pytest.mark.compiler
def test_where_two_releases_do_not_fit_the_failure_names_both(onnxruntime: Exported, tmp_path: Path) -> None:
    import onnx

    folder, manifest = onnxruntime.built["fp32"]
    artifact = tmp_path / "artifacts" / manifest.build_key
    shutil.copytree(folder, artifact)
    newer = onnx.load(artifact / manifest.file)
    newer.ir_version = 99
    onnx.save(newer, artifact / manifest.file)
    sha256 = hashlib.sha256((artifact / manifest.file).read_bytes()).hexdigest()
    manifest.model_copy(update={"file_sha256": sha256, "versions": {"onnxruntime": "2.0.0"}}).write(artifact)
    facts = replace(local_facts(), runners=(("onnxruntime", "native-onnxruntime 1 and onnxruntime 1.32.0"),))
    program = Program(path=onnxruntime.native())
    bench = DeviceRunner(LocalDevice(tmp_path), tmp_path, facts, {("onnxruntime", "onnx"): program})
    protocol = resolve(ProtocolSpec(preset="quick"))
    ready = Readiness(sensors=Sensors(), lacking=(), busy_only=False)
    job = tiny_job(manifest.build_key, manifest.axes)
    batch = bench.ask(BatchRequest.of([job], protocol, ready))
    assert isinstance(batch, Batch)
    for failed in (bench.ask(BlockRequest(job, 0, protocol, ready)), *batch.outcomes):
        assert isinstance(failed, Failed)
        assert (failed.stage, failed.kind) == ("load", "runtime_skew")
        assert failed.message.endswith(
            "; onnxruntime 2.0.0 made it, and on the device is native-onnxruntime 1 and onnxruntime 1.32.0"
        )


FAULTS = {
    "Bessel": ("unsupported_operator", r"torch 2\.\S+ has nothing for \S*bessel_j0\S* \(no multiply-adds"),
    "Double": ("unsupported_operator", r"onnxruntime 1\.\S+ has no kernel for Conv \(100 % of the multiply-adds\)"),
    "ValueDependent": ("not_exportable", r"torch 2\.\S+ exports no control flow to \w+"),
    "BrightPixels": ("not_exportable", r"torch 2\.\S+ exports no shape to \w+.* that depends on the values"),
    "TwoAnswers": ("bad_output", "2 outputs"),
    "TwoNamed": ("bad_output", "2 outputs"),
}


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
    with pytest.raises(BuildError, match=r"no layer that onnxruntime 1\.") as caught:
        RUNTIME.build(
            variant_of({"precision": "int8", "quantization": "dynamic"}),
            "k" * 64,
            make_inputs("nets:NoLinear"),
            tmp_path,
        )
    assert caught.value.kind == "nothing_to_quantize"


def test_where_a_device_has_no_such_provider_the_variant_is_skipped_with_the_reason() -> None:
    facts: DeviceFacts = local_facts()
    for backend in ("xnnpack", "nnapi", "qnn", "coreml"):
        variant = variant_of({"backend": backend})
        assert f"without the provider for {backend}" in str(RUNTIME.supports(variant, facts))
        with_it = replace(facts, backends=(("onnxruntime", ("cpu", backend)),))
        assert RUNTIME.supports(variant, with_it) is None


def test_an_installed_library_with_another_provider_has_its_backend_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheels for macOS and Qualcomm's are such libraries."""
    assert attach("local", tmp_path, ["onnxruntime"]).facts.backends == ()
    (tmp_path / "onnxruntime.py").write_text(
        "def get_available_providers():\n    return ['CoreMLExecutionProvider', 'CPUExecutionProvider']\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    facts = attach("local", tmp_path, ["onnxruntime"]).facts
    assert facts.backends == (("onnxruntime", ("cpu", "coreml")),)
    assert facts.fingerprint == local_facts().fingerprint
    assert RUNTIME.supports(variant_of({"backend": "coreml"}), facts) is None
    assert "without the provider for qnn" in str(RUNTIME.supports(variant_of({"backend": "qnn"}), facts))


def test_layout_and_capture_mean_nothing_here() -> None:
    usual = variant_of({})
    assert variant_of({"layout": "nhwc", "capture": "trace", "format": "ptl", "fuse": True, "optimize": True}) == usual
    assert (usual.capture, usual.format, usual.layout) == ("export", "onnx", "nchw")
