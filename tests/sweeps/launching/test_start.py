"""Sweeps as processes of their own: started, found again, stopped; and what is not started, or not stopped."""

import errno
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sweeps.errors import EdgeSweepError, SpecError, WorkspaceError
from sweeps.journal.journal import Journal
from sweeps.journal.sweep_progress import read_status
from sweeps.launching import driver, reachable_devices
from sweeps.launching.preview import preview
from sweeps.launching.record import StartRequest
from sweeps.launching.start import environment, last_lines, resume, start
from sweeps.launching.text_check import Problem, check
from sweeps.workspace import Workspace
from tests.fresh_mlflow import fresh_mlflow

LIMIT_S = 300.0
INLINE = ("--executor", "inline")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    root = tmp_path / "it's a $HOME"
    root.mkdir()
    fresh_mlflow(root)
    workspace = Workspace.open(root)
    yield workspace
    run = driver.find(workspace)
    if run.pid:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(run.pid).kill()
        until(lambda: driver.find(workspace).state == "idle")


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ask(pid: int, request: str = "stop") -> StartRequest:
    return StartRequest(what=request, by="a test", at_s=time.time(), pid=pid)


def test_a_lab_of_the_dashboard_s_environment_is_none_of_a_sweep_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESWEEP_LAB", "10.0.0.1:6379")
    monkeypatch.setenv("EDGESWEEP_TOKEN_FILE", "/token")
    monkeypatch.setenv("KEPT", "1")
    variables = environment(())
    assert variables["KEPT"] == "1"
    assert not {"EDGESWEEP_LAB", "EDGESWEEP_TOKEN_FILE"} & variables.keys()


def test_a_sweep_that_fails_while_it_starts_belongs_to_nobody_here_and_says_why(
    workspace: Workspace, small: str
) -> None:
    launch = start(workspace, small.replace("steady", "nobody"), "ann@example.org", options=INLINE)
    assert launch.pid not in [child.pid for child in psutil.Process().children(recursive=True)]
    assert Path(launch.file).read_text() == small.replace("steady", "nobody")
    until(lambda: driver.find(workspace).state == "idle")
    run = driver.find(workspace)
    assert (run.launched, run.sweep, run.launch) == (True, "small", launch)
    assert run.current_report is not None
    assert run.current_report.ended == "failed"
    assert run.current_report.problem == "there is no simulated phone 'nobody'"
    assert last_lines(Path(launch.log))[-2] == "edgesweep: there is no simulated phone 'nobody'"


