"""`speed_benchmark_torch` has its arguments and refusals, and its text is read as its sources print it."""

from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.device_facts import DeviceFacts
from sweeps.errors import RunnerError
from tests.workers.runtimes.runs import request_of
from workers.runtimes.interface import RunnerIdentity, RunReport, RunRequest
from workers.runtimes.stock_tool import ToolOutput
from workers.runtimes.torchscript.speed_benchmark import SpeedBenchmark

TOOL = SpeedBenchmark("0123", "qnnpack")
UNKNOWN_ENGINE = replace(TOOL, engine="none")
FLOAT = request_of(
    "/data/local/tmp/it's a model.pt",
    1,
    3,
    224,
    224,
    threads=2,
    memory_format="channels_last",
    warmup_iterations=4,
    iterations=3,
)
QUANTIZED = replace(
    FLOAT, engine="qnnpack", input_dtype="quint8", input_scale=0.02, input_zero_point=114, model="/data/eval.ptl"
)

TIMING = b"""Starting benchmark.
Running warmup runs.
Main runs.
PyTorchObserver {"type": "NET", "unit": "us", "metric": "latency", "value": "27346"}
PyTorchObserver {"type": "NET", "unit": "us", "metric": "latency", "value": "27201"}
PyTorchObserver {"type": "NET", "unit": "us", "metric": "latency", "value": "27999"}
Main run finished. Microseconds per iter: 27515.7. Iters per second: 36.3429
"""
ANSWER = b""" 1.5410 -0.2934 -2.1788  0.5684
[ CPUFloatType{1,4} ]
Starting benchmark.
Running warmup runs.
Main runs.
Main run finished. Microseconds per iter: 27346. Iters per second: 36.5684
"""
QUANTIZED_BATCH = b"""0.01 *
 0.7500  1.2500
  -0.7500 -1.0000
[ QuantizedCPUQUInt8Type{2,2}, qscheme: per_tensor_affine, scale: 0.0025, zero_point: 100 ]
Starting benchmark.
Running warmup runs.
Main runs.
Main run finished. Microseconds per iter: 27346. Iters per second: 36.5684
"""


def printed(stdout: bytes = b"", stderr: bytes = b"") -> ToolOutput:
    return ToolOutput(stdout=stdout, stderr=stderr)


def test_a_timing_asks_for_its_iterations_and_one_more_warm_up_as_first_inference() -> None:
    assert TOOL.timing(FLOAT, "/data/tool").argv == [
        "env",
        "OMP_NUM_THREADS=2",
        "/data/tool",
        "--model=/data/local/tmp/it's a model.pt",
        "--pthreadpool_size=2",
        "--input_dims=1,3,224,224",
        "--input_type=float",
        "--input_memory_format=channels_last",
        "--warmup=5",
        "--iter=3",
        "--report_pep=true",
    ]


def test_a_quantized_input_is_taken_from_the_file() -> None:
    assert TOOL.timing(QUANTIZED, "tool").argv[5:] == [
        "--use_bundled_input=0",
        "--warmup=5",
        "--iter=3",
        "--report_pep=true",
    ]


def test_an_answer_is_asked_for_one_bundled_image() -> None:
    assert TOOL.question(FLOAT, "tool", "/data/eval.pt", 41).argv == [
        "env",
        "OMP_NUM_THREADS=2",
        "tool",
        "--model=/data/eval.pt",
        "--pthreadpool_size=2",
        "--use_bundled_input=41",
        "--print_output=true",
        "--warmup=0",
        "--iter=1",
    ]


