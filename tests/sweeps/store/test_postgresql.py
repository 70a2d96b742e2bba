"""MLflow on a real PostgreSQL: the same content as on sqlite, and nothing lost or doubled by a kill or an outage."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from sweeps.journal.journal import Journal
from sweeps.records import Job
from sweeps.store.mlflow import Store
from sweeps.store.publishing import Publisher
from sweeps.store.verify import verify_published
from sweeps.workspace import Workspace
from tests.faults import seen
from tests.fresh_mlflow import fresh_mlflow
from tests.mlflow_rows import load
from tests.postgresql import PostgreSql, postgresql
from tests.sweeps.conftest import Records

pytestmark = [pytest.mark.system, pytest.mark.postgresql]

LIMIT_S = 120.0
SWEEP = "phones"
WITH_TABLES = "with_tables"
OWN_TAGS = re.compile(r"mlflow\.(parentRunId|user|log-model\.history)")
"""What is another in each store."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSql]:
    """With a database that has MLflow's tables, which take seconds to make."""
    pytest.importorskip("psycopg2", reason="its driver is missing; enable with: pip install psycopg2-binary")
    with postgresql() as server:
        uri, artifacts = server.create(WITH_TABLES), tmp_path_factory.mktemp("artifacts")
        # In a process of its own: nothing is connected to it afterwards, so that it can be copied.
        make = "import sys; from pathlib import Path; from sweeps.store.mlflow import Store;"
        make += "Store(sys.argv[1], Path(sys.argv[2])).check()"
        subprocess.run([sys.executable, "-c", make, uri, str(artifacts)], check=True)
        yield server


