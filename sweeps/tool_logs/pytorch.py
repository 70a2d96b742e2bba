"""The parsers of the output of PyTorch Mobile's tools: `speed_benchmark_torch` (Android) and TestApp (iOS).

The formats are those of pytorch's `binaries/speed_benchmark_torch.cc` and `ios/TestApp/TestApp/Benchmark.mm`. Neither
tool reports the number of iterations behind its mean. With `--report_pep=true`, the first tool prints every iteration,
in whole microseconds and with at most six digits.
"""

import json
import re
from collections.abc import Sequence

from sweeps.errors import RunnerError
from sweeps.tool_logs.log import (
    MAX_PER_SECOND,
    MAX_SECONDS,
    ONE_RUN,
    WHOLE,
    ToolLog,
    contradiction,
    lines_of,
    only,
    positive,
    without_figures,
)

SPEED_BENCHMARK, TESTAPP = "speed_benchmark_torch", "TestApp"

_LEAST = 0.001
"""The smallest figure: both tools print less than a thousandth of their unit as 0."""
_NSLOG = re.compile(r"^[^\[\]]{0,100}\[[0-9]+:[0-9]+\] ", re.ASCII)
_OBSERVER = "PyTorchObserver "


def parse_speed_benchmark(text: str) -> ToolLog:
    """Return the figures in the output of `speed_benchmark_torch`. Other lines, such as `--print_output`'s, are
    ignored.

    Raises `RunnerError`: `no_report` (the main runs did not start), `crashed`, `truncated` (they did not end),
    `garbled` (several runs, an invalid time, or figures that contradict each other).
    """
    tool = SPEED_BENCHMARK
    lines = _main_runs(tool, lines_of(tool, text), r"Main runs\.")
    end = r"Main run finished\. Microseconds per iter: (\S+)\. Iters per second: (\S+)"
    number, (mean, rate) = only(tool, lines, "Main run finished. Microseconds per iter", end)
    mean_us, per_second = _us(mean), positive(tool, rate, MAX_PER_SECOND, _LEAST)
    # Each figure has six digits; the lite interpreter's tool truncates the mean to whole microseconds.
    if abs(1e6 / per_second - mean_us) > 1 + 1e-3 * mean_us:
        raise contradiction(tool, f"{mean} us per iteration", f"{rate} iterations a second")
    samples_us = [_sample_us(line) for line in lines[:number] if line.startswith(_OBSERVER)]
    samples_ns = tuple(round(1000 * us) for us in samples_us if us is not None)
    if samples_ns:
        average_us = sum(samples_ns) / len(samples_ns) / 1000
        # The mean covers the whole loop, so it is longer than the samples.
        if not mean_us / 2 - 1 <= average_us <= mean_us + 1 + 1e-3 * mean_us:
            raise contradiction(tool, f"{mean} us per iteration", f"a mean of {average_us:.6g} us over its samples")
    return ToolLog(tool, mean_us / 1000, len(samples_ns) or None, samples_ns)


def parse_testapp(text: str) -> ToolLog:
    """Return the figures in the log of the iOS TestApp, as the console (`TestApp[pid:thread] ...`) or its screen shows
    it.

    Raises `RunnerError` as `parse_speed_benchmark` does.
    """
    tool = TESTAPP
    messages = [_NSLOG.sub("", line) for line in lines_of(tool, text)]
    lines = _main_runs(tool, messages, r"Main runs(\.\.\.)?")
    # One version of the app prints the mean on two lines.
    _, (mean,) = only(tool, lines, "Milliseconds per iter", r"(?:Main run finished\. )?Milliseconds per iter: (\S+)")
    _, (rate,) = only(tool, lines, "Iters per second", r"Iters per second: (?:: )?(\S+)")
    only(tool, lines, "Done.", r"Done\.")
    mean_ms = positive(tool, mean, 1e3 * MAX_SECONDS, _LEAST)
    per_second = positive(tool, rate, MAX_PER_SECOND, _LEAST)
    # Both are rounded to three decimals.
    if abs(mean_ms * per_second - 1000) > 1 + 0.0006 * (mean_ms + per_second):
        raise contradiction(tool, f"{mean} ms per iteration", f"{rate} iterations a second")
    return ToolLog(tool, mean_ms, None)


def _main_runs(tool: str, lines: Sequence[str], start: str) -> Sequence[str]:
    """Return the lines after the only line that matches `start`. Logs of `load_benchmark_torch` end in the same way,
    but lack this line."""
    starts = [number for number, line in enumerate(lines) if re.fullmatch(start, line)]
    if not starts:
        raise without_figures(tool, lines, "no_report", f'the log has no line "Main runs" of {tool}')
    if len(starts) > 1:
        raise RunnerError("garbled", f"the log holds {len(starts)} runs of {tool}", ONE_RUN)
    return lines[starts[0] + 1 :]


def _sample_us(line: str) -> float | None:
    """Return the latency (µs) in a line of `--report_pep`; `None` if the line is not about the latency of the whole
    net."""
    try:
        entry = json.loads(line.removeprefix(_OBSERVER))
    except (ValueError, RecursionError) as error:
        raise RunnerError("garbled", f"a line of --report_pep is not JSON: {line[:80]!r}", WHOLE) from error
    if not isinstance(entry, dict):
        raise RunnerError("garbled", f"a line of --report_pep is no JSON object: {line[:80]!r}", WHOLE)
    if (entry.get("type"), entry.get("metric")) != ("NET", "latency"):
        return None
    if entry.get("unit") != "us":
        raise RunnerError("garbled", f"a sample is not in microseconds: {line[:80]!r}", WHOLE)
    return _us(str(entry.get("value")))


def _us(text: str) -> float:
    return positive(SPEED_BENCHMARK, text, 1e6 * MAX_SECONDS, _LEAST)
