"""Transcripts of the runtimes' own benchmark tools, as their sources print and as recipes and reports show them."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.errors import RunnerError
from sweeps.tool_logs.executorch import parse_executor_runner, read_executions
from sweeps.tool_logs.log import MAX_CHARS, ToolLog
from sweeps.tool_logs.onnxruntime import parse_perf_test, read_results, read_summary
from sweeps.tool_logs.pytorch import parse_speed_benchmark, parse_testapp
from sweeps.tool_logs.tools import TOOLS

Parse = Callable[[str], ToolLog]

ANDROID = """Starting benchmark.
Running warmup runs.
Main runs.
Main run finished. Microseconds per iter: 121318. Iters per second: 8.24281
"""
WITH_SAMPLES = """Starting benchmark.
Running warmup runs.
Main runs.
PyTorchObserver {"type": "NET", "unit": "us", "metric": "latency", "value": "599746"}
PyTorchObserver {"type": "NET", "unit": "us", "metric": "latency", "value": "570505"}
PyTorchObserver {"type": "NET", "unit": "us", "metric": "latency", "value": "583396"}
Main run finished. Microseconds per iter: 584558. Iters per second: 1.71069
"""
LOAD_BENCHMARK = """Starting benchmark.
Main run finished. Microseconds per iter: 121318. Iters per second: 8.24281
"""
IPHONE = """TestApp[2121:722447] Running warmup runs
TestApp[2121:722447] Main runs
TestApp[2121:722447] Main run finished. Milliseconds per iter: 28.767
TestApp[2121:722447] Iters per second: : 34.762
TestApp[2121:722447] Done.
"""
EXECUTIONS = """I 00:00:00.000412 executorch:executor_runner.cpp:414] Resetting threadpool with num threads = 2
I 00:00:00.001730 executorch:executor_runner.cpp:570] Model file /data/local/tmp/it's a model.pte is loaded.
I 00:00:00.001741 executorch:executor_runner.cpp:580] Using method forward
I 00:00:00.001752 executorch:executor_runner.cpp:640] Setting up CPU planned buffer 0, size 1204224.
I 00:00:00.014001 executorch:executor_runner.cpp:716] Model loaded in 13.112000 ms.
I 00:00:00.034101 executorch:executor_runner.cpp:852] Iteration 1 of 3: 20.500000 ms
I 00:00:00.046102 executorch:executor_runner.cpp:852] Iteration 2 of 3: 12.000001 ms
I 00:00:00.057103 executorch:executor_runner.cpp:852] Iteration 3 of 3: 10.999999 ms
I 00:00:00.057204 executorch:executor_runner.cpp:861] Model executed successfully 3 time(s) in 43.500000 ms.
"""
# Release 1.0 in Android's log: `adb logcat -s ExecuTorch`.
LOGCAT = """--------- beginning of main
11-26 03:10:18.123  4242  4242 I ExecuTorch: Model file m.pte is loaded.
11-26 03:10:18.140  4242  4242 I ExecuTorch: Using method forward
11-26 03:10:18.240  4242  4242 I ExecuTorch: Model executed successfully 10 time(s) in 53.125000 ms.
11-26 03:10:18.241  4242  4242 I ExecuTorch: 1 outputs:
"""
# The log is as learning paths of Arm show it, for two threads.
PERF_TEST = """Setting intra_op_num_threads to 2
Session creation time cost: 0.217932 s
First inference time cost: 196 ms
Total inference time cost: 0.49481 s
Total inference requests: 5
Average inference time cost total: 98.961997 ms
Total inference run time: 0.494854 s
Number of inferences per second: 10.104
Avg CPU usage: 11 %
Peak working set size: 271122432 bytes
Avg CPU usage:11
Peak working set size:271122432
Runs:5
Min Latency: 0.0958204 s
Max Latency: 0.101519 s
P50 Latency: 0.0995086 s
P90 Latency: 0.101519 s
"""
RESULTS = """my, model,0.0958204,271122432,11,0
my, model,9.95086e-05,271122432,11,1
my, model,0.101519,271122432,11,2
"""


def _kind(parse: Parse, text: str) -> str:
    with pytest.raises(RunnerError) as caught:
        parse(text)
    assert caught.value.message
    assert caught.value.next_step or "characters" in caught.value.message
    return caught.value.kind


def test_the_android_tool_s_mean_is_read_and_its_iterations_are_not_guessed() -> None:
    assert parse_speed_benchmark(ANDROID) == ToolLog("speed_benchmark_torch", 121.318, None, ())


def test_report_pep_gives_every_sample() -> None:
    log = parse_speed_benchmark(WITH_SAMPLES)
    assert log.samples_ns == (599_746_000, 570_505_000, 583_396_000)
    assert (log.iterations, log.mean_ms) == (3, 584.558)


def test_samples_are_read_as_numbers_too_and_with_an_exponent() -> None:
    text = ANDROID.replace("121318. Iters per second: 8.24281", "1.23457e+06. Iters per second: 0.81")
    lines = 'PyTorchObserver {"type": "NET", "unit": "us", "metric": "latency", "value": 1.23457e+06}\n'
    log = parse_speed_benchmark(text.replace("Main run finished", f"{lines}Main run finished"))
    assert log.samples_ns == (1_234_570_000,)
    assert log.mean_ms == pytest.approx(1234.57)


def test_observers_of_single_operators_are_no_samples() -> None:
    line = 'PyTorchObserver {"type": "conv2d", "unit": "us", "metric": "op_latency", "value": "17"}\n'
    log = parse_speed_benchmark(WITH_SAMPLES.replace("Main run finished", f"{line}Main run finished"))
    assert log.iterations == 3


def test_windows_line_ends_and_printed_outputs_around_it_do_no_harm() -> None:
    text = ("-0.1  0.2\n[ CPUFloatType{1,2} ]\n" + WITH_SAMPLES + "$ exit\n").replace("\n", "\r\n")
    assert parse_speed_benchmark(text) == parse_speed_benchmark(WITH_SAMPLES)


def test_the_lite_interpreter_s_whole_microseconds_agree_with_its_rate() -> None:
    text = ANDROID.replace("121318. Iters per second: 8.24281", "17. Iters per second: 56104.8")
    assert parse_speed_benchmark(text).mean_ms == 0.017


def test_the_ios_tool_s_mean_is_read_from_the_console_and_from_the_screen() -> None:
    expected = ToolLog("TestApp", 28.767, None, ())
    assert parse_testapp(IPHONE) == expected
    assert parse_testapp(IPHONE.replace("TestApp[2121:722447] ", "")) == expected
    assert parse_testapp(IPHONE.replace("TestApp[", "2020-05-27 11:20:34.567890-0700 TestApp[")) == expected


def test_an_older_testapp_breaks_its_line() -> None:
    screen = """Running warmup runs...
