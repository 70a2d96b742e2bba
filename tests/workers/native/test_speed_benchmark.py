"""The tool driven as a process, by its stand-in: it answers what the Python runner answers, to the printed digits."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from sweeps.errors import RunnerError
from sweeps.manifest import Manifest
from sweeps.variant import Variant
from tests.workers.native.stand_in import speed_benchmark
from tests.workers.runtimes.conftest import inputs_of
from tests.workers.runtimes.runs import answers, asking_for, evaluating, request_of
from tests.workers.runtimes.runs import run as run_in_python
from tests.workers.runtimes.test_skew import plain, rewritten
from workers.models.package import BuildInputs, Logits
from workers.runtimes.counting_tool import MAX_IMAGES
from workers.runtimes.interface import RunRequest
from workers.runtimes.stock_tool import ToolOutput
from workers.runtimes.torchscript.bundled import eval_sibling
from workers.runtimes.torchscript.capture import script
from workers.runtimes.torchscript.runtime import TorchScript
from workers.runtimes.torchscript.save import Format, save
from workers.runtimes.torchscript.speed_benchmark import SpeedBenchmark
from workers.runtimes.torchscript.torch_state import build_state

pytestmark = [pytest.mark.system, pytest.mark.compiler]

ENGINE = "x86"
"""The default of the library that the stand-in is linked to."""
TOOL = SpeedBenchmark("0123", ENGINE)
FP32 = Variant(fuse=True, optimize=True, layout="nhwc")
CORE = replace(FP32, precision="int8", quantization="static_fx", interface="core", qengine=ENGINE, layout="nchw")
FULL = replace(CORE, interface="full", layout="nhwc")
VARIANTS = {
    f"{name} {form}": replace(variant, format=form)
    for name, variant in {"fp32": FP32, "int8 core": CORE, "int8 full": FULL}.items()
    for form in ("pt", "ptl")
}


@dataclass(frozen=True)
class Case:
    """An artifact, and its sibling with six images."""

    manifest: Manifest
    program: str
    timing: RunRequest
    evaluation: RunRequest


@pytest.fixture(scope="module")
def inputs() -> BuildInputs:
    return inputs_of("mobilenet_v2", 64, width_mult=0.35, num_classes=10)


@pytest.fixture(scope="module")
def case(inputs: BuildInputs, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Case]:
    cases: dict[str, Case] = {}

    def case(name: str) -> Case:
        if name not in cases:
            out = tmp_path_factory.mktemp("it's $HOME")
            manifest = TorchScript().build(VARIANTS[name], "a" * 64, inputs, out)
            sibling = eval_sibling(manifest, out / manifest.file, inputs.verification[:6], out)
            request = replace(asking_for(manifest, out), warmup_iterations=2, iterations=5)
            form: Format = "ptl" if name.endswith("ptl") else "pt"
            evaluation = replace(request, model=str(out / sibling.file))
            # A quantized input is in the sibling only.
            timing = evaluation if "full" in name else request
            cases[name] = Case(manifest, str(speed_benchmark(form)), timing, evaluation)
        return cases[name]

    return case


def ended(argv: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, capture_output=True, check=False, timeout=120)


def answer_command(request: RunRequest, program: str, image: int) -> list[str]:
    return TOOL.question(request, program, request.model, image).argv


def answered(argv: list[str]) -> list[float]:
    process = ended(argv)
    assert (process.returncode, process.stderr) == (0, b"")
    return TOOL.parse_answer(ToolOutput(stdout=process.stdout, stderr=process.stderr))


@pytest.mark.parametrize("name", VARIANTS)
def test_the_tool_answers_what_the_python_runner_answers_to_four_decimals(
    case: Callable[[str], Case], inputs: BuildInputs, tmp_path: Path, name: str
) -> None:
    tool_case = case(name)
    assert TOOL.reason_against(tool_case.evaluation) is None
    logits = np.array([answered(answer_command(tool_case.evaluation, tool_case.program, image)) for image in range(6)])
    images = torch.from_numpy(inputs.verification[:6])
    report = run_in_python(replace(tool_case.timing, model=_plain(tool_case), **evaluating(tmp_path, images)))
    expected: Logits = answers(tmp_path, report)
    assert logits.shape == expected.shape == (6, 10)
    # Half of the last digit, and what another summation may differ by.
    np.testing.assert_allclose(logits, expected, rtol=5e-5, atol=5e-5 + 1e-5)
    assert np.ptp(expected, axis=0).max() > 0.1  # the answers are the images', not zeros


def _plain(tool_case: Case) -> str:
    return str(Path(tool_case.evaluation.model).with_name(tool_case.manifest.file))


@pytest.mark.parametrize("name", VARIANTS)
def test_the_tool_times_every_iteration(case: Callable[[str], Case], name: str) -> None:
    tool_case = case(name)
    process = ended(TOOL.timing(tool_case.timing, tool_case.program).argv)
    assert (process.returncode, process.stderr) == (0, b"")
    report = TOOL.parse(ToolOutput(stdout=process.stdout, stderr=process.stderr), tool_case.timing)
    assert len(report.samples_ns) == 5
    assert all(100_000 < sample < 10_000_000_000 for sample in report.samples_ns)
    assert report.engine_ran == ("none" if "fp32" in name else ENGINE)


def test_the_engine_that_runs_is_the_library_s_default(case: Callable[[str], Case], tmp_path: Path) -> None:
    """The Python runner under another engine answers otherwise, so that agreement above is the engine's."""
    tool_case = case("int8 core pt")
    images = torch.from_numpy(inputs_of_case(tool_case))
    default = answers(tmp_path, run_in_python(replace(tool_case.timing, **evaluating(tmp_path, images))))
    other = replace(tool_case.timing, engine="qnnpack", **evaluating(tmp_path, images))
    assert not np.allclose(default, answers(tmp_path, run_in_python(other)), rtol=5e-5, atol=6e-5)


