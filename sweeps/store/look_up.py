"""What MLflow has of one sweep: looked up once by each process, which then keeps account of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.errors import StoreError
from sweeps.journal.changes import Position
from sweeps.journal.journal import Journal
from sweeps.journal.plans import skipped_key
from sweeps.store import run_content
from sweeps.store.claims import claims_of, own_name, save_claims
from sweeps.store.client import active_runs, published_s
from sweeps.store.models import Models, look_up_models
from sweeps.store.run_content import ATTEMPT_KEY, JOB_KEY, RECORD, STALE
from sweeps.store.run_writer import later_than, stamp
from sweeps.store.sweep_tags import IS_JOB, SWEEP
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
    running: bool
    """Whether it is still RUNNING: its driver was killed, or the reply to its creation was lost."""
    stale: bool
    evaluation_id: str
    claims: frozenset[str] = frozenset()
    """The workspaces that have it (`sweeps.store.claims`)."""


@dataclass(slots=True)
class Parent:
    """The sweep's own run."""

    run_id: str
    artifact_uri: str
    tags: dict[str, str]
    start_ms: int
    end_ms: int | None
    """`None` if it is still RUNNING."""

    @classmethod
    def of(cls, run: "Run") -> "Parent":
        ended = run.info.end_time if run.info.status != "RUNNING" else None
        start_ms = int(run.info.start_time)
        return cls(str(run.info.run_id), str(run.info.artifact_uri), dict(run.data.tags), start_ms, ended)

    def end(self, client: "MlflowClient", experiment_id: str) -> None:
        """Let it end with its last measurement. Not with each job: that would cost as much as a batch of values."""
        order = ["attributes.end_time DESC"]
        last = client.search_runs([experiment_id], filter_string=IS_JOB, max_results=1, order_by=order)
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
    me: str | None = None
    """The name of the workspace that publishes (`sweeps.store.claims.own_name`)."""

    def claims(self, there: Iterable[WrittenRun], *, new: bool) -> frozenset[str]:
        """Who has what these runs are of, when this workspace has it too. `new`: it is written now. A run that says
        nothing, of an earlier version, is left so."""
        known = frozenset(name for run in there for name in run.claims)
        return known | {self.me} if self.me and (known or new) else known

    def next_stamp(self) -> float:
        """The time to write on the next change."""
        self.stamped_s = later_than(self.stamped_s)
        return self.stamped_s


def look_up(client: "MlflowClient", uri: str, artifact_root: Path, journal: Journal, sweep: str) -> Written:
    """The content of MLflow now. Creates the experiment and the sweep's own run if they are missing, and ends what a
    killed driver left: its jobs' runs are deleted, to be written again."""
    experiment_id, experiment_tags = _experiment(client, uri, artifact_root, sweep)
    runs = active_runs(client, [experiment_id])
    known = {job.key for job, _ in journal.jobs.of_sweep(sweep)}
    known |= {skipped_key(skip.skipped) for skip in journal.changes.skipped(sweep, None)}
    found: dict[str, list[WrittenRun]] = {}
    imported: dict[str, WrittenRun] = {}
    for run in runs:
        tags = run.data.tags
        entry = WrittenRun(
            run.info.run_id,
            tags.get(ATTEMPT_KEY, ""),
            run.info.status == "RUNNING",
            tags.get(STALE) == "true",
            tags.get(run_content.EVALUATION_ID, ""),
            claims_of(tags),
        )
        if tags.get(RECORD) == "imported":
            imported[entry.attempt_key] = entry
        if tags.get(RECORD) == "job" and tags.get(JOB_KEY):
            if entry.running and tags[JOB_KEY] in known:
                client.delete_run(entry.run_id)
            else:
                found.setdefault(tags[JOB_KEY], []).append(entry)
    parents = [run for run in runs if run.data.tags.get(RECORD) == "sweep"]
    for duplicate in parents[1:]:
        client.delete_run(duplicate.info.run_id)
    written = Written(
        experiment_id=experiment_id,
        parent=_parent(client, experiment_id, journal, sweep, parents),
        runs=found,
        imported=imported,
        models=look_up_models(client, experiment_id),
        stamped_s=max((published_s(run) for run in runs), default=0.0),
        experiment_tags=experiment_tags,
        me=own_name(Workspace(journal.path.parent)),
    )
    for run in runs:
        if run.data.tags.get(RECORD) == "imported" and run.info.status == "RUNNING":
            end_imported(client, run.info.run_id, written)
    return written


def claimed(client: "MlflowClient", written: Written, run: WrittenRun, there: Iterable[WrittenRun]) -> WrittenRun:
    """`run`, which stays, with the claims of all that are there, and of this workspace."""
    claims = written.claims(there, new=False)
    if claims == run.claims:
        return run
    save_claims(client, run.run_id, claims)
    return replace(run, claims=claims)


def end_imported(client: "MlflowClient", run_id: str, written: Written) -> None:
    """End the run of a figure that was imported. Its tags, which it was created with, are all of it."""
    client.log_batch(run_id, metrics=[stamp(written.next_stamp())])
    client.set_terminated(run_id, status="FINISHED")


def _parent(client: "MlflowClient", experiment_id: str, journal: Journal, sweep: str, parents: list["Run"]) -> Parent:
    if parents:
        run = parents[0]
    else:
        created_s = journal.times.created(sweep)
        run = client.create_run(
            experiment_id,
            start_time=None if created_s is None else int(created_s * 1000),
            run_name=sweep,
            tags={RECORD: "sweep", SWEEP: sweep},
        )
    return Parent.of(run)


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
