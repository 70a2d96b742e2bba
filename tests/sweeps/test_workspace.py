import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.errors import WorkspaceError
from sweeps.journal.journal import Journal
from sweeps.store.mlflow import Store
from sweeps.workspace import Workspace
from tests.mlflow_rows import load

HOLDER = """
import sys
from pathlib import Path
from sweeps.workspace import Workspace

with Workspace.open(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(root: Path) -> subprocess.Popen:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_the_folder_is_made_with_its_parents(tmp_path):
    assert Workspace.open(tmp_path / "a" / "b").root.is_dir()


def test_a_folder_that_cannot_be_made_is_an_error_with_the_next_step(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError, match=r"cannot be created: .*\n.*--workspace"):
        Workspace.open(tmp_path / "file" / "workspace")


def test_every_path_is_inside_the_workspace(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    workspace = Workspace.open(tmp_path / "here")
    paths = [
        workspace.journal,
        workspace.mlflow_artifacts,
        workspace.artifact("key"),
        workspace.weights,
        workspace.references,
        workspace.logs,
        Path(workspace.tracking_uri.removeprefix("sqlite:///")),
    ]

    assert all(path.is_relative_to(tmp_path / "here") for path in paths)
    assert len(set(paths)) == len(paths)


def test_results_go_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")

    assert Workspace.open(tmp_path).tracking_uri == "http://127.0.0.1:5000"


@pytest.mark.parametrize("name", ["100%41", "what?"])
def test_a_path_that_mlflow_would_misread_is_refused_before_anything_is_made(tmp_path, name):
    with pytest.raises(WorkspaceError, match="MLflow does not accept"):
        Workspace.open(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_an_oddly_named_workspace_holds_everything_and_nothing_is_beside_it(tmp_path, monkeypatch, records):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    workspace = Workspace.open(tmp_path / 'it\'s "my" 50% &\nnew; ☃ #1:@')
    job = records.job(0)
    store = Store(workspace.tracking_uri, workspace.mlflow_artifacts)
    store.check()
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(job))
        journal.attempts.add_block(records.block(job, 0))
        journal.attempts.add_block(records.block(job, 1))
        journal.attempts.add_accuracy(records.accuracy(job))
        store.publish(journal, "phones")

    assert len(load(workspace.tracking_uri, "phones").frame) == 1
    assert list(tmp_path.iterdir()) == [workspace.root]
    assert len(list(workspace.mlflow_artifacts.rglob("samples.json"))) == 1


def test_a_second_driver_is_refused_and_told_who_holds_the_workspace(tmp_path):
    with hold(tmp_path) as holder:
        with (
            pytest.raises(WorkspaceError, match=rf"locked by process {holder.pid}\n.*wait"),
            Workspace.open(tmp_path).lock(),
        ):
            pass
        holder.communicate()

    with Workspace.open(tmp_path).lock():
        pass


@pytest.mark.fault(36, "SIGKILL of the holder", "the lock is free")
def test_the_lock_of_a_killed_driver_is_free(tmp_path):
    with hold(tmp_path) as holder:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()

        with Workspace.open(tmp_path).lock():
            assert (tmp_path / "driver.lock").read_text() == f"{os.getpid()}\n"


def test_the_lock_is_given_back_after_an_error(tmp_path):
    workspace = Workspace.open(tmp_path)
    with pytest.raises(ZeroDivisionError), workspace.lock():
        raise ZeroDivisionError
    with workspace.lock():
        pass


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("http://[::1", "no IP address"),
        ("http://me:hunter2@host:99999x", "no number"),
        ("postgresql://me:hunter2@host:port/db", "no number"),
        ("http://host:999999", "no number"),
        ("http://", "names no host"),
        ("http://host:", "port is missing"),
        ("http://host\n:1", "control characters"),
        ("http://my host/", "spaces"),
    ],
)
def test_a_tracking_address_that_is_none_is_told_and_not_repeated(
    address: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    with pytest.raises(WorkspaceError, match=reason) as caught:
        _ = Workspace(tmp_path).tracking_uri
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("address", ["http://[::1]:5000", "databricks", "sqlite:////tmp/a b/c", "mysql+pymysql://h/db"])
def test_a_tracking_address_is_taken_as_it_is(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    assert Workspace(tmp_path).tracking_uri == address


def test_a_workspace_that_is_not_there_is_not_made_for_its_lock(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="cannot be written"), Workspace(tmp_path / "typo").lock():
        pass
    assert not list(tmp_path.iterdir())
