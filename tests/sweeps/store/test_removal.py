"""A sweep is taken out of a real MLflow, and what others have there stays."""

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.sweep_table import Labels
from sweeps.store.beside import LABELS, NOTE, write_labels
from sweeps.store.removal import Published, check_free, look_for, take_out
from sweeps.store.run_content import JOB_KEY, RECORD
from sweeps.store.sweep_tags import OWNER, PARENT, SWEEP
from sweeps.workspace import Workspace
from tests.fresh_mlflow import fresh_mlflow


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    fresh_mlflow(tmp_path)
    return Workspace(tmp_path)


@pytest.fixture
def client(workspace):
    client = MlflowClient(tracking_uri=workspace.tracking_uri)
    location = (workspace.mlflow_artifacts / "s").as_uri()
    experiment = client.create_experiment("s", artifact_location=location, tags={SWEEP: "s"})
    for owner in ({}, {OWNER: "somebody"}):
        parent = client.create_run(experiment, tags={RECORD: "sweep", **owner}).info.run_id
        client.create_run(experiment, tags={RECORD: "job", JOB_KEY: "the same", PARENT: parent})
    return client


def runs(client):
    return client.search_runs([client.get_experiment_by_name("s").experiment_id])


def test_runs_of_another_workspace_stay_with_their_experiment(workspace, client):
    assert look_for(workspace, "s") == Published(2, other_runs=2)
    assert look_for(workspace, "s", spared={"the same"}) == Published(0, other_runs=2)
    assert take_out(workspace, "s") == 2
    assert look_for(workspace, "s") == Published(0, other_runs=2)
    for run in runs(client):
        client.set_tag(run.info.run_id, OWNER, "")
    assert take_out(workspace, "s") == 2
    assert client.get_experiment_by_name("s") is None


def test_what_a_server_has_done_half_is_done_when_it_is_asked_again(workspace, client, monkeypatch):
    [others] = [run for run in runs(client) if run.data.tags.get(OWNER)]
    for run in runs(client):
        if others.info.run_id in (run.info.run_id, run.data.tags.get(PARENT)):
            client.delete_run(run.info.run_id)

    def refuse(*_):
        raise MlflowException("the connection was lost")

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "delete_experiment", refuse)
        with pytest.raises(StoreError):
            take_out(workspace, "s")
    assert client.get_experiment_by_name("s") is None
    assert len(client.search_experiments(filter_string="name LIKE 's (deleted %'")) == 1
    assert take_out(workspace, "s") == 2
    assert client.search_experiments(filter_string="name LIKE 's%'") == []


def test_a_removal_that_was_cut_off_beside_other_runs_is_repeated(workspace, client, monkeypatch):
    delete_run, calls = MlflowClient.delete_run, []

    def refuse_the_second(client, run_id):
        calls.append(run_id)
        if len(calls) == 2:
            raise MlflowException("the connection was lost")
        delete_run(client, run_id)

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "delete_run", refuse_the_second)
        with pytest.raises(StoreError):
            take_out(workspace, "s")
    assert look_for(workspace, "s") == Published(1, other_runs=2)
    assert take_out(workspace, "s") == 1
    assert look_for(workspace, "s") == Published(0, other_runs=2)
    assert len(runs(client)) == 2


def test_a_name_is_free_only_if_mlflow_has_nothing_under_it(workspace, client):
    with Journal.open(workspace.journal) as journal:
        check_free(workspace, journal, "x", "free")
        with pytest.raises(StoreError, match="has an experiment 's' already"):
            check_free(workspace, journal, "x", "s")
        client.delete_experiment(client.get_experiment_by_name("s").experiment_id)
        with pytest.raises(StoreError, match="has a deleted experiment 's' already"):
            check_free(workspace, journal, "x", "s")


def test_an_empty_note_and_no_tags_replace_what_was_there(workspace, client):
    for labels, note, tags in ((Labels({"a": "ü"}, "x\ny"), "x\ny", '{"a": "ü"}'), (Labels({}), "", "{}")):
        write_labels(workspace, "s", labels)
        found = client.get_experiment_by_name("s").tags
        assert (found[NOTE], found[LABELS]) == (note, tags)
