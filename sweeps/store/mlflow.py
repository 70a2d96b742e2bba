"""Writes results from the journal to MLflow: a run of each job for people, and a snapshot for other computers.

Only this folder imports mlflow, and only in the calls that need it, because the import takes over a second.
"""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import build_failure_keys
from sweeps.journal.rebuild import whole_results
from sweeps.journal.results_table import damaged
from sweeps.journal.times import Span
from sweeps.manifest import Manifest
from sweeps.planning.planned_job import PlannedJob
from sweeps.records import Block, Failed, Job, Measured
from sweeps.spec.sweep import SweepSpec
from sweeps.store import run_content
from sweeps.store.beside import save_imported, save_labels
from sweeps.store.client import FIRST_STEP, connect, experiments, published_s, translated
from sweeps.store.datasets import datasets_of, file_name, inputs_of
from sweeps.store.models import model_of
from sweeps.store.move import check_not_moved
from sweeps.store.owner import own_marks, separate
from sweeps.store.profiles import bring_profiles
from sweeps.store.run_content import MAX_PARAM_LENGTH, STALE, TAG, RunContent
from sweeps.store.run_writer import Beside, build_log_of, later_than, stamp, upload, write_run
from sweeps.store.snapshot_upload import CopiedWorkspaceError, has_newer, is_due, upload_snapshot
from sweeps.store.sweep_tags import SPEC
from sweeps.store.tag_text import cut
from sweeps.store.winners import RANKING, WINNERS, winner_metrics, winner_tag, withdrawn
from sweeps.store.written_runs import Parent, Written, WrittenRun, look_up, parents_of
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_DATA = f"{TAG}data_manifests"


class Store:
    """Writes finished jobs to MLflow. `artifact_root`: folder for artifacts if MLflow is a database, not a server."""

    def __init__(self, tracking_uri: str, artifact_root: Path) -> None:
        self._uri = tracking_uri
        self._artifact_root = artifact_root
        self._written: dict[tuple[Path, str], Written] = {}

    def check(self) -> None:
        """Raises `StoreError` within seconds if MLflow cannot be used. Creates a missing sqlite database."""
        with translated(self._uri):
            listed = experiments(connect(self._uri, make=True))
        check_not_moved(self._uri, self._artifact_root, listed)

    def publish(
        self,
        journal: Journal,
        sweep: str,
        each: Callable[[Job], object] | None = None,
        *,
        last: bool = True,
        pause: Callable[[], object] | None = None,
    ) -> int:
        """Write the snapshot, then the finished jobs and skipped combinations that MLflow lacks. Returns how many.

        `each` is called with each finished job that MLflow has now, as soon as it has it, and `pause` while the
        snapshot is made; both may take their time. Unless this is the `last` publication for now, the snapshot waits
        until it is due.

        May be called at any time, repeatedly. Raises `StoreError` if MLflow rejects something; the next call then looks
        up what arrived and continues from there.
        """
        each, pause = each or _unheard, pause or bool
        whole_results(journal.path)  # runs are made of its rows
        try:
            return self._publish(journal, sweep, each, pause, last)
        except CopiedWorkspaceError:
            separate(Workspace(journal.path.parent))
            return self._publish(journal, sweep, each, pause, last)

    def waits_for_snapshot(self, journal: Journal, sweep: str, *, last: bool) -> bool:
        """Tell whether there is a snapshot to be written now, as far as this process knows."""
        written = self._written.get((journal.path, sweep))
        return written is not None and (last or is_due(written)) and has_newer(journal, sweep, written)

    def _publish(
        self, journal: Journal, sweep: str, each: Callable[[Job], object], pause: Callable[[], object], last: bool
    ) -> int:
        key = (journal.path, sweep)
        # The entry is not restored after an error: then only MLflow knows its content.
        written = self._written.pop(key, None)
        with translated(self._uri):
            client = connect(self._uri, make=True)
            looked_up = written is None
            if written is None:
                written = look_up(client, self._uri, self._artifact_root, journal, sweep)
            position = journal.changes.position(sweep)
            upload_snapshot(client, self._uri, journal, sweep, written, last=last, pause=pause)
            count, changed = _write_changes(client, journal, sweep, written, each)
            if looked_up:  # a publisher that was killed may have left it running
                written.parent.end(client, written.experiment_id)
            if changed or looked_up:
                client.log_batch(written.parent.run_id, metrics=[stamp(written.next_stamp())])
        written.position = position
        self._written[key] = written
        return count

    def attach(self, sweep: str, files: dict[str, str]) -> None:
        """Upload text files, by name, to the sweep's own run. Raises `StoreError`."""
        with translated(self._uri):
            client = connect(self._uri, make=False)
            run = self._parent_run(client, sweep)
            upload(client, run.info.artifact_uri, files)
            _log(client, run.info.run_id, published_s(run))

    def attach_ranking(self, sweep: str, ranking: Mapping[str, Any]) -> None:
        """Put a ranking (`sweeps.ranking.document`) on the sweep's own run: `ranking.json`, and the winners' figures as
        metrics. Figures of a winner that is none any more become NaN. Raises `StoreError`."""
        figures = winner_metrics(ranking)
        text = json.dumps(ranking, indent=2, allow_nan=False, ensure_ascii=False)
        with translated(self._uri):
            client = connect(self._uri, make=False)
            run = self._parent_run(client, sweep)
            upload(client, run.info.artifact_uri, {RANKING: text})
            figures |= dict.fromkeys(withdrawn(run.data.metrics, figures), float("nan"))
            Parent.of(run).end(client, run.info.experiment_id)
            _log(client, run.info.run_id, published_s(run), figures, {WINNERS: winner_tag(ranking)})

    def _parent_run(self, client: "MlflowClient", sweep: str) -> "Run":
        names = own_marks(Workspace(self._artifact_root.parent), self._uri)
        experiment = client.get_experiment_by_name(sweep)
        runs = [] if experiment is None else parents_of(client, experiment.experiment_id, names)
        if not runs:
            raise StoreError(f"there is no sweep {sweep!r} in MLflow", FIRST_STEP)
        return runs[0]


