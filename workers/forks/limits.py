"""The limits of a forked program, and the record of its end."""

from dataclasses import dataclass
from typing import Literal

Beyond = Literal["", "silent", "time", "processes", "memory", "output"]
"""The limit that the program exceeded and was ended for; empty if it ended by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one program; `None` is no limit."""

    seconds: float | None = None
    """The longest time (s) from the program's start."""
    silent_s: float | None = None
    """The longest time (s) without progress, since the program's start or the last step that it reported."""
    processes: int | None = None
    """The greatest number of processes: the program itself and all that it started."""
    memory_bytes: int | Literal["free"] | None = None
    """The most resident memory (bytes) of all processes of the program, beyond the memory that they share with the
    server. `free`: the memory that is free when the program starts, minus a share for all others."""
    output_bytes: int | None = None
    """The most bytes that all of the processes may print together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a program."""

    exit_code: int
    """The exit code; a negative one is a signal."""
    beyond: Beyond
    limit: float
    """The limit that the program exceeded, in the unit of that limit."""
    stdout: bytes
    stderr: bytes
