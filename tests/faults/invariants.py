"""The invariants that must hold whatever happens are checked after every injected fault by reading the journal and
MLflow.

1. Each job ends with exactly one accepted outcome, or is still pending.
2. An accepted timing has its samples, exit code 0, the hash of the file that was built for its job, the device's
   fingerprint and the runner that its key was made of, and the backend and engine that ran.
3. MLflow is a part of the journal, without duplicates.
4. Every lease is released or expires.
5. Only what was in flight is measured again.
6. No file outside the workspace and the run folder of the device was touched.
"""

import fcntl
import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run

from sweeps.errors import FINAL_KINDS, StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import MAX_ATTEMPTS
from sweeps.locks import HostLock, LockedError
from sweeps.planning.keys import job_key
from sweeps.planning.planned_job import PlannedJob
from sweeps.records import Block, Failed, Measured
from sweeps.store.mlflow import Store
from sweeps.workspace import Workspace
from tests.faults import seen
from tests.mlflow_rows import load

ALL = frozenset(range(1, 7))
_REPLICATES = 10


class BrokenError(AssertionError):
    """An invariant does not hold."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(f"invariant {number}: {message}")
        self.number = number


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The place where a sweep ran, and what a test knows of it."""

    workspace: Workspace
    sweep: str
    leases: Sequence[str] = ()
    """Names of the locks of its devices."""
    started: int | None = None
    """The number of times that a runner was started to time a block, as the devices counted it."""
    in_flight: int = 0
    """The number of these that may have been lost: one per device and fault."""
    accepted: Mapping[str, Sequence[Block]] = field(default_factory=dict)
    """Blocks that were accepted before the fault, by job."""
    folders: Mapping[Path, Collection[str]] = field(default_factory=dict)
    """Folders that were there before, each with the names that may be in it."""
    publishes: bool = True
    """The tracking server can be asked, and filled."""


def check(scene: Scene, journal: Journal) -> None:
    """Check the invariants that the scene allows to check; raises `BrokenError`. Publishes what MLflow lacks: twice,
    since what was brought once must not come again."""
    planned = [
        journal.jobs.planned(scene.sweep, job.key) for job, stale in journal.jobs.of_sweep(scene.sweep) if not stale
    ]
    rows = _Rows(journal.path)
    for planned_job in planned:
        _each_once(rows, planned_job)
        for block in journal.attempts.blocks(planned_job.job.key):
            _whole(journal, planned_job, block)
    outcomes = {planned_job.job.key: journal.outcomes.of_job(planned_job) for planned_job in planned}
    for planned_job in planned:
        _one_outcome(rows, planned_job, outcomes[planned_job.job.key])
    checked = {1, 2, 4}
    if scene.publishes:
        _part_of_the_journal(scene, journal, outcomes)
        checked.add(3)
    _free(scene)
    if scene.started is not None or scene.accepted:
        _measured_once(scene, journal, rows)
        checked.add(5)
    if scene.folders:
        _untouched(scene)
        checked.add(6)
    seen.held(checked)


def _require(number: int, true: bool, message: str) -> None:
    if not true:
        raise BrokenError(number, message)


class _Rows:
    """The attempts as they stand in the file: `Journal` shows only those that count."""

    def __init__(self, path: Path) -> None:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=60.0)) as db:
            query = "SELECT key, kind, round, record FROM attempts ORDER BY id"
            self._rows = [(*row[:3], json.loads(row[3] or "{}")) for row in db.execute(query)]

    def rounds(self, key: str, *, added: bool) -> list[int]:
        """The rounds of the job's blocks. `added`: also of those that were asked for after its own rounds."""
        blocks = ((round_, record) for row_key, kind, round_, record in self._rows if (row_key, kind) == (key, "block"))
        return [round_ for round_, record in blocks if added or not record.get("added")]

    def failures(self, key: str) -> list[dict[str, str]]:
        """The failures of the job since its last retry."""
        failures: list[dict[str, str]] = []
        for row_key, kind, _, record in self._rows:
            if row_key == key and kind == "retry":
                failures.clear()
            elif row_key == key and kind == "failure":
                failures.append(record)
        return failures

    def blocks(self) -> int:
        return sum(kind == "block" for _, kind, _, _ in self._rows)

    def timings(self) -> int:
        """Blocks that were accepted, and attempts at one that failed."""
        return sum(
            kind == "block" or (kind == "failure" and record["stage"] == "run") for _, kind, _, record in self._rows
        )


def _each_once(rows: _Rows, planned: PlannedJob) -> None:
    name, rounds = planned.job.name, rows.rounds(planned.job.key, added=True)
    _require(1, len(set(rounds)) == len(rounds), f"{name} has two blocks of one round: {sorted(rounds)}")
    own, last = rows.rounds(planned.job.key, added=False), planned.protocol.last_round
    # Beside the common variant of a class, rounds begin with the first one that this has not had yet.
    as_planned = len(own) <= last if planned.job.link else set(own) <= set(range(last))
    _require(1, as_planned, f"{name} has rounds that were not planned")
    _require(1, len(rows.failures(planned.job.key)) <= MAX_ATTEMPTS, f"{name} was tried on after it was given up")


def _one_outcome(rows: _Rows, planned: PlannedJob, outcome: Measured | Failed | None) -> None:
    """The job has one outcome by its rows: of a job that is measured, the journal does not tell that it was given up as
    well."""
    failures = rows.failures(planned.job.key)
    given_up = len(failures) == MAX_ATTEMPTS or any(failed["kind"] in FINAL_KINDS for failed in failures)
    _require(1, not (given_up and isinstance(outcome, Measured)), f"{planned.job.name} was given up, and is measured")