def _log(
    client: "MlflowClient",
    run_id: str,
    stamped_s: float,
    figures: Mapping[str, float] | None = None,
    tags: Mapping[str, str] | None = None,
) -> None:
    """Add to the sweep's own run, and stamp it later than `stamped_s`."""
    from mlflow.entities import Metric, RunTag

    stamped = stamp(later_than(stamped_s))
    metrics = [Metric(name, value, stamped.timestamp, 0) for name, value in (figures or {}).items()]
    client.log_batch(
        run_id, metrics=[*metrics, stamped], tags=[RunTag(name, value) for name, value in (tags or {}).items()]
    )


def _write_changes(
    client: "MlflowClient", journal: Journal, sweep: str, written: Written, each: Callable[[Job], object]
) -> tuple[int, bool]:
    """Write what is new since `written.position`. Returns the number of runs, and whether anything changed."""
    count, changed = 0, _save_spec(client, journal.plans.spec(sweep), written)
    changed |= _save_data_manifests(client, journal.artifacts.data(sweep), written)
    changed |= save_imported(client, journal.imports.of_sweep(sweep), written)
    save_labels(client, journal.sweeps.labels(sweep), written)
    for planned in journal.changes.jobs(sweep, written.position):
        job, outcome = planned.job, journal.outcomes.of_job(planned)
        if outcome is None:
            # Pending again (more rounds, or a retry): the old run stays until there is a new one. But an accuracy on
            # other images than the sweep file's must not be ranked with the new ones.
            runs = written.runs.get(job.key, [])
            other_images = any(run.evaluation_id != (planned.evaluation_id or "") for run in runs)
            changed |= _mark_stale(client, written, job.key, planned.stale or other_images)
            continue
        blocks = journal.attempts.blocks(job.key) if isinstance(outcome, Measured) else ()
        manifest = journal.artifacts.latest(job.build_key)
        stored = journal.results.stored(sweep, job.key)
        if stored is None:  # the table of results was damaged meanwhile
            raise damaged(f"it lacks {job.name}")
        content = run_content.of_job(stored[0], planned, blocks, manifest)
        rest = partial(_rest, client, journal, written, planned, outcome, blocks, manifest)
        new = _replace_run(client, written, content, rest)
        changed |= _mark_stale(client, written, job.key, planned.stale) or new
        count += new
        # Captures come after the run: a capture may be large.
        bring_profiles(client, journal, job, written.runs[job.key][0].run_id)
        each(job)
    for skip in journal.changes.skipped(sweep, written.position):
        content = run_content.of_skipped(sweep, skip)
        new = _replace_run(client, written, content, lambda: (None, Beside()))
        changed |= _mark_stale(client, written, content.row.job_key, skip.stale) or new
        count += new
    return count, changed


