"""Whole builds: reconstructed, lowered, saved, loaded in a fresh process under their own engine, and compared."""

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sweeps.errors import BuildError
from sweeps.manifest import Manifest
from sweeps.spec.label import label_of
from sweeps.variant import Variant
from tests.workers.runtimes.int8_cpu import ENGINES, engine_of
from workers.models.package import BuildInputs
from workers.runtimes.artifact_check import Standard, verify
from workers.runtimes.interface import RunReport, RunRequest
from workers.runtimes.torchscript.runtime import TorchScript

Build = Callable[[BuildInputs, Variant], tuple[Path, Manifest]]
FP32 = Variant(fuse=True, optimize=True)
INT8 = replace(FP32, precision="int8", quantization="static_fx", interface="core", qengine="x86")
FP32_VARIANTS = [
    Variant(layout=layout, capture=capture, optimize=optimize, fuse=fuse)
    for layout in ("nchw", "nhwc")
    for capture in ("script", "trace")
    for optimize in (False, True)
    for fuse in (False, True)
]
INT8_VARIANTS = [
    replace(INT8, layout=layout, capture=capture, optimize=optimize, qengine=engine)
    for layout in ("nchw", "nhwc")
    for capture in ("script", "trace")
    for optimize, engine in ((False, "x86"), (True, "x86"), (True, "qnnpack"))
]


def logits(folder: Path, manifest: Manifest, images: np.ndarray, tmp_path: Path) -> np.ndarray:
    """(N, classes): what the artifact answers in a process of its own."""
    inputs, outputs = tmp_path / "in.bin", tmp_path / "out.bin"
    inputs.write_bytes(images.astype("<f4").tobytes())
    request = RunRequest(
        model=str(folder / manifest.file),
        backend="cpu",
        engine=manifest.verification.engine,
        threads=1,
        cpus="all",
        input_shape=manifest.input.shape,
        memory_format=manifest.memory_format,
        eval_inputs=str(inputs),
        eval_outputs=str(outputs),
    )
    runtime = TorchScript()
    ended = subprocess.run(runtime.command(request), capture_output=True, check=True)
    report = runtime.parse(ended.stdout)
    assert report.eval_images == len(images)
    return np.fromfile(outputs, dtype="<f4").reshape(len(images), report.eval_classes or 0)


@pytest.mark.parametrize("variant", FP32_VARIANTS, ids=label_of)
def test_fp32_answers_as_the_eager_model(tiny: BuildInputs, build: Build, variant: Variant) -> None:
    _, manifest = build(tiny, variant)
    assert manifest.verification.images == 24
    assert manifest.verification.engine == "none"
    assert manifest.verification.sqnr_db is None or manifest.verification.sqnr_db > 100
    assert bool(manifest.fused) == variant.fuse
    assert any(name.startswith("prepacked::") for name in manifest.operators) == variant.optimize
    assert manifest.calibration_id is None


@pytest.mark.parametrize("variant", INT8_VARIANTS, ids=label_of)
def test_int8_answers_nearly_as_the_eager_model(tiny: BuildInputs, build: Build, variant: Variant) -> None:
    _, manifest = build(tiny, variant)
    assert manifest.verification.engine == variant.qengine
    assert manifest.verification.sqnr_db is not None
    assert 30 < manifest.verification.sqnr_db < 60
    assert manifest.fused == (
        "stem.0 + stem.1 + bounded_stem_2",
        "depthwise.0 + depthwise.1 + bounded_depthwise_2",
        "point + norm",
        "side + bounded_hardtanh",
        "last + bounded_clamp",
        "hidden + relu",
    )
    assert any(name.startswith("quantized::conv2d_relu") for name in manifest.operators)
    assert manifest.calibration_id == tiny.calibration_id


@pytest.mark.parametrize("way", ENGINES)
def test_mobilenet_in_int8_on_channels_last_is_not_scrambled(mobilenet: BuildInputs, build: Build, way: str) -> None:
    engine, reduced = engine_of(way)
    _, manifest = build(mobilenet, replace(INT8, layout="nhwc", qengine=engine, reduced_range=reduced))
    assert manifest.axes.reduced_range == reduced
    assert manifest.verification.sqnr_db is not None
    assert manifest.verification.sqnr_db > 12  # scrambled, it is below 0


