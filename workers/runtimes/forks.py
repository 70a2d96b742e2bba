"""Fresh processes without the start-up time: a server process that has only imported torch forks for each command.

Starting Python and importing torch takes 2.5 s, more than most verifications. A fork of a process that did nothing
else is equally fresh: no model, no engine, no torch threads. Timings never run in a fork, because the runner sets
threads and memory before it imports torch.

    python -m workers.runtimes.forks      reads one JSON line per command, and replies with one
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from select import select
from typing import IO

from sweeps.temporary import temporary_folder
from workers.runtimes.executorch import runner as executorch
from workers.runtimes.onnxruntime import runner as onnxruntime
from workers.runtimes.torchscript.runner import main as torchscript

_START_S = 600.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PYTHON = [sys.executable, "-m"]
_TORCHSCRIPT = "workers.runtimes.torchscript.runner"
_RUNNERS: Mapping[str, Callable[[list[str]], int]] = {
    _TORCHSCRIPT: torchscript.main,
    onnxruntime.__name__: onnxruntime.alone,
    executorch.__name__: executorch.alone,
}
"""By module, what runs one artifact."""


class ForkServer:
    """Runs commands of the Python runners one after the other, each in its own fork."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, argv: list[str], deadline_s: float) -> "subprocess.CompletedProcess[bytes]":
        """Like `subprocess.run(argv, capture_output=True)`, which is used for commands other than those runners'.

        Raises `subprocess.TimeoutExpired` after the process was ended.
        """
        python, module, arguments = argv[:2], "".join(argv[2:3]), argv[3:]
        if python != _PYTHON or module not in _RUNNERS or not hasattr(os, "fork"):
            return subprocess.run(argv, capture_output=True, timeout=deadline_s, check=False, stdin=subprocess.DEVNULL)  # noqa: S603  # our own runner
        with temporary_folder() as folder:
            out, err = folder / "stdout", folder / "stderr"
            command: dict[str, object] = {"module": module, "argv": arguments, "stdout": str(out), "stderr": str(err)}
            exit_code = self._forked(command, deadline_s)
            return subprocess.CompletedProcess(argv, exit_code, out.read_bytes(), err.read_bytes())

    def start(self) -> None:
        """Start the server, and wait until it has imported torch."""
        self.run([*_PYTHON, _TORCHSCRIPT, "--help"], _START_S)

    def close(self) -> None:
        """End the server and its running command."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def _forked(self, command: dict[str, object], deadline_s: float) -> int:
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603  # this module
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        server = self._process
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(json.dumps(command).encode() + b"\n")
            server.stdin.flush()
            if not select([server.stdout], [], [], deadline_s)[0]:
                raise subprocess.TimeoutExpired(str(command["argv"]), deadline_s)
            answer = server.stdout.readline()
            if not answer:
                raise ConnectionError("the process that forks verifications ended")
            return int(json.loads(answer)["exit_code"])
        except BaseException:
            # Timeout, interrupt or crash: a late reply would be taken for the reply to the next command.
            self.close()
            raise


def serve(commands: IO[bytes], answers: IO[bytes]) -> None:
    """Run commands until `commands` is closed."""
    _die_with_parent()
    import torch  # once, so that forks have it

    torch.set_num_threads(1)
    for line in commands:
        command = json.loads(line)
        child = os.fork()
        if child == 0:
            os._exit(_run(command))
        _, status = os.waitpid(child, 0)
        answers.write(json.dumps({"exit_code": os.waitstatus_to_exitcode(status)}).encode() + b"\n")
        answers.flush()


def _die_with_parent() -> None:
    """End with the parent: a killed builder must not leave a verification that disturbs measurements. Linux only."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _run(command: dict[str, object]) -> int:
    exit_code = 1
    _die_with_parent()
    try:
        for descriptor, path in ((0, os.devnull), (1, command["stdout"]), (2, command["stderr"])):
            file = os.open(str(path), os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT)
            os.dup2(file, descriptor)
        runner = _RUNNERS[str(command["module"])]
        exit_code = runner([str(word) for word in command["argv"]])  # type: ignore[attr-defined]  # a list from JSON
    except BaseException:  # noqa: BLE001  # a fork must never return into the server's loop
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return exit_code


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
