"""The commands that people copy."""

import json
import os
import shlex
from pathlib import Path

import click
import pytest

from sweeps.cli.main import COMMANDS, LazyCommand
from sweeps.command_hints import CommandHints
from sweeps.launching.live_report import LiveFile
from sweeps.launching.sweep_commands import DEMO, command_hints, running_now, runs_now
from sweeps.workspace import Workspace


@pytest.mark.parametrize(
    ("folder", "file", "command"),
    [
        ("edgesweep-data", None, "edgesweep run SWEEP.yaml"),
        ("edgesweep-data", Path("my nets.yaml"), "edgesweep run 'my nets.yaml'"),
        ("results", Path("s.yaml"), "edgesweep run s.yaml --workspace results"),
        ("/elsewhere", None, "edgesweep run SWEEP.yaml --workspace /elsewhere"),
        ("results", DEMO, "edgesweep demo --workspace results"),
    ],
)
def test_the_command_to_run_on_names_the_file_and_a_workspace_that_is_not_the_usual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, file: Path | None, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EDGESWEEP_WORKSPACE", raising=False)
    hints = command_hints(Workspace(tmp_path / folder), "s", file)
    assert hints.run == command
    where = hints.workspace
    assert where == command[command.find(" --w") :] * ("--workspace" in command)
    assert hints.typed("edgesweep run SWEEP.yaml --settle 3: see edgesweep rank s -v") == (
        f"{command} --settle 3: see edgesweep rank{where} s -v"
    )


def test_the_workspace_of_the_environment_is_the_usual_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESWEEP_WORKSPACE", str(tmp_path / "here"))
    assert command_hints(Workspace(tmp_path / "here")).run == "edgesweep run SWEEP.yaml"


def test_the_file_of_the_last_run_is_named_and_a_run_that_goes_on_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESWEEP_WORKSPACE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    workspace = Workspace(tmp_path)
    file = tmp_path / "nets.yaml"
    file.touch()
    with workspace.lock(), LiveFile(workspace.live, "nets", file=file):
        assert [*running_now(workspace)] == [
            "A run of nets goes on in this workspace now: another one cannot start before it has ended"
        ]
        assert runs_now(workspace, "nets")
        assert not runs_now(workspace, "others")
    assert [*running_now(workspace)] == []
    assert command_hints(workspace, "nets").run == "edgesweep run nets.yaml"
    assert command_hints(workspace, "others").run == "edgesweep run SWEEP.yaml"
    file.unlink()
    assert command_hints(workspace, "nets").run == "edgesweep run SWEEP.yaml"


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_another_command_that_has_the_workspace_is_not_taken_for_the_last_run(tmp_path: Path, how: str) -> None:
    """The other command may be `edgesweep check` or `noise`."""
    workspace = Workspace(tmp_path)
    with LiveFile(workspace.live, "nets"):
        left = json.loads(workspace.live.read_text()) | {"pid": os.getpid() + 1}
    if how == "killed":
        workspace.live.write_text(json.dumps(left))
    with workspace.lock():
        assert [*running_now(workspace)] == [
            f"Process {os.getpid()} uses this workspace now: no run can start before it has finished"
        ]
        assert not runs_now(workspace, "nets")


_OF_THIS_COMPUTER = {"dashboard", "devices", "doctor", "recipe"}
"""Commands with a workspace that no advice about its results names."""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_in_advice_has_the_workspace_where_it_takes_one(name: str) -> None:
    command = LazyCommand(name, *COMMANDS[name]).load()
    subcommands = command.commands if isinstance(command, click.Group) else {}
    for path, subcommand in {
        (name,): command,
        **{(name, verb): subcommand for verb, subcommand in subcommands.items()},
    }.items():
        text = f"edgesweep {' '.join(path)}"
        done = shlex.split(CommandHints(workspace=" --workspace w").typed(text))
        takes = any("--workspace" in option.opts for option in subcommand.params) and name not in _OF_THIS_COMPUTER
        assert ("--workspace" in done) == takes, text
        before = tuple(done[1 : done.index("--workspace")]) if takes else ()
        taker = {(): subcommand, (name,): command}.get(before, subcommand)
        assert not takes or any("--workspace" in option.opts for option in taker.params), done


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("edgesweep rank a.b --workspace v; edgesweep rank", "edgesweep rank a.b --workspace v; edgesweep rank -W"),
        ("edgesweep rank. Or edgesweep status --workspace v", "edgesweep rank -W. Or edgesweep status --workspace v"),
        ("edgesweep journal salvage saves it", "edgesweep journal salvage -W saves it"),
        ("see edgesweep quarantine", "see edgesweep quarantine"),
    ],
)
def test_a_command_that_has_its_workspace_is_left_as_it_is(text: str, typed: str) -> None:
    assert CommandHints(workspace=" -W").typed(text) == typed
