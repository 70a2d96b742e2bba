"""Reads results from MLflow: run by run for a copy (`sweeps.store.copied`), or a whole sweep at once."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from sweeps.errors import NoResultsError, StoreError
from sweeps.imported import Imported
from sweeps.json_records import from_json, to_json
from sweeps.results import ResultRow, SweepInfo, SweepResults, to_frame
from sweeps.store import run_content, sweep_tags
from sweeps.store.client import FIRST_STEP, active_runs, connect, experiments, published_s, translated
from sweeps.store.run_content import JOB_KEY, RECORD
from sweeps.store.sweep_tags import IMPORTED, IS_IMPORTED, IS_SWEEP, RUNS, UPDATED

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

_JOB_KEY = re.compile(r"(skipped-)?[0-9a-f]{1,64}")


Kind = Literal["job", "sweep", "imported", "running", "left_out"]
"""`running`: the run of a job that is not finished. `left_out`: not EdgeSweep's, or it cannot be read."""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """The row of a job or skipped combination, with the id of its evaluation set."""

    row: ResultRow
    evaluation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """The sweep's own run: the JSON of the sweep file, and ISO times."""

    spec: str
    created: str
    updated: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One run, as a copy keeps it. `key`: which runs replace each other; `digest`: of all that it says."""

    run_id: str
    sweep: str
    kind: Kind
    key: str
    stamp_s: float
    digest: str
    content: StoredRow | Imported | OwnRun | None


def digest_of(run: "Run") -> str:
    """Equal for runs that say the same."""
    said = [run.info.status, run.data.params, run.data.metrics, run.data.tags]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode("utf-8", "replace")).hexdigest()[:16]


def read_run(sweep: str, run: "Run", digest: str) -> Found:
    """Anyone may write to a server: what is damaged, or not EdgeSweep's, is `left_out`."""
    kind, key, content = _content(sweep, run)
    return Found(
        run_id=str(run.info.run_id),
        sweep=sweep,
        kind=kind,
        key=key,
        stamp_s=published_s(run),
        digest=digest,
        content=content,
    )


def _content(sweep: str, run: "Run") -> tuple[Kind, str, StoredRow | Imported | OwnRun | None]:
    tags = run.data.tags
    try:
        match tags.get(RECORD):
            case "job" if run.info.status == "RUNNING":
                return "running", "", None
            case "job":
                row = run_content.to_row(sweep, "", run.data.params, run.data.metrics, tags)
                if row.settled is not None:
                    to_json(row.settled)  # it raises for a figure that no copy takes
                return "job", row.job_key, StoredRow(row, tags.get(run_content.EVALUATION_ID, ""))
            case "imported":
                one = from_json(Imported, tags.get(IMPORTED, ""))
                to_json(one)
                return "imported", one.key, one
            case "sweep" if not sweep_tags.has_spec(tags):
                return "running", "", None
            case "sweep":
                return "sweep", sweep, _own_run(run)
    except (TypeError, ValueError, KeyError, OverflowError, RecursionError, StoreError):
        pass
    return "left_out", "", None


def _own_run(run: "Run") -> OwnRun:
    created = datetime.fromtimestamp(run.info.start_time / 1000, UTC)
    updated = run.data.tags.get(UPDATED)
    return OwnRun(
        spec=sweep_tags.text_in(run.data.tags),
        created=created.isoformat(),
        updated=(datetime.fromisoformat(updated) if updated else created).astimezone(UTC).isoformat(),
    )


