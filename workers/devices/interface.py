"""The seam between EdgeSweep and something that measures. A device knows a transport and no runtime."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sweeps.records import DeviceFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A program that ended on the device. A negative `exit_code` is the signal that ended it."""

    exit_code: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensors:
    """What the device can tell of its state now; `None` where it has no such sensor."""

    temp_c: float | None = None
    cpu_mhz: float | None = None
    load: float | None = None
    """Share of the device's CPU time (0 to 1) in use over a short moment."""
    throttle_count: int | None = None
    """Grows whenever the device throttles."""


class Device(Protocol):
    """One phone, board or host CPU."""

    def facts(self) -> DeviceFacts: ...

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        """Run a program to its end. Raises `DeviceError("timeout", ...)` after `deadline_s`, the program ended."""
        ...

    def push(self, source: Path, name: str) -> str:
        """Copy a file to the device's run folder under `name`; returns its path there. Whole or not at all."""
        ...

    def pull(self, path: str, target: Path) -> None:
        """Copy a file of the device here. Raises `DeviceError("no_output", ...)` where there is none."""
        ...

    def remove(self, path: str) -> None:
        """Delete one file in the device's run folder; a missing one is fine."""
        ...

    def sensors(self) -> Sensors: ...
