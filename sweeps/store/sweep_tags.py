"""Tags of runs, and the queries that find runs by them."""

from sweeps.store.run_content import RECORD, TAG

SWEEP = f"{TAG}sweep"
"""The tag of the experiment and of the parent run with the name of the sweep."""
OWNER = f"{TAG}workspace"
"""The tag of the parent run that says who publishes it (`sweeps.store.owner`). In a workspace's own database it has
none."""
SPEC = f"{TAG}spec"
"""The tag of the parent run with the sha256 of the sweep file that it has as an artifact."""
SNAPSHOT = f"{TAG}snapshot"
"""The tag of the parent run that says which snapshot it has (`sweeps.store.snapshot_upload.SnapshotTag`), as JSON."""
IMPORTED = f"{TAG}imported"
PARENT = "mlflow.parentRunId"

IS_SWEEP = f"tags.`{RECORD}` = 'sweep'"


def runs_of(parent_id: str) -> str:
    """The query for the runs of a parent run."""
    return f"tags.`{PARENT}` = '{parent_id}'"
