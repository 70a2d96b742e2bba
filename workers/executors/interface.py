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
    """The request to build one artifact."""

    build_key: str
    variant: Variant
    inputs: BuildInputs

    @property
    def family(self) -> tuple[object, ...]:
        """Return the family of a build: builds of one family share their long stages, so one process builds them
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
        """Handle one request (see `workers.measure.device_runner.Request`). Every error is returned as a value."""
        ...

    def rest(self, seconds: float) -> None:
        """Leave the device unused for this time, by its own clock."""
        ...

    def close(self) -> None:
        """Remove files that need not stay on the device. Called after the last measurement, and possibly again."""
        ...


class Executor(Protocol):
    """An executor runs builds in parallel, and provides a lane for each device."""

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        """Yield the starts and outcomes of builds as they occur. After `stop()` returns true no build is started;
        running builds are finished.

        If `requests` is a `BuildQueue`, each builder takes the next request when it is free. Another thread may iterate
        over the result; `stop` is then called in that thread.
        """
        ...

    def lane(self, facts: DeviceFacts) -> DeviceLane: ...

    def close(self) -> None:
        """End at once, including running builds, and close the lanes."""
        ...
