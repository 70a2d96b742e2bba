"""Tags of runs, and the queries that find runs by them."""

from sweeps.store.run_content import RECORD, TAG

SWEEP = f"{TAG}sweep"
"""Of the experiment and of the parent run: the name of the sweep."""
OWNER = f"{TAG}workspace"
"""Of the parent run: who publishes it (`sweeps.store.owner`). In a workspace's own database it has none."""
SPEC = f"{TAG}spec"
"""Of the parent run: sha256 of the sweep file that it has as an artifact."""
SNAPSHOT = f"{TAG}snapshot"
"""Of the parent run: which snapshot it has (`sweeps.store.snapshot_upload.SnapshotTag`), as JSON."""
IMPORTED = f"{TAG}imported"
PARENT = "mlflow.parentRunId"

IS_SWEEP = f"tags.`{RECORD}` = 'sweep'"


def runs_of(parent_id: str) -> str:
    """The query for the runs of a parent run."""
    return f"tags.`{PARENT}` = '{parent_id}'"
