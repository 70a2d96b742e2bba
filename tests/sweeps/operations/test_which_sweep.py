"""Which sweep is meant where none is named."""

import pytest

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.operations.stored_results import results_of
from sweeps.store.mlflow import Store
from sweeps.workspace import Workspace
from tests.store_double import doubled


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with doubled():
        yield Workspace.open(tmp_path)


def test_the_latest_sweep_without_results_is_named_with_the_others(workspace, records):
    job = records.job(0)
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(job, name="first"))
        for round_ in range(3):
            journal.add_block(records.block(job, round_))
        journal.add_accuracy(records.accuracy(job))
        Store(workspace.tracking_uri, workspace.mlflow_artifacts).publish(journal, "first")
        journal.save_plan(records.plan(records.job(1), name="second"))
    assert results_of(workspace, "first").name == "first"
    with pytest.raises(StoreError, match="second, the latest sweep here, has no results yet") as caught:
        results_of(workspace, None)
    assert caught.value.next_step == "name another one: first"
