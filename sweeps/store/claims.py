"""Which workspaces have a run: on a tracking server that several publish to, a job that two of them have is one run."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sweeps.store import workspace_names
from sweeps.store.lag import is_own
from sweeps.store.run_content import TAG
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from mlflow import MlflowClient

_CLAIMS = f"{TAG}workspaces"
"""Names of workspaces. Runs of earlier versions lack it, and so do those in a workspace's own database."""


def claims_of(tags: Mapping[str, str]) -> frozenset[str]:
    """The names of the workspaces that have a run with these tags, as far as it says."""
    return frozenset(tags.get(_CLAIMS, "").split())


def tags_of(claims: Iterable[str]) -> dict[str, str]:
    names = " ".join(sorted(claims))
    return {_CLAIMS: names} if names else {}


def save_claims(client: "MlflowClient", run_id: str, claims: Iterable[str]) -> None:
    from mlflow.entities import RunTag

    client.log_batch(run_id, tags=[RunTag(name, value) for name, value in tags_of(claims).items()])


def own_name(workspace: Workspace) -> str | None:
    """The name under which this workspace claims what it publishes, made if it has none; `None` if MLflow is the
    workspace's own database, where it claims nothing. Raises `StoreError` if the name cannot be written."""
    return None if is_own(workspace) else workspace_names.named(workspace).own


def answered_names(workspace: Workspace) -> frozenset[str] | None:
    """Under which something is this workspace's; `None` as of `own_name`."""
    return None if is_own(workspace) else workspace_names.read(workspace).answered