def test_the_runner_is_named_by_the_program_s_bytes(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(b"one build")
    first = SpeedBenchmark.of(tmp_path / "tool", "arm64-v8a")
    (tmp_path / "tool").write_bytes(b"another build")
    assert first.runner == "speed_benchmark_torch 35b5c9836731.2"
    assert SpeedBenchmark.of(tmp_path / "tool", "arm64-v8a").runner != first.runner
    assert first.identity() == RunnerIdentity(
        runner=first.runner, runtime_version="unknown (35b5c9836731)", qengines=("qnnpack",), accelerators=()
    )


def test_times_from_before_openmp_was_told_are_of_another_runner_on_the_same_phone(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(b"one build")
    identity = SpeedBenchmark.of(tmp_path / "tool", "arm64-v8a").identity()
    assert identity.runner != "speed_benchmark_torch 35b5c9836731"
    assert identity.runtime_version == "unknown (35b5c9836731)"  # part of the phone's fingerprint, as ever


def test_another_build_of_the_tool_is_another_fingerprint(tmp_path: Path) -> None:
    facts = DeviceFacts(
        device_id="a", name="a", maker="", model="", soc="", os_build="", abi="arm64-v8a", cores=1, ram_bytes=None
    )
    fingerprints = set()
    for build in (b"one build", b"another build"):
        (tmp_path / "tool").write_bytes(build)
        identity = SpeedBenchmark.of(tmp_path / "tool", "arm64-v8a").identity()
        fingerprints.add(replace(facts, runtime_versions=(("torchscript", identity.runtime_version),)).fingerprint)
    assert len(fingerprints) == 2


def test_an_arm_phone_has_qnnpack_and_the_engine_of_an_x86_one_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(b"one build")
    engines = {abi: SpeedBenchmark.of(tmp_path / "tool", abi).engine for abi in ("arm64-v8a", "armeabi-v7a", "x86_64")}
    assert engines == {"arm64-v8a": "qnnpack", "armeabi-v7a": "qnnpack", "x86_64": "none"}
    assert SpeedBenchmark.of(tmp_path / "tool", "x86_64").identity().qengines == ()


def report_of(*samples_us: int) -> RunReport:
    whole = TOOL.parse(printed(TIMING), FLOAT)
    return replace(whole, samples_ns=tuple(1000 * us for us in samples_us))


def test_a_trial_is_a_few_iterations_of_the_same_timing() -> None:
    trial = TOOL.trial(replace(FLOAT, min_seconds=2.0))
    assert (trial.warmup_iterations, trial.iterations) == (0, 5)
    assert replace(trial, warmup_iterations=4, iterations=3) == replace(FLOAT, min_seconds=2.0)


@pytest.mark.parametrize(
    ("options", "warmup", "iterations"),
    [
        ({"iterations": 50, "min_seconds": 0.1}, 4, 50),
        ({"min_seconds": 2.0}, 4, 200),
        ({"min_seconds": 2.0, "max_seconds": 1.0}, 4, 100),
        ({"iterations": 50, "max_seconds": 0.001}, 4, 1),
        ({"warmup_seconds": 0.5}, 50, 3),
    ],
)
def test_iterations_are_counted_by_the_fastest_that_was_seen(
    options: dict[str, float], warmup: int, iterations: int
) -> None:
    enough = TOOL.enough(replace(FLOAT, **options), report_of(12_000, 10_000, 15_000))  # type: ignore[arg-type]  # numbers
    assert (enough.warmup_iterations, enough.iterations) == (warmup, iterations)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (replace(FLOAT, backend="metal"), "speed_benchmark_torch runs no metal model"),
        (replace(FLOAT, backend="nnapi", reference="lib.so"), "takes no library that stands in for nnapi"),
        (replace(QUANTIZED, engine="x86"), "sets no quantized engine: qnnpack runs, x86 is asked for"),
        (replace(FLOAT, cpus="big"), "cannot be bound to cores (big)"),
        (replace(FLOAT, reuse_input=False), "has one input for all iterations"),
    ],
)
def test_what_the_tool_cannot_do_is_refused_with_the_reason(request_: RunRequest, reason: str) -> None:
    assert reason in (TOOL.reason_against(request_) or "")