@pytest.mark.system
@pytest.mark.long
def test_a_paused_and_resumed_sweep_measures_nothing_twice_even_if_the_disk_fills(
    workspace: Workspace, small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = small.replace("preset: quick", "preset: quick, rounds: 100").replace("nhwc]", "nhwc], threads: [1, 2, 4]")
    launch = start(workspace, many, "ann@example.org", options=INLINE)
    assert driver.find(workspace).state in ("starting", "running")
    with pytest.raises(WorkspaceError, match=r"started by ann@example\.org") as refused:
        start(workspace, small.replace("name: small", "name: other"), "bob@example.org")
    assert str(launch.pid) in refused.value.message
    assert not (workspace.launches / "other.yaml").exists()

    until(lambda: _done(workspace) > 0)
    driver.stop(workspace, ask(launch.pid, "pause"))
    with pytest.raises(WorkspaceError, match=r"asked to end by a test already|runs no sweep in this workspace now"):
        driver.stop(workspace, ask(launch.pid, "pause"))
    until(lambda: driver.find(workspace).state == "idle")
    paused = driver.find(workspace)
    assert paused.end_request is not None
    assert paused.end_request.what == "pause"
    assert paused.current_report is not None
    assert paused.current_report.ended == "stopped"
    with pytest.raises(WorkspaceError, match="runs no sweep in this workspace now"):
        driver.stop(workspace, ask(launch.pid))

    before = _blocks(workspace)
    with monkeypatch.context() as full:
        full.setattr("sweeps.launching.start.keep", _full)  # the sweep runs all the same, so no error says otherwise
        again = resume(workspace, "ann@example.org")
    assert (again.sweep, again.options) == ("small", INLINE)
    until(lambda: driver.find(workspace).state == "idle")
    ended = driver.find(workspace)
    assert ended.current_report is not None
    assert ended.current_report.ended == "finished"
    assert ended.end_request is None
    after = _blocks(workspace)
    assert {key: after[key][: len(blocks)] for key, blocks in before.items()} == before
    with Journal.open(workspace.journal, read_only=True) as journal:
        assert read_status(journal, "small").count("measured") == 6


def _done(workspace: Workspace) -> int:
    report = driver.find(workspace).current_report
    return 0 if report is None else report.device("fake:steady").done


def _blocks(workspace: Workspace) -> dict[str, list[object]]:
    with Journal.open(workspace.journal, read_only=True) as journal:
        return {job.key: list(journal.attempts.blocks(job.key)) for job, _ in journal.jobs.of_sweep("small")}


def test_a_sweep_that_is_starting_can_be_stopped(workspace: Workspace, small: str) -> None:
    launch = start(workspace, small, "ann@example.org", options=INLINE)
    until(lambda: driver.find(workspace).current_report is not None)  # Python itself has begun by then
    driver.stop(workspace, ask(launch.pid))
    until(lambda: driver.find(workspace).state == "idle")
    run = driver.find(workspace)
    assert run.current_report is not None
    assert run.current_report.ended == "stopped"


def test_the_second_of_two_simultaneous_pauses_is_refused_even_if_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.open(tmp_path)
    program = (
        "import signal, sys; from pathlib import Path; from sweeps.workspace import Workspace\n"
        "signal.signal(signal.SIGINT, lambda *_: print('asked', flush=True))\n"
        "with Workspace(Path(sys.argv[1])).lock():\n    print('mine', flush=True)\n    sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            assert running.stdout.readline() == "mine\n"
            with monkeypatch.context() as full:
                full.setattr(driver, "keep", _full)
                driver.stop(workspace, ask(running.pid))
            assert running.stdout.readline() == "asked\n"
            driver.stop(workspace, ask(running.pid))
            assert running.stdout.readline() == "asked\n"
            with pytest.raises(WorkspaceError, match="asked to end by a test already"):
                driver.stop(workspace, ask(running.pid))
            driver.stop(workspace, ask(running.pid), at_once=True)
        finally:
            running.stdin.close()
        assert running.stdout.read() == "asked\n"


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_no_other_process_gets_a_signal(workspace: Workspace) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as stranger:
        try:
            (workspace.root / "driver.lock").write_text(f"{stranger.pid}\n")
            with pytest.raises(WorkspaceError, match="runs no sweep"):
                driver.stop(workspace, ask(stranger.pid))  # the lock is nobody's
            with (workspace.root / "driver.lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                assert driver.find(workspace).pid == stranger.pid
                with pytest.raises(WorkspaceError, match="runs no sweep"):
                    driver.stop(workspace, ask(stranger.pid))  # the lock is this process's
            with pytest.raises(WorkspaceError, match="cannot name"):
                driver.stop(workspace, ask(0))
            assert stranger.poll() is None
            assert not (workspace.launches / "asked.json").exists()
        finally:
            stranger.kill()


def test_whoever_looks_does_not_keep_a_driver_from_its_lock(workspace: Workspace) -> None:
    file = workspace.root / "driver.lock"
    file.touch()
    looked = os.open(file, os.O_RDONLY)
    fcntl.flock(looked, fcntl.LOCK_SH)
    program = (
        "import sys; from pathlib import Path; from sweeps.workspace import Workspace\n"
        "print('begun', flush=True)\n"
        "import sweeps.workspace as w; w._LOOKS = 100_000\n"
        "with Workspace(Path(sys.argv[1])).lock(): print('mine', flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(workspace.root)], stdout=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "begun\n"
        os.close(looked)
        assert waiting.stdout.readline() == "mine\n"


def test_a_workspace_that_cannot_be_written_is_named(workspace: Workspace, small: str) -> None:
    (workspace.root / "launches").write_text("a file")
    with pytest.raises(WorkspaceError, match=r"it's a \$HOME cannot be written"):
        start(workspace, small, "ann@example.org")
    with pytest.raises(WorkspaceError, match=r"it's a \$HOME cannot be written"):
        preview(workspace, small)


def test_every_problem_of_a_file_has_its_line(workspace: Workspace) -> None:
    problems = check(workspace, "name: x\nmodels: 3\ngrids: []\n").problems
    assert [problem.line for problem in problems] == [2, 3]
    assert problems[0].message.startswith("models: must be a list")
    [unread] = check(workspace, "name: x\nmodels: [").problems
    assert (unread.line, unread.message[:20]) == (2, "this is not YAML: ex")
    [large] = check(workspace, "#" * 2**21).problems
    assert large == Problem(None, "larger than 1 MiB: a sweep file has only a few lines")
    with pytest.raises(SpecError, match="line 2: models"):
        start(workspace, "name: x\nmodels: 3\ngrids: []\n", "ann@example.org")


def test_a_model_s_own_code_comes_from_the_listed_folders_only(
    workspace: Workspace, small: str, tmp_path: Path
) -> None:
    own = small.replace("source: mobilenet_v2", "source: my_nets.small:make_net")
    listed, elsewhere = tmp_path / "listed", tmp_path / "elsewhere"
    for folder in (listed, elsewhere):
        (folder / "my_nets").mkdir(parents=True)
    (elsewhere / "my_nets/small.py").write_text("def make_net(): ...\n")
    [problem] = check(workspace, own, ()).problems
    assert problem.line == 4
    assert "no folder of models is listed" in problem.message
    (listed / "my_nets/small.py").symlink_to(elsewhere / "my_nets/small.py")
    [problem] = check(workspace, own, (listed,)).problems
    assert f"it is in none of the folders {listed}" in problem.message
    (listed / "my_nets/small.py").unlink()
    (listed / "my_nets/small.py").write_text("def make_net(**given): ...\n")
    assert check(workspace, own, (listed,)).problems == ()
    assert preview(workspace, own, (listed,)).jobs[0][0].startswith("net")


def test_of_a_listed_file_only_what_it_defines_itself_may_be_called(small: str, tmp_path: Path) -> None:
    folder = tmp_path / "listed"
    (folder / "torch").mkdir(parents=True)
    (folder / "nets.py").write_text(
        "import torch\nfrom torch.hub import load_state_dict_from_url\nclass Net: ...\n"
        "def make_net():\n    def inner(): ...\n"
    )
    (folder / "profile.py").write_text("def run(): ...\n")
    (folder / "torch/hub.py").write_text("def load(): ...\n")
    (folder / "broken.py").write_text("def run(:\n")
    for source, why in {
        "nets:load_state_dict_from_url": "defines no function or class load_state_dict_from_url at its top level",
        "nets:inner": "defines no function or class inner at its top level",
        "nets:torch": "defines no function or class torch at its top level",
        "profile:run": "profile is a module of Python",
        "torch.hub:load": "torch is a module of Python",
        "broken:run": "defines no function or class run at its top level",
    }.items():
        [problem] = check(Workspace(tmp_path), small.replace("mobilenet_v2", source), (folder,)).problems
        assert why in problem.message
    for source in ("nets:Net", "nets:make_net"):
        assert check(Workspace(tmp_path), small.replace("mobilenet_v2", source), (folder,)).problems == ()


def test_a_preview_is_the_plan(workspace: Workspace, small: str) -> None:
    plan = preview(workspace, small.replace("precision: [fp32]", "precision: [fp32], backend: [cpu, nnapi]"))
    [phone] = plan.devices
    assert (plan.sweep, phone.name, phone.done) == ("small", "fake:steady", 0)
    assert phone.jobs == len(plan.jobs) >= 2
    assert plan.seconds == plan.builds_s + phone.seconds > 0
    assert {device for _, device, _ in plan.jobs} == {"fake:steady"}
    assert all(reason for _, _, reason in plan.skipped)
    assert [entry.name for entry in workspace.launches.iterdir()] == []


def test_a_preview_that_fails_says_why(workspace: Workspace, small: str) -> None:
    with pytest.raises(EdgeSweepError, match="there is no simulated phone 'nobody'") as caught:
        preview(workspace, small.replace("steady", "nobody"))
    assert caught.value.message == "there is no simulated phone 'nobody'"
    assert caught.value.next_step.startswith("use one of: fake:")
    with pytest.raises(WorkspaceError, match="was not ready after 0 s"):
        preview(workspace, small, limit_s=0.0)


def test_devices_and_hosts_that_cannot_be_listed_say_why(workspace: Workspace, tmp_path: Path) -> None:
    lab = ("--lab", "127.0.0.1:1", "--token-file", str(tmp_path / "none"))
    for listed in (reachable_devices.devices, reachable_devices.hosts):
        with pytest.raises(EdgeSweepError, match="none") as caught:
            listed(workspace, lab)
        assert caught.value.next_step
    with pytest.raises(WorkspaceError, match="the list of devices was not ready after 0 s"):
        reachable_devices.devices(workspace, limit_s=0.0)