def load(tracking_uri: str, sweep: str | None) -> SweepResults:
    """All results of one sweep (the last updated one if `None`), one row per job, ordered by name.

    Raises `NoResultsError` if there is no such sweep, or it has no results yet.
    """
    with translated(tracking_uri):
        client = connect(tracking_uri, make=False)
        there = experiments(client)
        if sweep is None:
            sweep = next((info.name for info in _infos(client, there)), None)
        experiment = next((entry for entry in there if entry.name == sweep), None)
        if sweep is None or experiment is None:
            known = ", ".join(sorted(entry.name for entry in there))
            raise NoResultsError(
                f"there is no sweep {sweep!r} in MLflow" if sweep else "there is no sweep in MLflow yet",
                f"it has: {known}" if known else FIRST_STEP,
            )
        runs = active_runs(client, [experiment.experiment_id])
    parent = next((run for run in runs if run.data.tags.get(RECORD) == "sweep"), None)
    # If a run is just being replaced, the newer one is kept. Both start with the same measurement.
    finished = {
        run.data.tags[JOB_KEY]: run
        for run in sorted(runs, key=published_s)
        if run.data.tags.get(RECORD) == "job" and run.info.status != "RUNNING"
    }
    if parent is None or not finished:
        raise NoResultsError(f"the sweep {sweep!r} has no results yet", f"wait for its first job, or {FIRST_STEP}")
    rows = sorted((_row(sweep, run) for run in finished.values()), key=lambda row: (row.name, row.job_key))
    return SweepResults(
        name=sweep,
        spec=sweep_tags.from_tags(sweep, parent.data.tags),
        frame=to_frame(rows),
        updated=_info(sweep, parent).updated,
    )


def load_imported(tracking_uri: str, sweep: str) -> tuple[Imported, ...]:
    """The figures of hand-run tools of a sweep, in the order of their imports. Raises `StoreError`."""
    with translated(tracking_uri):
        client = connect(tracking_uri, make=False)
        experiment = client.get_experiment_by_name(sweep)
        runs = [] if experiment is None else active_runs(client, [experiment.experiment_id], IS_IMPORTED)
    found = (from_json(Imported, run.data.tags.get(IMPORTED, "")) for run in runs)
    return tuple({one.key: one for one in found}.values())


def find_run(tracking_uri: str, sweep: str, job_key: str) -> tuple[str, str] | None:
    """The ids of the experiment and of the run of one job; `None` if MLflow has none. Raises `StoreError`."""
    if _JOB_KEY.fullmatch(job_key) is None:  # it becomes a part of a query
        return None
    with translated(tracking_uri):
        client = connect(tracking_uri, make=False)
        experiment = client.get_experiment_by_name(sweep)
        if experiment is None:
            return None
        runs = active_runs(client, [experiment.experiment_id], f"tags.`{JOB_KEY}` = '{job_key}'")
    newest = max(runs, key=published_s, default=None)
    return None if newest is None else (str(experiment.experiment_id), str(newest.info.run_id))


def list_sweeps(tracking_uri: str) -> list[SweepInfo]:
    """All sweeps in MLflow, the last updated first. Raises `StoreError` if there is no store yet."""
    with translated(tracking_uri):
        client = connect(tracking_uri, make=False)
        return _infos(client, experiments(client))


def _infos(client: "MlflowClient", there: Iterable["Experiment"]) -> list[SweepInfo]:
    names = {experiment.experiment_id: experiment.name for experiment in there}
    parents = active_runs(client, list(names), IS_SWEEP)
    infos = {names[run.info.experiment_id]: _info(names[run.info.experiment_id], run) for run in reversed(parents)}
    return sorted(infos.values(), key=lambda info: info.updated, reverse=True)


def _info(sweep: str, parent: "Run") -> SweepInfo:
    started = datetime.fromtimestamp(parent.info.start_time / 1000, UTC)
    updated = parent.data.tags.get(UPDATED)
    return SweepInfo(
        name=sweep,
        updated=datetime.fromisoformat(updated) if updated else started,
        runs=int(parent.data.tags.get(RUNS, "0")),
    )


def _row(sweep: str, run: "Run") -> ResultRow:
    try:
        return run_content.to_row(sweep, run.info.run_id, run.data.params, run.data.metrics, run.data.tags)
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"run {run.info.run_id} of the sweep {sweep!r} in MLflow is damaged: {error}",
            "delete that run; the next `edgesweep run` writes it again",
        ) from error
