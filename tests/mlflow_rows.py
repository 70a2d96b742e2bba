"""Reads the rows and figures that runs in MLflow have, for tests: whether people find there what the journal has."""

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from sweeps.errors import NoResultsError
from sweeps.imported import Imported
from sweeps.json_records import from_json
from sweeps.metrics import METRICS, is_extra_name
from sweeps.results import ResultRow, SweepResults, to_frame
from sweeps.settled import Settled
from sweeps.spec.sweep import SweepSpec
from sweeps.store.client import active_runs, connect, experiments, published_s, translated
from sweeps.store.run_content import JOB_KEY, RECORD, row_texts
from sweeps.store.sweep_tags import IMPORTED


def load(tracking_uri: str, sweep: str) -> SweepResults:
    """The rows in the runs of one sweep that are finished, ordered by name. Raises `NoResultsError` if it has none."""
    with translated(tracking_uri):
        client = connect(tracking_uri, make=False)
        experiment = client.get_experiment_by_name(sweep)
        runs = [] if experiment is None else active_runs(client, [experiment.experiment_id])
    parents = [run for run in runs if run.data.tags.get(RECORD) == "sweep"]
    finished = {
        run.data.tags[JOB_KEY]: run
        for run in sorted(runs, key=published_s)
        if run.data.tags.get(RECORD) == "job" and run.info.status != "RUNNING"
    }
    if not finished:
        raise NoResultsError(f"the sweep {sweep!r} has no results yet")
    data_by_id = [(run.info.run_id, run.data) for run in finished.values()]
    rows = [row_of(sweep, run_id, data.params, data.metrics, data.tags) for run_id, data in data_by_id]
    with TemporaryDirectory() as folder:
        repository = get_artifact_repository(parents[0].info.artifact_uri, tracking_uri=client.tracking_uri)
        spec = Path(repository.download_artifacts("sweep.json", folder)).read_text("utf-8")
    return SweepResults(
        name=sweep,
        spec=SweepSpec.model_validate_json(spec),
        frame=to_frame(sorted(rows, key=lambda row: (row.name, row.job_key))),
        updated=datetime.fromtimestamp(published_s(parents[0]), UTC),
    )


def load_imported(tracking_uri: str, sweep: str) -> tuple[Imported, ...]:
    """The figures of hand-run tools of a sweep, in the order of their imports."""
    client = connect(tracking_uri, make=False)
    experiment = client.get_experiment_by_name(sweep)
    runs = [] if experiment is None else active_runs(client, [experiment.experiment_id])
    texts = (run.data.tags[IMPORTED] for run in runs if run.data.tags.get(RECORD) == "imported")
    return tuple({figure.key: figure for figure in (from_json(Imported, text) for text in texts)}.values())


def sweep_names(tracking_uri: str) -> list[str]:
    """The names of all sweeps in MLflow. Raises `StoreError` if there is no store yet."""
    with translated(tracking_uri):
        return sorted(experiment.name for experiment in experiments(connect(tracking_uri, make=False)))


def row_of(
    sweep: str, run_id: str, params: Mapping[str, str], metrics: Mapping[str, float], tags: Mapping[str, str]
) -> ResultRow:
    """The row in a run whose tag `edgesweep.record` is `job`. Fields that an older run lacks get their defaults.

    Raises `ValueError` or `TypeError` if the run is damaged.
    """
    texts = row_texts(params, tags)
    types = {entry.name: entry.type for entry in fields(ResultRow)}
    values = {name: _parsed(name, types[name], text) for name, text in texts.items()}
    known = {
        name: value
        for name, value in metrics.items()
        if (name in METRICS or is_extra_name(name)) and math.isfinite(value)
    }
    return ResultRow(**(values | {"sweep": sweep, "run_id": run_id, "metrics": known}))


def _parsed(name: str, kind: Any, text: str) -> object:
    """The field `name` of a row. `kind`: its type."""
    if kind is str:
        return text
    value = json.loads(text)
    if name == "settled":
        return None if value is None else from_json(Settled, text)
    if name.endswith("_medians_ms"):
        return tuple((round_, ms) for round_, ms in value)
    return tuple(value) if name in ("trust", "sessions") else kind(value)
