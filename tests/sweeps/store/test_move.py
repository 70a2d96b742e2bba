"""A workspace that was moved or copied finds its artifacts again."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from mlflow import MlflowClient

from sweeps.cli.main import main
from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.store import move
from sweeps.store.mlflow import Store
from sweeps.store.move import move_paths
from sweeps.workspace import Workspace
from tests import shared
from tests.fresh_mlflow import fresh_mlflow
from tests.mlflow_rows import load
from tests.sweeps.conftest import Records

SWEEPS = ("phones", "tablets")


@pytest.fixture(autouse=True)
def _no_server(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="module")
def made() -> Path:
    """A workspace with two sweeps in MLflow. It stays where it is."""
    records = Records()

    def build(folder: Path) -> None:
        workspace = Workspace.open(folder / "it's 100% #1")
        fresh_mlflow(workspace.root)
        store = Store(workspace.tracking_uri, workspace.mlflow_artifacts)
        with Journal.open(workspace.journal) as journal:
            for number, name in enumerate(SWEEPS):
                job = records.job(number)
                journal.save_plan(records.plan(job, name=name))
                journal.artifacts.add(records.manifest(job))
                for round_ in range(2):
                    journal.attempts.add_block(records.block(job, round_))
                journal.attempts.add_accuracy(records.accuracy(job))
                assert store.publish(journal, name) == 1

    return shared.made_once("workspace to move", build) / "it's 100% #1"


@pytest.fixture
def moved(made, tmp_path) -> Workspace:
    """A copy at another place, with the database as it was."""
    return Workspace.open(shutil.copytree(made, tmp_path / "new % place ☃"))


def run(workspace: Workspace, *words: str) -> Result:
    return CliRunner().invoke(main, ["store", "move", "--workspace", str(workspace.root), *words])


def addresses(uri: str) -> set[str]:
    """All that MLflow tells of its sweeps."""
    client = MlflowClient(tracking_uri=uri)
    found = [client.get_experiment_by_name(name) for name in SWEEPS]
    ids = [experiment.experiment_id for experiment in found]
    return {
        *(experiment.artifact_location for experiment in found),
        *(run.info.artifact_uri for run in client.search_runs(ids)),
        *(model.artifact_location for model in client.search_logged_models(ids)),
    }


def test_runs_and_models_are_found_at_the_new_place(moved, made, tmp_path):
    assert all(address.startswith(made.as_uri()) for address in addresses(moved.tracking_uri))
    done = run(moved)
    assert done.exit_code == 0, done.output
    assert "rewrote 2 in experiments, 4 in runs, 2 in logged_models" in done.output

    assert all(address.startswith(moved.mlflow_artifacts.as_uri()) for address in addresses(moved.tracking_uri))
    client = MlflowClient(tracking_uri=moved.tracking_uri)
    (row,) = load(moved.tracking_uri, "phones").frame.to_dict("records")
    # What the new place has, and not the old one.
    (moved.mlflow_artifacts / "phones" / row["run_id"] / "artifacts" / "samples.json").write_text('"here"')
    path = client.download_artifacts(row["run_id"], "samples.json", str(tmp_path))
    assert json.loads(Path(path).read_text()) == "here"


def test_a_sweep_goes_on_at_the_new_place_and_leaves_the_old_one_alone(moved, made, records):
    store = Store(moved.tracking_uri, moved.mlflow_artifacts)
    with pytest.raises(StoreError, match=r"was moved or copied.*\n.*edgesweep store move --workspace"):
        store.check()
    assert run(moved).exit_code == 0
    store.check()

    before = sorted(made.rglob("*"))
    here = len(list(moved.root.rglob("samples.json")))
    job = records.job(7)
    with Journal.open(moved.journal) as journal:
        journal.save_plan(records.plan(job, name="phones"))
        for round_ in range(2):
            journal.attempts.add_block(records.block(job, round_))
        journal.attempts.add_accuracy(records.accuracy(job))
        assert store.publish(journal, "phones") == 1
    assert len(list(moved.root.rglob("samples.json"))) == here + 1
    assert sorted(made.rglob("*")) == before
    Store(f"sqlite:///{made / 'mlflow.sqlite'}", made / "mlflow-artifacts").check()


def test_a_dry_run_tells_and_changes_nothing(moved, made):
    before = (moved.root / "mlflow.sqlite").read_bytes()
    done = run(moved, "--dry-run")
    assert done.exit_code == 0, done.output
    assert "would rewrite 2 in experiments, 4 in runs, 2 in logged_models" in done.output
    assert str(made) in done.output
    assert str(moved.root) in done.output
    assert (moved.root / "mlflow.sqlite").read_bytes() == before
    assert list(moved.root.glob("*before-move*")) == []


def test_the_database_as_it_was_is_kept_and_a_second_move_does_nothing(moved, made, tmp_path):
    before = addresses(moved.tracking_uri)
    told = json.loads(run(moved, "--json").stdout)
    assert told["from"] == [f"{made.as_uri()}/mlflow-artifacts/"]
    assert told["rewritten"]["runs"] == 4
    backup = moved.root / "mlflow.sqlite.before-move"
    assert told["backup"] == str(backup)
    assert addresses(f"sqlite:///{backup}") == before

    assert "nothing to rewrite" in run(moved).output
    again = Workspace.open(shutil.copytree(moved.root, tmp_path / "third"))
    assert json.loads(run(again, "--json").stdout)["backup"] == f"{again.root}/mlflow.sqlite.before-move-2"
    assert {path.name for path in again.root.glob("mlflow.sqlite*")} == {
        "mlflow.sqlite",
        "mlflow.sqlite.before-move",
        "mlflow.sqlite.before-move-2",
    }


def test_sweeps_of_two_places_come_together_and_what_is_not_of_a_workspace_stays(moved, made, records):
    client = MlflowClient(tracking_uri=moved.tracking_uri)
    theirs = client.create_experiment("theirs", artifact_location="file:///elsewhere/mlflow-artifacts/theirs")
    with closing(sqlite3.connect(moved.root / "mlflow.sqlite")) as db, db:
        old, new = f"{made.as_uri()}/mlflow-artifacts/tablets", "file:///first/place/mlflow-artifacts/tablets"
        for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
            db.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (old, new))
        db.execute(
            "INSERT INTO registered_models (name, workspace) SELECT 'net', workspace FROM experiments LIMIT 1"
            if "workspace" in [name for _, name, *_ in db.execute("PRAGMA table_info(registered_models)")]
            else "INSERT INTO registered_models (name) VALUES ('net')"
        )
    (run_,) = client.search_runs(
        [client.get_experiment_by_name("phones").experiment_id], "attributes.run_name != 'phones'"
    )
    client.create_model_version("net", f"{run_.info.artifact_uri}/model", run_.info.run_id)

    told = json.loads(run(moved, "--json").stdout)
    assert told["from"] == ["file:///first/place/mlflow-artifacts/", f"{made.as_uri()}/mlflow-artifacts/"]
    assert all(address.startswith(moved.mlflow_artifacts.as_uri()) for address in addresses(moved.tracking_uri))
    assert client.get_experiment(theirs).artifact_location == "file:///elsewhere/mlflow-artifacts/theirs"
    assert client.get_model_version("net", "1").source.startswith(moved.mlflow_artifacts.as_uri())


def test_artifacts_that_were_left_behind_are_missed_before_anything_is_changed(moved):
    before = (moved.root / "mlflow.sqlite").read_bytes()
    shutil.rmtree(moved.mlflow_artifacts / "tablets")
    done = run(moved)
    assert done.exit_code == 1
    assert "the artifacts of tablets are not in" in done.stderr
    assert (moved.root / "mlflow.sqlite").read_bytes() == before

    # Of what a person deleted, nobody misses any.
    client = MlflowClient(tracking_uri=moved.tracking_uri)
    client.delete_experiment(client.get_experiment_by_name("tablets").experiment_id)
    assert run(moved).exit_code == 0


def test_a_failure_in_its_midst_leaves_all_as_it_was(moved):
    before = addresses(moved.tracking_uri)
    with closing(sqlite3.connect(moved.root / "mlflow.sqlite")) as db:
        db.execute("CREATE TRIGGER no BEFORE UPDATE ON logged_models BEGIN SELECT RAISE(ABORT, 'no more'); END")
    done = run(moved)
    assert done.exit_code == 1
    assert "cannot be rewritten: no more" in done.stderr
    assert addresses(moved.tracking_uri) == before


def test_nothing_is_rewritten_while_a_sweep_runs(moved):
    before = (moved.root / "mlflow.sqlite").read_bytes()
    with moved.lock():
        done = run(moved)
    assert done.exit_code == 1
    assert "is locked by process" in done.stderr
    assert (moved.root / "mlflow.sqlite").read_bytes() == before


def test_a_database_that_another_program_writes_is_told(moved, monkeypatch):
    monkeypatch.setattr(move, "_BUSY_S", 0.05)
    with closing(sqlite3.connect(moved.root / "mlflow.sqlite", isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        done = run(moved)
        db.execute("ROLLBACK")
    assert done.exit_code == 1
    assert "database is locked" in done.stderr
    assert "end what else uses it" in done.stderr


@pytest.mark.parametrize("uri", ["http://me:secret@127.0.0.1:1", "postgresql://me:secret@127.0.0.1:1/mlflow"])
def test_a_server_or_its_database_is_refused_without_its_password(moved, monkeypatch, uri):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    done = run(moved)
    assert done.exit_code == 1
    assert "is no sqlite file" in done.stderr
    assert "secret" not in done.output


def test_neither_workspace_nor_database_of_mlflow_is_refused_and_nothing_is_made(tmp_path):
    missing = CliRunner().invoke(main, ["store", "move", "--workspace", str(tmp_path / "none")])
    assert missing.exit_code == 1
    assert "there is no workspace at" in missing.stderr
    assert not (tmp_path / "none").exists()
    with pytest.raises(StoreError, match="there is no database at"):
        move_paths(f"sqlite:///{tmp_path / 'none.sqlite'}", tmp_path)
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE mine (a)")
    with pytest.raises(StoreError, match="not a database of MLflow"):
        move_paths(f"sqlite:///{other}", tmp_path)
    other.write_bytes(b"text " * 1000)
    with pytest.raises(StoreError, match="file is not a database"):
        move_paths(f"sqlite:///{other}", tmp_path)
