"""Reads the output of PyTorch's own benchmark tools: `speed_benchmark_torch` (Android) and TestApp (iOS). Pure.

The formats are those of pytorch's `binaries/speed_benchmark_torch.cc` and `ios/TestApp/TestApp/Benchmark.mm`. Neither
tool reports the number of iterations behind its mean. With `--report_pep=true`, the first tool prints every iteration.
Logs come from outside: a log that is incomplete or contradicts itself is rejected.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.errors import RunnerError

SPEED_BENCHMARK, TESTAPP = "speed_benchmark_torch", "TestApp"

MAX_CHARS = 64_000_000
_MAX_LINE = 1000
"""Longer than any line of the tools themselves; only outputs of a model may be longer."""
_MAX_US, _MAX_PER_SECOND = 86_400e6, 1e9
"""The slowest inference takes a day, the fastest a nanosecond."""
_NUMBER = re.compile(r"[0-9]{1,40}(?:\.[0-9]{0,40})?(?:e[+-]?[0-9]{1,4})?", re.ASCII)
_NSLOG = re.compile(r"^[^\[\]]{0,100}\[[0-9]+:[0-9]+\] ", re.ASCII)
_OBSERVER = "PyTorchObserver "


@dataclass(frozen=True, slots=True)
class ToolLog:
    """The figures in the log of one run of a tool."""

    tool: str
    """`speed_benchmark_torch` or `TestApp`."""
    mean_ms: float
    iterations: int | None
    """`None` if the log does not contain it."""
    samples_ns: tuple[int, ...]
    """Every iteration in its order, each above 0; empty if the log has only the mean. The tool truncates them to whole
    microseconds and prints six digits."""


def parse_speed_benchmark(text: str) -> ToolLog:
    """The figures in the output of `speed_benchmark_torch`. Other lines, such as `--print_output`'s, are ignored.

    Raises `RunnerError`: `no_report` (the main runs did not start), `truncated` (they did not end), `garbled` (several
    runs, an invalid time, or figures that contradict each other).
    """
    tool = SPEED_BENCHMARK
    lines = _main_runs(tool, _lines(tool, text), r"Main runs\.")
    end = r"Main run finished\. Microseconds per iter: (\S+)\. Iters per second: (\S+)"
    number, (mean, rate) = _only(tool, lines, "Main run finished. Microseconds per iter", end)
    mean_us, per_second = _positive(tool, mean, _MAX_US), _positive(tool, rate, _MAX_PER_SECOND)
    # Each has six digits; the lite interpreter's tool truncates the mean to whole microseconds.
    if abs(1e6 / per_second - mean_us) > 1 + 1e-3 * mean_us:
        raise _contradiction(tool, f"{mean} us per iteration", f"{rate} iterations a second")
    samples_us = [_sample_us(line) for line in lines[:number] if line.startswith(_OBSERVER)]
    found = tuple(round(1000 * us) for us in samples_us if us is not None)
    if found:
        average_us = sum(found) / len(found) / 1000
        # The mean covers the whole loop, so it is longer than the samples.
        if not mean_us / 2 - 1 <= average_us <= mean_us + 1 + 1e-3 * mean_us:
            raise _contradiction(tool, f"{mean} us per iteration", f"a mean of {average_us:.6g} us over its samples")
    return ToolLog(tool, mean_us / 1000, len(found) or None, found)


def parse_testapp(text: str) -> ToolLog:
    """The figures in the log of the iOS TestApp, as the console (`TestApp[pid:thread] ...`) or its screen shows it.

    Raises `RunnerError` as `parse_speed_benchmark` does.
    """
    tool = TESTAPP
    said = [_NSLOG.sub("", line) for line in _lines(tool, text)]
    lines = _main_runs(tool, said, r"Main runs(\.\.\.)?")
    # One version of the app prints the mean on two lines.
    _, (mean,) = _only(tool, lines, "Milliseconds per iter", r"(?:Main run finished\. )?Milliseconds per iter: (\S+)")
    _, (rate,) = _only(tool, lines, "Iters per second", r"Iters per second: (?:: )?(\S+)")
    _only(tool, lines, "Done.", r"Done\.")
    mean_ms, per_second = _positive(tool, mean, _MAX_US / 1000), _positive(tool, rate, _MAX_PER_SECOND)
    # Both are rounded to three decimals.
    if abs(mean_ms * per_second - 1000) > 1 + 0.0006 * (mean_ms + per_second):
        raise _contradiction(tool, f"{mean} ms per iteration", f"{rate} iterations a second")
    return ToolLog(tool, mean_ms, None, ())


def _lines(tool: str, text: str) -> list[str]:
    if len(text) > MAX_CHARS:
        raise RunnerError("garbled", f"the log of {tool} has {len(text)} characters; at most {MAX_CHARS} are read")
    return [line.strip(" \t\r") for line in text.split("\n") if len(line) <= _MAX_LINE]


def _main_runs(tool: str, lines: Sequence[str], start: str) -> Sequence[str]:
    """The lines after the only line `start`. Logs of `load_benchmark_torch` end in the same way, but lack this line."""
    starts = [number for number, line in enumerate(lines) if re.fullmatch(start, line)]
    if not starts:
        raise RunnerError("no_report", f'the log has no line "Main runs" of {tool}', _WHOLE)
    if len(starts) > 1:
        raise RunnerError("garbled", f"the log holds {len(starts)} runs of {tool}", "keep one run in each file")
    return lines[starts[0] + 1 :]


def _only(tool: str, lines: Sequence[str], what: str, pattern: str) -> tuple[int, tuple[str, ...]]:
    """The number of the only line that matches `pattern`, and its groups. `what`: that line, for people."""
    matches = [(number, match) for number, line in enumerate(lines) if (match := re.fullmatch(pattern, line))]
    if not matches:
        raise RunnerError("truncated", f'the log of {tool} has no complete line "{what}" after its main runs', _WHOLE)
    if len(matches) > 1:
        raise RunnerError(
            "garbled", f'the log of {tool} has {len(matches)} lines "{what}"', "keep one run in each file"
        )
    number, match = matches[0]
    return number, match.groups()


def _sample_us(line: str) -> float | None:
    """The latency in a line of `--report_pep`; `None` if the line is not about the latency of the whole net."""
    try:
        entry = json.loads(line.removeprefix(_OBSERVER))
    except (ValueError, RecursionError) as error:
        raise RunnerError("garbled", f"a line of --report_pep is not JSON: {line[:80]!r}", _WHOLE) from error
    if not isinstance(entry, dict):
        raise RunnerError("garbled", f"a line of --report_pep is no JSON object: {line[:80]!r}", _WHOLE)
    if (entry.get("type"), entry.get("metric")) != ("NET", "latency"):
        return None
    if entry.get("unit") != "us":
        raise RunnerError("garbled", f"a sample is not in microseconds: {line[:80]!r}", _WHOLE)
    return _positive(SPEED_BENCHMARK, str(entry.get("value")), _MAX_US)


def _positive(tool: str, text: str, most: float) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    # Both tools print less than a thousandth of their units as 0.
    if not 0.001 <= value <= most:
        raise RunnerError("garbled", f"the log of {tool} has the figure {text[:40]!r}: nothing was measured", _AGAIN)
    return value


def _contradiction(tool: str, one: str, other: str) -> RunnerError:
    return RunnerError("garbled", f"the log of {tool} says {one} and {other}, which cannot both be true", _AGAIN)


_WHOLE = "give the complete output of one run, from its first line to its last"
_AGAIN = "run the tool again, with iterations, and keep its output as it is"
