"""The interface of devices, on which programs are measured. A device knows its transport and no runtime."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The result of a program that has ended on the device. A negative `exit_code` is the signal that ended it."""

    exit_code: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensors:
    """The present readings of a device's sensors; `None` for a sensor that the device lacks."""

    temp_c: float | None = None
    """The temperature (°C) of the battery if `temp_is_battery`, otherwise of the hottest thermal zone."""
    temp_is_battery: bool = False
    thermal_status: int | None = None
    """Android's thermal status, from 0 (none) to 6 (shutdown)."""
    has_battery: bool = False
    battery_percent: float | None = None
    competing: tuple[str, ...] = ()
    """Other benchmarks that run on the device now, one line each."""
    shared: bool = False
    """Tells whether the device is a computer that people also work on: another benchmark on it then counts as load,
    like other programs."""
    steal_seconds: float | None = None
    """The total CPU time of all CPUs that the hypervisor gave to other machines (s). A counter: it only grows."""
    cpu_mhz: float | None = None
    load: float | None = None
    """The share of the device's CPU time (0 to 1) that other programs used in a short window."""
    throttle_count: int | None = None
    """A counter that grows whenever the device throttles."""


class Device(Protocol):
    """One phone, board or host CPU."""

    def facts(self) -> DeviceFacts: ...

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        """Run a program to its end. After `deadline_s` the program is killed, and `DeviceError("timeout", ...)` is
        raised.

        `argv` may start with `env NAME=VALUE`, which runs the program with that variable.
        """
        ...

    def take_lock(self) -> None:
        """Lock the device against other processes of this host, until `release()` or the end of this process.

        The host's own CPU has no lock: other programs are noticed by their load. Raises `DeviceError("leased", ...)`
        if another process has the lock.
        """
        ...

    def release(self) -> None: ...

    def end_orphans(self) -> tuple[str, ...]:
        """Kill programs that an earlier driver left running. Return a line for each program. The lock must be held.

        Raises `DeviceError("orphan", ...)` if a program does not end.
        """
        ...

    def push(self, source: Path, name: str, *, sha256: str | None = None) -> str:
        """Copy a file to the device's run folder under `name`, completely or not at all. Return its path on the device.

        `sha256`: the file's hash in lower-case hex, if the caller knows it; otherwise the file is read to compute the
        hash. Raises `DeviceError`: `bad_name` if `name` is no plain file name, `no_space`, `os_error`.
        """
        ...

    def pull(self, path: str, target: Path, most_bytes: int) -> None:
        """Copy a file from the device to `target`.

        Raises `DeviceError`: `no_output` if the file does not exist or is no regular file, `too_much_output` if it has
        more than `most_bytes`; then no more than `most_bytes` were received.
        """
        ...

    def remove(self, path: str) -> None:
        """Delete one file in the device's run folder, if it exists. Raises `bad_name` for other folders."""
        ...

    def sensors(self, *, load: bool = True) -> Sensors:
        """Return the present sensor values. Measuring the load of other programs takes a short time; without `load` it
        is `None`."""
        ...

    def now_s(self) -> float:
        """Return the time (s) of the device's own monotonic clock; a simulated device has a simulated clock."""
        ...

    def rest(self, seconds: float) -> None:
        """Leave the device unused for this time."""
        ...

    def set_fixed_performance(self, on: bool) -> bool:
        """Switch the fixed-performance mode, in which the device keeps a sustainable speed.

        Return `False` if the device lacks the mode or refuses. Switching it off twice is no error. Raises `DeviceError`
        if the device does not answer.
        """
        ...


class Discovery(Protocol):
    """A module that finds the devices of one transport that are attached to this host."""

    NEXT_STEP: str
    """The next step for a person if no device is attached."""

    def attached(self) -> tuple[list[str], list[DeviceError]]:
        """Return the names of usable devices, as in sweep files, each device once; and an error for each unusable
        one."""
        ...

    def listed(self) -> list[str]:
        """Return the names of devices that seem usable, without contacting any of them. A transport of another package
        may lack this method: then `attached` is called. Raises `DeviceError`."""
        ...

    def are_one(self, name: str, other: str, folder: Path) -> bool:
        """Tell whether two names with the same device id mean the same device. Raises `DeviceError`."""
        ...

    def clean(self, name: str) -> None:
        """Delete all of EdgeSweep's files on the device. Raises `DeviceError`."""
        ...


Rung = Literal["ask", "reconnect", "restart_adb", "reboot"]
"""One step of bringing a device back. `ask`: check whether its shell answers and its start is complete."""


class Recovery(Protocol):
    """A module that tries to bring back devices of one transport that stopped answering."""

    def climb(self, name: str, rung: Rung) -> None:
        """Take one step; the device need not answer for it. Return as soon as the step is taken; a following `ask` then
        shows whether it helped.

        Raises `DeviceError` if the step cannot be taken (`adb_in_use` if it would disturb other devices that measure),
        or with `ask` if the device does not answer.
        """
        ...


def program_name(argv: Sequence[str]) -> str:
    """Return the name of the program in `argv`, for messages: a leading `env` only sets variables for the program."""
    words = argv[1:] if argv[0] == "env" else argv
    return PurePosixPath(next((word for word in words if "=" not in word), argv[0])).name
