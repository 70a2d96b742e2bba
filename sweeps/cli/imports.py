"""`edgesweep import`: imports figures from the logs of benchmark tools that a person ran."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import click

from sweeps.cli.options import json_option, print_json, workspace_option
from sweeps.errors import EdgeSweepError, StoreError, WorkspaceError
from sweeps.imported import describe
from sweeps.journal.journal import Journal
from sweeps.journal.plans import now
from sweeps.operations.which_sweep import open_journal, sweep_name
from sweeps.store.outbox import Outbox
from sweeps.text import plain
from sweeps.tool_logs.log import MAX_CHARS
from sweeps.tool_logs.tools import TOOLS
from sweeps.workspace import Workspace

_FILE = click.Path(dir_okay=False, path_type=Path)
_MAX_BYTES = MAX_CHARS
CommandT = TypeVar("CommandT", bound=Callable[..., object])


def _log_options(command: CommandT) -> CommandT:
    """Add one option for each tool, whose value is the path of the tool's log."""
    for name, (_, help_text) in reversed([*TOOLS.items()]):
        command = click.option(f"--{name}", type=_FILE, metavar="LOG", help=help_text)(command)
    return command


@click.command("import")
@_log_options
@click.option("--variant", required=True, help="What was run: its name in the ranking, or your own words.")
@click.option("--device", required=True, help="Where: a device of the sweep (id, name, class), or your own words.")
@click.option("--model", help="The model, if the sweep has several.")
@click.option("--iterations", type=click.IntRange(min=1), help="Iterations behind the mean, if the log lacks them.")
@click.option("--sweep", help="The latest sweep, if none is named.")
@workspace_option
@json_option
def import_figures(
    variant: str,
    device: str,
    model: str | None,
    iterations: int | None,
    sweep: str | None,
    root: Path,
    as_json: bool,
    **logs: Path | None,
) -> None:
    """Show figures of the runtimes' own benchmark tools below a sweep's ranking.

    \b
    They are not ranked: the mean of one run by hand has no interval. A log that is imported twice counts once.
    Example: edgesweep import --testapp log.txt --variant "metal fp32" --device "iPhone X"
             edgesweep import --speed-benchmark log.txt --variant "cpu fp32 nchw script" --device adb:SERIAL
    """
    named = [(name, path) for name in TOOLS if (path := logs[name.replace("-", "_")]) is not None]
    if len(named) != 1:
        raise click.UsageError(f"give one log: {' or '.join(f'--{name} LOG' for name in TOOLS)}")
    [(tool, path)] = named
    content = _read(path)
    parse, _ = TOOLS[tool]
    log = parse(_decoded(content))
    workspace = Workspace(root)
    with open_journal(workspace, read_only=False) as journal:
        name = sweep_name(journal, sweep)
        figure = describe(
            log,
            variant=variant,
            device=device,
            model=model,
            iterations=iterations,
            models=[entry.name for entry in journal.plans.spec(name).models],
            devices=journal.plans.devices(name),
            file_name=path.name,
            sha256=hashlib.sha256(content).hexdigest(),
            now=now(),
        )
        added = journal.imports.add(name, figure)
        pending = _publish(workspace, journal, name)
    if as_json:
        print_json({"sweep": name, "added": added, "in_mlflow": not pending, "imported": asdict(figure)})
    else:
        outcome = "imported" if added else "was imported before"
        click.echo(
            plain(f"{figure.model} · {figure.variant} on {figure.device}: mean {figure.mean_ms:.3f} ms, {outcome}")
        )
        click.echo(plain(f"It is shown below the ranking, not in it: edgesweep rank {name}"))
    if pending:
        click.echo(plain(f"It is in the journal, but not in MLflow yet: {pending}"), err=True)
        click.echo("  next: run the same command again, or wait for the sweep's next `edgesweep run`", err=True)


def _publish(workspace: Workspace, journal: Journal, sweep: str) -> str:
    """Publish a sweep's results to MLflow. Returns the reason if that failed, otherwise an empty text. It fails while a
    run uses the workspace: that run publishes the figure."""
    try:
        with workspace.lock(), Outbox.of(workspace, journal, sweep) as outbox:
            outbox.publish()
    except (StoreError, WorkspaceError) as error:
        return error.message
    return ""


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            # The limit protects the memory from very large or endless files.
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise EdgeSweepError(
            f"the log {str(path)!r} cannot be read: {error.strerror}", "check its name and whether you may read it"
        ) from error
    if len(content) > _MAX_BYTES:
        raise EdgeSweepError(
            f"the log {str(path)!r} has more than {_MAX_BYTES // 1_000_000} MB", "give the output of only one run"
        )
    return content


def _decoded(content: bytes) -> str:
    """Return the log as text: UTF-16, which PowerShell writes, or UTF-8. The parser rejects a log that is not text."""
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    return content.decode(encoding, "replace")
