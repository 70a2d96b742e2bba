"""Sweeps on a board: a real sshd on loopback, from the sweep file to the ranking."""

import json
import shutil
import stat
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.device_facts import BOARD
from sweeps.journal.journal import Journal
from sweeps.records import Measured
from tests.conftest import OWN_NET
from tests.fresh_mlflow import fresh_mlflow
from tests.sshd import Board
from tests.workers.phone_sweep import ANY, GRID, ONE_ROUND, eventually
from tests.workers.tiny_sweep import BuiltSweep
from workers.devices.local import host_abi
from workers.devices.ssh.discovery import VARIABLE
from workers.devices.ssh.questions import PYTHON_VARIABLE
from workers.runtimes.torchscript import native_runner, programs

pytestmark = [pytest.mark.system, pytest.mark.sshd]

SWEEP = """
name: board
models:
  - {{source: "net:make_net", name: net, weights: random, input_shape: [1, 3, 32, 32], arguments: {{classes: 10}}}}
data:
  calibration: {{source: synthetic, images: 8}}
  evaluation: {{source: synthetic, images: 8}}
grids:
  - {{precision: [fp32], layout: [nchw], threads: [1, 2]}}
devices: ["{device}"]
protocol: {{preset: quick, gate: none, rounds: 1, min_seconds: 0.1}}
objective: {{constraints: []}}
"""
# Where it times, this runner waits until a test lets it go on.
_SLOW_RUNNER = """#!/bin/sh
case "$*" in
*--nnapi-devices* | *--eval-inputs*) ;;
*)
    echo x >>{folder}/starts
    if mkdir {folder}/once 2>/dev/null; then
        touch {folder}/now
        while [ -e {folder}/now ]; do sleep 0.1; done
    fi
    ;;
esac
exec {program} "$@"
"""


def edgesweep(*arguments: object) -> str:
    """Run the command, and return its stdout."""
    ended = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


@pytest.fixture
def runners(board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for programs of a board that has no Python with torch."""
    program = native_runner.program()
    monkeypatch.setenv(PYTHON_VARIABLE, "/no/python")
    monkeypatch.setenv(programs.FOLDER_VARIABLE, str(tmp_path / "runners"))
    folder = tmp_path / "runners" / f"linux-{host_abi()}"
    folder.mkdir(parents=True)
    shutil.copy(program, folder / "edgesweep_runner_full")
    return folder


@pytest.mark.smoke
def test_a_sweep_on_a_board_with_python_ends_ranked(board: Board, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(OWN_NET)
    (sweep := tmp_path / "board.yaml").write_text(SWEEP.format(device=board.name))
    fresh_mlflow(tmp_path / "data")
    where = ("--workspace", tmp_path / "data", "--json")
    (device,) = json.loads(edgesweep("run", sweep, *where, "--executor", "inline"))["devices"]
    assert device["device_id"].startswith("board-")
    assert device["winner"] is not None
    assert len(device["ranking"]) == 2
    with Journal.open(tmp_path / "data" / "journal.sqlite", read_only=True) as journal:
        (facts,) = journal.plans.devices("board")
        assert (facts.name, facts.exec_context, facts.python) == (board.name, BOARD, sys.executable)
        blocks = [block for job, _ in journal.jobs.of_sweep("board") for block in journal.attempts.blocks(job.key)]
    assert len(blocks) == 2
    assert {block.runner.split()[0] for block in blocks} == {"python-torchscript"}
    assert {block.conditions.exec_context for block in blocks} == {BOARD}
    assert not board.programs(str(board.folder)), "nothing of it runs on"
    assert not list(board.folder.glob("attempts/*"))


@pytest.mark.compiler
def test_a_board_without_python_takes_the_compiled_runner_and_survives_a_cut(
    board: Board, runners: Path, tmp_path: Path
) -> None:
    slow, real = runners / "edgesweep_runner_full", tmp_path / "real"
    slow.rename(real)
    slow.write_text(_SLOW_RUNNER.format(folder=tmp_path, program=real))
    slow.chmod(slow.stat().st_mode | stat.S_IXUSR)

    def cut() -> None:
        eventually((tmp_path / "now").exists)
        board.cut()
        (tmp_path / "now").unlink()

    (tmp_path / "home").mkdir()
    sweep = BuiltSweep(tmp_path / "home", GRID, devices=(board.name,), objective=ANY, protocol=ONE_ROUND)
    cutting = threading.Thread(target=cut)
    cutting.start()
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        cutting.join()
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)
        blocks = [block for job in sweep.plan.jobs for block in journal.attempts.blocks(job.key)]
        assert [journal.attempts.failures(job.key) for job in sweep.plan.jobs] == [(), ()]
    assert {block.runner for block in blocks} == {native_runner.runner()}
    assert len((tmp_path / "starts").read_text().splitlines()) == len(blocks) == 2, "no block is repeated"


def test_boards_are_listed_with_their_runtime_and_cleaned(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.devices.adb.discovery.attached", lambda: ([], []))
    monkeypatch.setenv(VARIABLE, f"{board.unit} nobody@")
    listed = json.loads(edgesweep("devices", "--workspace", tmp_path, "--json"))
    assert [refused["kind"] for refused in listed["refused"]] == ["unknown_device"], listed["refused"]
    (board_row,) = [device for device in listed["devices"] if device["name"] == board.name]
    assert board_row["runtimes"].keys() == {"torchscript"}
    assert board_row["qengines"]
    assert board.folder.is_dir()
    assert edgesweep("devices", "clean", board.name) == f"{board.name}: clean\n"
    assert not board.folder.exists()


def test_a_board_that_runs_no_runner_says_what_it_lacks(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, "/no/python")
    monkeypatch.setenv(programs.FOLDER_VARIABLE, str(tmp_path))
    (tmp_path / "net.py").write_text(OWN_NET)
    (sweep := tmp_path / "board.yaml").write_text(SWEEP.format(device=board.name))
    planned = json.loads(edgesweep("plan", sweep, "--workspace", tmp_path / "data", "--json"))
    assert planned["jobs"] == []
    (reason,) = {skipped["reason"] for skipped in planned["skipped"]}
    assert "no Python 3.10 with torch was found on the board" in reason
    assert f"linux-{host_abi()}" in reason
    assert "edgesweep explain boards" in reason


def test_a_board_whose_python_is_broken_says_its_words(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.devices.adb.discovery.attached", lambda: ([], []))
    monkeypatch.setenv(VARIABLE, board.unit)
    broken = board.root / "broken"
    broken.write_text(f"#!/bin/sh\ncase $1 in -c) echo {broken};; *) echo no libtorch here >&2; exit 1;; esac\n")
    broken.chmod(0o755)
    monkeypatch.setenv(PYTHON_VARIABLE, str(broken))
    listed = json.loads(edgesweep("devices", "--workspace", tmp_path, "--json"))
    (refused,) = listed["refused"]
    assert refused["kind"] == "runner_broken"
    assert "no libtorch here" in refused["message"]
    assert "edgesweep explain boards" in refused["next_step"]
