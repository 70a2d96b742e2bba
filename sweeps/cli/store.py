"""`edgesweep store`: the database of results, where it is a file of the workspace."""

from pathlib import Path
from urllib.parse import unquote

import click

from sweeps.cli.options import json_option, print_json, workspace_option
from sweeps.errors import WorkspaceError
from sweeps.store.move import document, move_paths
from sweeps.text import plain
from sweeps.workspace import Workspace


@click.group()
def store() -> None:
    """The database of results, where it is a file of the workspace."""


@store.command()
@workspace_option
@click.option("--dry-run", is_flag=True, help="Only say what would be rewritten.")
@json_option
def move(root: Path, dry_run: bool, as_json: bool) -> None:
    """Let MLflow find the artifacts of a workspace that was moved or copied. Run it on the new folder.

    \b
    MLflow's sqlite database holds absolute paths. They are rewritten in one transaction, after a copy of the database
    was made beside it (mlflow.sqlite.before-move). No sweep may run meanwhile.
    Example: mv edgesweep-data /srv/lab && edgesweep store move --workspace /srv/lab
    """
    if not root.is_dir():
        raise WorkspaceError(f"there is no workspace at {root}", "give its new folder with --workspace")
    workspace = Workspace.open(root)
    with workspace.lock():
        moved = move_paths(workspace.tracking_uri, workspace.mlflow_artifacts, dry_run=dry_run)
    if as_json:
        print_json(document(moved))
        return
    counts = ", ".join(f"{count} in {table}" for table, count in moved.rewritten.items() if count)
    if not counts:
        click.echo(plain(f"All paths in MLflow are true: nothing to rewrite for {root}"))
        return
    for folder in moved.folders:
        click.echo(plain(f"from {unquote(folder)}"))
    click.echo(plain(f"to   {unquote(moved.target)}"))
    if moved.backup is None:
        click.echo(f"would rewrite {counts}")
    else:
        click.echo(plain(f"rewrote {counts}; the database as it was: {moved.backup}"))
