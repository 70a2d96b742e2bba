"""Takes a sweep's experiment out of MLflow, and writes labels to it."""

import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sweeps.store.client import connect, translated
from sweeps.store.run_content import TAG
from sweeps.store.sweep_tags import SWEEP
from sweeps.store.together import together
from sweeps.store.uri import has_store
from sweeps.workspace import Workspace

NOTE = "mlflow.note.content"
"""MLflow shows it above the runs."""
LABELS = f"{TAG}labels"


def delete_experiment(workspace: Workspace, sweep: str) -> int:
    """Delete the sweep's experiment with its runs, as MLflow deletes (`mlflow gc` on a server frees the space). Files
    that are in the workspace are removed. Returns the number of runs; 0 if there is no such experiment.

    MLflow keeps the name of what it deleted; the experiment gets another one first, so that the name is free. Raises
    `StoreError`.
    """
    uri = workspace.tracking_uri
    if not has_store(uri):
        return 0
    with translated(uri):
        client = connect(uri, make=False)
        found = client.get_experiment_by_name(sweep)
        if found is None or found.tags.get(SWEEP) != sweep or found.lifecycle_stage == "deleted":
            return 0
        runs = len(client.search_runs([found.experiment_id], max_results=50_000))
        with together(client):
            client.rename_experiment(found.experiment_id, f"{sweep} (deleted {datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f})")
            client.delete_experiment(found.experiment_id)
        _remove_files(workspace, found.artifact_location or "")
    return runs


def write_labels(workspace: Workspace, sweep: str, tags: Mapping[str, str], note: str) -> None:
    """For people who read MLflow itself. Raises `StoreError`."""
    uri = workspace.tracking_uri
    if not has_store(uri):
        return
    with translated(uri):
        client = connect(uri, make=False)
        found = client.get_experiment_by_name(sweep)
        if found is not None and found.tags.get(SWEEP) == sweep:
            client.set_experiment_tag(found.experiment_id, NOTE, note)
            client.set_experiment_tag(found.experiment_id, LABELS, json.dumps(dict(tags), ensure_ascii=False))


def _remove_files(workspace: Workspace, location: str) -> None:
    parts = urlsplit(location)
    folder = Path(unquote(parts.path)).resolve()
    if parts.scheme == "file" and workspace.mlflow_artifacts.resolve() in folder.parents:
        shutil.rmtree(folder, ignore_errors=True)
