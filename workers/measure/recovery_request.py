"""The request to bring back a device that does not answer. The device's host takes the step; the device need not
answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from sweeps.errors import DeviceError
from sweeps.records import Job, Stage
from workers.devices import registry
from workers.devices.interface import Rung
from workers.measure.device_runner import DeviceRunner, Request

_LETS_GO = frozenset({"restart_adb", "reboot"})
"""Rungs after which no state on the phone is as it was, so the phone is attached anew. The process that restarts the
adb server must not be one that uses it."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer that the step was taken; for the step `ask`, that the device answered."""

    rung: Rung


@dataclass(frozen=True, slots=True)
class RecoverRequest(Request[Taken]):
    """The request to take one step to bring the device back."""

    rung: Rung
    stage: ClassVar[Stage] = "run"

    @property
    def jobs(self) -> tuple[Job, ...]:
        return ()

    def answer(self, device_runner: DeviceRunner) -> Taken:
        return self.answer_without_device(device_runner.facts.name, lambda: None)

    def answer_without_device(self, name: str, let_go: Callable[[], object]) -> Taken:
        if self.rung in _LETS_GO:
            let_go()
        recovery = registry.recovery(name)
        if recovery is None:
            raise DeviceError("not_possible", f"{name} can only be waited for")
        recovery.climb(name, self.rung)
        return Taken(self.rung)
