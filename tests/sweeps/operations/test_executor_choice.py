"""An executor that is opened leaves the program that opened it as it was."""

import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from sweeps.errors import ClusterError
from sweeps.operations import executor_choice
from sweeps.planning.plan import Plan
from sweeps.workspace import Workspace
from workers.executors.inline import InlineExecutor


class NeverStarts:
    def __init__(self, *_: object) -> None:
        raise ClusterError("Ray cannot start: Timed out waiting for a file")


@pytest.mark.parametrize("named", [False, True])
def test_a_machine_without_a_working_ray_builds_serially_unless_a_cluster_is_named(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("workers.executors.ray.RayExecutor", NeverStarts)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if named:
        monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    planned: Plan = SimpleNamespace(devices=())
    with (
        pytest.raises(ClusterError) if named else nullcontext(),
        executor_choice.open_executor("ray", Workspace(tmp_path), planned) as opened,
    ):
        assert isinstance(opened, InlineExecutor)
    assert ("one variant is built after another" in capsys.readouterr().err) is not named


def test_what_a_failed_start_of_ray_has_left_is_found_and_ended(tmp_path: Path) -> None:
    folder = tmp_path / "ray"
    folder.mkdir()
    (folder / "__init__.py").touch()
    script = folder / "left.py"
    script.write_text("input()")
    own = "import subprocess, sys; from workers.executors.agents import end_all, ray_processes\n"
    own += "asked = dict(stdin=subprocess.PIPE)\n"
    own += "left = subprocess.Popen([sys.executable, sys.argv[1]], **asked)\n"
    own += "other = subprocess.Popen([sys.executable, '-c', 'input()'], **asked)\n"
    own += "end_all(ray_processes()); print(left.wait(60), other.poll()); other.kill()"
    path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])}
    words = [sys.executable, "-c", own, str(script)]
    ended = subprocess.run(words, env=os.environ | path, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["-9", "None"]


class TakesSignals:
    """An executor whose start replaces a handler, as Ray's does in the main thread."""

    def __init__(self, folder: Path) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def close(self) -> None:
        pass


def test_a_program_that_opens_an_executor_has_its_own_signal_handlers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_choice, "InlineExecutor", TakesSignals)
    before = signal.getsignal(signal.SIGTERM)
    planned: Plan = SimpleNamespace(devices=())
    with executor_choice.open_executor("inline", Workspace(tmp_path), planned):
        assert signal.getsignal(signal.SIGTERM) == before