def test_the_manifest_says_what_lies_beside_it(tiny: BuildInputs, build: Build) -> None:
    folder, manifest = build(tiny, replace(FP32, layout="nhwc"))
    content = (folder / "model.pt").read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "model.pt"]
    assert Manifest.read(folder) == manifest
    assert manifest.axes == replace(FP32, layout="nhwc")
    assert (manifest.file, manifest.file_bytes) == ("model.pt", len(content))
    assert manifest.file_sha256 == hashlib.sha256(content).hexdigest()
    assert (manifest.file_version, manifest.bytecode_version) == (3, None)
    assert manifest.memory_format == "channels_last"
    assert (manifest.input.shape, manifest.input.dtype) == ((1, 3, 32, 32), "float32")
    assert (manifest.output.shape, manifest.output.dtype) == ((1, 5), "float32")
    assert manifest.versions == TorchScript().versions()
    assert (manifest.model, manifest.weights_id) == ("Tiny", "random:0")


def test_builds_in_a_row_with_other_engines_do_not_disturb_each_other(tiny: BuildInputs, build: Build) -> None:
    before = torch.backends.quantized.engine
    x86, qnnpack, second_x86 = (build(tiny, replace(INT8, qengine=engine))[1] for engine in ("x86", "qnnpack", "x86"))
    assert torch.backends.quantized.engine == before
    assert second_x86.verification == x86.verification
    assert second_x86.operators == x86.operators
    assert qnnpack.verification.engine == "qnnpack"
    assert qnnpack.verification.sqnr_db != x86.verification.sqnr_db


