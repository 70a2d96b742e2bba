"""Verifications in fresh processes without the start-up time: programs of the Python runners, in forks.

python -P -m workers.runtimes.forks      as `workers.forks.server` says
"""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Mapping

from workers.forks.fork_client import Forks
from workers.forks.limits import Limits
from workers.forks.server import serve
from workers.runtimes.executorch import runner as executorch
from workers.runtimes.onnxruntime import runner as onnxruntime
from workers.runtimes.torchscript.runner import main as torchscript
from workers.runtimes.torchscript.runner.process import leave_out_compilers, rewrites
from workers.toolchains import run_with_packages

_START_S = 600.0
_PYTHON = [sys.executable, "-m"]
_TORCHSCRIPT = "workers.runtimes.torchscript.runner"


def _within(argv: list[str]) -> int:
    """Run a program as `toolchains.run_with_packages` does: a fork has not imported a runtime's library yet."""
    folder, _, module, *arguments = argv
    message = run_with_packages.enter(folder)
    return run_with_packages.given_up(message) if message else _RUNNERS[module](arguments)


_RUNNERS: Mapping[str, Callable[[list[str]], int]] = {
    _TORCHSCRIPT: torchscript.main,
    onnxruntime.__name__: onnxruntime.alone,
    executorch.__name__: executorch.alone,
    run_with_packages.__name__: _within,
}
"""The function that runs one artifact, by module."""


def _needs_compilers(arguments: list[str]) -> bool:
    """Tell whether a run needs the compilers, which the server has left out."""
    options = dict(itertools.pairwise(arguments))
    return rewrites(options.get("--backend", "cpu"), options.get("--reference"))


class ForkServer:
    """Runs commands of the Python runners one after the other, each in its own fork."""

    def __init__(self) -> None:
        self._forks = Forks("workers.runtimes.forks")

    def run(self, argv: list[str], deadline_s: float) -> "subprocess.CompletedProcess[bytes]":
        """Run a command like `subprocess.run(argv, capture_output=True)`, which is used for other commands than those
        runners'.

        Raises `subprocess.TimeoutExpired` after the process was ended.
        """
        python, module, arguments = argv[:2], "".join(argv[2:3]), argv[3:]
        if python != _PYTHON or module not in _RUNNERS or not hasattr(os, "fork") or _needs_compilers(arguments):
            return subprocess.run(argv, capture_output=True, timeout=deadline_s, check=False, stdin=subprocess.DEVNULL)  # noqa: S603  # our own runner
        ended = self._forks.run(module, arguments, Limits(seconds=deadline_s))
        if ended.beyond == "time":
            raise subprocess.TimeoutExpired(argv, deadline_s)
        return subprocess.CompletedProcess(argv, ended.exit_code, ended.stdout, ended.stderr)

    def start(self) -> None:
        """Start the server, and wait until it has imported torch."""
        self.run([*_PYTHON, _TORCHSCRIPT, "--help"], _START_S)

    def close(self) -> None:
        """End the server and its running command."""
        self._forks.close()


if __name__ == "__main__":
    leave_out_compilers()  # The runs that are forked need no compilers.
    serve(lambda: _RUNNERS, sys.stdin.buffer, sys.stdout.buffer)
