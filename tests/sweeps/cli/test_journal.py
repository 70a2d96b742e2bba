"""`edgesweep journal`, and the lag that `status` shows."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sweeps.cli.main import main
from sweeps.journal import schema as journal_schema
from sweeps.journal.journal import Journal
from sweeps.store import outbox
from sweeps.workspace import Workspace
from tests.store_double import doubled
from tests.sweeps.conftest import Records


@pytest.fixture
def workspace(tmp_path: Path, records: Records, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """One measured job that MLflow has not."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("EDGESWEEP_WORKSPACE", str(tmp_path / "here"))
    workspace = Workspace.open(tmp_path / "here")
    job = records.job(0)
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(job))
        journal.artifacts.add(records.manifest(job).model_copy(update={"file_sha256": "a" * 64}))
        for round_ in range(2):
            journal.attempts.add_block(records.block(job, round_))
        journal.attempts.add_accuracy(records.accuracy(job))
    with doubled():
        yield workspace


def edgesweep(*words: str) -> Result:
    ended = CliRunner().invoke(main, words)
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return ended


def test_status_tells_what_mlflow_lacks_until_it_is_published(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "PATIENCE_S", 0.0)
    assert json.loads(edgesweep("status", "--json").stdout)["not_in_mlflow"] is None, "nobody has published yet"
    with monkeypatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
        refused = edgesweep("journal", "publish")
        assert refused.exit_code == 1
        assert "cannot be reached" in refused.stderr
        lag = json.loads(edgesweep("status", "--json").stdout)["not_in_mlflow"]
        assert lag["jobs"] == 1
        assert f"1 finished job is not in MLflow yet, the first since {lag['since'][:10]}" in edgesweep("status").stdout
    assert edgesweep("journal", "publish").exit_code == 0
    assert json.loads(edgesweep("status", "--json").stdout)["not_in_mlflow"] == {"jobs": 0, "since": None}
    assert "not in MLflow" not in edgesweep("status").stdout


def test_verify_ends_with_1_where_something_is_wrong_and_compares_mlflow_where_asked(workspace: Workspace) -> None:
    edgesweep("journal", "publish")
    ended = edgesweep("journal", "verify", "--store")
    assert ended.exit_code == 0, ended.output
    assert "sweep phones: 1 measured" in ended.stdout
    assert "MLflow, sweep phones: 1 runs, 0 being written" in ended.stdout
    with closing(sqlite3.connect(workspace.root / "mlflow.sqlite")) as db, db:
        db.execute(
            "INSERT INTO runs (document) SELECT replace(document, json_extract(document, '$.run_id'), 'copy') FROM runs"
        )
    ended = edgesweep("journal", "verify", "--store", "--json")
    assert ended.exit_code == 1
    assert [finding["message"] for finding in json.loads(ended.stdout)["findings"]] == [
        "2 runs have it",
        "2 runs have it",
    ]


def test_a_run_that_the_journal_does_not_know_is_found(workspace: Workspace, records: Records) -> None:
    edgesweep("journal", "publish")
    with closing(sqlite3.connect(workspace.journal)) as db, db:
        db.execute("UPDATE jobs SET job_key = 'another'")
        db.execute("UPDATE jobs SET record = json_set(record, '$.key', 'another')")
    ended = edgesweep("journal", "verify", "--store", "--json")
    messages = [finding["message"] for finding in json.loads(ended.stdout)["findings"]]
    assert f"the journal has no job {records.job(0).key:.12}" in messages


def test_an_export_goes_to_a_new_file_or_to_stdout(workspace: Workspace, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    assert edgesweep("journal", "export", str(file)).exit_code == 0
    assert file.read_text() == edgesweep("journal", "export").stdout
    assert edgesweep("journal", "export", str(file)).exit_code == 1, "it is not overwritten"


def test_a_backup_restored_elsewhere_verifies_and_says_where_it_came_from(workspace: Workspace, tmp_path: Path) -> None:
    edgesweep("journal", "publish")
    assert edgesweep("journal", "backup", str(tmp_path / "saved.tar")).exit_code == 0
    elsewhere = str(tmp_path / "there")
    restored = edgesweep("journal", "restore", str(tmp_path / "saved.tar"), "--workspace", elsewhere)
    assert f"It was saved from {workspace.root}" in restored.stdout
    assert edgesweep("journal", "verify", "--store", "--workspace", elsewhere).exit_code == 0
    assert edgesweep("journal", "restore", str(tmp_path / "saved.tar"), "--workspace", elsewhere).exit_code == 1


@pytest.mark.parametrize("words", ["status", "journal verify", "journal export", "journal publish"])
def test_a_journal_of_another_version_is_refused_with_both_named(words: str, workspace: Workspace) -> None:
    known = journal_schema.VERSION
    with closing(sqlite3.connect(workspace.journal)) as db:
        db.execute(f"PRAGMA user_version = {known + 1}")
    ended = edgesweep(*words.split())
    assert ended.exit_code == 1
    assert f"has version {known + 1}; this EdgeSweep reads and writes version {known}" in ended.stderr
