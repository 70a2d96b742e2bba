"""What PyTorch's own benchmark tools print, read as figures: `speed_benchmark_torch` (Android) and TestApp (iOS). Pure.

The formats are those of pytorch's `binaries/speed_benchmark_torch.cc` and `ios/TestApp/TestApp/Benchmark.mm`. Neither
tool says how many iterations its mean is over, unless `--report_pep=true` makes the first print every one. A log comes
from outside: what is not whole, or contradicts itself, is refused.
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
"""No line of the tools' own is so long; the outputs of a model may be."""
_MAX_US, _MAX_PER_SECOND = 86_400e6, 1e9
"""A day for one inference, and a nanosecond."""
_NUMBER = re.compile(r"[0-9]{1,40}(?:\.[0-9]{0,40})?(?:e[+-]?[0-9]{1,4})?", re.ASCII)
_NSLOG = re.compile(r"^[^\[\]]{0,100}\[[0-9]+:[0-9]+\] ", re.ASCII)
_OBSERVER = "PyTorchObserver "


@dataclass(frozen=True, slots=True)
class ToolLog:
    """One run of a tool, as its log tells it."""

    tool: str
    """`speed_benchmark_torch` or `TestApp`."""
    mean_ms: float
    iterations: int | None
    """`None` where the log does not say."""
    samples_ns: tuple[int, ...]
    """Every iteration in its order, each above 0; empty where the log has only their mean. The tool cuts them to whole
    microseconds and prints six digits."""


def parse_speed_benchmark(text: str) -> ToolLog:
    """The figures in the output of `speed_benchmark_torch`; other lines, as of `--print_output`, may stand around it.

    Raises `RunnerError`: `no_report` (it never came to its main runs), `truncated` (they did not end), `garbled`
    (several runs, a time that is none, or figures that contradict each other).
    """
    tool = SPEED_BENCHMARK
    lines = _main_runs(tool, _lines(tool, text), r"Main runs\.")
    end = r"Main run finished\. Microseconds per iter: (\S+)\. Iters per second: (\S+)"
    number, (mean, rate) = _only(tool, lines, "Main run finished. Microseconds per iter", end)
    mean_us, per_second = _positive(tool, mean, _MAX_US), _positive(tool, rate, _MAX_PER_SECOND)
    # Six digits of each; the one of the lite interpreter cuts the mean to whole microseconds.
    if abs(1e6 / per_second - mean_us) > 1 + 1e-3 * mean_us:
        raise _contradiction(tool, f"{mean} us per iteration", f"{rate} iterations a second")
    samples_us = [_sample_us(line) for line in lines[:number] if line.startswith(_OBSERVER)]
    found = tuple(round(1000 * us) for us in samples_us if us is not None)
    if found:
        average_us = sum(found) / len(found) / 1000
        # The mean covers all that the loop does, so it is the longer one.
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
    # An edition of it breaks the line of the mean in two.
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
    """What stands after the one line `start`: `load_benchmark_torch` ends as `speed_benchmark_torch` and has none."""
    starts = [number for number, line in enumerate(lines) if re.fullmatch(start, line)]
    if not starts:
        raise RunnerError("no_report", f'the log has no line "Main runs" of {tool}', _WHOLE)
    if len(starts) > 1:
        raise RunnerError("garbled", f"the log holds {len(starts)} runs of {tool}", "keep one run in each file")
    return lines[starts[0] + 1 :]


def _only(tool: str, lines: Sequence[str], what: str, pattern: str) -> tuple[int, tuple[str, ...]]:
    """Where the one line is that is as `pattern`, and its groups; `what` is it for people."""
    matches = [(number, match) for number, line in enumerate(lines) if (match := re.fullmatch(pattern, line))]
    if not matches:
        raise RunnerError("truncated", f'the log of {tool} has no whole line "{what}" after its main runs', _WHOLE)
    if len(matches) > 1:
        raise RunnerError(
            "garbled", f'the log of {tool} has {len(matches)} lines "{what}"', "keep one run in each file"
        )
    number, match = matches[0]
    return number, match.groups()


def _sample_us(line: str) -> float | None:
    """Of a line of `--report_pep`; `None` where it speaks of something else than the whole net's latency."""
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
    # Neither tool tells a thousandth of its units from nothing.
    if not 0.001 <= value <= most:
        raise RunnerError("garbled", f"the log of {tool} has the figure {text[:40]!r}: nothing was measured", _AGAIN)
    return value


def _contradiction(tool: str, one: str, other: str) -> RunnerError:
    return RunnerError("garbled", f"the log of {tool} says {one} and {other}, which cannot both be", _AGAIN)


_WHOLE = "give the whole output of one run, from its first line to its last"
_AGAIN = "run the tool again, with iterations, and keep its output as it is"
