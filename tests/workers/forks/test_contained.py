"""Every process that a program has started ends with it, wherever it went."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from workers.forks.contained import contained

DAEMON = """
import os, pathlib, sys, time
here = os.getpid()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
        time.sleep(1000)
    os._exit(0)
while not os.path.exists(sys.argv[1]) or not pathlib.Path(sys.argv[1]).read_text():
    time.sleep(0.01)
"""


def started(marker: Path, ending: str, beginning: str = "") -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-c", beginning + DAEMON + ending, str(marker)]
    return subprocess.Popen(contained(words), start_new_session=True)


def daemon_of(marker: Path) -> psutil.Process:
    until_s = time.monotonic() + 60.0
    while not (marker.exists() and marker.read_text()):
        assert time.monotonic() < until_s
        time.sleep(0.01)
    return psutil.Process(int(marker.read_text()))


@pytest.mark.parametrize(
    ("ending", "code"),
    [("", 0), ("os._exit(3)", 3), ("os.kill(here, 9)", -signal.SIGKILL), ("os.abort()", -signal.SIGABRT)],
)
def test_a_daemon_ends_with_its_program_whose_end_is_handed_on(tmp_path: Path, ending: str, code: int) -> None:
    marker = tmp_path / "pid"
    with started(marker, ending) as process:
        assert process.wait(60) == code
    assert not psutil.pid_exists(int(marker.read_text()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_does_not_listen_is_ended_with_its_daemon(tmp_path: Path, number: signal.Signals) -> None:
    marker = tmp_path / "pid"
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    with started(marker, "time.sleep(1000)", deaf) as process:
        daemon = daemon_of(marker)
        programs = [child for child in psutil.Process(process.pid).children() if child != daemon]
        process.send_signal(number)
        assert process.wait(60) == -signal.SIGKILL
    assert psutil.wait_procs(programs, timeout=30)[1] == []
    if number == signal.SIGTERM:
        assert not daemon.is_running()
    else:
        daemon.kill()


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    words = contained([sys.executable, "-c", DAEMON + "time.sleep(1000)", str(marker)])
    starter = f"import subprocess, time; subprocess.Popen({words!r}, start_new_session=True); time.sleep(1000)"
    with subprocess.Popen([sys.executable, "-c", starter]) as process:
        daemon = daemon_of(marker)
        process.kill()
    assert psutil.wait_procs([daemon], timeout=30)[1] == []


def test_a_pipe_is_the_program_s_alone() -> None:
    reading, writing = os.pipe()
    words = contained([sys.executable, "-c", f"import os, time; os.close({writing}); time.sleep(1000)"])
    with subprocess.Popen(words, pass_fds=[writing], start_new_session=True) as process:
        os.close(writing)
        assert os.read(reading, 1) == b""
        process.terminate()
    os.close(reading)