def inputs_of_case(tool_case: Case) -> np.ndarray:
    shape = (6, *tool_case.manifest.input.shape[1:])
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_what_the_tool_refuses_is_told(case: Callable[[str], Case]) -> None:
    tool_case = case("int8 full pt")
    none = ended(TOOL.timing(replace(tool_case.timing, model=_plain(tool_case)), tool_case.program).argv)
    few = ended(answer_command(tool_case.evaluation, tool_case.program, 6))
    assert [process.returncode for process in (none, few)] == [1, 1]
    assert [refusal(process).kind for process in (none, few)] == ["no_bundled_input", "no_bundled_input"]


def refusal(process: subprocess.CompletedProcess[bytes]) -> RunnerError:
    error = TOOL.refusal(ToolOutput(stdout=process.stdout, stderr=process.stderr))
    assert error is not None
    return error


def test_a_flag_that_the_tool_does_not_know_is_named_and_vulkan_is_one_that_it_knows(
    case: Callable[[str], Case],
) -> None:
    tool_case = case("fp32 pt")
    unknown, vulkan = (
        ended([*TOOL.timing(tool_case.timing, tool_case.program).argv, flag])
        for flag in ("--threads=1", "--vulkan=true")
    )
    assert (unknown.returncode, refusal(unknown).kind) == (1, "bad_arguments")
    assert refusal(unknown).message == "C10 flag: unrecognized commandline argument: --threads=1"
    # The wheel has no Vulkan.
    assert (vulkan.returncode, refusal(vulkan).kind) == (-6, "crashed")
    assert "vulkan" in refusal(vulkan).message.lower()


@pytest.mark.parametrize("form", ["pt", "ptl"])
def test_an_operator_that_fails_is_told_in_its_own_words(tmp_path: Path, form: Format) -> None:
    with build_state("none"):
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 4)).eval()
        file = save(script(model), tmp_path, form).file
    process = ended(TOOL.timing(request_of(file, 1, 3, 5, 5), str(speed_benchmark(form))).argv)
    assert process.returncode == -6
    error = refusal(process)
    assert error.kind == "run_failed"
    assert error.message.startswith("mat1 and mat2 shapes cannot be multiplied (1x75 and 48x4)")
    assert "\n" not in error.message


