"""Where builds and measurements run, as the driver sees it, and the simplest place: this machine, without Ray."""

import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Protocol

from sweeps.protocol import Gate
from sweeps.protocol import Protocol as MeasurementProtocol
from sweeps.records import Block, DeviceFacts, Failed, Job, Variant
from workers.bench import Evaluation
from workers.build import ArtifactStore, PackedArtifact, build_packed
from workers.lane import Lane
from workers.readiness import Readiness
from workers.runtimes.interface import BuildInputs, Logits

CRASHED_BUILD = Failed(stage="build", kind="crashed", message="the process that built it crashed")
_GENTLE_END_S = 5.0
"""For a process to end by itself; then it is killed, and what it leaves is removed after it."""


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
        return id(self.inputs), one.runtime, one.backend == "nnapi", *numbers, one.reduced_range


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


class InlineExecutor:
    """Everything on this machine, without Ray: builds in one process of their own, devices in this one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._builder: _Builder | None = None
        self._lanes: list[DeviceLane] = []

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        for request in requests:
            if stop():
                return
            yield request, None
            outcome: PackedArtifact | Failed | None
            try:
                builder = self._builder = self._builder or _Builder(self._folder / "artifacts")
                outcome = builder.build(request)
            except OSError as error:
                outcome = Failed(stage="build", kind="os_error", message=f"no process can be started: {error}")
            except BaseException:
                # Ctrl-C: the answer that is still to come would be taken for the next request's.
                self._end_builder()
                raise
            if outcome is None:
                outcome = builder.death()
                self._builder = None
            elif isinstance(outcome, Failed) and outcome.kind == "out_of_memory":
                self._end_builder()  # with all that it keeps
            yield request, outcome
        # Nothing that was kept for builds stays in memory while this machine measures.
        self._end_builder()

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        lane = Lane(facts, self._folder)
        self._lanes.append(lane)
        return lane

    def close(self) -> None:
        """Ends a build that runs: who wants its result waits for it in `build`."""
        for lane in self._lanes:
            lane.close()
        self._end_builder()

    def _end_builder(self) -> None:
        if self._builder is not None:
            self._builder.close()
            self._builder = None


class _Builder:
    """A process that builds one artifact after the other. A crash of torch's native code ends it, not the sweep.

    Not a `ProcessPoolExecutor`: that one can only wait for what runs.
    """

    def __init__(self, root: Path) -> None:
        context = get_context("spawn")
        self._store = ArtifactStore(root)
        self._connection, other_end = context.Pipe()
        self._process = context.Process(target=_build_forever, args=(other_end, root), daemon=True)
        self._process.start()
        # Else the end of the process would not end what is read from it.
        other_end.close()

    def build(self, request: BuildRequest) -> PackedArtifact | Failed | None:
        """`None` where the process ended in the middle of it."""
        try:
            self._connection.send((request.build_key, request.variant, request.inputs))
            outcome: PackedArtifact | Failed = self._connection.recv()
            return outcome
        except (EOFError, ConnectionError):
            return None

    def death(self) -> Failed:
        """Why the process ended."""
        self._process.join(_GENTLE_END_S)
        self.close()
        if self._process.exitcode == -signal.SIGKILL:
            # By the kernel, for memory, or by a person.
            return Failed(stage="build", kind="worker_lost", message="the process that built it was killed")
        return CRASHED_BUILD

    def close(self) -> None:
        self._connection.close()
        # First gently: what it started ends with it then.
        self._process.terminate()
        self._process.join(_GENTLE_END_S)
        self._process.kill()
        self._process.join()
        if self._process.pid is not None:
            # On a busy host it may not have come to that.
            self._store.remove_unfinished(self._process.pid)


def _build_forever(connection: Connection, root: Path) -> None:
    # The driver decides what Ctrl-C means; a build under way is finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    with suppress(EOFError, ConnectionError):
        while True:
            connection.send(build_packed(root, *connection.recv()))
    # It ends by itself now: being told to must not break its clean-up off.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _leave(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)
