"""The figures in a log, and the functions that all parsers of logs use."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.errors import RunnerError

MAX_CHARS = 64_000_000
MAX_SECONDS, MAX_PER_SECOND = 86_400.0, 1e9
"""The plausible range: one inference takes a day at most, and a nanosecond at least."""
WHOLE = "give the complete output of one run, from its first line to its last"
AGAIN = "run the tool again, with iterations, and keep its output as it is"
ONE_RUN = "keep one run in each file"
_MAX_SHOWN = 160
_MAX_LINE = 1000
"""The longest line (characters) that is parsed: the tools print no longer lines, only outputs of a model may be
longer."""
_CRASHES = (
    r"terminate called|libc\+\+abi: |Terminating app due to uncaught exception|terminating with uncaught exception",
    r"(?:.{0,200}: +)?(?:[0-9]{1,9} )?(?:Aborted|Segmentation fault|Bus error|Illegal instruction|Killed"
    r"|Floating point exception|Abort trap|Trace/BPT trap)\b",
    r".{0,200}Fatal signal [0-9]{1,3}\b",
    r"Traceback \(most recent call last\)",
    r"The following operation failed in the TorchScript interpreter",
    # The heads of fatal lines: of ExecuTorch's log, and of Android's.
    r"F [0-9:.]{8,20} |[0-9]{2}-[0-9]{2} [0-9:.]{8,20} +[0-9]{1,9} +[0-9]{1,9} F ",
    r".{0,200}\bfailed with status (?:code )?0x",
    r".{0,200}\[E:onnxruntime:|.{0,200}Non-zero status code returned|Load model from .{1,300} failed",
)
_CRASHED = re.compile("|".join(_CRASHES))
"""The beginning of a line with which a tool, its shell or its system reports that the run crashed."""
_NUMBER = re.compile(r"[0-9]{1,40}(?:\.[0-9]{0,40})?(?:e[+-]?[0-9]{1,4})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ToolLog:
    """The figures in the log of one run of a tool."""

    tool: str
    mean_ms: float
    iterations: int | None
    """The number of iterations; `None` if the log does not contain it."""
    samples_ns: tuple[int, ...] = ()
    """Every iteration in its order, each above 0, with the precision that the tool prints; empty if the log has only
    the mean.
    """
    p50_ms: float | None = None
    """The p50 that the tool prints, if it prints one but no iterations."""


def lines_of(tool: str, text: str) -> list[str]:
    """Return the lines of a log, without white space at their ends, and without overlong ones. Raises `RunnerError`."""
    if len(text) > MAX_CHARS:
        raise RunnerError("garbled", f"the log of {tool} has {len(text)} characters; at most {MAX_CHARS} are read")
    return [line.strip(" \t\r") for line in text.split("\n") if len(line) <= _MAX_LINE]


def only(tool: str, lines: Sequence[str], line_name: str, pattern: str) -> tuple[int, tuple[str, ...]]:
    """Return the number of the only line that matches `pattern`, and the groups of the match. `line_name`: the line's
    name for people.

    Raises `RunnerError`: `crashed`, `truncated` or `garbled`.
    """
    matches = [(number, match) for number, line in enumerate(lines) if (match := re.fullmatch(pattern, line))]
    if not matches:
        raise without_figures(tool, lines, "truncated", f'the log of {tool} has no complete line "{line_name}"')
    if len(matches) > 1:
        raise RunnerError("garbled", f'the log of {tool} has {len(matches)} lines "{line_name}"', ONE_RUN)
    number, match = matches[0]
    return number, match.groups()


def without_figures(tool: str, lines: Sequence[str], kind: str, message: str) -> RunnerError:
    """Return the error for a log that lacks a line which every finished run has: `crashed` if the log reports a crash,
    else `kind` and `message`.

    A crashed run has no further output, so asking for the complete output would not help.
    """
    last_words = next((line for line in lines if _CRASHED.match(line)), None)
    if last_words is None:
        return RunnerError(kind, message, WHOLE)
    return RunnerError(
        "crashed",
        f"{tool} did not finish this run: {last_words[:_MAX_SHOWN]!r}",
        "remove the cause that its log names, then run the tool again",
    )


def positive(tool: str, text: str, most: float, least: float = 0.0) -> float:
    """Return a figure as a number above 0, at least `least` and at most `most`. Raises `RunnerError("garbled")`."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not (0 < value <= most and value >= least):
        raise RunnerError("garbled", f"the log of {tool} has the figure {text[:40]!r}: nothing was measured", AGAIN)
    return value


def contradiction(tool: str, claim: str, other: str) -> RunnerError:
    return RunnerError("garbled", f"the log of {tool} says {claim} and {other}, which cannot both be true", AGAIN)
