"""Command lines of benchmarks are told from others."""

import sys

import pytest

from sweeps.launching import start
from sweeps.spec import catalog
from tests.workers.runtimes.runs import request_of
from workers.devices.linux.competing import benchmark_name, is_runner, sweep_command
from workers.runtimes import registry
from workers.runtimes.executorch import programs as executorch
from workers.runtimes.interface import BatchRuntime
from workers.runtimes.onnxruntime import programs as onnxruntime
from workers.runtimes.torchscript import python_program
from workers.runtimes.torchscript.programs import RUNNERS

REQUEST = request_of("a model.pt", 1, 3, 8, 8)


BROUGHT = {
    **dict.fromkeys([*RUNNERS.values(), "edgesweep_runner"], "torchscript"),
    executorch.RUNNER: "executorch",
    onnxruntime.RUNNER: "onnxruntime",
}


@pytest.mark.parametrize("file", BROUGHT)
def test_our_program_is_one_under_the_name_that_it_is_brought_with(file: str) -> None:
    program = f"/data/local/tmp/edgesweep/run/{file}-{'0f' * 8}"
    runtime = registry.get(BROUGHT[file])
    assert is_runner(runtime.command(REQUEST, program))
    assert isinstance(runtime, BatchRuntime)
    assert is_runner(runtime.batch_command("batch.jsonl", 60.0, program))


def test_our_program_of_one_file_is_one_as_python_runs_it() -> None:
    program = f"/home/pi/.edgesweep/run/{python_program.NAME}-{'0f' * 8}"
    argv = registry.get("torchscript").command(REQUEST, program)
    assert is_runner(["/home/pi/edgesweep-venv/bin/python3", *argv])
    assert is_runner(argv)
    assert not is_runner(["vim", *argv])


@pytest.mark.parametrize("name", sorted(catalog.runtimes()))
def test_the_runner_of_every_runtime_is_one(name: str) -> None:
    argv = registry.get(name).command(REQUEST)
    assert is_runner(argv)
    assert benchmark_name(argv) == "a runner of EdgeSweep"
    assert is_runner(["setpriv", "--pdeathsig", "KILL", "--", *argv])


@pytest.mark.parametrize(
    "argv",
    [
        ["/data/local/tmp/edgesweep/runner", "--model", "m.pt", "--iter", "5"],
        ["/data/local/tmp/edgesweep/run/edgesweep_runner-0123456789abcdef", "--model", "m.pt"],
        ["edgesweep_runner_lite-0123456789abcdef", "--model", "m.ptl"],
        ["/data/local/tmp/speed_benchmark_torch", "--model=m.pt"],
        ["run/speed_benchmark_torch_lite-0123456789abcdef", "--model=m.ptl"],
        ["./benchmark_model", "--graph=m.tflite"],
        ["benchmark_model_plus_flex"],
        ["cmake-out/executor_runner"],
        ["xnn_executor_runner", "--model_path", "m.pte"],
        ["onnxruntime_perf_test", "-m", "times", "m.onnx"],
    ],
)
def test_benchmarks_are_told_by_their_names(argv: list[str]) -> None:
    assert benchmark_name(argv) is not None


@pytest.mark.parametrize(
    "argv",
    [
        [],
        [""],
        ["runner"],
        ["/opt/actions/runner", "run"],
        ["gitlab-runner", "--model"],
        [sys.executable, "-m", "pytest", "tests/workers/runtimes/test_runner.py"],
        [sys.executable, "-m", "workers.runtimes.registry"],
        ["vim", "benchmark_model"],
        ["hyperfine", "ls"],
        ["python", "-m"],
    ],
)
def test_other_programs_are_not(argv: list[str]) -> None:
    assert benchmark_name(argv) is None


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["/usr/bin/python3", "/home/me/.venv/bin/edgesweep", "run", "sweep.yaml"], "edgesweep run"),
        (["edgesweep", "demo"], "edgesweep demo"),
        (start.command("run", "sweep.yaml"), "edgesweep run"),
        (["python3", "/home/me/.venv/bin/edgesweep", "dashboard"], None),
        (["vim", "edgesweep", "run"], None),
        (["python3", "train.py", "run"], None),
        ([], None),
    ],
)
def test_a_sweep_is_known_by_its_command_line(argv: list[str], command: str | None) -> None:
    assert sweep_command(argv) == command
