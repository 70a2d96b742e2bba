"""Commands of EdgeSweep that run in turn in one process with an environment of its own: it starts and imports once."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self

_PROGRAM = """
import json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what processes of a command print is no answer
from click.testing import CliRunner
from sweeps.cli.main import main
for line in sys.stdin:
    words, variables = json.loads(line)
    done = CliRunner(env=variables).invoke(main, words, prog_name="edgesweep")
    traceback = "" if isinstance(done.exception, (SystemExit, type(None))) else repr(done.exception)
    print(json.dumps([done.exit_code, done.stdout, done.stderr, traceback]), file=answers, flush=True)
"""


class Commands:
    """`run` answers as `subprocess.run` of the command does. A traceback fails the test."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    @classmethod
    @contextmanager
    def open(cls, environment: Mapping[str, str]) -> Iterator[Self]:
        with subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            text=True,
        ) as process:
            yield cls(process)

    def run(self, *words: object, **variables: str) -> "subprocess.CompletedProcess[str]":
        """The command with these words, and these variables of the environment beside the process' own."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([[str(word) for word in words], variables]), file=self._process.stdin, flush=True)
        code, stdout, stderr, traceback = json.loads(self._process.stdout.readline())
        assert traceback == "", traceback
        return subprocess.CompletedProcess([*map(str, words)], code, stdout, stderr)
