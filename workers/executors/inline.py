"""Builds and measures on this machine, without Ray; builds run in a separate process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from threading import Lock

from sweeps.device_facts import DeviceFacts
from sweeps.records import Failed
from workers.artifacts import ArtifactStore, PackedArtifact
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
        while not stop() and (request := queue.take_for(self)) is not None:
            yield request, None
            outcome: PackedArtifact | Failed | None
            try:
                builder = self._builder_of(request)
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

    def _builder_of(self, request: BuildRequest) -> "_ProcessBuilder":
        """A process has one toolchain: what it has imported stays."""
        toolchain, builder = request.variant.toolchain, self._builder
        if builder is None or builder.toolchain != toolchain:
            self._end_builder()
            builder = self._builder = _ProcessBuilder(self._folder / "artifacts", toolchain)
        return builder

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
        # `close` may be called while another thread builds.
        builder, self._builder = self._builder, None
        if builder is not None:
            builder.close()


class _ProcessBuilder:
    """A process that builds one artifact after the other. A crash of torch's native code ends it, not the sweep.

    Not a `ProcessPoolExecutor`, which cannot end running work.
    """

    def __init__(self, root: Path, toolchain: str) -> None:
        self.toolchain = toolchain
        self._closing = Lock()
        self._store = ArtifactStore(root)
        self._store.remove_abandoned()
        self._connection, other_end = Pipe()
        # Not by multiprocessing: it would import the script of this process, which may be a program that runs sweeps.
        words = ["-m", "workers.executors.builder", str(os.getpid()), str(other_end.fileno()), str(root)]
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own argument list
                [sys.executable, "-P", *words],
                stdin=subprocess.DEVNULL,
                pass_fds=(other_end.fileno(),),
                start_new_session=True,  # what a build starts ends with it
            )
        finally:
            # Otherwise reading from the pipe would not end with the process.
            other_end.close()
        with suppress(ConnectionError):  # it has ended already: the first build says so
            self._connection.send(sys.path)

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
        self._wait()
        self.close()
        if self._process.returncode == -signal.SIGKILL:
            # Killed by the kernel for lack of memory, or by a person.
            return Failed(stage="build", kind="worker_lost", message="the process that built it was killed")
        return CRASHED_BUILD

    def close(self) -> None:
        with self._closing:
            # First SIGTERM, so that its child processes end too.
            self._process.terminate()
            self._wait()
            self._process.kill()
            self._process.wait()
            # What it had no time to end: it leads their group.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            # Not before: another thread may be reading, and gets its end from the process.
            self._connection.close()
            # On a busy host it may not have handled the signal in time.
            self._store.remove_unfinished(self._process.pid)

    def _wait(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GENTLE_END_S)


_GENTLE_END_S = 5.0
"""Time for a process to end by itself. Then it is killed, and its unfinished files are removed."""
