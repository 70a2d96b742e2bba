"""Limits of a forked program, and its end."""

from dataclasses import dataclass
from typing import Literal

Beyond = Literal["", "silent", "time", "processes", "memory", "output"]
"""The limit for which a program was ended; empty if it ended by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one program; `None` is no limit."""

    seconds: float | None = None
    """The seconds from the program's start."""
    silent_s: float | None = None
    """The seconds since the program's start, or since it last told its progress."""
    processes: int | None = None
    """The number of processes with those that it started."""
    memory_bytes: int | Literal["free"] | None = None
    """The resident memory of all processes of the program, beyond what they share with the server. `free`: what is free
    as it starts, less a share for everybody else."""
    output_bytes: int | None = None
    """The bytes that all of the processes print."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a program."""

    exit_code: int
    """The exit code; a negative one is a signal."""
    beyond: Beyond
    limit: float
    """The limit that it went beyond, in its unit."""
    stdout: bytes
    stderr: bytes
