"""Where builds and measurements run, as the driver sees it, and the simplest place: this machine, without Ray."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from sweeps.protocol.presets import Gate
from sweeps.protocol.presets import Protocol as MeasurementProtocol
from sweeps.records import Block, DeviceFacts, Failed, Job, Variant
from sweeps.spec import catalog
from workers.artifacts import PackedArtifact
from workers.measure.bench import Evaluation
from workers.measure.readiness import Readiness
from workers.models.package import BuildInputs, Logits

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
        return id(self.inputs), one.runtime, apart, *numbers


Stop = Callable[[], bool]
Builds = Iterator[tuple[BuildRequest, PackedArtifact | Failed | None]]
"""Each request twice: with `None` as its build starts, and with its outcome as it ends."""


class DeviceLane(Protocol):
    """One device somewhere, doing one thing at a time."""

    def make_ready(self, job: Job, gate: Gate | None, seconds: float) -> Readiness | Failed:
        """The job's artifact on the device, and the device waited for, at most so long."""
        ...

    def block(self, job: Job, round_: int, protocol: MeasurementProtocol, readiness: Readiness) -> Block | Failed: ...

    def logits(self, job: Job, evaluation: Evaluation) -> Logits | Failed: ...

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
