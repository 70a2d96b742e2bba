"""What a forked program may use, and how it ended."""

from dataclasses import dataclass
from typing import Literal

Beyond = Literal["", "silent", "time", "processes", "memory", "output"]
"""The limit for which a program was ended; empty if it ended by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`None`: no limit."""

    seconds: float | None = None
    """From its start."""
    silent_s: float | None = None
    """Since its start, or since it last told its progress."""
    processes: int | None = None
    """With those that it started."""
    memory_bytes: int | Literal["free"] | None = None
    """Resident memory of all of them, beyond what they share with the server. `free`: what is free as it starts, less a
    share for everybody else."""
    output_bytes: int | None = None
    """Printed, by all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended."""

    exit_code: int
    """Negative: the signal."""
    beyond: Beyond
    limit: float
    """The limit that it went beyond, in its unit."""
    stdout: bytes
    stderr: bytes
