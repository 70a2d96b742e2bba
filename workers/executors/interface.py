"""The interface of executors, which run builds and measurements for the driver."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from sweeps.device_facts import DeviceFacts
from sweeps.records import Failed
from sweeps.spec import catalog
from sweeps.variant import Variant
from workers.artifacts import PackedArtifact
from workers.measure.device_runner import AnswerT, Request
from workers.models.package import BuildInputs

CRASHED_BUILD = Failed(stage="build", kind="crashed", message="the process that built it crashed")


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """A request for one artifact."""

    build_key: str
    variant: Variant
    inputs: BuildInputs

    @property
    def family(self) -> tuple[object, ...]:
        """The family of a build: builds of one family have their long stages in common, and one process makes them
        all."""
        variant = self.variant
        numbers = (
            variant.precision,
            variant.quantization,
            variant.qengine,
            variant.granularity,
            variant.calibration_images,
        )
        backend = catalog.runtimes()[variant.runtime].backend(variant.backend)
        backend_name = variant.backend if backend is not None and backend.builds_apart else ""
        return id(self.inputs), variant.runtime, variant.toolchain, backend_name, *numbers, variant.reduced_range


Stop = Callable[[], bool]
Builds = Iterator[tuple[BuildRequest, PackedArtifact | Failed | None]]
"""Each request comes twice: with `None` as its build starts, and with its outcome as it ends."""


class DeviceLane(Protocol):
    """One device, on any host. It handles one request at a time."""

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        """Handle one of `workers.measure.timed_block`. Every error is returned as a value."""
        ...

    def rest(self, seconds: float) -> None:
        """Do not use the device for this time, on its own clock."""
        ...

    def close(self) -> None:
        """Remove files that need not stay on the device. The call comes after the last measurement, and may come
        again."""
        ...


class Executor(Protocol):
    """An executor, which runs builds in parallel, and provides a lane for each device."""

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        """The starts and outcomes of builds as they occur. After `stop()` nothing new is started; running builds are
        finished.

        From a `BuildQueue` each builder takes when it is free. Another thread may iterate over this, and then calls
        `stop`.
        """
        ...

    def lane(self, facts: DeviceFacts) -> DeviceLane: ...

    def close(self) -> None:
        """End at once, also running builds, and close the lanes."""
        ...
