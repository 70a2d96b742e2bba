"""Runs of the Python runner as in `runs`, each in a fork of one process that has imported torch: for what a runner says
of files and inputs. What it does with its process is tested in processes of its own."""

import atexit
import sys
from collections.abc import Sequence

import pytest

from sweeps.errors import RunnerError
from workers.runtimes.forks import ForkServer
from workers.runtimes.interface import RunReport, RunRequest
from workers.runtimes.torchscript.runner.main import ERROR_EXIT
from workers.runtimes.torchscript.runner_report import parse
from workers.runtimes.torchscript.runtime import TorchScript

_DEADLINE_S = 600.0
FORKS = ForkServer()
atexit.register(FORKS.close)


def run(request: RunRequest) -> RunReport:
    ended = FORKS.run(TorchScript().command(request), _DEADLINE_S)
    report = parse(ended.stdout)
    assert ended.returncode == 0
    assert ended.stderr == b""
    return report


def refusal(argv: Sequence[str]) -> RunnerError:
    """Return the error that the runner gave up with, without a word on stderr: no traceback, no crash."""
    assert argv[0] == sys.executable
    ended = FORKS.run([*argv], _DEADLINE_S)
    assert (ended.returncode, ended.stderr) == (ERROR_EXIT, b"")
    with pytest.raises(RunnerError) as caught:
        parse(ended.stdout)
    return caught.value


def refused(request: RunRequest) -> RunnerError:
    return refusal(TorchScript().command(request))
