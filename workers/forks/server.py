"""A process that imports torch once, and modules by request, does nothing else, and forks for each program.

Starting Python and importing torch takes 2.5 s. A fork of a process that did nothing else is equally fresh: no model,
no engine, no torch threads. Timings never run in a fork, because the runner sets threads and memory before it imports
torch.

It reads one JSON line per program. It answers with one line for each step of the program's progress and a last line for
the program's end.
"""

import importlib
import importlib.util
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from select import select
from typing import IO, Any

import psutil

from sweeps.untrusted_file import read_regular
from sweeps.with_parent import end_with_thread
from workers.forks.group import Group, adopt_orphans, resident_bytes
from workers.forks.limits import Beyond, Limits

Program = Callable[[list[str]], int]
"""A program: gets its arguments and returns its exit code."""

_LOOK_S = 0.05
_PROGRESS_BYTES = 4096
_LEAST_ADDRESSES = 16 * 2**30
"""The least limit on the address space: importing torch takes 3.2 GB of addresses, and the limit is only a backstop."""
_LEAST_MEMORY = 2**30
_TASKS = 8
"""The number of tasks that a program may have per process that it may have: threads count as tasks too. The regular
checks find a program that exceeds its number of processes; this limit only keeps the program small until then."""
_LEFT_FREE = 0.1
"""The share of all memory that is left for others: a program can fill half a gigabyte between two checks."""


def serve(opened: Callable[[], Mapping[str, Program]], commands: IO[bytes], answers: IO[bytes]) -> None:
    """Run programs until `commands` is closed, or no program was requested for as many seconds as the first argument of
    the command line says. `opened` imports what the programs need, and returns them by name."""
    idle_s = float(sys.argv[1]) if sys.argv[1:] else None
    # The user may have a module of this name in a folder on PYTHONPATH.
    torch_spec = importlib.util.find_spec("torch")
    if torch_spec is None or Path(torch_spec.origin or "").name != "__init__.py":
        _tell(answers, {"refused": "torch is not installed" if torch_spec is None else f"torch is {torch_spec.origin}"})
        return
    import torch  # the server imports torch once, so that forks have it

    torch.set_num_threads(1)
    programs = opened()
    adopt_orphans()
    while select([commands], [], [], idle_s)[0] and (line := commands.readline()):
        if not _run(json.loads(line), programs, commands, answers):
            return


def _run(command: Mapping[str, Any], programs: Mapping[str, Program], commands: IO[bytes], answers: IO[bytes]) -> bool:
    """Run one program, and return whether the server goes on: it ends if the process that requested the program is
    gone."""
    limits = Limits(**command["limits"])
    for module in command["modules"]:
        with suppress(Exception):  # the program meets the error, too, and reports it
            importlib.import_module(module)
    group = Group(None if limits.processes is None else _TASKS * limits.processes)
    child = os.fork()
    if child == 0:
        os._exit(_forked(command, programs, group))
    group.led_by(child)
    watch = _Watch(command, limits, group)
    pidfd: int | None = None
    with suppress(OSError, AttributeError):
        pidfd = os.pidfd_open(child)
    status: int | None = None
    try:
        while True:
            waited = [commands.fileno(), *([] if pidfd is None else [pidfd])]
            ready, _, _ = select(waited, [], [], _LOOK_S)
            if commands.fileno() in ready:
                return False  # the process that requested the program is gone
            ended, code = os.waitpid(child, os.WNOHANG)
            if ended:
                status = code
                break
            if (step := watch.progress()) is not None:
                _tell(answers, {"progress": step})
            if watch.beyond():
                break
    finally:
        if pidfd is not None:
            os.close(pidfd)
        group.end()
    # A program that ends between two looks has still reported its last step.
    if (step := watch.progress()) is not None:
        _tell(answers, {"progress": step})
    exit_code = -9 if status is None else os.waitstatus_to_exitcode(status)
    _tell(answers, {"exit_code": exit_code, "beyond": watch.passed, "limit": watch.limit})
    return True


class _Watch:
    """The check of one program's limits."""

    def __init__(self, command: Mapping[str, Any], limits: Limits, group: Group) -> None:
        self._limits = limits
        self._group = group
        self._progress = Path(command["progress"]) if command["progress"] else None
        self._output = [Path(command["stdout"]), Path(command["stderr"])]
        self._shared_bytes = resident_bytes(os.getpid())
        self._memory_bytes = _free_bytes() if limits.memory_bytes == "free" else limits.memory_bytes
        self._began_s = self._changed_s = time.monotonic()
        self._last_change = (0, 0)
        self.passed: Beyond = ""
        self.limit = 0.0

    def progress(self) -> str | None:
        """Return the last step that the program reported, if it is new since the last check."""
        if self._progress is None:
            return None
        with suppress(OSError, ValueError):
            # Two steps within one tick of the file system's clock are two files.
            status = self._progress.stat()
            changed = (status.st_mtime_ns, status.st_ino)
            if changed != self._last_change:
                self._last_change, self._changed_s = changed, time.monotonic()
                return read_regular(self._progress, _PROGRESS_BYTES).decode("utf-8", "replace")
        return None

    def beyond(self) -> bool:
        now_s, limits = time.monotonic(), self._limits
        used: list[tuple[Beyond, float, float | None]] = [
            ("time", now_s - self._began_s, limits.seconds),
            ("silent", now_s - self._changed_s, limits.silent_s),
            ("processes", len(self._group.pids()), limits.processes),
            ("memory", self._group.private_bytes(self._shared_bytes), self._memory_bytes),
            ("output", sum(_size(file) for file in self._output), limits.output_bytes),
        ]
        self._group.reap_orphans()
        for kind, amount, limit in used:
            if limit is not None and amount > limit:
                self.passed, self.limit = kind, float(limit)
                return True
        return False


def _forked(command: Mapping[str, Any], programs: Mapping[str, Program], group: Group) -> int:
    exit_code = 1
    try:
        group.join()
        end_with_thread()
        _be_modest()
        for descriptor, path in ((0, os.devnull), (1, command["stdout"]), (2, command["stderr"])):
            file = os.open(str(path), os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(file, descriptor)
            os.close(file)
        exit_code = programs[command["program"]]([str(word) for word in command["argv"]])
    except BaseException:  # noqa: BLE001  # a fork must never return into the server's loop
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return exit_code


def _be_modest() -> None:
    """Limit this process so that the kernel kills it, and not the driver, if memory runs out all the same."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    limit = max(_LEAST_ADDRESSES, 2 * psutil.virtual_memory().total)
    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _free_bytes() -> int:
    memory = psutil.virtual_memory()
    return max(_LEAST_MEMORY, int(memory.available - _LEFT_FREE * memory.total))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _tell(answers: IO[bytes], answer: Mapping[str, object]) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()
