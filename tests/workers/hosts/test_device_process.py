"""The process of one device on its host."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import psutil
import pytest

from sweeps.records import Failed, Job, Stage
from tests.sweeps.conftest import Records
from workers.devices import registry
from workers.hosts.device_process import DeviceProcess
from workers.measure.device_runner import DeviceRunner, Request

ROOT = Path(__file__).parents[3]
_AGENT = """
import os, signal, sys
from pathlib import Path
from tests.workers.hosts import test_device_process as this
process = this.device_process(Path(sys.argv[1]))
print(process.ask(this.WhoAmI(job=this.job())), flush=True)
process.ask(this.Hang(job=this.job(), file=str(Path(sys.argv[1]) / "hangs")))
"""


@dataclass(frozen=True, slots=True)
class WhoAmI(Request[int]):
    """The device's process."""

    stage: ClassVar[Stage] = "run"

    def answer(self, bench: DeviceRunner) -> int:
        return os.getpid()


@dataclass(frozen=True, slots=True)
class Sum(Request[Failed]):
    """Sums large arrays, as the images of an evaluation are."""

    arrays: tuple[np.ndarray, ...]
    stage: ClassVar[Stage] = "run"

    def answer(self, bench: DeviceRunner) -> Failed:
        writable = all(array.flags.writeable for array in self.arrays)
        message = f"{[float(array.sum()) for array in self.arrays]}, writable: {writable}"
        return Failed(stage="run", kind="sum", message=message)


@dataclass(frozen=True, slots=True)
class Hang(Request[int]):
    """Says so in a file."""

    file: str
    stage: ClassVar[Stage] = "run"

    def answer(self, bench: DeviceRunner) -> int:
        Path(self.file).touch()
        time.sleep(1000)
        return 0


def job() -> Job:
    return Records().job(0)


def device_process(folder: Path) -> DeviceProcess:
    return DeviceProcess(registry.connect("fake:steady", folder).facts(), folder)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[DeviceProcess]:
    device_under_test = device_process(tmp_path)
    yield device_under_test
    device_under_test.kill()


def test_it_answers_until_it_is_closed(process: DeviceProcess) -> None:
    pid = process.ask(WhoAmI(job=job()))
    assert pid == process.ask(WhoAmI(job=job())) != os.getpid()
    process.close()
    assert not psutil.pid_exists(pid)
    process.close()


def test_one_that_has_died_between_two_requests_is_replaced_for_the_next(process: DeviceProcess) -> None:
    first = process.ask(WhoAmI(job=job()))
    assert isinstance(first, int)
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)  # the process can be reaped now: all its threads have ended
    second = process.ask(WhoAmI(job=job()))
    assert second not in (first, os.getpid())
    assert isinstance(second, int)


def test_large_arrays_arrive_as_they_are(process: DeviceProcess) -> None:
    arrays = (np.ones((3, 1_000_000)), np.zeros(0), np.arange(5.0))
    answer = process.ask(Sum(job=job(), arrays=arrays))
    assert isinstance(answer, Failed)
    assert answer.message == "[3000000.0, 0.0, 10.0], writable: True"


def test_who_waits_for_a_process_that_is_killed_is_told(process: DeviceProcess, tmp_path: Path) -> None:
    file = tmp_path / "hangs"
    answers: list[object] = []
    asking = threading.Thread(target=lambda: answers.append(process.ask(Hang(job=job(), file=str(file)))))
    asking.start()
    _until(file.exists)
    process.kill()
    asking.join(30)
    (answer,) = answers
    assert isinstance(answer, Failed)
    assert (answer.kind, answer.stage) == ("worker_lost", "run")
    assert f"ended with {-signal.SIGKILL}" in answer.message
    later = process.ask(WhoAmI(job=job()))
    assert isinstance(later, Failed)
    assert later.kind == "worker_lost"


def test_one_that_does_not_answer_in_time_is_ended_and_replaced_for_the_next_request(
    process: DeviceProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than a pipe holds: whoever reads nothing holds up its sender.
    images = Sum(job=job(), arrays=(np.zeros(1_000_000),))
    for request in (Hang(job=job(), file=str(tmp_path / "hangs")), images):
        pid = process.ask(WhoAmI(job=job()))
        assert isinstance(pid, int)
        if request is images:
            os.kill(pid, signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr("workers.hosts.device_process._BESIDE_S", 0.2)
            late = process.ask(request)
        assert isinstance(late, Failed)
        assert (late.kind, late.stage) == ("worker_lost", "run")
        assert f"ended with {-signal.SIGKILL} during a request, which it had not answered after" in late.message
        assert not psutil.pid_exists(pid)
    assert isinstance(process.ask(WhoAmI(job=job())), int)


def test_one_that_is_killed_while_it_is_replaced_stays_ended(
    process: DeviceProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = process.ask(WhoAmI(job=job()))
    assert isinstance(first, int)
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    killing = threading.Thread(target=process.kill)
    start = subprocess.Popen

    def start_late(*words: Any, **named: Any) -> "subprocess.Popen[bytes]":
        killing.start()
        killing.join(0.5)  # in vain: it has to wait for this
        return start(*words, **named)

    monkeypatch.setattr("workers.hosts.device_process.subprocess.Popen", start_late)
    process.ask(WhoAmI(job=job()))
    killing.join(60)
    later = process.ask(WhoAmI(job=job()))
    assert isinstance(later, Failed)
    assert later.kind == "worker_lost"


def test_it_ends_with_an_agent_that_is_killed_also_in_the_middle_of_a_request(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _AGENT, str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        pid = psutil.Process(int(agent.stdout.readline()))
        _until((tmp_path / "hangs").exists)
        agent.kill()
    _until(lambda: not pid.is_running() or pid.status() == psutil.STATUS_ZOMBIE)


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
