"""The client of a fork server: runs one program at a time, each in a fresh process."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from select import select
from typing import Any

from sweeps.temporary import temporary_folder
from sweeps.untrusted_file import open_regular
from workers.forks.limits import Ended, Limits

_END_S = 30.0
"""The time that the server has to end the programs that it has started, and itself."""
_OUTPUT_BYTES = 64 * 2**20
_RESTARTS = 2

Told = Callable[[str], object]


class RefusedError(Exception):
    """The server cannot import torch; the text is the reason."""


class Forks:
    """A client that runs programs of the module `name`, one at a time, each in a separate fork that ends with this
    process.

    Such a module calls `workers.forks.server.serve` when it is run. Its server ends after `idle_s` seconds without a
    program.
    """

    def __init__(self, name: str, idle_s: float | None = None) -> None:
        self._name = name
        self.idle_s = idle_s
        self._process: subprocess.Popen[bytes] | None = None
        self._busy = threading.Lock()

    def start(self) -> None:
        """Start the server, if there is none, and return at once."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        self._process = subprocess.Popen(  # noqa: S603  # our own module
            [sys.executable, "-P", "-m", self._name, *([] if self.idle_s is None else [str(self.idle_s)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for this process
        )

    def run(
        self,
        program: str,
        argv: Sequence[str],
        limits: Limits,
        report: Told = lambda _: None,
        progress: str = "",
        modules: Sequence[str] = (),
        below: Path | None = None,
    ) -> Ended:
        """Run a program. `progress`: the file to which the program writes each step of its progress; `report` gets each
        step. `modules`: the modules that this program and later ones need; the server imports them once. `below`: the
        folder for the program's output while it runs, instead of the system's folder for temporary files.

        Raises `OSError` if the server ended, `RefusedError`, and `subprocess.TimeoutExpired` if the server hangs.
        """
        with self._busy, temporary_folder(below) as folder:
            out, err = folder / "stdout", folder / "stderr"
            command = {
                "program": program,
                "argv": list(argv),
                "limits": asdict(limits),
                "progress": progress,
                "modules": list(modules),
                "stdout": str(out),
                "stderr": str(err),
            }
            answer = self._ask(command, report, _patience_s(limits))
            texts = []
            for path in (out, err):
                try:
                    with open_regular(path) as file:
                        texts.append(file.read(_OUTPUT_BYTES))
                except OSError:  # the file was not created, or the program has replaced it
                    texts.append(b"")
            return Ended(
                exit_code=int(answer["exit_code"]),
                beyond=answer["beyond"],
                limit=float(answer["limit"]),
                stdout=texts[0],
                stderr=texts[1],
            )

    def close(self) -> None:
        """End the server and its running program."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            process.stdin.close()  # the server ends all that it has started
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()

    def _ask(self, command: dict[str, Any], report: Told, patience_s: float | None) -> dict[str, Any]:
        for attempt in range(_RESTARTS):
            self.start()
            try:
                answer = self._answered(command, report, patience_s)
            except BaseException:
                # After a timeout, an interrupt or a crash, a late answer would be read as the answer to the next
                # command.
                self.close()
                raise
            if answer is not None:
                return answer
            process = self._process
            code = process.wait() if process is not None else 0
            self.close()
            if code != 0 or attempt + 1 == _RESTARTS:
                raise ConnectionError(f"the process that forks ended with {code}")
            # The server had nothing to do for a while, and has just ended.
        raise AssertionError

    def _answered(self, command: dict[str, Any], report: Told, patience_s: float | None) -> dict[str, Any] | None:
        """Send a command, and return the last answer to it; `None` if the server has ended."""
        server = self._process
        assert server is not None
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(json.dumps(command).encode() + b"\n")
        except BrokenPipeError:
            # The server may just be ending.
            if server.wait(_END_S) != 0:
                raise
        heard_s = time.monotonic()
        while True:
            left_s = None if patience_s is None else max(0.0, heard_s + patience_s - time.monotonic())
            if not select([server.stdout], [], [], left_s)[0]:
                raise subprocess.TimeoutExpired(str(command["argv"]), patience_s or 0.0)
            line = server.stdout.readline()
            if not line:
                return None
            answer: dict[str, Any] = json.loads(line)
            if "refused" in answer:
                self.close()
                raise RefusedError(str(answer["refused"]))
            if "progress" not in answer:
                return answer
            report(str(answer["progress"]))
            if command["limits"]["seconds"] is None:
                heard_s = time.monotonic()


def _patience_s(limits: Limits) -> float | None:
    """Return the longest time (s) between two answers of a server that does not hang: it ends a program at its
    limit."""
    longest = limits.seconds or limits.silent_s
    return None if longest is None else longest + 10 * _END_S
