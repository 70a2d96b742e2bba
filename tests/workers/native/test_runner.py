"""The C++ runner as what it is, a process: it answers, times, lists and refuses as the Python runner does."""

import json
import os
import random
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.backends._nnapi.prepare import convert_model_to_nnapi

from sweeps.errors import BuildError, RunnerError
from sweeps.manifest import TensorSpec
from sweeps.variant import Variant
from tests.workers.runtimes.conftest import inputs_of
from tests.workers.runtimes.nets import Keeps
from tests.workers.runtimes.runs import RUNNER, asking_for, evaluating, request_of
from tests.workers.runtimes.scripted_modules import Expects, Flat, Image, Pair
from workers.cores import clusters
from workers.models.accuracy import sqnr_db
from workers.models.package import BuildInputs, Logits
from workers.native import compiler
from workers.runtimes.interface import RunReport, RunRequest
from workers.runtimes.torchscript import native_runner, references, runner_report
from workers.runtimes.torchscript.capture import script, trace
from workers.runtimes.torchscript.nnapi.model import OPERATIONS
from workers.runtimes.torchscript.nnapi.nnapi_devices import NnapiListing
from workers.runtimes.torchscript.runner.main import ERROR_EXIT
from workers.runtimes.torchscript.runtime import TorchScript
from workers.runtimes.torchscript.save import Format, bundle, save
from workers.runtimes.torchscript.torch_state import build_state

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.compiler]

FORMATS: tuple[Format, ...] = ("pt", "ptl")
RUNTIME = TorchScript()
FP32 = Variant(fuse=True, optimize=True)
INT8 = replace(FP32, precision="int8", quantization="static_fx", interface="core", qengine="qnnpack")
NNAPI = Variant(backend="nnapi", fuse=True, preference="sustained_speed", capture="trace")
VARIANTS = {
    "fp32 nchw pt": FP32,
    "fp32 nhwc pt": replace(FP32, layout="nhwc"),
    "fp32 nchw ptl": replace(FP32, format="ptl"),
    "fp32 nhwc ptl": replace(FP32, layout="nhwc", format="ptl"),
    "int8 core qnnpack pt": INT8,
    "int8 full x86 nhwc ptl": replace(INT8, interface="full", qengine="x86", layout="nhwc", format="ptl"),
    "nnapi fp32 nchw pt": NNAPI,
    "nnapi int8 full nhwc ptl": replace(
        NNAPI,
        precision="int8",
        quantization="static_fx",
        interface="full",
        qengine="qnnpack",
        layout="nhwc",
        format="ptl",
    ),
}


@dataclass(frozen=True)
class Ended:
    """One process of the runner."""

    code: int
    stdout: bytes
    stderr: bytes

    def error(self) -> RunnerError:
        """The error that the runner gave up with, without a word on stderr: no abort, no crash."""
        assert (self.code, self.stderr) == (ERROR_EXIT, b""), self
        with pytest.raises(RunnerError) as caught:
            runner_report.parse(self.stdout)
        return caught.value


@pytest.fixture(scope="module")
def program() -> str:
    return str(native_runner.program())


