"""Where builds and measurements run, as the driver sees it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from sweeps.device_facts import DeviceFacts
from sweeps.records import Failed
from sweeps.spec import catalog
from sweeps.variant import Variant
from workers.artifacts import PackedArtifact
from workers.measure.bench import AnswerT, Request
from workers.models.package import BuildInputs

CRASHED_BUILD = Failed(stage="build", kind="crashed", message="the process that built it crashed")


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One artifact that is wanted."""

    build_key: str
    variant: Variant
    inputs: BuildInputs

    @property
    def family(self) -> tuple[object, ...]:
        """Builds of one family have their long stages in common: one process makes them all."""
        one = self.variant
        numbers = (one.precision, one.quantization, one.qengine, one.granularity, one.calibration_images)
        backend = catalog.runtimes()[one.runtime].backend(one.backend)
        apart = one.backend if backend is not None and backend.builds_apart else ""
        return id(self.inputs), one.runtime, apart, *numbers, one.reduced_range


Stop = Callable[[], bool]
Builds = Iterator[tuple[BuildRequest, PackedArtifact | Failed | None]]
"""Each request twice: with `None` as its build starts, and with its outcome as it ends."""


class DeviceLane(Protocol):
    """One device somewhere, doing one thing at a time."""

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        """One of `workers.measure.requests`. Whatever goes wrong is a value too."""
        ...

    def rest(self, seconds: float) -> None:
        """Leave the device alone for so long, on its own clock."""
        ...

    def close(self) -> None:
        """Remove what need not stay on the device. Called once no more is measured; may be called again."""
        ...


class Executor(Protocol):
    """Runs builds side by side, and gives a lane for each device."""

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        """Starts and outcomes as they come. After `stop()` nothing new is started; what runs is waited for."""
        ...

    def lane(self, facts: DeviceFacts) -> DeviceLane: ...

    def close(self) -> None:
        """End at once, builds that run included; closes the lanes."""
        ...
