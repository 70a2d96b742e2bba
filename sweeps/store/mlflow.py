"""Writes results from the journal to MLflow; `sweeps.store.reading` reads them.

Only this folder imports mlflow, and only in the calls that need it, because the import takes over a second.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.errors import StoreError
from sweeps.imported import Imported
from sweeps.journal.changes import Position
from sweeps.journal.journal import Journal
from sweeps.journal.plans import skipped_key
from sweeps.json_records import to_json
from sweeps.manifest import Manifest
from sweeps.records import Block, Job, Measured
from sweeps.spec.sweep import SweepSpec
from sweeps.store import run_content, sweep_tags
from sweeps.store.client import FIRST_STEP, active_runs, connect, translated
from sweeps.store.run_content import ATTEMPT_KEY, JOB_KEY, RECORD, STALE, TAG, RunContent
from sweeps.store.run_writer import upload, write_run
from sweeps.store.sweep_tags import IMPORTED, IS_SWEEP, RUNS, SWEEP, UPDATED
from sweeps.store.uri import is_database, redact

if TYPE_CHECKING:
    from mlflow import MlflowClient


_DATA = f"{TAG}data_manifests"


@dataclass(frozen=True, slots=True)
class _WrittenRun:
    run_id: str
    attempt_key: str
    running: bool
    """Whether it is still RUNNING: its driver was killed, or the reply to its creation was lost."""
    stale: bool
    evaluation_id: str


@dataclass(slots=True)
class _Written:
    """The content of MLflow for one sweep, as far as this process knows."""

    experiment_id: str
    parent_id: str
    parent_tags: dict[str, str]
    runs: dict[str, list[_WrittenRun]]
    """By job key."""
    imported: set[str]
    """Keys of the figures of hand-run tools."""
    position: Position | None = None
    """The journal's position up to which MLflow is complete."""


