"""The sweep that a command works on: the named one, otherwise the workspace's latest."""

from sweeps.errors import StoreError, WorkspaceError, did_you_mean
from sweeps.journal.journal import Journal
from sweeps.workspace import Workspace


def open_journal(workspace: Workspace, *, read_only: bool = True) -> Journal:
    """Open the journal of a workspace. Raises `WorkspaceError` if no sweep was run yet, `StoreError` if the file cannot
    be used."""
    if not workspace.journal.exists():
        raise WorkspaceError(f"no sweep was run in {workspace.root}", "run one: edgesweep run sweep.yaml")
    return Journal.open(workspace.journal, read_only=read_only)


def sweep_name(journal: Journal, sweep: str | None) -> str:
    """Return the name of the sweep that a command works on: `sweep`, or the latest if it is `None`. Raises `StoreError`
    if there is no sweep, or none of that name."""
    name = sweep or journal.sweeps.latest()
    known = [info.name for info in journal.sweeps.all()]
    if name is None or name not in known:
        raise StoreError(
            f"there is no sweep called {name!r} in this workspace{did_you_mean(name, known)}",
            f"known sweeps: {', '.join(known) or 'none'}",
        )
    return name
