"""`edgesweep rank`: the variants of a sweep per device, best first."""

from pathlib import Path

import click

from sweeps.cli.options import json_option, print_json, sweep_argument, workspace_option
from sweeps.cli.which_sweep import results_of
from sweeps.ranking.document import ranking_document
from sweeps.ranking.rank import rank as rank_results
from sweeps.report.ranking import print_ranking
from sweeps.store.reading import load_imported
from sweeps.workspace import Workspace


@click.command()
@sweep_argument
@workspace_option
@click.option("--device", help="Only this device (its id, or a part of its name).")
@json_option
def rank(sweep: str | None, root: Path, device: str | None, as_json: bool) -> None:
    """Rank the variants of a sweep (by default the latest) per device.

    \b
    Example: edgesweep rank --device local --json
    """
    workspace = Workspace(root)
    results = results_of(workspace, sweep)
    imported = load_imported(workspace.tracking_uri, results.name)
    ranked = rank_results(results.frame, results.spec.objective, results.name, device, imported)
    if as_json:
        print_json(ranking_document(ranked))
    else:
        print_ranking(ranked)