class Store:
    """Writes finished jobs to MLflow. `artifact_root`: folder for artifacts if MLflow is a database, not a server."""

    def __init__(self, tracking_uri: str, artifact_root: Path) -> None:
        self._uri = tracking_uri
        self._artifact_root = artifact_root
        self._written: dict[tuple[Path, str], _Written] = {}

    def check(self) -> None:
        """Raises `StoreError` within seconds if MLflow cannot be used. Creates a missing sqlite database."""
        with translated(self._uri):
            connect(self._uri, make=True).search_experiments(max_results=1)

    def publish(self, journal: Journal, sweep: str, each: Callable[[Job], object] | None = None) -> int:
        """Write the finished jobs and skipped combinations that MLflow lacks. Returns how many.

        `each` is called with each finished job that MLflow has now, as soon as it has it; it may take its time.

        May be called at any time, repeatedly. Raises `StoreError` if MLflow rejects something; the next call then looks
        up what arrived and continues from there.
        """
        key = (journal.path, sweep)
        # Not restored after an error: then only MLflow knows its content.
        written = self._written.pop(key, None)
        with translated(self._uri):
            client = connect(self._uri, make=True)
            looked_up = written is None
            if written is None:
                written = self._look_up(client, journal, sweep)
            position = journal.position(sweep)
            count, changed = _write_changes(client, journal, sweep, written, each or _unheard)
            # A killed driver may have changed something without updating the sweep's time.
            if changed or looked_up:
                _mark_updated(client, written)
        written.position = position
        self._written[key] = written
        return count

    def attach(self, sweep: str, files: dict[str, str]) -> None:
        """Upload text files, by name, to the sweep's own run. Raises `StoreError`."""
        with translated(self._uri):
            client = connect(self._uri, make=False)
            experiment = client.get_experiment_by_name(sweep)
            found = [] if experiment is None else active_runs(client, [experiment.experiment_id], IS_SWEEP)
            if not found:
                raise StoreError(f"there is no sweep {sweep!r} in MLflow", FIRST_STEP)
            upload(client, found[0].info.run_id, files)

    def _look_up(self, client: "MlflowClient", journal: Journal, sweep: str) -> _Written:
        """The content of MLflow now. Creates the experiment and the sweep's own run if they are missing."""
        experiment_id = self._experiment(client, sweep)
        runs = active_runs(client, [experiment_id])
        known = {job.key for job, _ in journal.jobs(sweep)}
        known |= {skipped_key(skip.skipped) for skip in journal.skipped_since(sweep, None)}
        found: dict[str, list[_WrittenRun]] = {}
        imported: set[str] = set()
        for run in runs:
            tags = run.data.tags
            if tags.get(RECORD) == "imported":
                imported.add(tags.get(ATTEMPT_KEY, ""))
                if run.info.status == "RUNNING":
                    client.set_terminated(run.info.run_id, status="FINISHED")
            if tags.get(RECORD) == "job" and tags.get(JOB_KEY):
                entry = _WrittenRun(
                    run.info.run_id,
                    tags.get(ATTEMPT_KEY, ""),
                    run.info.status == "RUNNING",
                    tags.get(STALE) == "true",
                    tags.get(run_content.EVALUATION_ID, ""),
                )
                if entry.running and tags[JOB_KEY] in known:
                    client.delete_run(entry.run_id)
                else:
                    found.setdefault(tags[JOB_KEY], []).append(entry)
        parents = [run for run in runs if run.data.tags.get(RECORD) == "sweep"]
        for duplicate in parents[1:]:
            client.delete_run(duplicate.info.run_id)
        parent = (
            parents[0]
            if parents
            else client.create_run(experiment_id, run_name=sweep, tags={RECORD: "sweep", SWEEP: sweep})
        )
        if parent.info.status == "RUNNING":
            client.set_terminated(parent.info.run_id, status="FINISHED")
        return _Written(experiment_id, parent.info.run_id, dict(parent.data.tags), found, imported)

    def _experiment(self, client: "MlflowClient", sweep: str) -> str:
        experiment = client.get_experiment_by_name(sweep)
        if experiment is None:
            location = (self._artifact_root / sweep).resolve().as_uri() if is_database(self._uri) else None
            return str(client.create_experiment(sweep, artifact_location=location, tags={SWEEP: sweep}))
        if experiment.tags.get(SWEEP) != sweep:
            raise StoreError(
                f"MLflow at {redact(self._uri, self._uri)} has an experiment {sweep!r} that is not EdgeSweep's",
                "give the sweep another name in the sweep file",
            )
        if experiment.lifecycle_stage == "deleted":
            client.restore_experiment(experiment.experiment_id)
        return str(experiment.experiment_id)


def _write_changes(
    client: "MlflowClient", journal: Journal, sweep: str, written: _Written, each: Callable[[Job], object]
) -> tuple[int, bool]:
    """Write what is new since `written.position`. Returns the number of runs, and whether anything changed."""
    count, changed = 0, _save_spec(client, journal.spec(sweep), written)
    changed |= _save_data_manifests(client, journal.data_manifests(sweep), written)
    changed |= _save_imported(client, journal.imported(sweep), written)
    session_start = cache(journal.session_start)
    for planned in journal.jobs_since(sweep, written.position):
        job, outcome = planned.job, journal.outcome(planned)
        if outcome is None:
            # Pending again (more rounds, or a retry): the old run stays until there is a new one. But an accuracy on
            # other images than the sweep file's must not be ranked with the new ones.
            runs = written.runs.get(job.key, [])
            other_images = any(run.evaluation_id != (planned.evaluation_id or "") for run in runs)
            changed |= _mark_stale(client, written, job.key, planned.stale or other_images)
            continue
        blocks = journal.blocks(job.key) if isinstance(outcome, Measured) else ()
        manifest = journal.artifact(job.build_key)
        starts = {session_start(job.device_id, block.session) for block in blocks}
        sessions = tuple(sorted(start for start in starts if start is not None))
        content = run_content.of_job(
            sweep,
            planned,
            outcome,
            blocks,
            manifest,
            journal.settled(job.key, planned.protocol),
            sessions,
            journal.batch_share(job.key),
        )
        new = _replace_run(client, written, content, blocks, manifest)
        changed |= _mark_stale(client, written, job.key, planned.stale) or new
        count += new
        each(job)
    for skip in journal.skipped_since(sweep, written.position):
        content = run_content.of_skipped(sweep, skip)
        new = _replace_run(client, written, content, (), None)
        changed |= _mark_stale(client, written, content.row.job_key, skip.stale) or new
        count += new
    return count, changed