class Tells(torch.nn.Module):
    """Raises with the layout of its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert bool(x.max() < 0), f"given channels_last: {x.is_contiguous(memory_format=torch.channels_last)}"
        return x


def test_a_float_input_is_contiguous_whatever_layout_is_asked_for(tmp_path: Path) -> None:
    with build_state("none"):
        file = save(script(Tells()), tmp_path, "pt").file
    request = replace(request_of(file, 1, 3, 4, 4), memory_format="channels_last")
    argv = TOOL.timing(request, str(speed_benchmark("pt"))).argv
    assert "--input_memory_format=channels_last" in argv
    assert refusal(ended(argv)).message == "AssertionError: given channels_last: False"


def test_openmp_has_the_threads_of_its_variable_and_not_of_the_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with build_state("none"):
        file = save(script(torch.nn.ReLU()), tmp_path, "pt").file
    program = str(speed_benchmark("pt"))
    # Large enough to be split among threads; it never ends by itself.
    request = replace(request_of(file, 1, 1, 512, 512), iterations=10**9)
    assert threads_in_main_runs(TOOL.timing(request, program).argv) == 1
    more = TOOL.timing(replace(request, threads=4), program).argv
    single = [word.replace("OMP_NUM_THREADS=4", "OMP_NUM_THREADS=1") for word in more]
    assert more != single
    assert threads_in_main_runs(single) == 1


def threads_in_main_runs(argv: list[str]) -> int:
    """The number of threads after the warm-up, which started all of them."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert b"Main runs.\n" in process.stdout
            return psutil.Process(process.pid).num_threads()
        finally:
            process.kill()


def test_an_exception_that_nobody_catches_is_told(case: Callable[[str], Case], tmp_path: Path) -> None:
    fp32 = case("fp32 pt")
    lite_of_full = ended(TOOL.timing(fp32.timing, case("fp32 ptl").program).argv)
    no_file = ended(TOOL.timing(replace(fp32.timing, model=str(tmp_path / "none.pt")), fp32.program).argv)
    for process, words in ((lite_of_full, "failed locating file bytecode.pkl"), (no_file, "No such file")):
        assert process.returncode == -6
        assert b"Starting benchmark." not in process.stdout
        assert refusal(process).kind == "crashed"
        assert words in refusal(process).message


@pytest.mark.parametrize(
    ("form", "edits", "message"),
    [
        ("pt", {"/version": (b"3", b"99")}, "the artifact has file version 99, this speed_benchmark_torch reads"),
        ("ptl", {"/version": (b"3", b"99")}, "the artifact has file version 99, this speed_benchmark_torch reads"),
        ("ptl", {"bytecode.pkl": (b"\x80\x02K\x08", b"\x80\x02K\x63")}, "the artifact has bytecode version 99"),
        ("pt", {".py": (b"flatten", b"flattem")}, "this speed_benchmark_torch has no operator aten::flattem;"),
        ("ptl", {"bytecode.pkl": (b"flatten", b"flattem")}, "this speed_benchmark_torch has no operator aten::flattem"),
        (
            "pt",
            {".py": (b"torch.flatten(x, 1)", b"torch.flatten(x, 1, like=x)")},
            "this speed_benchmark_torch knows aten::flatten.using_ints with other arguments",
        ),
        (
            "pt",
            {".py": (b"x: Tensor", b"x: __torch__.torch.classes.xnnpack.New")},
            "this speed_benchmark_torch has no class xnnpack.New",
        ),
    ],
)
def test_an_artifact_that_is_newer_than_the_tool_is_told(
    tmp_path: Path, form: Format, edits: dict[str, tuple[bytes, bytes]], message: str
) -> None:
    with build_state("none"):
        newer = rewritten(plain(tmp_path, form), tmp_path / f"newer.{form}", edits)
    error = refusal(ended(TOOL.timing(request_of(newer, 1, 3, 4, 4), str(speed_benchmark(form))).argv))
    assert error.kind == "runtime_skew"
    assert error.message.startswith(message)
    assert "no newer than the runtime" in error.message


@pytest.mark.parametrize("name", ["fp32 pt", "int8 full ptl"])
def test_a_hundred_images_make_a_sibling_of_their_own_size(
    case: Callable[[str], Case], tmp_path: Path, name: str
) -> None:
    tool_case = case(name)
    images = np.random.default_rng(0).standard_normal((130, 3, 64, 64)).astype(np.float32)
    images.setflags(write=False)  # Ray hands over such arrays
    sibling = eval_sibling(tool_case.manifest, Path(_plain(tool_case)), images, tmp_path)
    assert sibling.images == MAX_IMAGES == 100
    value_bytes = 1 if "full" in name else 4
    grown = (tmp_path / sibling.file).stat().st_size - tool_case.manifest.file_bytes
    assert 0 < grown - 100 * 3 * 64 * 64 * value_bytes < 100_000
    last = replace(tool_case.evaluation, model=str(tmp_path / sibling.file))
    assert len(answered(answer_command(last, tool_case.program, 99))) == 10