@pytest.mark.system
def test_the_same_build_in_two_processes_is_the_same_numbers(tiny: BuildInputs, tmp_path: Path) -> None:
    pickled = tmp_path / "inputs.pickle"
    pickled.write_bytes(pickle.dumps((tiny, INT8)))
    program = (
        "import pickle, sys; from pathlib import Path\n"
        "from workers.runtimes.torchscript.runtime import TorchScript\n"
        f"inputs, variant = pickle.loads(Path({str(pickled)!r}).read_bytes())\n"
        "TorchScript().build(variant, 'b' * 64, inputs, Path(sys.argv[1]))"
    )
    answers = []
    for seed, threads in (("1", "1"), ("2", "2")):
        folder = tmp_path / seed
        folder.mkdir()
        state = {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": threads}
        subprocess.run([sys.executable, "-c", program, str(folder)], check=True, env=os.environ | state)
        answers.append(logits(folder, Manifest.read(folder), tiny.verification, tmp_path))
    np.testing.assert_array_equal(answers[0], answers[1])


def test_images_that_fill_no_batch_are_verified_too(make_inputs: Callable[..., BuildInputs], build: Build) -> None:
    _, manifest = build(make_inputs("nets:Tiny", batch=7), replace(FP32, capture="trace"))
    assert manifest.verification.images == 24
    assert manifest.output.shape == (7, 5)


def test_a_model_that_prints_does_not_spoil_the_report(make_inputs: Callable[..., BuildInputs], build: Build) -> None:
    _, manifest = build(make_inputs("nets:Talker"), Variant())
    assert manifest.verification.sqnr_db is None or manifest.verification.sqnr_db > 100


def test_an_annotation_that_only_holds_in_training_does_not_prevent_scripting(
    make_inputs: Callable[..., BuildInputs], build: Build
) -> None:
    _, manifest = build(make_inputs("nets:Annotated"), FP32)
    assert manifest.fused == ("conv + norm",)


def test_a_transformer_is_traced_and_its_file_version_is_read(
    make_inputs: Callable[..., BuildInputs], build: Build
) -> None:
    _, manifest = build(make_inputs("nets:transformer"), Variant(capture="trace", optimize=True))
    assert manifest.file_version > 5
    assert any("attention" in name for name in manifest.operators)


@pytest.mark.parametrize(
    ("net", "variant", "kind", "words"),
    [
        ("Python", Variant(), "not_scriptable", r"torch\.jit\.script refuses the model: .*numpy"),
        ("Python", FP32, "not_traceable", r"torch\.fx cannot trace the model"),
        ("Branch", INT8, "not_traceable", r"torch\.fx cannot trace the model"),
        ("Branch", Variant(capture="trace"), "trace_differs", "on the input negated"),
        ("Crash", Variant(capture="trace"), "not_traceable", r"torch\.jit\.trace fails: ZeroDivisionError"),
        ("Pair", Variant(), "bad_output", "answers a tuple, not one tensor"),
        ("Infinite", Variant(), "invalid_output", "24 of 24 images get an answer that is not finite"),
        ("Crash", Variant(), "crashed_on_run", "the runner died of signal 8 while it ran the artifact"),
    ],
)
def test_what_cannot_be_built_says_why_in_one_line(
    make_inputs: Callable[..., BuildInputs], build: Build, net: str, variant: Variant, kind: str, words: str
) -> None:
    with pytest.raises(BuildError, match=words) as caught:
        build(make_inputs(f"nets:{net}"), variant)
    assert caught.value.kind == kind
    assert "\n" not in caught.value.message


def test_fp32_that_lost_its_answers_is_refused_with_the_figure(tiny: BuildInputs, build: Build) -> None:
    other = replace(tiny, verification_logits=(tiny.verification_logits * 1.01).astype(np.float32))
    with pytest.raises(
        BuildError, match=r"^torch 2\.\S+: SQNR 40\.\d dB on 24 images; at least 60 dB are asked for"
    ) as caught:
        build(other, FP32)
    assert caught.value.kind == "low_sqnr"


def test_int8_under_10_db_is_refused_with_the_figure_and_the_engine(tiny: BuildInputs, build: Build) -> None:
    other = replace(tiny, verification_logits=(tiny.verification_logits * 1.6).astype(np.float32))
    with pytest.raises(BuildError, match=r"SQNR 8\.\d dB on 24 images under x86; at least 10 dB") as caught:
        build(other, INT8)
    assert caught.value.kind == "low_sqnr"


def test_int8_that_loses_more_than_5_points_is_refused_with_the_figures(mobilenet: BuildInputs, build: Build) -> None:
    labels = mobilenet.verification_logits.argmax(axis=1).astype(np.int64)
    # The eager model is right on every image; of these near-ties int8 gets some wrong.
    sure = np.sort(mobilenet.verification_logits, axis=1)
    close = np.argsort(sure[:, -1] - sure[:, -2])[:8]
    hard = replace(
        mobilenet,
        verification=mobilenet.verification[close],
        verification_logits=mobilenet.verification_logits[close],
        verification_labels=labels[close],
    )
    with pytest.raises(BuildError, match=r"top-1 \d+\.\d % \(eager 100\.0 %\) on 8 images") as caught:
        build(hard, INT8)
    assert caught.value.kind == "accuracy_lost"


def test_a_reference_that_is_zero_proves_nothing(tiny: BuildInputs, build: Build) -> None:
    other = replace(tiny, verification_logits=np.zeros_like(tiny.verification_logits))
    with pytest.raises(BuildError, match="answers 0 on every verification image"):
        build(other, FP32)


@pytest.mark.parametrize(
    ("program", "kind", "words"),
    [
        ("import os; os.abort()", "crashed_on_load", r"^torch 2\.\S+: the runner died of signal 6 while it loaded"),
        ("import sys; sys.exit('no room left')", "crashed_on_load", "died of exit code 1 .*: no room left"),
        (
            'import os; print(\'{"event": "load", "load_ns": 1}\', flush=True); os.kill(os.getpid(), 9)',
            "crashed_on_run",
            "died of signal 9 while it ran",
        ),
        ("print('hello')", "garbled", "line 1 of the runner's report is not JSON"),
    ],
)
def test_a_runner_that_dies_is_one_build_error(tiny: BuildInputs, program: str, kind: str, words: str) -> None:
    def command(request: RunRequest) -> list[str]:
        return [sys.executable, "-c", program]

    request = RunRequest(
        model="model.pt",
        backend="cpu",
        engine="none",
        threads=1,
        cpus="all",
        input_shape=(1, 3, 32, 32),
        memory_format="contiguous_format",
    )
    parse: Callable[[bytes], RunReport] = TorchScript().parse
    with pytest.raises(BuildError, match=words) as caught:
        verify(
            FP32, request, command, parse, tiny, Standard(logits=tiny.verification_logits, against="", least_sqnr_db=60)
        )
    assert caught.value.kind == kind


def test_the_command_line_is_the_runners_contract() -> None:
    request = RunRequest(
        model="/a b/model.pt",
        backend="cpu",
        engine="x86",
        threads=2,
        cpus="0,1",
        input_shape=(1, 3, 8, 8),
        memory_format="channels_last",
        input_dtype="quint8",
        input_scale=0.05,
        input_zero_point=3,
        reuse_input=False,
        warmup_iterations=5,
        warmup_seconds=0.2,
        iterations=200,
        min_seconds=0.5,
        max_seconds=9.0,
    )
    argv: Sequence[str] = TorchScript().command(request)
    assert argv[:3] == [sys.executable, "-m", "workers.runtimes.torchscript.runner"]
    assert " ".join(argv[3:]) == (
        "--model /a b/model.pt --backend cpu --engine x86 --warmup 5 --warmup-seconds 0.2 --iter 200 "
        "--min-seconds 0.5 --max-seconds 9.0 --threads 2 --cpus 0,1 --input-dims 1,3,8,8 --input-type quint8 "
        "--input-scale 0.05 --input-zero-point 3 --memory-format channels_last --reuse-input 0"
    )
