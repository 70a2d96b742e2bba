"""The figures in a log, and what all logs are read with."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.errors import RunnerError

MAX_CHARS = 64_000_000
MAX_SECONDS, MAX_PER_SECOND = 86_400.0, 1e9
"""The slowest inference takes a day, the fastest a nanosecond."""
WHOLE = "give the complete output of one run, from its first line to its last"
AGAIN = "run the tool again, with iterations, and keep its output as it is"
ONE_RUN = "keep one run in each file"
_MAX_LINE = 1000
"""Longer than any line of the tools themselves; only outputs of a model may be longer."""
_NUMBER = re.compile(r"[0-9]{1,40}(?:\.[0-9]{0,40})?(?:e[+-]?[0-9]{1,4})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ToolLog:
    """The figures in the log of one run of a tool."""

    tool: str
    mean_ms: float
    iterations: int | None
    """`None` if the log does not contain it."""
    samples_ns: tuple[int, ...] = ()
    """Every iteration in its order, each above 0, as exact as the tool prints it; empty if the log has only the mean.
    """
    p50_ms: float | None = None
    """As the tool prints it, where it prints it and no iterations."""


def lines_of(tool: str, text: str) -> list[str]:
    """Without white space at their ends, and without overlong ones. Raises `RunnerError`."""
    if len(text) > MAX_CHARS:
        raise RunnerError("garbled", f"the log of {tool} has {len(text)} characters; at most {MAX_CHARS} are read")
    return [line.strip(" \t\r") for line in text.split("\n") if len(line) <= _MAX_LINE]


def only(tool: str, lines: Sequence[str], what: str, pattern: str) -> tuple[int, tuple[str, ...]]:
    """The number of the only line that matches `pattern`, and its groups. `what`: that line, for people.

    Raises `RunnerError`: `truncated` or `garbled`.
    """
    matches = [(number, match) for number, line in enumerate(lines) if (match := re.fullmatch(pattern, line))]
    if not matches:
        raise RunnerError("truncated", f'the log of {tool} has no complete line "{what}"', WHOLE)
    if len(matches) > 1:
        raise RunnerError("garbled", f'the log of {tool} has {len(matches)} lines "{what}"', ONE_RUN)
    number, match = matches[0]
    return number, match.groups()


def positive(tool: str, text: str, most: float, least: float = 0.0) -> float:
    """A figure above 0, at least `least`. Raises `RunnerError("garbled")`."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not (0 < value <= most and value >= least):
        raise RunnerError("garbled", f"the log of {tool} has the figure {text[:40]!r}: nothing was measured", AGAIN)
    return value


def contradiction(tool: str, one: str, other: str) -> RunnerError:
    return RunnerError("garbled", f"the log of {tool} says {one} and {other}, which cannot both be true", AGAIN)
