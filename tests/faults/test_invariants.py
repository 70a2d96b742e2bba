"""The checker of invariants finds each of the six where it is broken, and nothing where all hold."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import MAX_ATTEMPTS
from sweeps.locks import HostLock
from sweeps.planning.keys import job_key
from sweeps.records import Job
from sweeps.store.mlflow import Store
from sweeps.workspace import Workspace
from tests.faults import seen
from tests.faults.invariants import ALL, BrokenError, Scene, check
from tests.fresh_mlflow import fresh_mlflow
from tests.sweeps.conftest import Records

RECORDS = Records()
RUNNER = "python-torchscript 1"


def job_of(number: int) -> Job:
    """A job with a key as the plan makes it."""
    job = RECORDS.job(number)
    protocol = RECORDS.plan(job).protocol.on(job.device_id)
    return replace(job, key=job_key(job.build_key, RECORDS.facts, job.run, protocol, RUNNER, "", replicate=0))


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return Scene(workspace=Workspace.open(tmp_path / "workspace"), sweep="phones", publishes=False)


@pytest.fixture
def journal(scene: Scene) -> Iterator[Journal]:
    """One job measured, one failed, one pending."""
    measured, failed, pending = map(job_of, range(3))
    with Journal.open(scene.workspace.journal) as journal:
        journal.save_plan(RECORDS.plan(measured, failed, pending, skipped=(RECORDS.skipped(),)))
        journal.artifacts.add(RECORDS.manifest(measured).model_copy(update={"file_sha256": "a" * 64}))
        for round_ in range(2):
            journal.attempts.add_block(RECORDS.block(measured, round_))
        journal.attempts.add_accuracy(RECORDS.accuracy(measured))
        for _ in range(MAX_ATTEMPTS):
            journal.attempts.add_failure(failed.key, RECORDS.failed())
        yield journal


def change(journal: Journal, *statements: str) -> None:
    with closing(sqlite3.connect(journal.path)) as db, db:
        for statement in statements:
            db.execute(statement)


def broken(scene: Scene, journal: Journal) -> int:
    with pytest.raises(BrokenError) as caught:
        check(scene, journal)
    return caught.value.number


def test_where_all_six_hold_nothing_is_found_and_each_was_checked(scene: Scene, journal: Journal) -> None:
    fresh_mlflow(scene.workspace.root)
    accepted = {job_of(0).key: journal.attempts.blocks(job_of(0).key)}
    folders = {scene.workspace.root.parent: {"workspace"}}
    timings = 2 + MAX_ATTEMPTS
    saw = seen.begin()
    check(
        replace(scene, publishes=True, started=timings, accepted=accepted, folders=folders, leases=["phone 1"]), journal
    )
    assert saw.held == ALL


COPY = "INSERT INTO attempts (key, kind, round, record, created) SELECT key, kind, {}, record, created FROM attempts"
BLOCK = "UPDATE attempts SET record = json_set(record, {}) WHERE id = 1"


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP INDEX one_block_per_round", f"{COPY.format('round')} WHERE id = 1"),
        (f"{COPY.format('7')} WHERE id = 1",),
        (f"{COPY.format('NULL')} WHERE kind = 'failure' LIMIT 1",),
        (f"UPDATE attempts SET key = '{job_of(0).key}' WHERE kind = 'failure'",),
    ],
    ids=["two blocks of a round", "a round too many", "tried on when given up", "given up and measured"],
)
def test_a_job_that_ended_twice_breaks_the_first(scene: Scene, journal: Journal, statements: tuple[str, ...]) -> None:
    change(journal, *statements)
    assert broken(scene, journal) == 1


@pytest.mark.parametrize(
    "statement",
    [
        BLOCK.format("'$.exit_code', 139"),
        BLOCK.format("'$.samples_ns', json('[]')"),
        BLOCK.format("'$.samples_ns[3]', -1"),
        BLOCK.format("'$.artifact_sha256', 'b'"),
        BLOCK.format("'$.job_key', 'b'"),
        BLOCK.format("'$.backend_ran', 'nnapi'"),
        BLOCK.format("'$.engine_ran', ''"),
        BLOCK.format("'$.runtime_version', ''"),
        BLOCK.format("'$.runner', 'another 2'"),
        "UPDATE devices SET facts = json_set(facts, '$.os_build', 'linux 7')",
        "DELETE FROM artifacts",
    ],
)
def test_a_timing_that_is_not_whole_breaks_the_second(scene: Scene, journal: Journal, statement: str) -> None:
    change(journal, statement)
    assert broken(scene, journal) == 2


@pytest.mark.parametrize("wrong", ["a job twice", "an unknown job", "left running", "other figures"])
def test_what_the_journal_has_not_breaks_the_third(
    scene: Scene, journal: Journal, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    fresh_mlflow(scene.workspace.root)
    scene = replace(scene, publishes=True)
    check(scene, journal)
    client = MlflowClient(tracking_uri=scene.workspace.tracking_uri)
    experiment = client.get_experiment_by_name("phones")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    [run] = [run for run in runs if run.data.tags.get("edgesweep.job_key") == job_of(0).key]
    if wrong == "other figures":
        client.log_metric(run.info.run_id, "latency_p50_ms", 4.0)
    else:
        other = {"edgesweep.job_key": "b", "edgesweep.attempt_key": "b"} if wrong == "an unknown job" else {}
        created = client.create_run(experiment.experiment_id, tags=run.data.tags | other)
        if wrong == "left running":
            monkeypatch.setattr(Store, "publish", lambda *_: 0)  # publishing that closes nothing
        else:
            client.set_terminated(created.info.run_id)
    assert broken(scene, journal) == 3


def test_a_lease_that_is_held_breaks_the_fourth(scene: Scene, journal: Journal) -> None:
    scene = replace(scene, leases=["phone of a test of invariants"])
    hold = HostLock("phone of a test of invariants")
    assert broken(scene, journal) == 4
    hold.release()
    check(scene, journal)
    with scene.workspace.lock():
        assert broken(scene, journal) == 4


def test_a_block_that_is_lost_or_measured_again_breaks_the_fifth(scene: Scene, journal: Journal) -> None:
    started = replace(scene, started=2 + MAX_ATTEMPTS + 1)
    assert broken(started, journal) == 5
    check(replace(started, in_flight=1), journal)
    with_blocks = replace(scene, accepted={job_of(0).key: journal.attempts.blocks(job_of(0).key)})
    check(with_blocks, journal)
    change(journal, "DELETE FROM attempts WHERE id = 1")
    assert broken(with_blocks, journal) == 5


def test_a_file_beside_the_workspace_breaks_the_sixth(scene: Scene, journal: Journal, tmp_path: Path) -> None:
    scene = replace(scene, folders={tmp_path: {"workspace"}})
    check(scene, journal)
    (tmp_path / "left over").touch()
    assert broken(scene, journal) == 6