def test_what_it_can_do_is_not_refused() -> None:
    for request in (FLOAT, replace(FLOAT, backend="nnapi"), QUANTIZED):
        assert TOOL.reason_against(request) is None
    assert UNKNOWN_ENGINE.reason_against(FLOAT) is None


def test_nothing_quantized_runs_on_an_engine_that_is_not_known() -> None:
    assert "which one runs is not known" in (UNKNOWN_ENGINE.reason_against(QUANTIZED) or "")


def test_a_timing_is_a_report_that_says_what_the_tool_does_not_tell() -> None:
    report = TOOL.parse(printed(TIMING), FLOAT)
    assert report.samples_ns == (27_346_000, 27_201_000, 27_999_000)
    assert (report.runner, report.runtime_version) == ("speed_benchmark_torch 0123.2", "unknown (0123)")
    assert (report.backend_ran, report.engine_ran) == ("cpu", "none")
    assert (report.threads_ran, report.threads_known) == (2, False)
    unknown = (report.load_ns, report.first_inference_ns, report.rss_before_load_bytes, report.rss_peak_bytes)
    assert unknown == (None,) * 4
    assert (report.warmup_ns, report.cpus_ran) == ((), ())
    assert TOOL.parse(printed(TIMING), QUANTIZED).engine_ran == "qnnpack"
    assert TOOL.parse(printed(TIMING.replace(b"\n", b"\r\n")), FLOAT).samples_ns == report.samples_ns


def test_an_answer_is_read_row_by_row() -> None:
    assert TOOL.parse_answer(printed(ANSWER)) == [1.5410, -0.2934, -2.1788, 0.5684]
    assert TOOL.parse_answer(printed(ANSWER.replace(b"\n", b"\r\n"))) == [1.5410, -0.2934, -2.1788, 0.5684]
    assert TOOL.parse_answer(printed(QUANTIZED_BATCH)) == pytest.approx([0.0075, 0.0125, -0.0075, -0.01])


def refused(text: bytes, *, answer: bool = False) -> str:
    with pytest.raises(RunnerError) as caught:
        TOOL.parse_answer(printed(text)) if answer else TOOL.parse(printed(text), FLOAT)
    return caught.value.kind


def test_a_report_that_is_not_whole_is_refused() -> None:
    assert refused(b"") == "no_report"
    assert refused(TIMING[:200]) == "truncated"
    assert refused(TIMING.replace(b"27201", b"0")) == "garbled"
    assert refused(b"\xff" + TIMING) == "garbled"
    one_less = b"".join(line for line in TIMING.splitlines(keepends=True) if b"27201" not in line)
    assert refused(one_less) == "garbled"


def test_an_answer_that_is_not_whole_is_refused() -> None:
    assert refused(ANSWER[: ANSWER.index(b"Main run finished")], answer=True) == "truncated"
    assert refused(ANSWER[ANSWER.index(b"Starting") :], answer=True) == "garbled"
    assert refused(ANSWER.replace(b" 0.5684\n", b"\n"), answer=True) == "garbled"
    assert refused(ANSWER.replace(b"{1,4}", b"{4}"), answer=True) == "bad_output"
    assert refused(b"what the model prints\n" + ANSWER, answer=True) == "garbled"


