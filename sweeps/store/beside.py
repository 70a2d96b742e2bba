"""The module writes what MLflow has of a sweep beside the runs of its jobs: imported figures, and what people wrote
about it."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweeps.imported import Imported
from sweeps.journal.sweep_table import Labels
from sweeps.json_records import to_json
from sweeps.store.client import connect, translated
from sweeps.store.run_content import ATTEMPT_KEY, MAX_TAG_LENGTH, RECORD, TAG
from sweeps.store.sweep_tags import IMPORTED, PARENT, SWEEP
from sweeps.store.tag_text import cut
from sweeps.store.uri import has_store
from sweeps.store.written_runs import Written, WrittenRun, end_imported
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from mlflow import MlflowClient

NOTE = "mlflow.note.content"
"""MLflow shows it above the runs."""
LABELS = f"{TAG}labels"


def save_imported(client: "MlflowClient", figures: Sequence[Imported], written: Written) -> bool:
    """Write a run for each figure that has none. All data are in the initial tags, so no run can be incomplete."""
    missing = {figure.key: figure for figure in figures if figure.key not in written.imported}
    for key, figure in missing.items():
        tags = {PARENT: written.parent.run_id, RECORD: "imported", ATTEMPT_KEY: key, IMPORTED: to_json(figure)}
        name = cut(f"imported: {figure.variant}", 250)
        run = client.create_run(written.experiment_id, run_name=name, tags=tags)
        end_imported(client, run.info.run_id, written)
        written.imported[key] = WrittenRun(run.info.run_id, key, stale=False, evaluation_id="")
    return bool(missing)


def save_labels(client: "MlflowClient", labels: Labels | None, written: Written) -> None:
    """Where nobody has written any, nothing is changed: on a shared server, others may have."""
    if labels is None:
        return
    for name, text in _tags(labels).items():
        if written.experiment_tags.get(name) != text:
            client.set_experiment_tag(written.experiment_id, name, text)
            written.experiment_tags[name] = text


def write_labels(workspace: Workspace, sweep: str, labels: Labels) -> None:
    """At once, where the sweep was published. Raises `StoreError`."""
    uri = workspace.tracking_uri
    if not has_store(uri):
        return
    with translated(uri):
        client = connect(uri, make=False)
        experiment = client.get_experiment_by_name(sweep)
        if experiment is not None and experiment.tags.get(SWEEP) == sweep and experiment.lifecycle_stage == "active":
            for name, text in _tags(labels).items():
                client.set_experiment_tag(experiment.experiment_id, name, text)


def _tags(labels: Labels) -> dict[str, str]:
    tags = json.dumps(dict(labels.tags), ensure_ascii=False)
    return {NOTE: labels.note, LABELS: cut(tags, MAX_TAG_LENGTH)}
