"""`edgesweep status`: prints the progress of a sweep."""

from pathlib import Path

import click

from sweeps.cli.options import json_option, print_json, sweep_argument, workspace_option
from sweeps.cli.which_sweep import open_journal, sweep_name
from sweeps.journal.status import read_status
from sweeps.report.status import print_status
from sweeps.store.lag import read_lag
from sweeps.workspace import Workspace


@click.command()
@sweep_argument
@workspace_option
@json_option
def status(sweep: str | None, root: Path, as_json: bool) -> None:
    """Progress and failures of a sweep (by default the latest).

    \b
    Example: edgesweep status
    """
    workspace = Workspace(root)
    with open_journal(workspace) as journal:
        current = read_status(journal, sweep_name(journal, sweep))
        lag = read_lag(workspace, journal, current.sweep)
    if as_json:
        print_json(current.document() | {"not_in_mlflow": None if lag is None else lag.document()})
    else:
        print_status(current)
        if lag is not None and lag.jobs:
            click.echo(lag.text)
