"""The seam between EdgeSweep and something that measures. A device knows a transport and no runtime."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError


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
    """Of the battery where `temp_is_battery`, else of the hottest thermal zone."""
    temp_is_battery: bool = False
    thermal_status: int | None = None
    """Android's, from 0 (none) to 6 (shutdown)."""
    has_battery: bool = False
    battery_percent: float | None = None
    competing: tuple[str, ...] = ()
    """Other benchmarks that run on the device now, one line each."""
    steal_seconds: float | None = None
    """CPU time, over all CPUs together, that the hypervisor gave to other machines; only grows."""
    cpu_mhz: float | None = None
    load: float | None = None
    """Share of the device's CPU time (0 to 1) that other programs took over a short moment."""
    throttle_count: int | None = None
    """Grows whenever the device throttles."""


class Device(Protocol):
    """One phone, board or host CPU."""

    def facts(self) -> DeviceFacts: ...

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        """Run a program to its end. Raises `DeviceError("timeout", ...)` after `deadline_s`, the program ended."""
        ...

    def take_lease(self) -> None:
        """Let no other process of this host measure on it, until `release()` or the end of this process.

        This host itself has no lease: others are seen by their load. Raises `DeviceError("leased", ...)` at once
        where another one has it.
        """
        ...

    def release(self) -> None: ...

    def end_orphans(self) -> tuple[str, ...]:
        """End what an earlier driver left running there; returns it, one line each. For who holds the lease.

        Raises `DeviceError("orphan", ...)` where something does not end.
        """
        ...

    def push(self, source: Path, name: str, *, sha256: str | None = None) -> str:
        """Copy a file to the device's run folder under `name`; returns its path there. Whole or not at all.

        `sha256`: of the file, in lower-case hex, where the caller knows it: it is not read once more for that.

        Raises `DeviceError`: `bad_name` where `name` is no plain file name, `no_space`, `os_error`.
        """
        ...

    def pull(self, path: str, target: Path) -> None:
        """Copy a file of the device here. Raises `DeviceError("no_output", ...)` where there is none."""
        ...

    def remove(self, path: str) -> None:
        """Delete one file in the device's run folder; a missing one is fine. Raises `bad_name` for one elsewhere."""
        ...

    def sensors(self, *, load: bool = True) -> Sensors:
        """Without `load`, which takes a short moment to see, that of others is `None`."""
        ...

    def now_s(self) -> float:
        """The device's own monotonic clock; a simulated device has a simulated one."""
        ...

    def rest(self, seconds: float) -> None:
        """Leave the device alone for so long."""
        ...

    def set_fixed_performance(self, on: bool) -> bool:
        """Switch the mode in which the device keeps a speed that it can hold. `False` where it has none, or refuses.

        Off where it is off already is fine. Raises `DeviceError` where the device did not answer.
        """
        ...


class Discovery(Protocol):
    """A module that finds the units of one transport that hang on this host."""

    NEXT_STEP: str
    """What to do where there is none."""

    def attached(self) -> tuple[list[str], list[DeviceError]]:
        """Those that can be measured on, as sweep files name them, each once; and why others cannot."""
        ...

    def are_one(self, name: str, other: str, folder: Path) -> bool:
        """Whether two names, whose facts tell the same unit, really are one. Raises `DeviceError`."""
        ...

    def clean(self, name: str) -> None:
        """Delete all of EdgeSweep's files there. Raises `DeviceError`."""
        ...
