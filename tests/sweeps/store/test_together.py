"""Several calls of MLflow's client as one transaction."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException
from sqlalchemy import event
from sqlalchemy.engine import Engine

from sweeps.errors import StoreError
from sweeps.store.together import together
from tests.fresh_mlflow import fresh_mlflow

METRIC = Metric("latency_ms", 5.0, 1, 0)


@pytest.fixture
def client(tmp_path) -> MlflowClient:
    fresh_mlflow(tmp_path)
    return MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.sqlite'}")


@pytest.fixture
def experiment_id(client, tmp_path) -> str:
    return client.create_experiment("sweep", artifact_location=(tmp_path / "artifacts").as_uri())


def runs(client, experiment_id) -> list[str]:
    return [run.info.status for run in client.search_runs([experiment_id])]


def elsewhere(call):
    """In a thread of its own, as another reader of the same process."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def test_calls_are_one_transaction_that_readers_see_when_it_ends(client, experiment_id):
    commits, mine = [], threading.get_ident()

    def committed(connection: object) -> None:
        if threading.get_ident() == mine:  # other tests may have left others
            commits.append(connection)

    with together(client):
        event.listen(Engine, "commit", committed)
        try:
            run_id = client.create_run(experiment_id).info.run_id
            client.log_batch(run_id, metrics=[METRIC], params=[Param("model", "net")])
            client.set_terminated(run_id)
            assert commits == []
        finally:
            event.remove(Engine, "commit", committed)
        assert elsewhere(lambda: runs(client, experiment_id)) == []

    assert elsewhere(lambda: runs(client, experiment_id)) == ["FINISHED"]
    run = client.get_run(run_id)
    assert (run.data.metrics, run.data.params) == ({"latency_ms": 5.0}, {"model": "net"})


def refused(client, experiment_id) -> None:
    with together(client):
        client.create_run(experiment_id)
        raise StoreError("no artifacts", "")


def missing(client, experiment_id) -> None:
    with together(client):
        client.create_run(experiment_id)
        client.set_terminated("0" * 32)


def there_already(client, experiment_id) -> None:
    """MLflow would take back the second batch, and what was written before, and write the other metric."""
    with together(client):
        run_id = client.create_run(experiment_id).info.run_id
        client.log_batch(run_id, metrics=[METRIC])
        client.log_batch(run_id, metrics=[METRIC, Metric("accuracy", 0.5, 1, 0)])


@pytest.mark.parametrize(
    ("write", "error", "words"),
    [
        (refused, StoreError, r"^no artifacts$"),
        (missing, MlflowException, "not found"),
        (there_already, MlflowException, "has some of this run already"),
    ],
)
def test_an_error_takes_back_all_of_a_block_and_is_raised_as_it_is(client, experiment_id, write, error, words):
    with pytest.raises(error, match=words):
        write(client, experiment_id)
    assert runs(client, experiment_id) == []


def test_calls_after_a_block_are_for_themselves_again(client, experiment_id):
    with together(client):
        run_id = client.create_run(experiment_id).info.run_id
    client.log_batch(run_id, metrics=[METRIC])
    client.log_batch(run_id, metrics=[METRIC, Metric("accuracy", 0.5, 1, 0)])
    assert client.get_run(run_id).data.metrics == {"latency_ms": 5.0, "accuracy": 0.5}
