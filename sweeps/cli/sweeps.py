"""`edgesweep sweeps`: lists, renames, tags and deletes a workspace's sweeps, and writes notes about them."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from sweeps.cli.options import ListingGroup, json_option, known_sweeps, print_json, workspace_option
from sweeps.cli.session import uninterrupted
from sweeps.errors import EdgeSweepError
from sweeps.operations import sweep_admin
from sweeps.report.progress import RunProgress
from sweeps.report.terminal_tables import cells, new_table, open_console
from sweeps.text import plain
from sweeps.workspace import Workspace

_named = click.argument("sweep", shell_complete=known_sweeps)
_without_asking = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group("sweeps", cls=ListingGroup, invoke_without_command=True)
@workspace_option
@json_option
@click.pass_context
def sweeps(context: click.Context, root: Path, as_json: bool) -> None:
    """List the sweeps of the workspace; rename, tag, note and delete them.

    \b
    Example: edgesweep sweeps
             edgesweep sweeps delete try-2
    """
    if context.invoked_subcommand is not None:
        return
    listed = sweep_admin.kept_sweeps(Workspace(root))
    if as_json:
        print_json([sweep.document for sweep in listed])
        return
    if not listed:
        click.echo(f"no sweep was run in {root}: edgesweep run sweep.yaml", err=True)
        return
    table = new_table("", "sweep", "last started", ">jobs", ">measured", ">failed", "tags", "note")
    for sweep in listed:
        tags = ", ".join(f"{key}={value}" for key, value in sweep.tags.items())
        started = f"{sweep.started.astimezone():%Y-%m-%d %H:%M}"
        table.add_row(*cells(sweep.name, started, sweep.jobs, sweep.measured, sweep.failed, tags, sweep.note))
    open_console().print(table)


@sweeps.command()
@_named
@click.argument("name")
@_without_asking
@workspace_option
def rename(sweep: str, name: str, yes: bool, root: Path) -> None:
    """Give a sweep another name; MLflow gets its runs anew under it, and then loses the old ones.

    \b
    Change the name in the sweep file, too: otherwise its next run begins a new sweep. Runs of other workspaces under
    the old name stay. Asks first where results are on a server.
    Example: edgesweep sweeps rename try-2 digits-int8
    """
    workspace = Workspace(root)
    in_mlflow = sweep_admin.look_before_renaming(workspace, sweep)
    if in_mlflow.server and not yes:
        _ask(f"Rename {sweep} to {name}, and write {in_mlflow.text} anew?", "renamed")
    with RunProgress() as progress:

        def each(done: int, total: int) -> None:
            progress.step("Publishing to MLflow", done, total, "", unit="jobs")

        sweep_admin.rename(workspace, sweep, name, whole=uninterrupted, each=each)
    click.echo(plain(f"{sweep} is called {name} now. Write it into its sweep file, too: name: {name}"))


@sweeps.command()
@_named
@click.argument("tags", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--remove", multiple=True, metavar="KEY", help="Remove this tag; may be repeated.")
@workspace_option
@json_option
def tag(sweep: str, tags: Sequence[str], remove: tuple[str, ...], root: Path, as_json: bool) -> None:
    """Add tags to a sweep, or remove some.

    \b
    Example: edgesweep sweeps tag digits team=vision stage=candidate
    """
    pairs = [text.partition("=") for text in tags]
    if wrong := [key for key, equals, _ in pairs if not equals]:
        raise EdgeSweepError(f"{wrong[0]!r} is not KEY=VALUE", f"write for instance {wrong[0]}=yes")
    added = {key: value for key, _, value in pairs}
    labels = sweep_admin.label(Workspace(root), sweep, add=added, remove=remove, note=None)
    if as_json:
        print_json(asdict(labels))
    else:
        shown = ", ".join(f"{key}={value}" for key, value in labels.tags.items())
        click.echo(plain(f"{sweep}: {shown or 'no tags'}"))


@sweeps.command()
@_named
@click.argument("text")
@workspace_option
@json_option
def note(sweep: str, text: str, root: Path, as_json: bool) -> None:
    """Write a note about a sweep; an empty text removes it.

    \b
    Example: edgesweep sweeps note digits "before the new camera"
    """
    labels = sweep_admin.label(Workspace(root), sweep, add={}, remove=(), note=text)
    if as_json:
        print_json(asdict(labels))
    else:
        click.echo(plain(f"{sweep}: {labels.note or 'no note'}"))


@sweeps.command()
@_named
@_without_asking
@workspace_option
@json_option
def delete(sweep: str, yes: bool, root: Path, as_json: bool) -> None:
    """Delete a sweep with its runs in MLflow, its builds and what was measured for it alone.

    \b
    What other sweeps use, too, stays. Refused while a sweep runs in the workspace.
    Example: edgesweep sweeps delete try-2
    """
    workspace = Workspace(root)
    deletion = sweep_admin.look_before_deletion(workspace, sweep)
    if not yes:
        _ask(f"Delete {deletion.sweep} for good: {deletion.text}?", "deleted")
    with uninterrupted():
        done = sweep_admin.delete(workspace, deletion.sweep)
        if as_json:
            print_json(done.document)
        else:
            click.echo(plain(f"{deletion.sweep} is deleted: {done.text}"))
        if done.left:
            click.echo(plain(f"{len(done.left)} could not be removed, the first is {done.left[0]}"), err=True)


def _ask(question: str, done: str) -> None:
    """End the command unless the answer is yes."""
    if not click.confirm(plain(question), err=True):
        click.echo(f"Nothing was {done}.", err=True)
        raise click.Abort
