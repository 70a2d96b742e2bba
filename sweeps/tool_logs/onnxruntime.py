"""The parser of the output of ONNX Runtime's `onnxruntime_perf_test`, and of the results file that it can write.

The formats are those of onnxruntime's `onnxruntime/test/perftest/performance_runner.cc`, and of logs from newer
releases; old releases print no space after a colon. Figures have six digits. The printed summary has no single
iterations; the file has each, in seconds: `model,seconds,peak,cpu,number`. The first inference is printed separately,
in whole milliseconds.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.errors import RunnerError
from sweeps.tool_logs.log import (
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

PERF_TEST = "onnxruntime_perf_test"

_REQUESTS = r"Total inference requests: ?([0-9]{1,9})"
_CREATED = r"Session creation time cost: ?(\S{1,40}) s"
_ROW = re.compile(r".*,([^,]{1,40}),([0-9]{1,18}),(-?[0-9]{1,6}),([0-9]{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The figures that the tool prints."""

    log: ToolLog
    load_ns: int
    """The time of creating the session, which includes optimizing the graph."""
    first_inference_ns: int | None
    """The time of the first inference; `None` if it was shorter than the millisecond in which the tool counts, or is
    not printed."""
    peak_bytes: int | None
    threads: int | None
    """The requested number of threads."""


def parse_perf_test(text: str) -> ToolLog:
    """Return the figures of a printed summary, or of a results file.

    Raises `RunnerError`: `no_report` (it is neither), `crashed`, `truncated`, `garbled` (several runs, an invalid time,
    or figures that contradict each other).
    """
    lines = lines_of(PERF_TEST, text)
    if any(re.fullmatch(_REQUESTS, line) for line in lines):
        return read_summary(text).log
    if not any(map(_ROW.fullmatch, lines)):
        message = f"the log has neither a summary of {PERF_TEST} nor rows of its file of results"
        raise without_figures(PERF_TEST, lines, "no_report", message)
    samples_ns = read_results(text)
    return ToolLog(PERF_TEST, sum(samples_ns) / len(samples_ns) / 1e6, len(samples_ns), samples_ns)


def read_summary(text: str) -> Summary:
    """Return the figures that the tool prints, without single iterations. Raises `RunnerError` as `parse_perf_test`
    does."""
    tool = PERF_TEST
    lines = lines_of(tool, text)
    if not any(line.startswith("Session creation time cost:") for line in lines):
        message = f'the log has no line "Session creation time cost" of {tool}'
        raise without_figures(tool, lines, "no_report", message)
    _, (load,) = only(tool, lines, "Session creation time cost", _CREATED)
    _, (count,) = only(tool, lines, "Total inference requests", _REQUESTS)
    _, (total,) = only(tool, lines, "Total inference time cost", r"Total inference time cost: ?(\S{1,40}) s")
    average = r"Average inference time cost(?: total)?: ?(\S{1,40}) ms"
    _, (mean,) = only(tool, lines, "Average inference time cost", average)
    mean_ms, total_s = positive(tool, mean, 1e3 * MAX_SECONDS), positive(tool, total, 1e9 * MAX_SECONDS)
    iterations = int(count)
    # Each figure has six digits.
    if abs(1e3 * total_s - iterations * mean_ms) > 1e-4 * 1e3 * total_s + 1e-6 * iterations:
        raise contradiction(tool, f"{total} s for {count} inferences", f"{mean} ms for each")
    p50 = _figure(lines, r"P50 Latency: ?(\S{1,40}) s")
    first = _figure(lines, r"First inference time cost: ?([0-9]{1,12}) ms")
    peak = _figure(lines, r"Peak working set size: ?([0-9]{1,18}) bytes")
    threads = _figure(lines, r"Setting intra_op_num_threads to ([0-9]{1,6})")
    return Summary(
        log=ToolLog(tool, mean_ms, iterations, (), None if p50 is None else 1e3 * positive(tool, p50, MAX_SECONDS)),
        load_ns=round(1e9 * positive(tool, load, MAX_SECONDS)),
        first_inference_ns=int(first) * 1_000_000 if first and int(first) else None,
        peak_bytes=int(peak) if peak and int(peak) else None,
        threads=int(threads) if threads else None,
    )


def read_results(text: str) -> tuple[int, ...]:
    """Return every iteration of a results file, in nanoseconds. Raises `RunnerError("garbled")`."""
    rows = [match for line in lines_of(PERF_TEST, text) if (match := _ROW.fullmatch(line))]
    numbers = [int(row[4]) for row in rows]
    if numbers.count(0) > 1:
        # If the file exists, the tool appends to it.
        raise RunnerError("garbled", f"the file holds {numbers.count(0)} runs of {PERF_TEST}", ONE_RUN)
    if not rows or numbers != list(range(len(rows))):
        raise RunnerError("garbled", f"the rows of {PERF_TEST}'s file of results do not follow each other", WHOLE)
    return tuple(max(1, round(1e9 * positive(PERF_TEST, row[1], MAX_SECONDS))) for row in rows)


def _figure(lines: Sequence[str], pattern: str) -> str | None:
    return next((match[1] for line in lines if (match := re.fullmatch(pattern, line))), None)
