"""Selects the sweep of a command: the named one, otherwise the latest of the workspace."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sweeps.errors import NoResultsError, StoreError, WorkspaceError
from sweeps.journal.journal import Journal
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from sweeps.results import SweepResults


def open_journal(workspace: Workspace, *, read_only: bool = True) -> Journal:
    """Raises `WorkspaceError` if no sweep was run yet, `StoreError` if the file cannot be used."""
    if not workspace.journal.exists():
        raise WorkspaceError(f"no sweep was run in {workspace.root}", "run one: edgesweep run sweep.yaml")
    return Journal.open(workspace.journal, read_only=read_only)


def sweep_name(journal: Journal, sweep: str | None) -> str:
    """Raises `StoreError` if there is no sweep, or none of that name."""
    name = sweep or journal.latest_sweep()
    known = [info.name for info in journal.sweeps()]
    if name is None or name not in known:
        raise StoreError(
            f"there is no sweep called {name!r} in this workspace", f"known sweeps: {', '.join(known) or 'none'}"
        )
    return name


def results_of(workspace: Workspace, sweep: str | None) -> "SweepResults":
    """Read results from MLflow. Raises `StoreError` as `load` does."""
    from sweeps.store.reading import load  # imports pandas, which `status` does not need

    if sweep is not None or not workspace.journal.exists():
        return load(workspace.tracking_uri, sweep)
    # The latest sweep of this workspace, also if other workspaces use the same MLflow.
    with open_journal(workspace) as journal:
        latest = journal.latest_sweep()
    with of_latest(workspace, None):
        return load(workspace.tracking_uri, latest)


@contextmanager
def of_latest(workspace: Workspace, sweep: str | None) -> Iterator[None]:
    """If the latest sweep (`sweep` is `None`) has no results yet, say which others there are."""
    try:
        yield
    except NoResultsError as error:
        if sweep is not None:
            raise
        with open_journal(workspace) as journal:
            latest = journal.latest_sweep()
            others = [info.name for info in journal.sweeps() if info.name != latest]
        if not others:
            raise
        raise StoreError(
            f"{latest}, the latest sweep here, has no results yet", f"name another one: {', '.join(others)}"
        ) from error
