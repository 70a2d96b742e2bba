"""Where builds and measurements run, as the driver sees it, and the simplest place: this machine, without Ray."""

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol

from sweeps.protocol import Protocol as MeasurementProtocol
from sweeps.records import Block, DeviceFacts, Failed, Job, Variant
from workers.bench import Bench, Evaluation
from workers.build import PackedArtifact, build_packed
from workers.devices import registry
from workers.runtimes.interface import BuildInputs, Logits

CRASHED_BUILD = Failed(stage="build", kind="crashed", message="the process that built it crashed")


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One artifact that is wanted."""

    build_key: str
    variant: Variant
    inputs: BuildInputs


Stop = Callable[[], bool]
Builds = Iterator[tuple[BuildRequest, PackedArtifact | Failed | None]]
"""Each request twice: with `None` as its build starts, and with its outcome as it ends."""


class DeviceLane(Protocol):
    """One device somewhere, doing one thing at a time."""

    def block(self, job: Job, round_: int, protocol: MeasurementProtocol) -> Block | Failed: ...

    def logits(self, job: Job, evaluation: Evaluation) -> Logits | Failed: ...


class Executor(Protocol):
    """Runs builds side by side, and gives a lane for each device."""

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        """Starts and outcomes as they come. After `stop()` nothing new is started; what runs is waited for."""
        ...

    def lane(self, facts: DeviceFacts) -> DeviceLane: ...

    def close(self) -> None: ...


class InlineExecutor:
    """Everything on this machine, without Ray: builds in one process of their own, devices in this one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool: ProcessPoolExecutor | None = None

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        for request in requests:
            if stop():
                return
            yield request, None
            # A crash of torch's native code must end one variant, not the sweep: hence the process.
            self._pool = self._pool or _one_process()
            try:
                outcome = self._pool.submit(
                    build_packed, self._folder / "artifacts", request.build_key, request.variant, request.inputs
                ).result()
            except BrokenProcessPool:
                self._pool = None
                outcome = CRASHED_BUILD
            yield request, outcome

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        return Bench(registry.connect(facts.name, self._folder), self._folder)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _one_process() -> ProcessPoolExecutor:
    # The driver decides what Ctrl-C means; a build under way is finished.
    return ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    )