def _rest(
    client: "MlflowClient",
    journal: Journal,
    written: Written,
    planned: PlannedJob,
    outcome: Measured | Failed,
    blocks: Sequence[Block],
    manifest: Manifest | None,
) -> tuple[Span | None, Beside]:
    """Return what only a new run needs: when it was measured, and what it has beside its content."""
    job = planned.job
    failures = (job.key, *build_failure_keys(job, planned.evaluation_id)) if isinstance(outcome, Failed) else ()
    calibration_id = None if manifest is None else manifest.calibration_id
    return journal.times.measured(job.key, job.build_key, failures), Beside(
        blocks=blocks,
        manifest=manifest,
        datasets=inputs_of(written.datasets, evaluation_id=planned.evaluation_id, calibration_id=calibration_id),
        model_id=model_of(client, written.experiment_id, written.parent.run_id, written.models, manifest),
        build_log=build_log_of(journal, job.build_key),
    )


def _unheard(_: Job) -> None:
    """Nobody asked to be told."""


def _replace_run(
    client: "MlflowClient", written: Written, content: RunContent, rest: Callable[[], tuple[Span | None, Beside]]
) -> bool:
    """Write the run if it is new, and only then delete the runs that it replaces: readers always find the job."""
    present = written.runs.get(content.row.job_key, [])
    run_now = next((run for run in present if run.attempt_key == content.attempt_key), None)
    if run_now is None and len(present) == 1:
        metrics = client.get_run(present[0].run_id).data.metrics
        run_now = present[0] if content.is_in(present[0].attempt_key, metrics) else None
    new = run_now is None
    if run_now is None:
        measured, beside = rest()
        run_now = _write_run(client, written, content, measured, beside)
    for run in present:
        if run.run_id != run_now.run_id:
            client.delete_run(run.run_id)
    written.runs[content.row.job_key] = [run_now]
    return new


def _write_run(
    client: "MlflowClient", written: Written, content: RunContent, measured: Span | None, beside: Beside
) -> WrittenRun:
    host = content.host or platform.node() or "unknown"
    params = {**content.params, "host": cut(host, MAX_PARAM_LENGTH)}
    content = replace(content, params=params, measured=measured)
    stamp_s = written.next_stamp()
    run_id = write_run(client, written.experiment_id, written.parent.run_id, content, beside, stamp_s)
    images = content.tags[run_content.EVALUATION_ID]
    return WrittenRun(run_id, content.attempt_key, stale=content.row.stale, evaluation_id=images)


def _mark_stale(client: "MlflowClient", written: Written, job_key: str, stale: bool) -> bool:
    """Set the tag `stale` on the runs where it differs. Returns whether there were any."""
    from mlflow.entities import RunTag

    differing = [run for run in written.runs.get(job_key, []) if run.stale != stale]
    for run in differing:
        tags = [RunTag(STALE, json.dumps(stale))]
        client.log_batch(run.run_id, metrics=[stamp(written.next_stamp())], tags=tags)
    if differing:
        written.runs[job_key] = [replace(run, stale=stale) for run in written.runs[job_key]]
    return bool(differing)


def _save_spec(client: "MlflowClient", spec: SweepSpec, written: Written) -> bool:
    """Store the sweep file as an artifact of the parent run."""
    text = spec.kept_json()
    tags = {SPEC: sha256(text.encode()).hexdigest()}
    if tags.items() <= written.parent.tags.items():
        return False
    upload(client, written.parent.artifact_uri, {"sweep.json": text})
    _set_tags(client, written, tags)
    return True


def _save_data_manifests(client: "MlflowClient", manifests: dict[str, str], written: Written) -> bool:
    """Store the lists of images as artifacts of the sweep's own run, and as its inputs; rows refer to their ids."""
    from mlflow.entities import DatasetInput

    for key in manifests.keys() - written.datasets.keys():
        written.datasets |= datasets_of(written.parent.run_id, key, manifests[key])
    uploaded = set(json.loads(written.parent.tags.get(_DATA, "[]")))
    missing = {key: text for key, text in manifests.items() if key not in uploaded}
    if not missing:
        return False
    upload(client, written.parent.artifact_uri, {file_name(key): text for key, text in missing.items()})
    client.log_inputs(written.parent.run_id, datasets=[DatasetInput(written.datasets[key]) for key in missing])
    _set_tags(client, written, {_DATA: json.dumps(sorted(uploaded | set(missing)))})
    return True


def _set_tags(client: "MlflowClient", written: Written, tags: dict[str, str]) -> None:
    from mlflow.entities import RunTag

    client.log_batch(written.parent.run_id, tags=[RunTag(name, value) for name, value in tags.items()])
    written.parent.tags |= tags
