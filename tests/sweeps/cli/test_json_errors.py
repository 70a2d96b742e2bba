"""With `--json`, a command that fails prints one document, too."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sweeps.cli.main import COMMANDS, LazyCommand, main
from sweeps.failure_kinds import FAILURES, USAGE

WRONG = "name: s\nmodels: 3\ngrids: []\n"


def invoked(words: Sequence[str], folder: Path) -> Result:
    (folder / "wrong.yaml").write_text(WRONG)
    return CliRunner().invoke(main, [word.format(folder=folder) for word in words])


def error_in(done: Result) -> dict[str, str]:
    """The error of the document that stdout has; nothing else is there."""
    document = json.loads(done.stdout)
    assert document.keys() == {"error"}
    error: dict[str, str] = document["error"]
    assert error.keys() == {"kind", "message", "next_step"}
    assert error["kind"] in FAILURES
    return error


@pytest.mark.parametrize(
    ("words", "kind", "code"),
    [
        (("plan", "{folder}/wrong.yaml"), "bad_sweep_file", 2),
        (("run", "{folder}/none.yaml", "--workspace", "{folder}/w"), "bad_sweep_file", 2),
        (("rank", "--workspace", "{folder}/w"), "bad_workspace", 1),
        (("export", "--workspace", "{folder}/w"), "bad_workspace", 1),
        (("explain", "zzz"), "refused", 1),
        (("status", "--workspace", "{folder}/w"), "bad_workspace", 1),
        (("check", "{folder}/none"), "refused", 1),
    ],
)
def test_a_refusal_is_a_document_with_its_kind_message_and_next_step(
    words: tuple[str, ...], kind: str, code: int, tmp_path: Path
) -> None:
    shown, done = invoked(words, tmp_path), invoked((*words, "--json"), tmp_path)
    assert (shown.exit_code, done.exit_code) == (code, code)
    assert (shown.stdout, shown.stderr) == ("", done.stderr)
    error = error_in(done)
    assert error["kind"] == kind
    assert shown.stderr == f"edgesweep: {error['message']}\n  next: {error['next_step']}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_arguments_that_no_command_takes_are_a_document(name: str, tmp_path: Path) -> None:
    done = invoked((name, "--json", "--no-such-option"), tmp_path)
    assert done.exit_code == 2
    error = error_in(done)
    assert error["kind"] == USAGE
    assert error["message"] in done.stderr
    assert "--help" in error["next_step"]


@pytest.mark.parametrize(
    ("words", "message", "step"),
    [
        (("foo", "--json"), "No such command 'foo'.", "main --help"),
        (("--json", "foo"), "No such option '--json'", "main --help"),
        (("--json", "rank"), "No such option '--json'", "main --help"),
        (("--json",), "No such option '--json'", "main --help"),
        (("--no-such-option", "rank", "--json"), "No such option '--no-such-option'", "main --help"),
        (("journal", "foo", "--json"), "No such command 'foo'.", "main journal --help"),
        (("journal", "--json", "verify"), "No such option '--json'", "main journal --help"),
    ],
)
def test_words_that_lead_to_no_command_are_a_document(
    words: tuple[str, ...], message: str, step: str, tmp_path: Path
) -> None:
    done = invoked(words, tmp_path)
    error = error_in(done)
    assert (done.exit_code, error["kind"], error["next_step"]) == (2, USAGE, step)
    assert error["message"].startswith(message)
    assert error["message"] in done.stderr


def test_a_package_that_is_missing_is_a_document(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lacking = LazyCommand("lacking", "there_is_no_such_package.module:command", "Needs what is not there.")
    monkeypatch.setitem(main.commands, "lacking", lacking)
    done = invoked(("lacking", "--json"), tmp_path)
    assert error_in(done)["message"] == "there_is_no_such_package is not installed"