Warmup runs finished.
Main runs...
Main run finished. \nMilliseconds per iter: 28.767
Iters per second: : 34.762
Done.
"""
    assert parse_testapp(screen).mean_ms == 28.767


OLD_PERF_TEST = """Session creation time cost:0.14 s
Total inference time cost:0.49481 s
Total inference requests:5
Average inference time cost:98.961997 ms
Total inference run time:0.494854 s
"""


def test_an_old_perf_test_puts_no_space_after_its_colons() -> None:
    summary = read_summary(OLD_PERF_TEST)
    assert summary.load_ns == 140_000_000
    assert parse_perf_test(OLD_PERF_TEST) == ToolLog("onnxruntime_perf_test", 98.961997, 5)


_EXCEPTION = "terminate called after throwing an instance of 'c10::Error'\n  what():  PytorchStreamReader failed\n"
_SHELL = "/data/local/tmp/run.sh: line 3: 4242 Segmentation fault  ./speed_benchmark_torch --model=m.ptl\n"


@pytest.mark.parametrize(
    ("parse", "text", "last_words"),
    [
        (parse_speed_benchmark, _EXCEPTION, "terminate called"),
        (parse_speed_benchmark, f"Starting benchmark.\nMain runs.\n{_EXCEPTION}Aborted\n", "terminate called"),
        (parse_speed_benchmark, f"Main runs.\n{_SHELL}", "Segmentation fault"),
        (parse_testapp, "TestApp[1:2] Main runs\nTerminating app due to uncaught exception 'X'\n", "Terminating app"),
        (parse_executor_runner, EXECUTIONS.partition("I 00:00:00.014")[0] + "Killed\n", "Killed"),
        (
            parse_executor_runner,
            EXECUTIONS.partition("I 00:00:00.034")[0]
            + "F 00:00:00.034101 executorch:executor_runner.cpp:840] In function main(), assert failed (status == 0)\n",
            "assert failed",
        ),
        (
            parse_executor_runner,
            LOGCAT.partition("11-26 03:10:18.240")[0]
            + "11-26 03:10:18.240  4242  4242 F libc    : Fatal signal 11 (SIGSEGV), code 1\n",
            "Fatal signal 11",
        ),
        (parse_perf_test, "Load model from m.onnx failed:Protobuf parsing failed.\n", "Protobuf parsing failed"),
        (parse_perf_test, f"{OLD_PERF_TEST.partition('Total')[0]}Bus error\n", "Bus error"),
    ],
)
def test_a_run_that_crashed_is_not_called_incomplete(parse: Parse, text: str, last_words: str) -> None:
    with pytest.raises(RunnerError, match=last_words) as caught:
        parse(text)
    assert caught.value.kind == "crashed"
    assert "complete output" not in caught.value.next_step


def test_a_finished_run_may_have_warned_of_faults() -> None:
    warned = "[E:onnxruntime:, env.cc:231] pthread_setaffinity_np failed\n" + OLD_PERF_TEST
    assert parse_perf_test(warned).iterations == 5


def test_a_run_without_times_is_called_so() -> None:
    text = LOGCAT.replace("successfully 10 time(s) in 53.125000 ms.", "successfully.")
    with pytest.raises(RunnerError, match="tells no times") as caught:
        parse_executor_runner(text)
    assert caught.value.kind == "not_timed"


def test_a_log_that_claims_a_billion_executions_takes_no_memory() -> None:
    claimed = EXECUTIONS.replace("successfully 3 time(s)", "successfully 999999999 time(s)")
    tracemalloc.start()
    try:
        assert _kind(parse_executor_runner, claimed) == "garbled"
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1_000_000


def test_executor_runner_tells_every_execution_or_their_mean() -> None:
    executions = read_executions(EXECUTIONS)
    assert executions.log == ToolLog("executor_runner", 14.5, 3, (20_500_000, 12_000_001, 10_999_999))
    assert (executions.load_ns, executions.threads) == (13_112_000, 2)
    assert parse_executor_runner(LOGCAT) == ToolLog("executor_runner", 5.3125, 10)
    # Without the heads of lines, as `logcat -v raw` prints it.
    bare = "".join(f"{line.partition('] ')[2]}\r\n" for line in EXECUTIONS.splitlines())
    assert read_executions(bare) == executions
    assert (read_executions(LOGCAT).load_ns, read_executions(LOGCAT).threads) == (None, None)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "no_report"),
        (EXECUTIONS.replace("Iteration 2 of 3", "Iteration 3 of 3"), "garbled"),
        (EXECUTIONS.replace("Iteration 2 of 3", "Iteration two"), "garbled"),
        (EXECUTIONS.replace("12.000001", "120.000001"), "garbled"),
        (LOGCAT.replace("10 time(s)", "0 time(s)"), "garbled"),
        (LOGCAT.replace("53.125000", "-nan"), "garbled"),
    ],
)
def test_executions_that_contradict_each_other_are_refused(text: str, kind: str) -> None:
    assert _kind(parse_executor_runner, text) == kind


def test_onnx_runtime_s_tool_tells_a_mean_a_median_and_in_its_file_every_iteration() -> None:
    summary = read_summary(PERF_TEST)
    assert summary.log == parse_perf_test(PERF_TEST) == ToolLog("onnxruntime_perf_test", 98.961997, 5, (), 99.5086)
    assert (summary.load_ns, summary.first_inference_ns, summary.peak_bytes) == (217_932_000, 196_000_000, 271_122_432)
    assert summary.threads == 2
    older = PERF_TEST.replace("cost total", "cost").replace("First inference time cost: 196 ms", "")
    assert read_summary(older).first_inference_ns is None
    assert read_summary(PERF_TEST.replace(" 196 ms", " 0 ms")).first_inference_ns is None
    assert read_results(RESULTS) == parse_perf_test(RESULTS).samples_ns == (95_820_400, 99_509, 101_519_000)
    with_statistics = RESULTS + "\nMin Latency: 0.0958204 s\n"  # `-s`
    assert read_results(with_statistics) == read_results(RESULTS)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "no_report"),
        (PERF_TEST.replace("98.961997", "9.8961997"), "garbled"),
        (PERF_TEST.replace("requests: 5", "requests: 0"), "garbled"),
        (PERF_TEST.replace("0.49481 s", "inf s"), "garbled"),
        (PERF_TEST.replace("Session creation", ""), "no_report"),
        (PERF_TEST.replace("98.961997 ms", "98.9"), "truncated"),
        (RESULTS + RESULTS, "garbled"),
        (RESULTS.replace("11,1\n", "11,7\n"), "garbled"),
        (RESULTS.replace("0.101519", "0"), "garbled"),
    ],
)
def test_inferences_that_contradict_each_other_are_refused(text: str, kind: str) -> None:
    assert _kind(parse_perf_test, text) == kind


@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse_speed_benchmark, WITH_SAMPLES), (parse_testapp, IPHONE), (parse_executor_runner, EXECUTIONS)],
)
def test_a_log_that_was_cut_off_anywhere_is_refused_or_says_the_same(parse: Parse, text: str) -> None:
    whole = parse(text)
    last_digits = 4
    for end in range(len(text) - 1):
        try:
            log = parse(text[:end])
        except RunnerError:
            continue
        # Only the last digits of the rate may be missing: the mean before it is whole.
        assert log == whole
        assert end >= len(text) - 1 - last_digits


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_speed_benchmark, ANDROID),
        (parse_testapp, IPHONE),
        (parse_executor_runner, LOGCAT),
        (parse_perf_test, PERF_TEST),
    ],
)
def test_several_runs_in_one_file_are_refused(parse: Parse, text: str) -> None:
    assert _kind(parse, text + text) == "garbled"


def test_a_result_line_that_stands_twice_is_refused() -> None:
    assert _kind(parse_speed_benchmark, ANDROID + ANDROID.splitlines()[-1]) == "garbled"


def test_loading_times_are_not_taken_for_latencies() -> None:
    assert _kind(parse_speed_benchmark, LOAD_BENCHMARK) == "no_report"


@pytest.mark.parametrize(
    "mean", ["nan", "-nan", "inf", "0", "1e-9", "-121318", "1e400", "1e300", "12_1318", "١٢١٣١٨", "0x10"]
)
def test_what_is_no_measured_time_is_refused(mean: str) -> None:
    assert _kind(parse_speed_benchmark, ANDROID.replace("121318", mean)) == "garbled"
    assert _kind(parse_testapp, IPHONE.replace("28.767", mean)) == "garbled"
    assert _kind(parse_speed_benchmark, WITH_SAMPLES.replace("570505", mean)) == "garbled"


def test_figures_that_contradict_each_other_are_refused() -> None:
    assert _kind(parse_speed_benchmark, ANDROID.replace("8.24281", "9.5")) == "garbled"
    assert _kind(parse_testapp, IPHONE.replace("34.762", "39.1")) == "garbled"
    assert _kind(parse_speed_benchmark, WITH_SAMPLES.replace("599746", "5997460")) == "garbled"


@pytest.mark.parametrize(
    "line", ["{", "[1]", "{" * 900, '{"a": ' * 150, "9" * 900, '{"type": "NET", "metric": "latency"}']
)
def test_a_broken_observer_line_is_refused(line: str) -> None:
    text = WITH_SAMPLES.replace("Main run finished", f"PyTorchObserver {line}\nMain run finished")
    assert _kind(parse_speed_benchmark, text) == "garbled"


def test_samples_in_another_unit_are_refused() -> None:
    assert _kind(parse_speed_benchmark, WITH_SAMPLES.replace('"unit": "us"', '"unit": "ms"')) == "garbled"


def test_a_line_of_many_megabytes_is_passed_over_and_a_larger_log_refused() -> None:
    assert parse_speed_benchmark("x" * (MAX_CHARS - 1000) + "\n" + ANDROID).mean_ms == 121.318
    assert _kind(parse_speed_benchmark, "x" * MAX_CHARS + ANDROID) == "garbled"
    assert _kind(parse_testapp, "\x00" * 1_000_000) == "no_report"


@given(
    st.text(max_size=300),
    st.sampled_from([ANDROID, WITH_SAMPLES, IPHONE, EXECUTIONS, LOGCAT, PERF_TEST, RESULTS]),
    st.integers(0, 400),
)
def test_any_text_is_read_whole_or_refused(noise: str, text: str, at: int) -> None:
    for parse, _ in TOOLS.values():
        try:
            log = parse(text[:at] + noise + text[at:])
        except RunnerError:
            continue
        assert log.mean_ms > 0
        assert not log.samples_ns or log.iterations == len(log.samples_ns)