def _whole(journal: Journal, planned: PlannedJob, block: Block) -> None:
    job, manifest = planned.job, journal.artifacts.latest(planned.job.build_key)
    _require(2, manifest is not None, f"{job.name} was timed, and nothing was built for it")
    assert manifest is not None
    _require(2, block.artifact_sha256 == manifest.file_sha256, f"{job.name}: another file was timed")
    _require(2, block.job_key == job.key, f"{job.name} has a block of another job")
    # A report without its end line has no samples: it is no block.
    enough = len(block.samples_ns) >= max(1, planned.protocol.iterations)
    _require(2, enough, f"{job.name} has {len(block.samples_ns)} samples")
    _require(2, all(sample > 0 for sample in block.samples_ns), f"{job.name} has a time that is none")
    _require(2, block.exit_code == 0, f"{job.name}: its program ended with {block.exit_code}")
    own = block.backend_ran == job.variant.backend or "backend_fell_back" in block.labels
    _require(2, own, f"{job.name} ran on {block.backend_ran}")
    _require(2, bool(block.engine_ran and block.runtime_version), f"{job.name} does not say what ran")
    keys = (
        job_key(job.build_key, planned.facts, job.run, planned.protocol, block.runner, job.reference, replicate=number)
        for number in range(_REPLICATES)
    )
    _require(2, job.key in keys, f"{job.name}: another runner or device measured than was planned")


def _part_of_the_journal(scene: Scene, journal: Journal, outcomes: Mapping[str, Measured | Failed | None]) -> None:
    uri = scene.workspace.tracking_uri
    _no_run_twice(scene, journal)
    store = Store(uri, scene.workspace.mlflow_artifacts)
    for _ in range(2):
        store.publish(journal, scene.sweep)
    for run in _no_run_twice(scene, journal):
        _require(3, run.info.status != "RUNNING", f"run {run.info.run_id} was left RUNNING")
    ended = {key: outcome for key, outcome in outcomes.items() if outcome is not None}
    try:
        frame = load(uri, scene.sweep).frame
    except StoreError as error:
        _require(3, not ended and "no results yet" in error.message, f"MLflow: {error.message}")
        return
    rows = frame[(frame["outcome"] != "skipped") & frame["job_key"].isin(set(outcomes))]
    _require(3, sorted(rows["job_key"]) == sorted(ended), "MLflow has other jobs than the journal")
    for row in rows.itertuples():
        outcome = ended[row.job_key]
        if isinstance(outcome, Failed):
            _require(
                3, (row.outcome, row.kind) == ("failed", outcome.kind), f"{row.name} is published as {row.outcome}"
            )
            continue
        _require(3, row.outcome == "measured", f"{row.name} is published as {row.outcome}")
        if (timing := outcome.timing) is not None:
            is_same = (
                row.samples == timing.samples and abs(row.latency_p50_ms / timing.figures["latency_p50_ms"] - 1) < 1e-6
            )
            _require(3, is_same, f"{row.name} is published with other figures")


def _no_run_twice(scene: Scene, journal: Journal) -> list[Run]:
    """The runs of jobs, all of which the journal knows."""
    client = MlflowClient(tracking_uri=scene.workspace.tracking_uri)
    experiment = client.get_experiment_by_name(scene.sweep)
    runs = [] if experiment is None else client.search_runs([experiment.experiment_id], max_results=1000)
    jobs = [run for run in runs if run.data.tags.get("edgesweep.record") == "job"]
    jobs = [run for run in jobs if run.data.tags.get("edgesweep.outcome") != "skipped"]
    known = {job.key for job, _ in journal.jobs.of_sweep(scene.sweep)}
    unknown = [run.info.run_id for run in jobs if run.data.tags.get("edgesweep.job_key") not in known]
    _require(3, not unknown, f"MLflow has a run of a job that the journal has not: {unknown[:1]}")
    whole = [run for run in jobs if run.info.status != "RUNNING"]
    for tag in ("edgesweep.attempt_key", "edgesweep.job_key"):
        twice = [key for key, number in Counter(run.data.tags.get(tag) for run in whole).items() if number > 1]
        _require(3, not twice, f"MLflow has two runs of {tag} {twice[:1]}")
    return jobs


def _free(scene: Scene) -> None:
    for name in scene.leases:
        try:
            HostLock(name).release()
        except LockedError as error:
            raise BrokenError(4, f"{name} is held by process {error.process}") from error
    with (scene.workspace.root / "driver.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BrokenError(4, "the workspace is held") from error


def _measured_once(scene: Scene, journal: Journal, rows: _Rows) -> None:
    for key, blocks in scene.accepted.items():
        is_same = list(journal.attempts.blocks(key))[: len(blocks)] == list(blocks)
        _require(5, is_same, f"job {key:.12} lost or changed a block that was accepted")
    if scene.started is not None:
        again = scene.started - rows.timings()
        seen.vain(scene.started - rows.blocks())
        _require(5, again <= scene.in_flight, f"{again} timings left no trace, {scene.in_flight} were in flight")


def _untouched(scene: Scene) -> None:
    for folder, names in scene.folders.items():
        unknown = {path.name for path in folder.iterdir()} - set(names)
        _require(6, not unknown, f"in {folder} there is {', '.join(sorted(unknown))}")
