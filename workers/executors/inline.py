"""Builds and measures on this machine, without Ray; builds run in a separate process."""

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType, ModuleType

from sweeps.device_facts import DeviceFacts
from sweeps.records import Failed
from sweeps.with_parent import end_with_parent
from workers.artifacts import ArtifactStore, PackedArtifact, build_packed
from workers.executors.build_queue import BuildQueue
from workers.executors.interface import CRASHED_BUILD, BuildRequest, Builds, DeviceLane, Stop
from workers.executors.lane import Lane


class InlineExecutor:
    """Everything on this machine, without Ray: builds in one separate process, devices in this one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._builder: _ProcessBuilder | None = None
        self._lanes: list[DeviceLane] = []

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        queue = BuildQueue.of(requests)
        family = None
        while not stop() and (request := queue.take(family)) is not None:
            family = request.family
            yield request, None
            outcome: PackedArtifact | Failed | None
            try:
                builder = self._builder = self._builder or _ProcessBuilder(self._folder / "artifacts")
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
                self._end_builder()  # frees its memory
            yield request, outcome
        # Builds must not occupy memory while this machine measures.
        self._end_builder()

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        lane = Lane(facts, self._folder)
        self._lanes.append(lane)
        return lane

    def close(self) -> None:
        """Kill a running build. A caller that wants its result waits in `build`."""
        for lane in self._lanes:
            lane.close()
        self._end_builder()

    def _end_builder(self) -> None:
        if self._builder is not None:
            self._builder.close()
            self._builder = None


class _ProcessBuilder:
    """A process that builds one artifact after the other. A crash of torch's native code ends it, not the sweep.

    Not a `ProcessPoolExecutor`, which cannot end running work.
    """

    def __init__(self, root: Path) -> None:
        context = get_context("spawn")
        self._store = ArtifactStore(root)
        self._store.remove_abandoned()
        self._connection, other_end = context.Pipe()
        self._process = context.Process(target=_build_forever, args=(os.getpid(), other_end, root), daemon=True)
        with _without_main():
            self._process.start()
        # Otherwise reading from the pipe would not end with the process.
        other_end.close()

    def build(self, request: BuildRequest) -> PackedArtifact | Failed | None:
        """`None` if the process ended during the build."""
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
            # Killed by the kernel for lack of memory, or by a person.
            return Failed(stage="build", kind="worker_lost", message="the process that built it was killed")
        return CRASHED_BUILD

    def close(self) -> None:
        # First SIGTERM, so that its child processes end too.
        self._process.terminate()
        self._process.join(_GENTLE_END_S)
        self._process.kill()
        self._process.join()
        if self._process.pid is not None:
            # What it had no time to end: it leads their group.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        # Not before: another thread may be reading, and gets its end from the process.
        self._connection.close()
        if self._process.pid is not None:
            # On a busy host it may not have handled the signal in time.
            self._store.remove_unfinished(self._process.pid)


@contextmanager
def _without_main() -> Iterator[None]:
    """A process that is spawned imports the script of its parent, which may be a program that runs sweeps."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _build_forever(driver: int, connection: Connection, root: Path) -> None:
    os.setsid()  # what a build starts ends with it
    end_with_parent(driver, _leave_soon)
    # The driver decides what Ctrl-C means; a build under way is finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    try:
        with suppress(EOFError, ConnectionError):
            while True:
                connection.send(build_packed(root, *connection.recv()))
    finally:
        # It ends by itself now: being told to must not break its clean-up off.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)


def _leave_soon() -> None:
    """The driver was killed: time to remove what is unfinished."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_ORPHAN_END_S)


def _leave(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


_GENTLE_END_S = 5.0
"""Time for a process to end by itself. Then it is killed, and its unfinished files are removed."""
_ORPHAN_END_S = 1.0
"""The same for one whose driver is gone. Its unfinished files stay then, until another builder starts."""