@pytest.fixture
def workspace(server: PostgreSql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Whose MLflow is a database of this test."""
    uri = server.create(f"test{time.monotonic_ns()}", like=WITH_TABLES)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return Workspace.open(tmp_path / "work")


@pytest.fixture
def journal(workspace: Workspace) -> Iterator[Journal]:
    with Journal.open(workspace.journal) as journal:
        yield journal


def measure(journal: Journal, records: Records, *jobs: Job) -> None:
    for job in jobs:
        journal.artifacts.add(records.manifest(job))
        for round_ in range(2):
            journal.attempts.add_block(records.block(job, round_, ms=5 + round_))
        journal.attempts.add_accuracy(records.accuracy(job))


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def runs_in(uri: str) -> list[Run]:
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(SWEEP)
    return [] if experiment is None else list(client.search_runs([experiment.experiment_id]))


def of_jobs(uri: str) -> list[Run]:
    return [run for run in runs_in(uri) if run.data.tags["edgesweep.record"] == "job"]


def content(run: Run) -> dict[str, Any]:
    """What is the same wherever it is published."""
    return {
        "name": run.info.run_name,
        "status": run.info.status,
        # What was skipped is dated with its publication.
        "dated": None if run.info.status == "KILLED" else (run.info.start_time, run.info.end_time),
        "params": run.data.params,
        "metrics": {name: value for name, value in run.data.metrics.items() if name != "edgesweep_published_s"},
        "tags": {name: value for name, value in run.data.tags.items() if not OWN_TAGS.match(name)},
        "inputs": sorted((one.dataset.name, one.dataset.digest) for one in run.inputs.dataset_inputs),
        "models": len(run.inputs.model_inputs),
    }


def test_it_has_the_same_content_as_sqlite(workspace: Workspace, journal: Journal, records: Records) -> None:
    jobs = [records.job(number) for number in range(3)]
    journal.save_plan(records.plan(*jobs, skipped=(records.skipped(),)))
    measure(journal, records, *jobs[:2])
    for _ in range(3):
        journal.attempts.add_failure(jobs[2].key, records.failed())
    uris = workspace.tracking_uri, f"sqlite:///{fresh_mlflow(workspace.root)}"
    found = []
    for uri in uris:
        for wanted in (4, 0):
            assert Store(uri, workspace.root / "artifacts").publish(journal, SWEEP) == wanted
        found.append(sorted((content(run) for run in of_jobs(uri)), key=lambda one: str(one["name"])))
    here, on_sqlite = found
    assert len(here) == 4
    assert here == on_sqlite
    one, other = (load(uri, SWEEP).frame.set_index("name").sort_index() for uri in uris)
    own = ["run_id", "artifact_uri", "published_s"]
    assert one.drop(columns=own, errors="ignore").to_json() == other.drop(columns=own, errors="ignore").to_json()


MIDST = """
import sys
from pathlib import Path
from sweeps.journal.journal import Journal
from sweeps.store import mlflow, run_writer
upload = run_writer.upload
def in_the_midst(*given):
    print("in the midst", flush=True)
    sys.stdin.readline()
    upload(*given)
run_writer.upload = in_the_midst
with Journal.open(Path(sys.argv[1])) as journal:
    mlflow.Store(sys.argv[2], Path(sys.argv[3])).publish(journal, sys.argv[4])
"""
"""Publishes, and waits for a line in the middle of each run: it has its values, and no end."""


def test_kill_9_leaves_a_run_running_and_the_next_publisher_replaces_it(
    workspace: Workspace, journal: Journal, records: Records
) -> None:
    jobs = [records.job(number) for number in range(4)]
    journal.save_plan(records.plan(*jobs))
    measure(journal, records, *jobs)
    uri, artifacts = workspace.tracking_uri, workspace.mlflow_artifacts
    words = [sys.executable, "-c", MIDST, str(journal.path), uri, str(artifacts), SWEEP]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as publisher:
        assert publisher.stdin is not None
        assert publisher.stdout is not None
        for whole in range(3):
            assert publisher.stdout.readline() == "in the midst\n"
            assert sorted(run.info.status for run in of_jobs(uri)) == ["FINISHED"] * whole + ["RUNNING"]
            if whole < 2:
                publisher.stdin.write("go on\n")
                publisher.stdin.flush()
        publisher.kill()
    assert sorted(run.info.status for run in of_jobs(uri)) == ["FINISHED"] * 2 + ["RUNNING"]
    assert Store(uri, artifacts).publish(journal, SWEEP) == 2
    assert sorted(run.data.tags["edgesweep.job_key"] for run in of_jobs(uri)) == sorted(job.key for job in jobs)
    assert {run.info.status for run in runs_in(uri)} == {"FINISHED"}


@pytest.mark.fault(46, "PostgreSQL stopped as by a crash while it is published", "told once, sent when it is back")
def test_a_killed_publisher_and_an_absent_database_lose_and_double_nothing(
    server: PostgreSql, workspace: Workspace, journal: Journal, records: Records
) -> None:
    jobs = [records.job(number) for number in range(24)]
    journal.save_plan(records.plan(*jobs))
    with Publisher(workspace, SWEEP) as publisher:
        publisher.beside()
        measure(journal, records, *jobs[:8])
        eventually(lambda: len(of_jobs(workspace.tracking_uri)) >= 2)
        assert publisher.pid is not None
        os.kill(publisher.pid, signal.SIGKILL)
        eventually(lambda: "ended with -9" in publisher.complaint())
        measure(journal, records, *jobs[8:16])
        publisher.turn()  # the driver's next word
        eventually(lambda: len(of_jobs(workspace.tracking_uri)) >= 9)
        server.stop("immediate")
        seen.injected()
        measure(journal, records, *jobs[16:])
        said: list[str] = []
        eventually(lambda: bool(said.append(publisher.complaint()) or said[-1]))
        seen.told()
        assert "MLflow at postgresql" in said[-1]
        server.start()
        assert list(publisher.drain(lambda: False))[-1][0] >= 8
    assert sorted(run.data.tags["edgesweep.job_key"] for run in of_jobs(workspace.tracking_uri)) == sorted(
        job.key for job in jobs
    )
    assert {run.info.status for run in runs_in(workspace.tracking_uri)} == {"FINISHED"}
    checked = verify_published(workspace, journal)
    assert checked.findings == ()
    assert checked.counts == (f"MLflow, sweep {SWEEP}: 24 runs, 0 being written",)
