"""The table of commands: each line is the command's own help, and nothing is imported that is not asked for."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sweeps.cli.main import COMMANDS, VERBS_BY_PURPOSE, LazyCommand, main
from sweeps.extras import install_line
from sweeps.journal.journal import Journal
from sweeps.journal.sweep_progress import read_status
from sweeps.workspace import Workspace
from tests.sweeps.conftest import Records

HEAVY = ("numpy", "scipy", "pandas", "mlflow", "torch", "ray")


def _imported_by(*words: str) -> set[str]:
    """The heavy libraries that a command has imported at its end."""
    program = (
        "import sys\nfrom sweeps.cli.main import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        f"print('imported', *sorted(set({HEAVY}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("name", COMMANDS)
def test_each_line_of_the_table_is_the_command_s_own(name: str) -> None:
    listed = main.commands[name]
    assert isinstance(listed, LazyCommand)
    command = listed.load()
    assert command.name == name
    for width in (30, 45, 80, 110, 200):
        assert listed.get_short_help_str(width) == command.get_short_help_str(width)


def test_every_verb_stands_under_exactly_one_heading() -> None:
    assert sorted(verb for verbs in VERBS_BY_PURPOSE.values() for verb in verbs) == sorted(COMMANDS)


def test_the_help_lists_the_verbs_under_their_headings_in_the_order_of_use() -> None:
    _, _, listed = CliRunner().invoke(main, ["--help"]).stdout.partition("-h, --help")
    sections = re.findall(r"^(\S.+):\n((?:  .+\n)+)", listed, re.MULTILINE)
    assert [(heading, tuple(re.findall(r"^  (\S+)", lines, re.MULTILINE))) for heading, lines in sections] == list(
        VERBS_BY_PURPOSE.items()
    )
    assert len({line.index(line.split()[1], 3) for _, lines in sections for line in lines.splitlines()}) == 1


def test_the_list_of_commands_imports_no_heavy_library() -> None:
    assert _imported_by("--help") == set()


def test_the_help_of_a_plan_imports_no_heavy_library() -> None:
    assert _imported_by("plan", "--help") == set()


def test_how_far_a_measured_sweep_is_is_told_without_heavy_libraries(records: Records, tmp_path: Path) -> None:
    job = records.job(0)
    with Journal.open(Workspace.open(tmp_path).journal) as journal:
        journal.save_plan(records.plan(job, rounds=2))
        journal.attempts.add_accuracy(records.accuracy(job))
        for round_ in range(2):
            journal.attempts.add_block(records.block(job, round_))
        assert read_status(journal, "phones").count("measured") == 1
    assert _imported_by("status", "--workspace", str(tmp_path)) == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_no_help_needs_torch_ray_or_mlflow(name: str) -> None:
    assert _imported_by(name, "--help") & {"torch", "ray", "mlflow"} == set()


def test_a_command_s_arguments_are_its_own_although_it_is_imported_late() -> None:
    context = main.commands["status"].make_context("status", ["demo", "--json"])
    assert context.params["sweep"] == "demo"
    assert context.params["as_json"] is True
    assert not isinstance(context.command, LazyCommand)


def test_a_command_that_lacks_a_package_says_which_and_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = LazyCommand("lacking", "there_is_no_such_package.module:command", "Needs what is not there.")
    monkeypatch.setitem(main.commands, "lacking", lacking)
    ended = CliRunner().invoke(main, ["lacking"])
    assert ended.exit_code == 1
    step = install_line("workers")
    assert ended.stderr == f"edgesweep: there_is_no_such_package is not installed\n  next: {step}\n"


def test_a_command_that_does_not_exist_is_a_usage_error() -> None:
    ended = CliRunner().invoke(main, ["statsu"])
    assert ended.exit_code == click.UsageError.exit_code
    assert "No such command 'statsu'" in ended.stderr


def test_a_word_after_two_dashes_is_no_option():
    result = CliRunner().invoke(main, ["status", "--", "--json", "another", "word"])
    assert result.exit_code == 2
    assert result.stdout == ""
