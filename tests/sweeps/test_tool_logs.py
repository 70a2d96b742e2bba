"""Transcripts of PyTorch's own benchmark tools, as their sources print and as the recipes show them."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.errors import RunnerError
from sweeps.tool_logs import MAX_CHARS, ToolLog, parse_speed_benchmark, parse_testapp

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


def _kind(parse: Parse, text: str) -> str:
    with pytest.raises(RunnerError) as caught:
        parse(text)
    assert caught.value.message
    assert caught.value.next_step or "characters" in caught.value.message
    return caught.value.kind


def test_the_android_tool_s_mean_is_read_and_its_iterations_are_not_guessed() -> None:
    assert parse_speed_benchmark(ANDROID) == ToolLog("speed_benchmark_torch", 121.318, None, ())


def test_report_pep_gives_every_sample() -> None:
    found = parse_speed_benchmark(WITH_SAMPLES)
    assert found.samples_ns == (599_746_000, 570_505_000, 583_396_000)
    assert (found.iterations, found.mean_ms) == (3, 584.558)


def test_samples_are_read_as_numbers_too_and_with_an_exponent() -> None:
    text = ANDROID.replace("121318. Iters per second: 8.24281", "1.23457e+06. Iters per second: 0.81")
    lines = 'PyTorchObserver {"type": "NET", "unit": "us", "metric": "latency", "value": 1.23457e+06}\n'
    found = parse_speed_benchmark(text.replace("Main run finished", f"{lines}Main run finished"))
    assert found.samples_ns == (1_234_570_000,)
    assert found.mean_ms == pytest.approx(1234.57)


def test_observers_of_single_operators_are_no_samples() -> None:
    line = 'PyTorchObserver {"type": "conv2d", "unit": "us", "metric": "op_latency", "value": "17"}\n'
    found = parse_speed_benchmark(WITH_SAMPLES.replace("Main run finished", f"{line}Main run finished"))
    assert found.iterations == 3


def test_windows_line_ends_and_printed_outputs_around_it_do_no_harm() -> None:
    text = ("-0.1  0.2\n[ CPUFloatType{1,2} ]\n" + WITH_SAMPLES + "$ exit\n").replace("\n", "\r\n")
    assert parse_speed_benchmark(text) == parse_speed_benchmark(WITH_SAMPLES)


def test_the_lite_interpreter_s_whole_microseconds_agree_with_its_rate() -> None:
    text = ANDROID.replace("121318. Iters per second: 8.24281", "17. Iters per second: 56104.8")
    assert parse_speed_benchmark(text).mean_ms == 0.017


def test_the_ios_tool_s_mean_is_read_from_the_console_and_from_the_screen() -> None:
    wanted = ToolLog("TestApp", 28.767, None, ())
    assert parse_testapp(IPHONE) == wanted
    assert parse_testapp(IPHONE.replace("TestApp[2121:722447] ", "")) == wanted
    assert parse_testapp(IPHONE.replace("TestApp[", "2020-05-27 11:20:34.567890-0700 TestApp[")) == wanted


def test_an_older_testapp_breaks_its_line() -> None:
    screen = """Running warmup runs...
Warmup runs finished.
Main runs...
Main run finished. \nMilliseconds per iter: 28.767
Iters per second: : 34.762
Done.
"""
    assert parse_testapp(screen).mean_ms == 28.767


@pytest.mark.parametrize(("parse", "text"), [(parse_speed_benchmark, WITH_SAMPLES), (parse_testapp, IPHONE)])
def test_a_log_that_was_cut_off_anywhere_is_refused_or_says_the_same(parse: Parse, text: str) -> None:
    whole = parse(text)
    last_digits = 4
    for end in range(len(text) - 1):
        try:
            found = parse(text[:end])
        except RunnerError:
            continue
        # Only the last digits of the rate may be missing: the mean before it is whole.
        assert found == whole
        assert end >= len(text) - 1 - last_digits


@pytest.mark.parametrize(("parse", "text"), [(parse_speed_benchmark, ANDROID), (parse_testapp, IPHONE)])
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


@given(st.text(max_size=300), st.sampled_from([ANDROID, WITH_SAMPLES, IPHONE]), st.integers(0, 400))
def test_any_text_is_read_whole_or_refused(noise: str, text: str, at: int) -> None:
    for parse in (parse_speed_benchmark, parse_testapp):
        try:
            found = parse(text[:at] + noise + text[at:])
        except RunnerError:
            continue
        assert found.mean_ms > 0
        assert found.iterations is None or found.iterations == len(found.samples_ns)
