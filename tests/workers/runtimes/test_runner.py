"""The runner as what it is: a process."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sweeps.variant import Variant
from tests.workers.runtimes import forked_runs
from tests.workers.runtimes.nets import Keeps
from tests.workers.runtimes.runs import request_of, run
from tests.workers.runtimes.scripted_modules import Flat, Image, Pair
from workers.models.package import BuildInputs
from workers.runtimes.interface import RunRequest
from workers.runtimes.torchscript.runtime import TorchScript
from workers.runtimes.torchscript.torch_state import build_state

RUNTIME = TorchScript()


@pytest.fixture(scope="module")
def artifact(mobilenet: BuildInputs, tmp_path_factory: pytest.TempPathFactory) -> RunRequest:
    """A built model in fp32, as a request that is quickly answered."""
    out = tmp_path_factory.mktemp("fp32 'quoted'")
    RUNTIME.build(Variant(fuse=True, optimize=True, layout="nhwc"), "a" * 64, mobilenet, out)
    return request_of(out / "model.pt", 1, 3, 64, 64, memory_format="channels_last", iterations=3)


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[torch.nn.Module], RunRequest]:
    """Save a module as it is; the request feeds it (2, 3, 4, 4)."""

    def saved(module: torch.nn.Module) -> RunRequest:
        path = tmp_path / "model.pt"
        with build_state("none"):
            torch.jit.save(torch.jit.script(module.eval()), str(path))
        return request_of(path, 2, 3, 4, 4)

    return saved


class Dequantized(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.dequantize().flatten(1)


def test_a_block_reports_every_iteration_and_what_ran(artifact: RunRequest) -> None:
    report = run(replace(artifact, warmup_iterations=4, iterations=7))
    assert report.runner == RUNTIME.runner()
    assert report.runtime_version == torch.__version__
    assert (report.file_version_max, report.bytecode_version_max) == (10, 9)
    assert (len(report.warmup_ns), len(report.samples_ns)) == (4, 7)
    assert all(10_000 < sample < 10_000_000_000 for sample in report.samples_ns)
    assert (report.backend_ran, report.engine_ran, report.threads_ran) == ("cpu", "none", 1)
    assert report.rss_before_load_bytes is not None
    assert report.rss_peak_bytes is not None
    assert 0 < report.rss_peak_bytes - report.rss_before_load_bytes < 200_000_000


def test_a_block_takes_at_least_its_seconds_and_ends_after_its_maximum(artifact: RunRequest) -> None:
    report = forked_runs.run(replace(artifact, warmup_seconds=0.2, iterations=1, min_seconds=0.3))
    assert sum(report.warmup_ns) > 0.15e9
    assert sum(report.samples_ns) > 0.25e9
    bounded = forked_runs.run(replace(artifact, iterations=10**7, max_seconds=0.2))
    assert 0.1e9 < sum(bounded.samples_ns) < 30e9
    assert len(bounded.samples_ns) < 10**7


def test_a_maximum_of_nothing_still_runs_once(artifact: RunRequest) -> None:
    assert len(forked_runs.run(replace(artifact, iterations=50, max_seconds=0.0)).samples_ns) == 1


def test_two_threads_are_two_threads(artifact: RunRequest) -> None:
    assert run(replace(artifact, threads=2)).threads_ran == 2


def test_one_thread_keeps_xnnpacks_pool_to_one_thread(artifact: RunRequest) -> None:
    before = os.times()
    report = run(replace(artifact, iterations=1, min_seconds=1.5))
    after = os.times()
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    elapsed = after.elapsed - before.elapsed
    assert sum(report.samples_ns) > 1.4e9
    assert busy < elapsed * 1.15


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
def test_every_thread_stays_on_the_cpus_that_were_asked_for(artifact: RunRequest) -> None:
    cpu = max(os.sched_getaffinity(0))
    argv = RUNTIME.command(replace(artifact, threads=2, cpus=str(cpu), iterations=1, min_seconds=1.0))
    affinities: dict[str, set[int]] = {}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "load":
                break
        while process.poll() is None:
            for task in Path(f"/proc/{process.pid}/task").iterdir():
                try:
                    affinities[task.name] = os.sched_getaffinity(int(task.name))
                except ProcessLookupError:
                    continue  # ended meanwhile
        process.stdout.read()
    assert len(affinities) > 1
    assert {tuple(cpus) for cpus in affinities.values()} == {(cpu,)}


def test_the_engine_is_in_force_when_an_int8_model_is_loaded(mobilenet: BuildInputs, tmp_path: Path) -> None:
    variant = Variant(
        precision="int8", quantization="static_fx", interface="core", qengine="qnnpack", fuse=True, optimize=True
    )
    RUNTIME.build(variant, "a" * 64, mobilenet, tmp_path)
    inputs = tmp_path / "in.bin"
    inputs.write_bytes(mobilenet.verification.astype("<f4").tobytes())
    answers = {}
    for engine in ("qnnpack", "x86"):
        files = {"eval_inputs": str(inputs), "eval_outputs": str(tmp_path / f"{engine}.bin")}
        request = request_of(tmp_path / "model.pt", 1, 3, 64, 64, engine=engine, **files)
        report = forked_runs.run(request)
        assert (report.engine_ran, report.eval_images, report.eval_classes) == (engine, 24, 10)
        answers[engine] = (tmp_path / f"{engine}.bin").read_bytes()
    assert len(answers["qnnpack"]) == 24 * 10 * 4
    assert answers["qnnpack"] != answers["x86"]  # other kernels round otherwise


def test_the_last_batch_need_not_be_full(saved: Callable[[torch.nn.Module], RunRequest], tmp_path: Path) -> None:
    images = np.arange(5 * 48, dtype="<f4")
    (tmp_path / "in.bin").write_bytes(images.tobytes())
    files = {"eval_inputs": str(tmp_path / "in.bin"), "eval_outputs": str(tmp_path / "out.bin")}
    report = forked_runs.run(replace(saved(Flat()), **files))
    assert (report.eval_images, report.eval_classes) == (5, 48)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out.bin", "<f4"), images)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.bin", "model.pt", "out.bin"]


def test_a_quantized_input_is_quantized_outside_of_the_model(
    saved: Callable[[torch.nn.Module], RunRequest], tmp_path: Path
) -> None:
    images = np.linspace(-1, 1, 96, dtype="<f4")
    (tmp_path / "in.bin").write_bytes(images.tobytes())
    files = {"eval_inputs": str(tmp_path / "in.bin"), "eval_outputs": str(tmp_path / "out.bin")}
    request = replace(saved(Dequantized()), input_dtype="quint8", input_scale=0.25, input_zero_point=128)
    forked_runs.run(replace(request, **files))
    answer = np.fromfile(tmp_path / "out.bin", "<f4")
    np.testing.assert_allclose(answer, np.round(images * 4) / 4)
    assert len(forked_runs.run(replace(request, iterations=2, reuse_input=False)).samples_ns) == 2


def test_without_reuse_every_iteration_gets_an_input_of_its_own(saved: Callable[[torch.nn.Module], RunRequest]) -> None:
    request = replace(saved(Keeps()), iterations=5, reuse_input=False)
    assert len(forked_runs.run(request).samples_ns) == 5


def test_with_reuse_every_iteration_gets_the_same_tensor_filled_anew(
    saved: Callable[[torch.nn.Module], RunRequest],
) -> None:
    error = forked_runs.refused(replace(saved(Keeps()), iterations=5, reuse_input=True))
    assert (error.kind, error.message) == ("run_failed", "an input was given twice")


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Pair(), "the model answers a tuple, not one tensor (batch, classes)"),
        (Image(), "the model answers torch.float32 of shape (2, 3, 4, 4), not float32 of (2, classes)"),
    ],
)
def test_an_output_that_is_no_logits_is_told(
    saved: Callable[[torch.nn.Module], RunRequest], tmp_path: Path, module: torch.nn.Module, message: str
) -> None:
    (tmp_path / "in.bin").write_bytes(bytes(2 * 48 * 4))
    files = {"eval_inputs": str(tmp_path / "in.bin"), "eval_outputs": str(tmp_path / "out.bin")}
    error = forked_runs.refused(replace(saved(module), **files))
    assert (error.kind, error.message) == ("bad_output", message)
    assert not (tmp_path / "out.bin").exists()


def test_what_the_request_gets_wrong_is_told(
    saved: Callable[[torch.nn.Module], RunRequest], artifact: RunRequest, tmp_path: Path
) -> None:
    (tmp_path / "broken.pt").write_bytes(b"no archive")
    (tmp_path / "in.bin").write_bytes(bytes(100))
    half = {"eval_inputs": str(tmp_path / "in.bin"), "eval_outputs": str(tmp_path / "out.bin")}
    wrong = {
        "no_model": replace(artifact, model=str(tmp_path / "none.pt")),
        "load_failed": replace(artifact, model=str(tmp_path / "broken.pt")),
        "engine_missing": replace(artifact, engine="abacus"),
        "bad_cpus": replace(artifact, cpus="4095"),
        "bad_eval_inputs": replace(saved(Flat()), **half),
        "run_failed": replace(saved(Flat()), input_shape=(2,)),
        "bad_arguments": replace(artifact, input_dtype="quint8"),
    }
    assert {kind: forked_runs.refused(request).kind for kind, request in wrong.items()} == {
        kind: kind for kind in wrong
    }


def test_only_standard_modules_load_before_the_choice_of_cpus_and_no_compiler_after() -> None:
    program = (
        "import sys\nfrom workers.runtimes.torchscript.runner import main\n"
        "print(sorted({'torch', 'numpy', 'pydantic'} & {name.partition('.')[0] for name in sys.modules}))\n"
        "main.begin(main.arguments(['--model', 'm', '--input-dims', '1']), main.pytorch_mobile())\n"
        "print('torch' in sys.modules, 'torch._decomp' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["[]", "True False"]


HANGS = """
import signal, sys
from workers.runtimes.torchscript.runner import main, process
from workers.runtimes.torchscript.runner.events import GiveUp

process.PATIENCE_S = 0.2

def load():
    if signal.getitimer(signal.ITIMER_REAL)[0]:
        signal.pause()
    raise GiveUp("load_failed", "it may take as long as it needs")

odd = main.Program("odd", "1", lambda given: load, runtime=lambda: "odd 1", needs_compilers=False)
sys.exit(main.main(sys.argv[1:], odd))
"""


def test_a_hanging_file_of_another_runtime_ends_the_process_unless_its_hash_is_known(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"runs for ever")
    argv = [sys.executable, "-c", HANGS, "--model", str(tmp_path / "model"), "--input-dims", "1"]
    unknown = subprocess.run(argv, capture_output=True, check=False)
    assert unknown.returncode == -signal.SIGALRM, unknown.stderr
    trusted = subprocess.run(
        [*argv, "--sha256", hashlib.sha256(b"runs for ever").hexdigest()], capture_output=True, check=False
    )
    assert b"it may take as long as it needs" in trusted.stdout