def _unheard(_: Job) -> None:
    """Nobody asked to be told."""


def _replace_run(
    client: "MlflowClient", written: _Written, content: RunContent, blocks: Sequence[Block], manifest: Manifest | None
) -> bool:
    """Write the run if it is new, and only then delete the runs that it replaces: readers always find the job."""
    there = written.runs.get(content.row.job_key, [])
    kept = next((run for run in there if run.attempt_key == content.attempt_key and not run.running), None)
    new = kept is None
    if kept is None:
        run_id = write_run(client, written.experiment_id, written.parent_id, content, blocks, manifest)
        evaluation_id = content.tags[run_content.EVALUATION_ID]
        kept = _WrittenRun(
            run_id, content.attempt_key, running=False, stale=content.row.stale, evaluation_id=evaluation_id
        )
    for run in there:
        if run.run_id != kept.run_id:
            client.delete_run(run.run_id)
    written.runs[content.row.job_key] = [kept]
    return new


def _mark_stale(client: "MlflowClient", written: _Written, job_key: str, stale: bool) -> bool:
    """Set the tag `stale` on the runs where it differs. Returns whether there were any."""
    differing = [run for run in written.runs.get(job_key, []) if run.stale != stale]
    for run in differing:
        client.set_tag(run.run_id, STALE, json.dumps(stale))
    if differing:
        written.runs[job_key] = [replace(run, stale=stale) for run in written.runs[job_key]]
    return bool(differing)


def _save_spec(client: "MlflowClient", spec: SweepSpec, written: _Written) -> bool:
    """Store the sweep file on the sweep's own run: in tags, and as an artifact for people."""
    tags = sweep_tags.to_tags(spec)
    if tags.items() <= written.parent_tags.items():
        return False
    upload(client, written.parent_id, {"sweep.json": spec.model_dump_json(indent=2)})
    _set_tags(client, written, tags)
    return True


def _save_data_manifests(client: "MlflowClient", manifests: dict[str, str], written: _Written) -> bool:
    """Store the lists of images as artifacts of the sweep's own run; rows refer to them by their ids."""
    there = set(json.loads(written.parent_tags.get(_DATA, "[]")))
    missing = {key: text for key, text in manifests.items() if key not in there}
    if not missing:
        return False
    upload(client, written.parent_id, {f"data-{key[:16]}.json": text for key, text in missing.items()})
    _set_tags(client, written, {_DATA: json.dumps(sorted(there | set(missing)))})
    return True


def _save_imported(client: "MlflowClient", figures: Sequence[Imported], written: _Written) -> bool:
    """Write a run for each figure that has none. All data are in the initial tags, so no run can be incomplete."""
    missing = {one.key: one for one in figures if one.key not in written.imported}
    for key, one in missing.items():
        tags = {"mlflow.parentRunId": written.parent_id, RECORD: "imported", ATTEMPT_KEY: key, IMPORTED: to_json(one)}
        name = run_content.cut(f"imported: {one.variant}", 250)
        run = client.create_run(written.experiment_id, run_name=name, tags=tags)
        client.set_terminated(run.info.run_id, status="FINISHED")
        written.imported.add(key)
    return bool(missing)


def _mark_updated(client: "MlflowClient", written: _Written) -> None:
    """Must come last: readers detect changes by `updated`."""
    _set_tags(client, written, {UPDATED: datetime.now(UTC).isoformat(), RUNS: str(len(written.runs))})


def _set_tags(client: "MlflowClient", written: _Written, tags: dict[str, str]) -> None:
    from mlflow.entities import RunTag

    client.log_batch(written.parent_id, tags=[RunTag(name, value) for name, value in tags.items()])
    written.parent_tags |= tags
