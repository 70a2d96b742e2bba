"""The parser of the log of ExecuTorch's `executor_runner`.

The format is that of executorch's `examples/portable/executor_runner/executor_runner.cpp`. Its lines have a prefix of
the platform: `I 00:00:01.000000 executorch:executor_runner.cpp:412] ` on stderr of Linux, and no prefix or logcat's in
Android's log. All versions print the total time of all executions, newer ones also the time of each. The tool does not
separate warm-up: the first execution counts as one of the executions.
"""

import re
from dataclasses import dataclass

from sweeps.errors import RunnerError
from sweeps.tool_logs.log import MAX_SECONDS, WHOLE, ToolLog, contradiction, lines_of, only, positive, without_figures

EXECUTOR_RUNNER = "executor_runner"

_PREFIX = r"(?:.{0,200}(?:\] |: ))?"
_LOADED = re.compile(rf"{_PREFIX}Model file .+ is loaded\.")
_ITERATION = re.compile(rf"{_PREFIX}Iteration ([0-9]{{1,9}}) of ([0-9]{{1,9}}): (\S{{1,40}}) ms")
_END = rf"{_PREFIX}Model executed successfully ([0-9]{{1,9}}) time\(s\) in (\S{{1,40}}) ms\."
_UNTIMED = re.compile(rf"{_PREFIX}Model executed successfully\.?")
_LOAD = re.compile(rf"{_PREFIX}Model loaded in (\S{{1,40}}) ms\.")
_THREADS = re.compile(rf"{_PREFIX}Resetting threadpool with num threads = ([0-9]{{1,6}})")
_MAX_MS = 1e3 * MAX_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Executions:
    """The figures in the log of one run."""

    log: ToolLog
    load_ns: int | None
    """The time from before the file is read until its method is loaded; older versions do not print it."""
    threads: int | None
    """The requested number of threads, if the tool was compiled with a thread pool."""


def parse_executor_runner(text: str) -> ToolLog:
    """Return the figures of a log, parsed by `read_executions`."""
    return read_executions(text).log


def read_executions(text: str) -> Executions:
    """Return the executions that the tool logged, on stderr or in Android's log.

    Raises `RunnerError`: `no_report` (no model was loaded), `not_timed` (the tool's version prints no times),
    `crashed`, `truncated` (the executions did not end), `garbled` (several runs, an invalid time, or figures that
    contradict each other).
    """
    tool = EXECUTOR_RUNNER
    lines = lines_of(tool, text)
    if not any(_LOADED.fullmatch(line) for line in lines):
        raise without_figures(
            tool,
            lines,
            "no_report",
            f'the log has no line "Model file ... is loaded." of {tool}: '
            "it was compiled without EXECUTORCH_ENABLE_LOGGING, or logs elsewhere",
        )
    if any(_UNTIMED.fullmatch(line) for line in lines):
        raise RunnerError(
            "not_timed",
            f"this run of {tool} ended well, and its version tells no times",
            "use the tool of ExecuTorch 1.0 or newer, with --num_executions=50",
        )
    _, (count, total) = only(tool, lines, "Model executed successfully ... time(s) in ... ms.", _END)
    iterations = int(count)
    total_ms = positive(tool, total, _MAX_MS * max(iterations, 1))
    if not iterations:
        raise contradiction(tool, "no execution", f"{total} ms for it")
    matches = [match for line in lines if (match := _ITERATION.fullmatch(line))]
    samples_ns = tuple(round(1e6 * positive(tool, match[3], _MAX_MS)) for match in matches)
    if matches:
        # Lines are counted first: the log may claim any number of iterations.
        numbers = [(int(match[1]), int(match[2])) for match in matches]
        if len(matches) != iterations or numbers != [(number, iterations) for number in range(1, iterations + 1)]:
            raise RunnerError("garbled", f"the log of {tool} has {len(matches)} iterations of {iterations}", WHOLE)
        # Each time is printed with a resolution of one nanosecond.
        if abs(sum(samples_ns) / 1e6 - total_ms) > 1e-6 * (iterations + 1) + 1e-6 * total_ms:
            raise contradiction(tool, f"{total} ms in all", f"{sum(samples_ns) / 1e6:.6f} ms over its iterations")
    load = [match[1] for line in lines if (match := _LOAD.fullmatch(line))]
    threads = [int(match[1]) for line in lines if (match := _THREADS.fullmatch(line))]
    return Executions(
        log=ToolLog(tool, total_ms / iterations, iterations, samples_ns),
        load_ns=round(1e6 * positive(tool, load[0], _MAX_MS)) if load else None,
        threads=threads[0] if threads else None,
    )
