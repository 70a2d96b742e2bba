"""`edgesweep journal`: checks, exports, backs up, restores and salvages the journal, and publishes results that
wait."""

import shlex
import sys
from dataclasses import asdict
from pathlib import Path

import click

from sweeps.cli.options import json_option, print_json, sweep_argument, workspace_option
from sweeps.errors import StoreError, WorkspaceError
from sweeps.journal.backup import back_up, restore
from sweeps.journal.journal_check import verify as verify_journal
from sweeps.journal.lines import json_lines
from sweeps.journal.rebuild import rebuild
from sweeps.journal.salvage import salvage
from sweeps.operations.which_sweep import open_journal, sweep_name
from sweeps.report.progress import RunProgress
from sweeps.store.outbox import Outbox
from sweeps.store.owner import read_owner, separate, take_over
from sweeps.store.verify import verify_published
from sweeps.text import plain
from sweeps.whole_file import whole_file
from sweeps.workspace import Workspace

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def journal() -> None:
    """Check, export, back up, restore and publish what was measured.

    \b
    Example: edgesweep journal verify --store
    """


@journal.command()
@click.option("--store", "with_store", is_flag=True, help="Compare MLflow with it, too.")
@workspace_option
@json_option
def verify(with_store: bool, root: Path, as_json: bool) -> None:
    """Check that the journal is whole and consistent. Exit code 1 if it is not.

    \b
    With --store also that MLflow has no run of a job that the journal lacks, and none twice.
    Example: edgesweep journal verify --store
    """
    workspace = Workspace(root)
    checked = verify_journal(workspace.journal)
    counts, findings = [*checked.counts], [*checked.findings]
    if with_store and not findings:
        with open_journal(workspace) as opened:
            published = verify_published(workspace, opened)
        counts += published.counts
        findings += published.findings
    if as_json:
        print_json({"checked": counts, "findings": [asdict(finding) for finding in findings]})
    else:
        for line in counts:
            click.echo(plain(line))
        for finding in findings:
            click.secho(plain(f"{finding.where}: {finding.message}"), fg="red")
        click.echo("all is as it must be" if not findings else f"{len(findings)} findings")
    if findings:
        sys.exit(1)


@journal.command()
@click.argument("file", type=_FILE, required=False)
@workspace_option
def export(file: Path | None, root: Path) -> None:
    """Write everything as JSON lines, to FILE or to stdout. Needs no EdgeSweep to be read.

    \b
    Example: edgesweep journal export | grep '"table":"attempts"'
    """
    lines = json_lines(Workspace(root).journal)
    if file is None:
        for line in lines:
            click.echo(line.encode())  # UTF-8 under every locale
        return
    if file.exists():
        raise WorkspaceError(f"there is something at {file} already", "name a new file")
    try:
        with whole_file(file) as part, part.open("w", encoding="utf-8") as text:
            text.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror}", "check the folder and its disk") from error


@journal.command()
@click.argument("file", type=_FILE)
@workspace_option
def backup(file: Path, root: Path) -> None:
    """Save the whole workspace to the new FILE (tar), also while a sweep runs.

    \b
    Example: edgesweep journal backup lab-2026-11-23.tar
    """
    saved = back_up(Workspace(root), file)
    click.echo(f"{file}: {saved.files} files, {saved.bytes / 1e6:.1f} MB")
    for name in saved.left_out:
        click.echo(plain(f"left out, it is no plain file: {name}"), err=True)


@journal.command("restore")
@click.argument("file", type=_FILE)
@workspace_option
def restore_command(file: Path, root: Path) -> None:
    """Unpack a backup to a new workspace. Never overwrites one. The archive is checked before anything is written.

    \b
    Example: edgesweep journal restore lab-2026-11-23.tar --workspace restored
    """
    restored = restore(file, root)
    click.echo(f"{root}: {restored.files} files, {restored.bytes / 1e6:.1f} MB")
    if restored.root != str(root):
        click.echo(plain(f"It was saved from {restored.root}: MLflow's database still names that folder's artifacts."))
    if read_owner(Workspace(root)).name:
        separate(Workspace(root))
        click.echo(f"If the original is gone: edgesweep journal take-over --workspace {shlex.quote(str(root))}")


@journal.command("take-over")
@click.option("--yes", is_flag=True, help="Do not ask.")
@workspace_option
def take_over_command(yes: bool, root: Path) -> None:
    """Say that the workspace which this one is a copy of is gone: what it published is this one's.

    \b
    On an MLflow that several workspaces publish to, a copied or restored workspace has a name of its
    own, and leaves the original's runs alone. After this, `edgesweep sweeps delete` removes them too.
    Example: edgesweep journal take-over --workspace restored
    """
    workspace = Workspace(root)
    open_journal(workspace).close()
    with workspace.lock():
        if not read_owner(workspace).originals:
            raise WorkspaceError(
                f"{root} is no copy of a workspace that published to a shared MLflow", "there is nothing to take over"
            )
        if not yes:
            click.confirm("Is the original gone? If it is not, both will delete the same runs", abort=True, err=True)
        take_over(workspace)
    click.echo(f"{root} answers to its original's name, too", err=True)


@journal.command("rebuild")
@workspace_option
def rebuild_command(root: Path) -> None:
    """Make the table of results again from the attempts, which `rank` does by itself where it finds it damaged.

    \b
    Example: edgesweep journal rebuild
    """
    workspace = Workspace(root)
    open_journal(workspace).close()
    with RunProgress() as progress:
        count = rebuild(workspace.journal, lambda done, of: progress.step("Results", done, of, "", unit="jobs"))
    click.echo(f"{count} results", err=True)


@journal.command("salvage")
@workspace_option
@click.option("--dry-run", is_flag=True, help="Only say what would be saved.")
def salvage_command(root: Path, dry_run: bool) -> None:
    """Save what can be read of a damaged journal to a new one. The damaged file stays beside it, under another name.

    \b
    Example: edgesweep journal salvage --dry-run
    """
    workspace = Workspace(root)
    with workspace.lock(), RunProgress() as progress:
        salvaged = salvage(workspace.journal, lambda table: progress.note(f"reading {table}"), dry_run=dry_run)
    saved = "can be saved" if dry_run else "saved"
    for table, count in salvaged.saved.items():
        lost = salvaged.lost.get(table, 0)
        if count or lost:
            click.echo(f"{table}: {count} {saved}" + (f", up to {lost} lost" if lost else ""))
    if salvaged.damaged is None:
        click.echo("nothing was changed: edgesweep journal salvage saves this, and keeps the damaged file")
    else:
        click.echo(plain(f"the damaged journal is {salvaged.damaged}; edgesweep run measures again what is lost"))


@journal.command()
@sweep_argument
@workspace_option
def publish(sweep: str | None, root: Path) -> None:
    """Publish to MLflow what it lacks of a sweep (by default the latest). The next run would do it, too.

    \b
    Example: edgesweep journal publish
    """
    workspace = Workspace(root)
    with workspace.lock(), open_journal(workspace) as opened:
        name = sweep_name(opened, sweep)
        with Outbox.of(workspace, opened, name) as outbox, RunProgress() as progress:
            total, done = outbox.left(), 0

            def add_published(new: bool) -> None:
                nonlocal done
                done += new
                progress.step("Publishing to MLflow", done, max(done, total), "", unit="jobs")

            refused = outbox.drain(add_published)
    if refused:
        raise StoreError(refused, "start MLflow, then run the same command again: the journal keeps everything")
    click.echo(f"{name}: MLflow has all that is finished", err=True)