@pytest.fixture(scope="module")
def call(program: str) -> Callable[..., Ended]:
    """Run it with these words."""

    def call(*words: str, **environment: str) -> Ended:
        ended = subprocess.run(
            [program, *words], capture_output=True, check=False, timeout=120, env={**os.environ, **environment}
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return call


@pytest.fixture(scope="module")
def ask(call: Callable[..., Ended], program: str) -> Callable[[RunRequest], Ended]:
    def ask(request: RunRequest) -> Ended:
        return call(*RUNTIME.command(request, program)[1:])

    return ask


@pytest.fixture(scope="module")
def run(ask: Callable[[RunRequest], Ended]) -> Callable[[RunRequest], RunReport]:
    def run(request: RunRequest) -> RunReport:
        ended = ask(request)
        report = runner_report.parse(ended.stdout)
        assert (ended.code, ended.stderr) == (0, b"")
        return report

    return run


@pytest.fixture(scope="module")
def refused(ask: Callable[[RunRequest], Ended]) -> Callable[[RunRequest], RunnerError]:
    return lambda request: ask(request).error()


@pytest.fixture(scope="module")
def mobilenet() -> BuildInputs:
    return inputs_of("mobilenet_v2", 64, width_mult=0.35, num_classes=10)


@pytest.fixture(scope="module")
def artifact(mobilenet: BuildInputs, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunRequest]:
    """The variant of `VARIANTS`, built once, as a request for three iterations."""
    requests: dict[str, RunRequest] = {}

    def artifact(name: str) -> RunRequest:
        if name not in requests:
            out = tmp_path_factory.mktemp("it's $HOME")
            manifest = RUNTIME.build(VARIANTS[name], "a" * 64, mobilenet, out)
            requests[name] = replace(asking_for(manifest, out), iterations=3)
        return requests[name]

    return artifact


@pytest.fixture(scope="module")
def nnapi() -> str:
    return references.library("nnapi")


def saved(folder: Path, module: torch.nn.Module, form: Format = "pt", *shape: int) -> RunRequest:
    with build_state("none"):
        return request_of(save(script(module.eval()), folder, form).file, *shape)


def logits(request: RunRequest) -> Logits:
    return np.fromfile(request.eval_outputs or "", "<f4")


PYTHON_RUNNER = """
import json, os, sys
import torch
from workers.runtimes.torchscript.runner.main import main
for line in sys.stdin:
    if not (child := os.fork()):
        os.dup2(2, 1)
        os._exit(main(json.loads(line)))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def python_logits() -> Iterator[Callable[[RunRequest], Logits]]:
    """The answers of the Python runner. Torch is imported once, and every request gets a process of its own."""
    argv = [sys.executable, "-W", "ignore", "-c", PYTHON_RUNNER]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:

        def python_logits(request: RunRequest) -> Logits:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(RUNTIME.command(request)[len(RUNNER) :]) + "\n")
            process.stdin.flush()
            assert int(process.stdout.readline()) == 0
            return logits(request)

        yield python_logits


@pytest.mark.parametrize("name", VARIANTS)
def test_both_runners_answer_the_same(
    artifact: Callable[[str], RunRequest],
    run: Callable[[RunRequest], RunReport],
    python_logits: Callable[[RunRequest], Logits],
    mobilenet: BuildInputs,
    nnapi: str,
    tmp_path: Path,
    name: str,
) -> None:
    request = replace(artifact(name), **evaluating(tmp_path, torch.from_numpy(mobilenet.verification)))
    if request.backend == "nnapi":
        request = replace(request, reference=nnapi)
    report = run(request)
    assert (report.eval_images, report.eval_classes, report.samples_ns) == (24, 10, ())
    assert (report.backend_ran, report.engine_ran) == (request.backend, request.engine)
    assert report.reference == (request.backend == "nnapi")
    answered = logits(request)
    Path(request.eval_outputs or "").unlink()
    expected = python_logits(request)
    if "int8" in name:
        np.testing.assert_array_equal(answered, expected)
    else:
        np.testing.assert_allclose(answered, expected, rtol=0, atol=1e-5)
    eager = mobilenet.verification_logits
    closeness = sqnr_db(eager, answered.reshape(eager.shape))
    assert closeness is None or closeness > (10 if "int8" in name else 60)  # the answers are the model's, not zeros


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["fp32 nhwc pt", "int8 full x86 nhwc ptl"])
def test_a_block_reports_every_iteration_and_what_ran(
    artifact: Callable[[str], RunRequest], run: Callable[[RunRequest], RunReport], name: str
) -> None:
    threads = 1 if "int8" in name else 2
    request = replace(artifact(name), warmup_iterations=4, iterations=7, threads=threads)
    for reuse in (True, False):
        report = run(replace(request, reuse_input=reuse))
        assert report.runner == native_runner.runner()
        assert report.runtime_version == torch.__version__.partition("+")[0]
        assert (report.file_version_max, report.bytecode_version_max) == (10, 9)
        assert (len(report.warmup_ns), len(report.samples_ns)) == (4, 7)
        assert all(10_000 < sample < 10_000_000_000 for sample in report.samples_ns)
        assert (report.backend_ran, report.engine_ran, report.threads_ran) == ("cpu", request.engine, threads)
        assert report.cpus_ran == tuple(sorted(os.sched_getaffinity(0)))
        assert report.rss_before_load_bytes is not None
        assert report.rss_peak_bytes is not None
        assert 0 < report.rss_peak_bytes - report.rss_before_load_bytes < 200_000_000


@pytest.mark.alone
def test_a_block_takes_at_least_its_seconds_and_ends_after_its_maximum(
    artifact: Callable[[str], RunRequest], run: Callable[[RunRequest], RunReport]
) -> None:
    request = artifact("fp32 nhwc pt")
    report = run(replace(request, warmup_seconds=0.2, iterations=1, min_seconds=0.3))
    assert sum(report.warmup_ns) > 0.15e9
    assert sum(report.samples_ns) > 0.25e9
    bounded = run(replace(request, iterations=10**7, max_seconds=0.2))
    assert 0.1e9 < sum(bounded.samples_ns) < 30e9
    assert len(run(replace(request, iterations=50, max_seconds=0.0)).samples_ns) == 1


def test_more_samples_than_a_line_holds_all_arrive(
    run: Callable[[RunRequest], RunReport], ask: Callable[[RunRequest], Ended], tmp_path: Path
) -> None:
    request = replace(saved(tmp_path, Flat()), iterations=20_001)
    ended = ask(request)
    assert len(runner_report.parse(ended.stdout).samples_ns) == 20_001
    assert ended.stdout.count(b'"sample"') == 3


def test_every_thread_stays_on_the_cpus_that_were_asked_for(
    artifact: Callable[[str], RunRequest], program: str, refused: Callable[[RunRequest], RunnerError]
) -> None:
    cpu = max(os.sched_getaffinity(0))
    request = replace(artifact("fp32 nhwc pt"), threads=2, cpus=str(cpu), iterations=1, min_seconds=3.0)
    affinities: dict[str, set[int]] = {}
    argv = RUNTIME.command(request, program)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        # The first line that comes is flushed: it is there long before the process ends.
        assert json.loads(process.stdout.readline())["event"] == "start"
        assert json.loads(process.stdout.readline())["event"] == "load"
        assert process.poll() is None
        while process.poll() is None:
            for task in Path(f"/proc/{process.pid}/task").iterdir():
                try:
                    affinities[task.name] = os.sched_getaffinity(int(task.name))
                except ProcessLookupError:
                    continue  # ended meanwhile
        rest = [json.loads(line) for line in process.stdout]
    assert next(event["cpus"] for event in rest if event["event"] == "ran") == [cpu]
    assert len(affinities) > 1
    assert {tuple(cpus) for cpus in affinities.values()} == {(cpu,)}
    for cpus in (f"{cpu},4000", "0,", "99999999999"):
        assert refused(replace(request, cpus=cpus)).kind == "bad_cpus", cpus
    if len(clusters()) < 2:
        assert "there are no big ones" in refused(replace(request, cpus="big")).message


class Talker(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("this is no event")  # noqa: T201  # TorchScript prints it
        return x.dequantize().flatten(1)


@pytest.mark.parametrize("form", FORMATS)
def test_the_last_batch_need_not_be_full_and_the_input_is_quantized_outside(
    run: Callable[[RunRequest], RunReport], tmp_path: Path, form: Format
) -> None:
    images = torch.linspace(-1, 1, 5 * 48).reshape(5, 3, 4, 4)
    plain = replace(saved(tmp_path, Flat(), form), **evaluating(tmp_path, images))
    report = run(plain)
    assert (report.eval_images, report.eval_classes) == (5, 48)
    np.testing.assert_array_equal(logits(plain), images.flatten().numpy())
    assert not (tmp_path / "out.bin.partial").exists()
    quantized = {
        "input_dtype": "quint8",
        "input_scale": 0.25,
        "input_zero_point": 128,
        "memory_format": "channels_last",
    }
    request = replace(saved(tmp_path, Flat(), form), **evaluating(tmp_path, images), **quantized)
    run(request)
    np.testing.assert_array_equal(logits(request), ((images * 4).round() / 4).flatten().numpy())


def test_what_a_model_prints_is_not_in_the_report(ask: Callable[[RunRequest], Ended], tmp_path: Path) -> None:
    request = replace(saved(tmp_path, Talker()), input_dtype="quint8", input_scale=0.25, input_zero_point=128)
    ended = ask(request)
    assert len(runner_report.parse(ended.stdout).samples_ns) == 1
    assert ended.stderr.count(b"this is no event") == 2


def test_an_input_is_reused_and_filled_anew_or_is_one_of_its_own(
    run: Callable[[RunRequest], RunReport], refused: Callable[[RunRequest], RunnerError], tmp_path: Path
) -> None:
    request = replace(saved(tmp_path, Keeps()), iterations=5)
    assert len(run(replace(request, reuse_input=False)).samples_ns) == 5
    error = refused(request)
    assert (error.kind, error.message) == ("run_failed", "an input was given twice")


@pytest.mark.parametrize("form", FORMATS)
def test_an_input_that_the_file_carries_is_given_as_it_lies_there(
    call: Callable[..., Ended], tmp_path: Path, form: Format
) -> None:
    plain = saved(tmp_path, Expects(), form)
    spec = TensorSpec(shape=(1, 3, 4, 4), dtype="float32")
    images = torch.arange(2.0).reshape(2, 1, 1, 1).expand(2, 3, 4, 4) * 17 - 10
    with build_state("none"):
        file = bundle(Path(plain.model), images, tmp_path, spec, "channels_last")
    timing = ("--model", str(file), "--iter", "3", "--use-bundled-input")
    error = call(*timing, "1").error()
    assert (error.kind, "given 7" in error.message, "True" in error.message) == ("run_failed", True, True)
    assert len(runner_report.parse(call(*timing, "0").stdout).samples_ns) == 3
    assert call(*timing, "-1").error().message == "the model carries 2 inputs, counted from 0, and none is -1"
    assert call("--model", plain.model, "--use-bundled-input=0").error().kind == "no_bundled_input"


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Pair(), "the model answers a tuple, not one tensor (batch, classes)"),
        (Image(), "the model answers torch.float32 of shape (2, 3, 4, 4), not float32 of (2, classes)"),
    ],
)
def test_an_output_that_is_no_logits_is_told(
    refused: Callable[[RunRequest], RunnerError], tmp_path: Path, form: Format, module: torch.nn.Module, message: str
) -> None:
    error = refused(replace(saved(tmp_path, module, form), **evaluating(tmp_path, torch.zeros(2, 3, 4, 4))))
    assert (error.kind, error.message) == ("bad_output", message)
    assert not (tmp_path / "out.bin").exists()


def test_what_the_request_gets_wrong_is_told_as_the_python_runner_tells_it(
    refused: Callable[[RunRequest], RunnerError], artifact: Callable[[str], RunRequest], tmp_path: Path
) -> None:
    (tmp_path / "broken.pt").write_bytes(b"no archive")
    flat, good = saved(tmp_path, Flat()), artifact("fp32 nchw ptl")
    (tmp_path / "other.pt").write_bytes(Path(good.model).read_bytes())
    images = evaluating(tmp_path, torch.zeros(1, 25))
    (tmp_path / "folder").mkdir()
    whole = {"eval_inputs": str(tmp_path / "whole.bin"), "eval_outputs": str(tmp_path / "folder")}
    (tmp_path / "whole.bin").write_bytes(bytes(48 * 4))
    wrong = {
        "no_model": replace(good, model=str(tmp_path / "none.pt")),
        "load_failed": replace(good, model=str(tmp_path / "broken.pt")),
        "wrong_format": replace(good, model=str(tmp_path / "other.pt")),
        "wrong_backend": artifact("nnapi fp32 nchw pt"),
        "engine_missing": replace(good, engine="abacus"),
        "bad_eval_inputs": replace(flat, **images),
        "eval_outputs_not_written": replace(flat, input_shape=(1, 3, 4, 4), **whole),
        "run_failed": replace(flat, input_shape=(2,)),
        "out_of_memory": replace(flat, input_shape=(2**20, 2**20, 4, 4)),
        "bad_arguments": replace(good, input_dtype="quint8"),
    }
    wrong["wrong_backend"] = replace(wrong["wrong_backend"], backend="cpu")
    assert {kind: refused(request).kind for kind, request in wrong.items()} == {kind: kind for kind in wrong}
    python = subprocess.run(RUNTIME.command(wrong["wrong_format"]), capture_output=True, check=False)
    with pytest.raises(RunnerError) as caught:
        runner_report.parse(python.stdout)
    assert refused(wrong["wrong_format"]).message == caught.value.message


BAD_WORDS = (
    ("--iter", "0"),
    ("--iter", "99999999999999999999"),
    ("--iter",),
    ("--iter", "2", "--iter", "3"),
    ("--threads", "4294967297"),
    ("--max-seconds", "1e999"),
    ("--input-dims", "1,-3"),
    ("--input-type", "quint8"),
    ("--input-zero-point", "300"),
    ("--memory-format", "channels_last"),
    ("--mod", "x"),
)


def test_arguments_that_make_no_sense_are_refused(call: Callable[..., Ended]) -> None:
    for words in BAD_WORDS:
        dims = () if "--input-dims" in words else ("--input-dims", "1,3")
        error = call("--model", "none.pt", *dims, *words).error()
        assert error.kind == "bad_arguments", words
    assert call().error().message == "--model is missing"


def test_no_bytes_in_an_argument_break_the_report(program: str) -> None:
    source = random.Random(0)
    # Cut characters, overlong ones, surrogates, beyond the last, quotes and controls.
    words = [b"\xe2\x82", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b'"\\\n\x01\x7f', "naïve 🙂".encode()]
    words += [bytes(source.randrange(1, 256) for _ in range(200))]
    for word in (b" ".join(words), "naïve 🙂".encode()):
        ended = subprocess.run([program, "--model", word, "--input-dims", "1"], capture_output=True, check=False)
        with pytest.raises(RunnerError) as caught:
            runner_report.parse(ended.stdout)
        assert caught.value.kind == "no_model"
    assert caught.value.message == "there is no file naïve 🙂"


def rewritten(source: Path, target: Path, end: str, old: bytes, new: bytes) -> Path:
    """The archive with bytes replaced in the records whose names end so; they must occur."""
    changed = 0
    with zipfile.ZipFile(source) as read, zipfile.ZipFile(target, "w") as written:
        for name in read.namelist():
            content = read.read(name)
            if name.endswith(end):
                changed += old in content
                content = content.replace(old, new)
            if "debug_pkl" not in name:
                written.writestr(name, content)
    assert changed
    return target


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.flatten(x, 1) * 2


SKEWS: tuple[tuple[Format, str, bytes, bytes, str], ...] = (
    ("pt", "/version", b"3", b"99", "file version 99, this runtime (torch 2.12.1) reads up to 10"),
    ("ptl", "/version", b"3", b"99", "file version 99, this runtime (torch 2.12.1) reads up to 10"),
    ("ptl", "bytecode.pkl", b"\x80\x02K\x08", b"\x80\x02K\x63", "bytecode version 99, this runtime"),
    ("pt", ".py", b"flatten", b"flattem", "has no operator aten::flattem;"),
    ("ptl", "bytecode.pkl", b"flatten", b"flattem", "has no operator aten::flattem"),
    ("pt", ".py", b"torch.flatten(x, 1)", b"torch.flatten(x, 1, like=x)", "knows aten::flatten.using_ints with other"),
)


@pytest.mark.parametrize(("form", "end", "old", "new", "message"), SKEWS)
def test_an_artifact_that_is_newer_than_the_runtime_is_told_as_such(
    refused: Callable[[RunRequest], RunnerError],
    tmp_path: Path,
    form: Format,
    end: str,
    old: bytes,
    new: bytes,
    message: str,
) -> None:
    request = saved(tmp_path, Doubled(), form)
    error = refused(
        replace(request, model=str(rewritten(Path(request.model), tmp_path / f"newer.{form}", end, old, new)))
    )
    assert error.kind == "runtime_skew"
    assert message in error.message
    assert "newer runtime on the device" in error.message


@pytest.mark.parametrize("form", FORMATS)
def test_truncated_files_are_told(refused: Callable[[RunRequest], RunnerError], tmp_path: Path, form: Format) -> None:
    request = saved(tmp_path, torch.nn.Linear(4, 3), form)
    content = Path(request.model).read_bytes()
    for number in range(1, 4):
        file = tmp_path / f"cut{number}.{form}"
        file.write_bytes(content[: len(content) * number // 4])
        error = refused(replace(request, model=str(file)))
        assert (error.kind, f"{file.name} is no whole archive" in error.message) == ("load_failed", True)


def small() -> torch.nn.Module:
    torch.manual_seed(0)
    parts = (torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    return torch.nn.Sequential(*parts, torch.nn.Linear(4, 3)).eval()


def for_nnapi(folder: Path, form: Format, operand_type: int | None = None) -> RunRequest:
    image = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    with build_state("qnnpack"):
        converted = convert_model_to_nnapi(trace(small(), image), image)
        if operand_type is not None:
            converted.mod.ser_model[6] = operand_type
        file = save(script(torch.nn.Sequential(converted)), folder, form).file
    return replace(request_of(file, 1, 3, 8, 8), backend="nnapi")


def test_an_emulated_backend_is_never_timed(
    refused: Callable[[RunRequest], RunnerError], call: Callable[..., Ended], nnapi: str, tmp_path: Path
) -> None:
    request = for_nnapi(tmp_path, "pt")
    error = refused(replace(request, reference=nnapi))
    assert (error.kind, "an emulated backend's time is never a time" in error.message) == ("emulated", True)
    # A reference where the system looks for libraries is not timed either.
    words = ("--model", request.model, "--backend", "nnapi", "--input-dims", "1,3,8,8")
    assert call(*words, LD_LIBRARY_PATH=str(Path(nnapi).parent)).error().kind == "emulated"
    assert refused(request).kind == "backend_missing"
    assert refused(replace(saved(tmp_path, small(), "ptl"), backend="metal")).kind == "wrong_backend"
    (tmp_path / "text.so").write_text("no library")
    for library in (tmp_path / "none.so", tmp_path / "text.so"):
        images = evaluating(tmp_path, torch.zeros(1, 3, 8, 8))
        assert refused(replace(request, reference=str(library), **images)).kind == "bad_reference"


@pytest.mark.parametrize("form", FORMATS)
def test_what_nnapi_refuses_is_told_with_its_reason(
    refused: Callable[[RunRequest], RunnerError], nnapi: str, tmp_path: Path, form: Format
) -> None:
    images = evaluating(tmp_path, torch.zeros(2, 3, 8, 8))
    error = refused(replace(for_nnapi(tmp_path, form, operand_type=77), reference=nnapi, **images))
    assert error.kind == "nnapi_compile_failed"
    assert "NNAPI returned error: 4 (bad data: " in error.message
    wide = replace(for_nnapi(tmp_path, form), reference=nnapi, input_shape=(2, 3, 8, 8), **images)
    error = refused(wide)
    assert error.kind == "nnapi_run_failed"
    assert "input 0 has sizes [2, 3, 8, 8], but the model declares [1, 3, 8, 8]" in error.message


def listed(argv: Sequence[str]) -> NnapiListing:
    return runner_report.listing(subprocess.run(argv, capture_output=True, check=True, timeout=120).stdout)


def test_accelerators_and_their_part_of_a_model_are_listed_as_by_the_python_runner(
    program: str, artifact: Callable[[str], RunRequest], nnapi: str
) -> None:
    words = ("--nnapi-devices", "--reference", nnapi)
    assert [device.accepts for device in listed((program, *words)).devices] == [None, None]
    words = (*words, "--model", artifact("nnapi int8 full nhwc ptl").model)
    accelerators = listed((program, *words))
    assert accelerators == listed((*RUNNER, *words))
    assert [set(device.accepts or ()) for device in accelerators.devices] == [{True, False}, {True}]


@pytest.mark.smoke
def test_operations_have_the_names_that_the_python_runner_gives_them() -> None:
    source = (compiler.FOLDER / "runner_nnapi_model.h").read_text()
    named = {int(code): name for code, name in re.findall(r'\{(\d+), "(\w+)"\}', source)}
    assert named == {code: name for code, (name, _) in OPERATIONS.items()}


def test_a_damaged_nnapi_model_is_not_listed(call: Callable[..., Ended], nnapi: str, tmp_path: Path) -> None:
    whole = for_nnapi(tmp_path, "pt")
    kinds = set()
    for at, word in ((0, 9), (1, 2**30), (4, 0), (7, 2**31 - 1)):
        with build_state("qnnpack"):
            module = torch.jit.load(whole.model)
            part = next(part for part in module.modules() if hasattr(part, "ser_model"))
            part.ser_model[at] = word
            (tmp_path / "damaged").mkdir(exist_ok=True)
            file = save(module, tmp_path / "damaged", "pt").file
        ended = call("--nnapi-devices", "--reference", nnapi, "--model", str(file))
        assert (ended.code, ended.stderr) == (ERROR_EXIT, b""), (at, word)
        with pytest.raises(RunnerError) as caught:
            runner_report.listing(ended.stdout)
        kinds.add(caught.value.kind)
    assert kinds <= {"malformed_nnapi_model", "nnapi_compile_failed"}
    assert "malformed_nnapi_model" in kinds


@pytest.mark.smoke
def test_the_program_is_made_once_and_needs_no_python(program: str) -> None:
    made_ns = Path(program).stat().st_mtime_ns
    assert str(native_runner.program()) == program
    assert Path(program).stat().st_mtime_ns == made_ns
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert "libtorch_cpu.so" in needed
    assert "libpython" not in needed
    assert "libtorch_cuda" not in needed


@pytest.mark.smoke
def test_without_a_compiler_the_error_says_what_installs_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(BuildError) as caught:
        native_runner.program()
    assert (caught.value.kind, "apt-get install g++" in caught.value.next_step) == ("no_compiler", True)


@pytest.mark.smoke
def test_naming_the_runner_imports_no_torch() -> None:
    program = (
        "import sys\nfrom workers.runtimes.torchscript import native_runner\n"
        "native_runner.runner(); print('torch' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False"
