"""The builder that runs builds in a separate process, and ends that process with everything that a model's code has
started.

A model's code runs in that process: it may crash, hang, fork, or write anywhere it can. So the answer is a file, which
is parsed; the pipe carries back only the file's name, which says that the file is there.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, fields, replace
from multiprocessing import Pipe
from pathlib import Path
from select import select
from threading import Lock, Thread

import psutil

from sweeps.records import Failed
from sweeps.temporary import temporary_folder
from sweeps.text import duration
from sweeps.untrusted_file import read_regular
from sweeps.variant import Variant
from sweeps.whole_file import write_whole
from workers.artifacts import ArtifactStore, PackedArtifact
from workers.executors.interface import CRASHED_BUILD
from workers.forks.contained import GRACE_S, contained
from workers.models.package import BuildInputs

DEADLINE_S = 7200.0
"""The longest time that a build may take."""
IDLE_S = 300.0
"""A build that has used no CPU time for this long waits for something that will not come."""
_LEAST_CPU_S = 0.5
_LOOK_S = 5.0
_END_S = GRACE_S + 30.0
_ANSWER_BYTES = 2**20
_MESSAGE_CHARACTERS = 20_000
UNANSWERED = 75
"""The exit code of a process that could not write its answer: `EX_TEMPFAIL` of sysexits.h."""
_ENDLESS_STEP = "look for a wait or an endless loop in the model's code, or build it while the computer is less busy"


class Builder:
    """A builder of one artifact at a time. All builds run in one process as long as that process lives and the
    toolchain stays the same."""

    def __init__(self, root: Path) -> None:
        """Create a builder, whose process starts with the first build. The artifacts are stored in the folder
        `root`."""
        self._root = root
        self._process: _BuilderProcess | None = None

    def build(self, build_key: str, variant: Variant, inputs: BuildInputs) -> PackedArtifact | Failed:
        try:
            process = self._process_of(variant.toolchain)
            outcome = process.build(build_key, variant, inputs)
        except OSError as error:
            self.close()
            return Failed(stage="build", kind="os_error", message=f"no process can be started: {error}")
        except BaseException:
            # Ctrl-C: the answer that is still to come would be read as that of the next request.
            self.close()
            raise
        if outcome is None:
            self._process = None
            return process.death()
        if isinstance(outcome, Failed) and outcome.kind in ("out_of_memory", "timeout"):
            self.close()  # closing frees the memory of the process
        return outcome

    def close(self) -> None:
        """Kill a running build, and end the process. May be called while another thread builds."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _process_of(self, toolchain: str) -> "_BuilderProcess":
        """Return the process for this toolchain. A process has only one toolchain: modules that it has imported stay
        imported."""
        process = self._process
        if process is None or process.toolchain != toolchain:
            self.close()
            process = self._process = _BuilderProcess(self._root, toolchain)
        return process


