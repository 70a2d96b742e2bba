"""Verifications run in forks of a process that has only imported torch."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch

from tests.workers.runtimes.scripted_modules import Divide, Endless
from workers.runtimes.forks import ForkServer

RUNNER = [sys.executable, "-m", "workers.runtimes.torchscript.runner"]


@pytest.fixture
def server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("m") / "model.pt"
    torch.jit.save(torch.jit.script(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))), str(path))
    return path


def arguments(model: Path, *more: str) -> list[str]:
    return [*RUNNER, "--model", str(model), "--input-dims", "1,3,2,2", *more]


def test_a_fork_says_what_a_process_of_its_own_says(server: ForkServer, model: Path) -> None:
    argv = arguments(model, "--iter", "3")
    forked, alone = server.run(argv, 60), subprocess.run(argv, capture_output=True, check=True)
    events = [[json.loads(line)["event"] for line in ended.stdout.splitlines()] for ended in (forked, alone)]
    assert forked.returncode == 0
    assert events[0] == events[1]


def test_an_error_a_crash_and_another_command_each_end_for_themselves(server: ForkServer, model: Path) -> None:
    missing = server.run(arguments(model.with_name("none.pt")), 60)
    assert missing.returncode == 3
    assert b'"no_model"' in missing.stdout
    assert server.run(["sh", "-c", "exit 7"], 60).returncode == 7
    assert server.run(arguments(model), 60).returncode == 0


@pytest.mark.parametrize(
    ("runner", "backend"),
    [
        ("workers.runtimes.torchscript.runner", "metal"),
        pytest.param("workers.runtimes.executorch.runner", "vulkan", marks=pytest.mark.runtime("executorch")),
    ],
)
def test_what_stands_in_for_metal_or_vulkan_has_a_process_with_torch_s_compilers(
    server: ForkServer, model: Path, runner: str, backend: str
) -> None:
    words = arguments(model, "--reference", "eval.pt2")[len(RUNNER) :]
    ended = server.run([sys.executable, "-m", runner, *words, "--backend", backend], 60)
    assert (ended.returncode, b'"emulated"' in ended.stdout) == (3, True), "it would time what only stands in"
    assert server._forks._process is None, "which the server has left out: nothing was forked of it"
    # The stand-in for NNAPI reads the file itself, and needs none of it.
    assert server.run([*RUNNER, *words, "--backend", "nnapi"], 60).returncode == 3
    assert server._forks._process is not None


def test_a_crash_is_the_signal_that_ended_it_and_the_next_one_runs(
    server: ForkServer, model: Path, tmp_path: Path
) -> None:
    torch.jit.save(torch.jit.script(Divide()), str(tmp_path / "model.pt"))
    crashed = server.run(arguments(tmp_path / "model.pt"), 60)
    assert crashed.returncode == -signal.SIGFPE
    assert server.run(arguments(model), 60).returncode == 0


def test_what_is_forked_ends_with_the_builder(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(Endless()), str(tmp_path / "model.pt"))
    program = "import sys; from workers.runtimes.forks import ForkServer\nForkServer().run(sys.argv[1:], 300)"
    builder = subprocess.Popen([sys.executable, "-c", program, *arguments(tmp_path / "model.pt")])

    def forks() -> list[psutil.Process]:
        alive = []
        for process in children:
            with suppress(psutil.NoSuchProcess):
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    alive.append(process)
        return alive

    deadline = time.monotonic() + 120
    children: list[psutil.Process] = []
    while len(children) < 2 and time.monotonic() < deadline:  # the server, and the fork that never ends
        time.sleep(0.2)
        children = psutil.Process(builder.pid).children(recursive=True)
    assert len(children) == 2
    builder.kill()
    builder.wait()
    while forks() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert forks() == []


def test_nothing_of_one_command_is_left_in_the_next(server: ForkServer, model: Path) -> None:
    engine = torch.backends.quantized.supported_engines[0]
    assert server.run(arguments(model, "--engine", engine, "--threads", "2"), 60).returncode == 0
    plain = server.run(arguments(model), 60).stdout
    ran = next(json.loads(line) for line in plain.splitlines() if b'"ran"' in line)
    assert (ran["engine"], ran["threads"]) == ("none", 1)


def test_a_late_one_is_ended_and_the_next_one_runs(server: ForkServer, model: Path, tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(Endless()), str(tmp_path / "model.pt"))
    server.run(arguments(model), 60)
    started = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        server.run(arguments(tmp_path / "model.pt"), 2)
    assert time.monotonic() - started < 30
    assert server.run(arguments(model), 60).returncode == 0


def test_a_server_that_was_killed_is_started_again(server: ForkServer, model: Path) -> None:
    server.run(arguments(model), 60)
    assert server._forks._process is not None
    os.kill(server._forks._process.pid, signal.SIGKILL)
    server._forks._process.wait()
    assert server.run(arguments(model), 60).returncode == 0
