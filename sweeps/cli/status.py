"""`edgesweep status`: prints the progress of a sweep."""

from pathlib import Path

import click

from sweeps.cli.options import json_option, print_json, sweep_argument, workspace_option
from sweeps.journal.sweep_progress import read_status
from sweeps.launching.sweep_commands import command_hints, running_now
from sweeps.operations.which_sweep import open_journal, sweep_name
from sweeps.quarantine import quarantines_of
from sweeps.report.status_text import print_status
from sweeps.store.lag import read_lag
from sweeps.text import plain
from sweeps.workspace import Workspace


@click.command()
@sweep_argument
@workspace_option
@click.option("-v", "--verbose", is_flag=True, help="Print long reasons whole.")
@json_option
def status(sweep: str | None, root: Path, verbose: bool, as_json: bool) -> None:
    """Progress and failures of a sweep (by default the latest).

    \b
    Example: edgesweep status
    """
    workspace = Workspace(root)
    with open_journal(workspace) as journal:
        name = sweep_name(journal, sweep)
        current = read_status(journal, name)
        lag = read_lag(workspace, journal, name)
        devices = journal.plans.devices(name)
    kept_out = quarantines_of(devices)
    if as_json:
        not_in_mlflow = None if lag is None else lag.document()
        quarantined = {key: entry.document for key, entry in kept_out.items()}
        print_json(current.document() | {"not_in_mlflow": not_in_mlflow, "quarantined": quarantined})
    else:
        left_alone = {facts.name: kept_out[facts.device_id] for facts in devices if facts.device_id in kept_out}
        print_status(current, left_alone, verbose=verbose, hints=command_hints(workspace, name))
        for line in running_now(workspace):
            click.echo(plain(line))
        if lag is not None and lag.jobs:
            click.echo(lag.text)