class _BuilderProcess:
    """One process that builds. A crash of torch's native code ends this process, and not the sweep.

    A `ProcessPoolExecutor` would not do: it cannot end running work.
    """

    def __init__(self, root: Path, toolchain: str) -> None:
        self.toolchain = toolchain
        self._closing = Lock()
        self._store = ArtifactStore(root)
        self._store.remove_abandoned()
        self._resources = ExitStack()
        self._answers = self._resources.enter_context(temporary_folder())
        self._connection, other_end = Pipe()
        # The process is not started by multiprocessing, which would import the script of this process: that may be a
        # program that runs sweeps.
        program = [sys.executable, "-P", "-m", "workers.executors.builder", str(other_end.fileno()), str(root)]
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own argument list
                contained(program),
                stdin=subprocess.DEVNULL,
                pass_fds=(other_end.fileno(),),
                start_new_session=True,  # Ctrl-C is for this process
            )
        except BaseException:
            self._resources.close()
            raise
        finally:
            # Otherwise reading from the pipe would not end with the process.
            other_end.close()
        with suppress(ConnectionError):  # the process has ended already: the first build says so
            self._connection.send(sys.path)

    def build(self, build_key: str, variant: Variant, inputs: BuildInputs) -> PackedArtifact | Failed | None:
        """Return the outcome of a build; `None` if the process ended during it."""
        answer = self._answers / f"{secrets.token_hex(16)}.json"
        # The request is sent by a thread: a process that does not read must not keep this one waiting without a
        # deadline.
        Thread(target=self._ask, args=((build_key, variant, inputs, str(answer)),), daemon=True).start()
        try:
            late = self._wait_for(answer.stem.encode())
        except (EOFError, ConnectionError):
            return None
        if late:
            return Failed(stage="build", kind="timeout", message=late, next_step=_ENDLESS_STEP)
        failed = _read_answer(answer)
        if failed is not None:
            return failed
        manifest = self._store.find(build_key)
        if manifest is None:
            return Failed(stage="build", kind="crashed", message="the process that built it left no whole file")
        return self._store.pack(manifest)

    def _ask(self, request: tuple[str, Variant, BuildInputs, str]) -> None:
        with suppress(OSError):  # the process has ended, which `_wait_for` sees
            self._connection.send(request)

    def death(self) -> Failed:
        """Return the failure that says why the process ended."""
        self._end()
        self.close()
        if self._process.returncode == UNANSWERED:
            return Failed(stage="build", kind="os_error", message="what came of the build could not be written down")
        if self._process.returncode == -signal.SIGKILL:
            # Killed by the kernel for lack of memory, or by a person.
            return Failed(stage="build", kind="worker_lost", message="the process that built it was killed")
        return CRASHED_BUILD

    def close(self) -> None:
        with self._closing:
            self._process.terminate()
            self._end()
            self._process.kill()
            self._process.wait()
            # The pipe is closed last: another thread may be reading, and gets its end from the process.
            self._connection.close()
            self._resources.close()
            # On a busy host the process may not have handled the signal in time.
            self._store.remove_abandoned()

    def _end(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)

    def _wait_for(self, word: bytes) -> str:
        """Wait until `word` arrives on the pipe; anything else that a model's code writes there is skipped.

        Return why the build took too long, or an empty text. Raises `EOFError` if the process ended.
        """
        began_s = active_s = looked_s = time.monotonic()
        active_cpu_s, tail = 0.0, b""
        descriptor = self._connection.fileno()
        while word not in tail:
            if select([descriptor], [], [], _LOOK_S)[0]:
                content = os.read(descriptor, 65536)
                if not content:
                    raise EOFError
                tail = tail[-len(word) :] + content
            now_s = time.monotonic()
            if now_s - looked_s >= _LOOK_S:
                looked_s, cpu_s = now_s, self._cpu_s()
                # The sum is smaller if a process has ended whose time was part of it.
                if abs(cpu_s - active_cpu_s) > _LEAST_CPU_S:
                    active_s, active_cpu_s = now_s, cpu_s
            if now_s - began_s > DEADLINE_S:
                return f"it was not built within {duration(DEADLINE_S)}"
            if now_s - active_s > IDLE_S:
                return f"its build does not come to an end: nothing was computed for {duration(IDLE_S)}"
        return ""

    def _cpu_s(self) -> float:
        """Return the CPU time (s) of all processes that build now."""
        total_s = 0.0
        with suppress(psutil.Error):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    times = process.cpu_times()
                    total_s += times.user + times.system
        return total_s


def write_answer(path: Path, failed: Failed | None) -> None:
    """Write the outcome of a build for `_read_answer`. The file is written completely or not at all."""
    if failed is not None:
        failed = replace(failed, message=failed.message[:_MESSAGE_CHARACTERS])
    write_whole(path, json.dumps(None if failed is None else asdict(failed)))


def _read_answer(path: Path) -> Failed | None:
    try:
        content = json.loads(read_regular(path, _ANSWER_BYTES))
        if content is None:
            return None
        failed = replace(CRASHED_BUILD, **content)
        if all(
            type(getattr(failed, field.name)) is type(getattr(CRASHED_BUILD, field.name)) for field in fields(failed)
        ):
            return failed
    except (AttributeError, OSError, ValueError, TypeError, RecursionError):
        pass
    return Failed(stage="build", kind="crashed", message="the process that built it left no answer that can be read")
