"""The runs of one sweep that this workspace has in MLflow: looked up once by each process, which then keeps account.

A workspace has one parent run under a sweep's name, and all runs of that parent, and of no other, are its own.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.errors import StoreError
from sweeps.journal.changes import Position
from sweeps.journal.journal import Journal
from sweeps.store import run_content
from sweeps.store.client import active_runs, published_s
from sweeps.store.models import Models, look_up_models
from sweeps.store.owner import is_own, named
from sweeps.store.run_content import ATTEMPT_KEY, JOB_KEY, RECORD, STALE
from sweeps.store.run_writer import later_than, stamp
from sweeps.store.sweep_tags import IS_SWEEP, OWNER, PARENT, SWEEP, runs_of
from sweeps.store.uri import is_database, redact
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Dataset, Run


@dataclass(frozen=True, slots=True)
class WrittenRun:
    """One run of a job, of a skipped combination or of an imported figure."""

    run_id: str
    attempt_key: str
    stale: bool
    evaluation_id: str


@dataclass(slots=True)
class Parent:
    """The sweep's own run."""

    run_id: str
    artifact_uri: str
    tags: dict[str, str]
    start_ms: int
    end_ms: int | None
    """`None` if it is still RUNNING."""
    stamped_s: float

    @classmethod
    def of(cls, run: "Run") -> "Parent":
        ended = run.info.end_time if run.info.status != "RUNNING" else None
        start_ms = int(run.info.start_time)
        tags = dict(run.data.tags)
        return cls(str(run.info.run_id), str(run.info.artifact_uri), tags, start_ms, ended, published_s(run))

    def end(self, client: "MlflowClient", experiment_id: str) -> None:
        """Let it end with its last measurement. Not with each job: that would cost as much as a batch of values."""
        order = ["attributes.end_time DESC"]
        last = client.search_runs([experiment_id], filter_string=runs_of(self.run_id), max_results=1, order_by=order)
        end_ms = max([self.start_ms, *(int(run.info.end_time or 0) for run in last)])
        if self.end_ms != end_ms:
            client.set_terminated(self.run_id, status="FINISHED", end_time=end_ms)
            self.end_ms = end_ms


@dataclass(slots=True)
class Written:
    """The content of MLflow for one sweep, as far as this process knows."""

    experiment_id: str
    parent: Parent
    runs: dict[str, list[WrittenRun]]
    """By job key."""
    imported: dict[str, WrittenRun]
    """By the key of the figure of a hand-run tool."""
    models: Models | None
    stamped_s: float
    """The largest stamp (`run_content.PUBLISHED`) of its runs."""
    datasets: dict[str, "Dataset"] = field(default_factory=dict)
    """By the id of their manifest."""
    experiment_tags: dict[str, str] = field(default_factory=dict)
    position: Position | None = None
    """The journal's position up to which MLflow is complete."""
    snapshot_due_s: float = 0.0
    """From when on the next snapshot may be written, on this process' monotonic clock."""

    def next_stamp(self) -> float:
        """The time to write on the next change."""
        self.stamped_s = later_than(self.stamped_s)
        return self.stamped_s


def look_up(client: "MlflowClient", uri: str, artifact_root: Path, journal: Journal, sweep: str) -> Written:
    """The content of MLflow now. Creates the experiment and the parent run if they are missing, and ends what a killed
    publisher left: its jobs' runs are deleted, to be written again."""
    workspace = Workspace(journal.path.parent)
    owner = "" if is_own(workspace, uri) else named(workspace).name
    experiment_id, experiment_tags = _experiment(client, uri, artifact_root, sweep)
    parent = _parent(client, experiment_id, journal, sweep, owner)
    runs = active_runs(client, [experiment_id], runs_of(parent.run_id))
    jobs: dict[str, list[WrittenRun]] = {}
    imported: dict[str, WrittenRun] = {}
    for run in runs:
        tags = run.data.tags
        entry = WrittenRun(
            run.info.run_id,
            tags.get(ATTEMPT_KEY, ""),
            tags.get(STALE) == "true",
            tags.get(run_content.EVALUATION_ID, ""),
        )
        if tags.get(RECORD) == "imported":
            imported[entry.attempt_key] = entry
        elif tags.get(RECORD) == "job" and run.info.status == "RUNNING":
            client.delete_run(entry.run_id)  # the publisher was killed, or the reply to the creation was lost
        elif tags.get(RECORD) == "job":
            jobs.setdefault(tags.get(JOB_KEY, ""), []).append(entry)
    written = Written(
        experiment_id=experiment_id,
        parent=parent,
        runs=jobs,
        imported=imported,
        models=look_up_models(client, experiment_id),
        stamped_s=max((parent.stamped_s, *(published_s(run) for run in runs))),
        experiment_tags=experiment_tags,
    )
    for run in runs:
        if run.data.tags.get(RECORD) == "imported" and run.info.status == "RUNNING":
            end_imported(client, run.info.run_id, written)
    return written


def end_imported(client: "MlflowClient", run_id: str, written: Written) -> None:
    """End the run of a figure that was imported. Its tags, which it was created with, are all of it."""
    client.log_batch(run_id, metrics=[stamp(written.next_stamp())])
    client.set_terminated(run_id, status="FINISHED")


def parents_of(client: "MlflowClient", experiment_id: str, names: frozenset[str]) -> list["Run"]:
    """The parent runs that have one of these marks (`sweeps.store.owner.own_marks`)."""
    return [run for run in active_runs(client, [experiment_id], IS_SWEEP) if run.data.tags.get(OWNER, "") in names]


def _parent(client: "MlflowClient", experiment_id: str, journal: Journal, sweep: str, owner: str) -> Parent:
    first, *doubles = parents_of(client, experiment_id, frozenset({owner})) or [None]
    for double in doubles:  # the reply to its creation was lost
        client.delete_run(double.info.run_id)
    if first is not None:
        return Parent.of(first)
    _delete_orphans(client, experiment_id)
    created_s = journal.times.created(sweep)
    run = client.create_run(
        experiment_id,
        start_time=None if created_s is None else int(created_s * 1000),
        run_name=sweep,
        tags={RECORD: "sweep", SWEEP: sweep} | ({OWNER: owner} if owner else {}),
    )
    return Parent.of(run)


def _delete_orphans(client: "MlflowClient", experiment_id: str) -> None:
    """Runs whose parent run a person has deleted: the one that wrote them writes them again."""
    runs = active_runs(client, [experiment_id])
    parents = {str(run.info.run_id) for run in runs if run.data.tags.get(RECORD) == "sweep"}
    for run in runs:
        if run.data.tags.get(RECORD) in ("job", "imported") and run.data.tags.get(PARENT) not in parents:
            client.delete_run(run.info.run_id)


def _experiment(client: "MlflowClient", uri: str, artifact_root: Path, sweep: str) -> tuple[str, dict[str, str]]:
    """The id of the sweep's experiment, and its tags. Artifacts go to the workspace if MLflow is a database, and else
    to wherever the server keeps them: through it (`mlflow-artifacts:`), or to its object store."""
    experiment = client.get_experiment_by_name(sweep)
    if experiment is None:
        location = (artifact_root / sweep).resolve().as_uri() if is_database(uri) else None
        return str(client.create_experiment(sweep, artifact_location=location, tags={SWEEP: sweep})), {}
    if experiment.tags.get(SWEEP) != sweep:
        raise StoreError(
            f"MLflow at {redact(uri, uri)} has an experiment {sweep!r} that is not EdgeSweep's",
            "give the sweep another name in the sweep file",
        )
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    return str(experiment.experiment_id), dict(experiment.tags)
