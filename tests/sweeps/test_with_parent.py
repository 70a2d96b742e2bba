"""Processes that end with the one that has started them, however that one ends."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from sweeps.with_parent import run_with_parent

_PARENT = """
import os, subprocess, sys
words = [sys.executable, "-P", "-m", "sweeps.with_parent", str(os.getpid()), *sys.argv[1:]]
sys.exit(subprocess.run(words, start_new_session=True).returncode)
"""


def started(*words: str) -> "subprocess.Popen[bytes]":
    """A process that runs these words with itself as parent."""
    return subprocess.Popen([sys.executable, "-c", _PARENT, *words])


def test_a_program_ends_with_whoever_started_it_and_so_do_its_own() -> None:
    with started("sh", "-c", "sleep 600 & wait") as parent:
        children: list[psutil.Process] = []
        # A process that was just forked still has the name of the one that did it.
        while "sleep" not in {child.name() for child in children}:
            assert parent.poll() is None
            time.sleep(0.02)
            children = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
    assert psutil.wait_procs(children, timeout=10.0)[1] == []


def test_it_hands_the_exit_code_on() -> None:
    with started("sh", "-c", "exit 7") as parent:
        assert parent.wait() == 7


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_hands_on_the_signal_that_ended_the_program(how: signal.Signals) -> None:
    assert run_with_parent(["sh", "-c", f"kill -{how.value} $$"], 60.0).returncode == -how


def test_it_ends_also_where_its_parent_was_gone_before_it_looked() -> None:
    words = [sys.executable, "-P", "-m", "sweeps.with_parent", str(os.getppid()), "sleep", "600"]
    with subprocess.Popen(words, start_new_session=True) as process:
        assert process.wait(10.0) == -9
