"""Completion, asked for as a shell asks."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.journal.journal import Journal


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_for_completions(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_EDGESWEEP_COMPLETE" in result.stdout


def completions(*words: str) -> list[str]:
    completion = ShellComplete(main, {}, "edgesweep", "_EDGESWEEP_COMPLETE")
    return [item.value for item in completion.get_completions(list(words[:-1]), words[-1])]


def test_commands_options_and_sweeps_are_completed(records, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        journal.save_plan(records.plan(records.job(0), name="night"))
        journal.save_plan(records.plan(records.job(0), name="day"))
    assert completions("comp") == ["compare", "completion"]
    assert "--device" in completions("rank", "--d")
    assert completions("rank", "--workspace", str(tmp_path), "ni") == ["night"]
    assert completions("rank", "--workspace", str(tmp_path / "none"), "") == []
    assert completions("sweeps", "--workspace", str(tmp_path), "delete", "d") == ["day"]