@pytest.mark.parametrize(
    ("stderr", "kind", "message"),
    [
        (
            "Model does not have bundled inputs.  Before saving,\nuse torch.utils.bundled_inputs.augment_model\n",
            "no_bundled_input",
            "the model carries no inputs; its eval sibling does",
        ),
        ("Model has only 8 bundled inputs.\n", "no_bundled_input", "Model has only 8 bundled inputs."),
        (
            "C10 flag: unrecognized commandline argument: --print_output=true\nFailed to parse command line flags!\n",
            "bad_arguments",
            "C10 flag: unrecognized commandline argument: --print_output=true",
        ),
        (
            "ERROR: unknown command line flag 'x'\nFailed to parse command-line flags!\n",
            "bad_arguments",
            "speed_benchmark_torch knows another set of flags",
        ),
        (
            "libc++abi: terminating with uncaught exception of type torch::jit::ErrorReport: \n"
            "Unknown builtin op: aten::scaled_dot_product_attention.\nHere are some suggestions: \n",
            "runtime_skew",
            "this speed_benchmark_torch has no operator aten::scaled_dot_product_attention; export with a torch",
        ),
        (
            "libc++abi: terminating due to uncaught exception of type c10::Error: isTuple() INTERNAL ASSERT FAILED\n",
            "crashed",
            "speed_benchmark_torch ended with an exception: isTuple() INTERNAL ASSERT FAILED",
        ),
        (
            "terminate called after throwing an instance of 'std::runtime_error'\n"
            "  what():  The following operation failed in the TorchScript interpreter.\n"
            "Traceback of TorchScript, serialized code (most recent call last):\n"
            '  File "code/__torch__/torch/nn/modules/linear.py", line 12, in forward\n'
            "    weight = self.weight\n    return torch.linear(input, weight, bias)\n"
            "           ~~~~~~~~~~~~ <--- HERE\n\n"
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x75 and 48x4)\n\nAborted\n",
            "run_failed",
            "mat1 and mat2 shapes cannot be multiplied (1x75 and 48x4)",
        ),
        (
            "libc++abi: terminating due to uncaught exception of type c10::Error: mat1 and mat2 shapes cannot be "
            "multiplied (1x75 and 48x4) (Module hierarchy:top(Net)::<unknown>.Linear::aten::linear\n"
            "Traceback of TorchScript (most recent call last):\n  File net.py, line 1\n     ~~~ <--- HERE)\n",
            "run_failed",
            "mat1 and mat2 shapes cannot be multiplied (1x75 and 48x4)",
        ),
        (
            "terminate called after throwing an instance of 'c10::Error'\n"
            "  what():  mat1 and mat2 shapes cannot be multiplied (1x75 and 48x4)\n  \n"
            "  Debug info for handle(s): debug_handles:{-1}, was not found.\n  \nException raised from meta\n",
            "run_failed",
            "mat1 and mat2 shapes cannot be multiplied (1x75 and 48x4)",
        ),
        (
            "libc++abi: terminating due to uncaught exception of type c10::Error: mat1 and mat2 shapes cannot be "
            "multiplied (1x75 and 48x4)\nException raised from meta at LinearAlgebra.cpp:206 (most recent first)\n",
            "crashed",
            "speed_benchmark_torch ended with an exception: mat1 and mat2 shapes cannot be multiplied (1x75 and 48x4)",
        ),
    ],
)
def test_what_the_tool_says_at_its_end_is_an_error_of_its_own_kind(stderr: str, kind: str, message: str) -> None:
    error = TOOL.refusal(printed(stderr=stderr.encode()))
    assert error is not None
    assert error.kind == kind
    assert error.message.startswith(message)


_FAILED = "  what():  The following operation failed in the TorchScript interpreter.\nRuntimeError: {}\n"
_HOSTILE = "\x1b[2J\u202eevil\r" + "x" * 10_000


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        (_FAILED.format(_HOSTILE), "run_failed"),
        (f"  what():  {_HOSTILE}\n", "crashed"),
        (f"  what():  ops cannot be found: [{_HOSTILE}]\n", "runtime_skew"),
        (f"C10 flag: {_HOSTILE}\nFailed to parse command line flags!\n", "bad_arguments"),
    ],
)
def test_hostile_words_of_a_phone_are_cut_and_made_plain(stderr: str, kind: str) -> None:
    error = TOOL.refusal(printed(stderr=stderr.encode()))
    assert error is not None
    assert error.kind == kind
    assert "evil" in error.message
    assert error.message.isprintable()
    assert len(error.message) < 500


def test_a_tool_that_says_nothing_is_not_explained() -> None:
    assert TOOL.refusal(printed()) is None
    assert TOOL.refusal(printed(stderr=b"Segmentation fault\xff\n")) is None
