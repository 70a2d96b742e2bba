"""Simulated phones with faults: they go away, hang, never cool, or report what cannot be."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from workers.devices.fake.device import FakeDevice
from workers.devices.fake.phones import Phone
from workers.devices.fake.physics import SimulatedBlock, SimulatedPhone
from workers.devices.interface import Completed, Sensors

COMMAND_DEADLINE_S = 30.0
"""Deadline of everything but programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Faults of a simulated phone, in time of its own clock. None by default."""

    gone_from_s: float = math.inf
    """Start of the time in which it does not answer."""
    gone_until_s: float = math.inf
    """End of the time in which it does not answer."""
    hangs_from_s: float = math.inf
    """From this time on, no request to it ends."""
    never_cools: bool = False
    """The ambient temperature is 45 °C."""
    unreadable_battery: bool = False
    daemon: bool = False
    """A daemon is awake a third of the time, and halves the speed then."""
    times: Literal["", "nan", "zero", "negative", "nanoseconds"] = ""
    """The value that replaces one sample of every block; `nanoseconds`: every sample is 1 ns."""
    clock_jumps_back_s: float = 0.0
    """The time by which the clock jumps back after every program."""
    sensors: Callable[[float, Sensors], Sensors] | None = None
    """A function that changes the sensor values at a given time."""

    def on(self, phone: Phone) -> Phone:
        """The phone with these faults."""
        if self.never_cools:
            phone = replace(phone, ambient_c=45.0)
        if self.daemon:
            phone = replace(phone, daemon_every_s=10.0, daemon_s=5.0, daemon_slower=2.0)
        return phone

    def change(self, samples: list[float]) -> list[float]:
        if self.times == "nanoseconds":
            return [1] * len(samples)
        if self.times:
            samples[len(samples) // 2] = {"nan": math.nan, "zero": 0, "negative": -samples[0]}[self.times]
        return samples


class FaultyDevice(FakeDevice):
    """A simulated phone with faults; without any, it is as others are."""

    def __init__(self, folder: Path, name: str, *, seed: int = 0, faults: Faults | None = None, **options: Any) -> None:
        super().__init__(folder, name, seed=seed, **options)
        self._faults = faults or Faults()
        mode = self._phone.fixed_performance
        self._phone = SimulatedPhone(self._faults.on(self._phone.phone), seed)
        self._phone.fixed_performance = mode
        self._clock_ahead_s = 0.0

    def facts(self) -> DeviceFacts:
        self._answer()
        return super().facts()

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        self._answer(deadline_s)
        started_s = self._phone.now_s
        try:
            return super().run(argv, deadline_s)
        finally:
            self._clock_ahead_s -= self._faults.clock_jumps_back_s
            self._answer(deadline_s - (self._phone.now_s - started_s))

    def push(self, source: Path, name: str, *, sha256: str | None = None) -> str:
        self._answer()
        path = super().push(source, name, sha256=sha256)
        try:
            self._answer()
        except DeviceError:
            super().remove(path)
            raise
        return path

    def pull(self, path: str, target: Path, most_bytes: int) -> None:
        self._answer()
        super().pull(path, target, most_bytes)

    def remove(self, path: str) -> None:
        self._answer()
        super().remove(path)

    def sensors(self, *, load: bool = True) -> Sensors:
        self._answer()
        shown = super().sensors(load=load)
        if self._faults.unreadable_battery:
            shown = replace(shown, battery_percent=None)
        return shown if self._faults.sensors is None else self._faults.sensors(self._phone.now_s, shown)

    def now_s(self) -> float:
        return super().now_s() + self._clock_ahead_s

    def set_fixed_performance(self, on: bool) -> bool:
        self._answer()
        return super().set_fixed_performance(on)

    def samples_of(self, block: SimulatedBlock) -> list[float]:
        return self._faults.change(super().samples_of(block))

    def _answer(self, deadline_s: float = COMMAND_DEADLINE_S) -> None:
        """Raises `DeviceError` if a fault prevents an answer. A hanging phone uses up the deadline first."""
        if self._faults.gone_from_s <= self._phone.now_s < self._faults.gone_until_s:
            raise DeviceError("offline", f"fake:{self._name} does not answer", "connect it again")
        if self._phone.now_s >= self._faults.hangs_from_s:
            self._phone.rest(max(deadline_s, 0.0))
            raise DeviceError("timeout", f"fake:{self._name} hangs: the deadline passed", "restart the phone")
