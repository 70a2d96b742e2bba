"""The stock tools of ExecuTorch and ONNX Runtime have their arguments, and their output is read as their sources print
it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from sweeps.errors import BuildError, RunnerError
from sweeps.manifest import Manifest
from tests.builders import phone_facts
from tests.sweeps.test_tool_logs import EXECUTIONS, LOGCAT, PERF_TEST, RESULTS
from tests.workers.runtimes.runs import request_of
from workers.runtimes import registry
from workers.runtimes.executorch.executor_runner import ExecutorRunner
from workers.runtimes.interface import ProfilingRuntime, RunnerIdentity
from workers.runtimes.onnxruntime.perf_test import PerfTest
from workers.runtimes.stock_tool import ToolOutput

RUNNER, PERF = ExecutorRunner("0123"), PerfTest("0123")
FLOAT = request_of(
    "/data/run/it's a model.pte", 1, 3, 8, 8, threads=2, warmup_iterations=1, iterations=1, graph_optimization="all"
)
NHWC = cast(Manifest, SimpleNamespace(input=SimpleNamespace(shape=(2, 3, 4, 4)), memory_format="channels_last"))
PHONE = phone_facts("a")
MEAN_ONLY = LOGCAT.replace("10 time(s)", "3 time(s)")


def logged(text: str) -> ToolOutput:
    return ToolOutput(stdout=b"OutputX 0: tensor(...)\n", stderr=text.encode())


def output_of(summary: str = PERF_TEST, results: str = "") -> ToolOutput:
    rows = results or "".join(f"run,{seconds},271122432,11,{row}\n" for row, seconds in enumerate(SECONDS))
    return ToolOutput(stdout=summary.encode(), stderr=b"", output=rows.encode())


SECONDS = (0.09799, 0.0958204, 0.101519, 0.0995086, 0.099972)
FIVE = replace(FLOAT, warmup_iterations=2, iterations=3)


def test_executor_runner_runs_its_warm_up_among_the_executions() -> None:
    run = RUNNER.timing(FLOAT, "/data/tool")
    assert run.argv == ["/data/tool", f"--model_path={FLOAT.model}", "--cpu_threads=2", "--num_executions=3"]
    assert (run.output, run.log_tag) == ("", "ExecuTorch")
    report = RUNNER.parse(logged(EXECUTIONS), FLOAT)
    assert (report.first_inference_ns, report.warmup_ns, report.samples_ns) == (
        20_500_000,
        (12_000_001,),
        (10_999_999,),
    )
    assert (report.load_ns, report.threads_ran, report.threads_known, report.mean_only) == (13_112_000, 2, True, False)
    assert (report.runner, report.runtime_version) == ("executor_runner 0123.1", "unknown (0123)")
    assert (report.rss_peak_bytes, report.backend_ran, report.engine_ran) == (None, "cpu", "none")


def test_an_older_executor_runner_tells_a_mean_that_has_the_warm_up() -> None:
    report = RUNNER.parse(logged(MEAN_ONLY), FLOAT)
    assert (report.samples_ns, report.mean_only) == ((17_708_333,), True)
    assert (report.warmup_ns, report.first_inference_ns, report.threads_known) == ((), None, False)
    with pytest.raises(RunnerError, match="10 executions of 3"):
        RUNNER.parse(logged(LOGCAT), FLOAT)


def test_executor_runner_is_given_images_in_the_layout_of_the_file(tmp_path: Path) -> None:
    images = np.arange(5 * 3 * 4 * 4, dtype=np.float32).reshape(5, 3, 4, 4)
    images.setflags(write=False)  # Ray hands over such arrays
    files = RUNNER.inputs(NHWC, tmp_path / "model.pte", images, tmp_path)
    assert [file.name for file in files] == ["input-0.bin", "input-1.bin"]  # full batches only
    images_given = np.fromfile(files[1], dtype="<f4").reshape(2, 4, 4, 3)
    np.testing.assert_array_equal(images_given.transpose(0, 3, 1, 2), images[2:4])
    run = RUNNER.question(FLOAT, "tool", "/data/run/a.bin", 1)
    assert run.argv[3:] == ["--num_executions=1", "--inputs=/data/run/a.bin", "--output_file=/data/run/a.bin"]
    assert run.output == "/data/run/a.bin-0.bin"
    answer = np.array([1.5, -2], dtype="<f4").tobytes()
    assert RUNNER.parse_answer(replace(logged(""), output=answer)) == [1.5, -2.0]
    for damaged in (b"", answer[:-1]):
        with pytest.raises(RunnerError, match="no float32"):
            RUNNER.parse_answer(replace(logged(""), output=damaged))


def test_onnx_runtime_s_tool_leaves_every_iteration_in_a_file() -> None:
    run = PERF.timing(replace(FIVE, model="/data/run/ab-model.onnx", graph_optimization="basic"), "tool")
    results = "/data/run/ab-model-perf-test.csv"
    assert run.argv[:2] == ["env", "ORT_DISABLE_TELEMETRY=1"]
    assert run.argv[2:9] == ["tool", "-e", "cpu", "-m", "times", "-r", "5"]
    assert run.argv[9:] == ["-x", "2", "-o", "1", "-I", "-S", "1", "/data/run/ab-model.onnx", results]
    assert (run.output, run.log_tag) == (results, "")
    report = PERF.parse(output_of(), FIVE)
    assert report.warmup_ns == (97_990_000, 95_820_400)
    assert report.samples_ns == (101_519_000, 99_508_600, 99_972_000)
    assert (report.load_ns, report.first_inference_ns, report.rss_peak_bytes) == (217_932_000, 196_000_000, 271_122_432)
    assert (report.threads_ran, report.threads_known, report.rss_before_load_bytes) == (2, True, None)
    without = PERF.parse(output_of(PERF_TEST.replace("Setting intra", "intra")), FIVE)
    assert (without.threads_ran, without.threads_known) == (2, False)


@pytest.mark.parametrize(
    ("text", "results", "words"),
    [
        (PERF_TEST, RESULTS, "its file 3, of 5"),
        (PERF_TEST, "run,0.5,1,1,0\nrun,0.5,1,1,1\nrun,0.5,1,1,2\nrun,0.5,1,1,3\nrun,0.5,1,1,4\n", "one of 500 ms"),
        (PERF_TEST, "\x00", "do not follow each other"),
        ("", RESULTS, "Session creation time cost"),
    ],
)
def test_a_file_that_is_not_of_this_run_is_refused(text: str, results: str, words: str) -> None:
    with pytest.raises(RunnerError, match=words):
        PERF.parse(output_of(text, results), FIVE)


def test_onnx_runtime_s_tool_tells_no_answers(tmp_path: Path) -> None:
    assert (PERF.answers, RUNNER.answers) == (False, True)
    with pytest.raises(RunnerError, match="no answers"):
        PERF.inputs(NHWC, tmp_path, np.zeros((2, 3, 4, 4), dtype=np.float32), tmp_path)
    with pytest.raises(RunnerError, match="no answers"):
        PERF.question(FLOAT, "tool", "file", 0)
    with pytest.raises(RunnerError, match="no answers"):
        PERF.parse_answer(output_of())


@pytest.mark.parametrize("tool", [RUNNER, PERF], ids=lambda tool: tool.name)
def test_a_tool_is_not_asked_for_what_it_cannot_do(tool: ExecutorRunner | PerfTest) -> None:
    assert tool.reason_against(FLOAT) is None
    refused_options = {"backend": "nnapi", "cpus": "0", "reuse_input": False, "input_dtype": "quint8"}
    for name, value in refused_options.items():
        reason = tool.reason_against(replace(FLOAT, **{name: value}))
        assert reason is not None
        assert reason.startswith(tool.name)
    assert (PERF.reason_against(replace(FLOAT, graph_optimization="none")) or "").endswith("no graph optimization none")
    assert (RUNNER.reason_against(replace(FLOAT, reference="a.so")) or "").endswith("stands in for cpu")


def test_a_tool_is_named_by_the_bytes_of_its_program(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(b"one build")
    for kind, revision in ((ExecutorRunner, 1), (PerfTest, 2)):
        tool = kind.from_file(tmp_path / "tool")
        assert tool.identity() == RunnerIdentity(
            runner=f"{kind.name} 35b5c9836731.{revision}",
            runtime_version="unknown (35b5c9836731)",
            qengines=(),
            accelerators=(),
        )


@pytest.mark.parametrize(
    ("name", "form", "tool", "runner"),
    [
        ("executorch", "pte", "executor_runner", ("edgesweep_runner_executorch",)),
        ("onnxruntime", "onnx", "onnxruntime_perf_test", ("edgesweep_runner_onnxruntime", "libonnxruntime.so")),
    ],
)
def test_a_phone_gets_the_tool_where_our_runner_is_missing(
    name: str, form: str, tool: str, runner: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESWEEP_RUNNERS", str(tmp_path))
    monkeypatch.setenv("EDGESWEEP_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "arm64-v8a"
    folder.mkdir()
    runtime = registry.get(name)
    assert isinstance(runtime, ProfilingRuntime)
    for file in (tool, *runner):
        (folder / file).write_bytes(b"\x7fELF\x02\x01\x01" + b"\0" * 11 + (183).to_bytes(2, "little"))
        program = runtime.programs(PHONE)[form]
        assert (program.tool is None) == (file == runner[-1])
    (folder / runner[0]).unlink()
    program = runtime.programs(PHONE)[form]
    assert program.path == str(folder / tool)
    assert program.tool is not None
    assert program.tool.identity().runner.startswith(f"{tool} ")
    assert runtime.profilers(PHONE) == {}
    with pytest.raises(BuildError, match="is no ABI's name"):
        runtime.programs(replace(PHONE, abi="../arm"))


HOSTILE = "\x1b[2J\u202eevil\r" + "x" * 10_000


@pytest.mark.parametrize(
    ("tool", "stderr", "kind"),
    [
        (RUNNER, "ERROR: unknown command line flag 'cpu_threads'\n", "bad_arguments"),
        (RUNNER, "E 00:00 executorch:program.cpp:1] Failed to parse model file m.pte\n", "load_failed"),
        (
            RUNNER,
            "F ] assert failed (method.ok()): Loading of method f failed with status 0x14\n",
            "runtime_skew",
        ),
        (RUNNER, "Loading of method forward failed with status 0x20\n", "backend_missing"),
        (RUNNER, "Loading of method forward failed with status 0x12\n", "load_failed"),
        (RUNNER, f"{HOSTILE} Execution of method forward failed with status 0x1\n", "run_failed"),
        (RUNNER, f"{HOSTILE}\n", None),
        (PERF, "ERROR: Unknown command line flag 'I'\n", "bad_arguments"),
        (PERF, "See 'onnxruntime_perf_test --help'.", "bad_arguments"),
        (
            PERF,
            'CANNOT LINK EXECUTABLE "tool": library "libonnxruntime.so" not found\n',
            "runner_broken",
        ),
        (PERF, "Load model from m.onnx failed: Unsupported model IR version: 99, max is 11\n", "runtime_skew"),
        (PERF, f"Load model from m.onnx failed: Protobuf parsing failed. {HOSTILE}\n", "load_failed"),
        (PERF, "", None),
    ],
)
def test_what_a_tool_says_at_its_end_is_an_error_of_its_own_kind(
    tool: ExecutorRunner | PerfTest, stderr: str, kind: str | None
) -> None:
    error = tool.refusal(ToolOutput(stdout=b"", stderr=stderr.encode()))
    assert (error and error.kind) == kind
    if error is not None:
        assert len(error.message) < 500
        assert not {"\x1b", "\r", "\n", "\u202e"} & {*error.message}
    failed = PERF.refusal(ToolOutput(stdout=b"Run failed:no memory\n", stderr=b"\xff"))
    assert failed is not None
    assert (failed.kind, failed.message) == ("run_failed", "no memory")
