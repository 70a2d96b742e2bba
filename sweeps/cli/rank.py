"""`edgesweep rank`: what to ship on which device, or the variants of a sweep per device, best first."""

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import click

from sweeps.cli.options import json_option, print_json, sweep_argument, workspace_option
from sweeps.cli.which_sweep import of_latest, open_journal, results_of, sweep_name
from sweeps.errors import NoResultsError
from sweeps.journal.rebuild import whole_results
from sweeps.ranking.document import ranking_document
from sweeps.ranking.overview import PlaceVerdict, overview_document, verdicts_of
from sweeps.ranking.rank import rank as rank_results
from sweeps.ranking.values import Ranking
from sweeps.report.overview import print_overview
from sweeps.report.ranking import print_ranking
from sweeps.store.read_journal import has_sweep, rank_sweep
from sweeps.store.reading import load_imported
from sweeps.store.verdicts import overview
from sweeps.workspace import Workspace


@click.command()
@sweep_argument
@workspace_option
@click.option("--device", help="The table of this device only (its id, or a part of its name).")
@click.option("--all", "everything", is_flag=True, help="The tables of all devices.")
@json_option
def rank(sweep: str | None, root: Path, device: str | None, everything: bool, as_json: bool) -> None:
    """Rank the variants of a sweep (by default the latest) per device: the winners, or whole tables.

    \b
    Example: edgesweep rank --device local --json
    """
    workspace = Workspace(root)
    tables = everything or device is not None
    if not has_sweep(workspace, sweep):
        found = _of_mlflow(workspace, sweep, device)
        _show(found, _verdicts(found), as_json=as_json, tables=tables)
        return
    with open_journal(workspace) as journal:
        name = sweep_name(journal, sweep)
    whole_results(workspace.journal, _told_once())
    with of_latest(workspace, sweep):
        ranked = rank_sweep(workspace.journal, name, device) if as_json or tables else None
        verdicts = [] if ranked is not None and not as_json else overview(workspace, name)
        if ranked is not None:
            there = {(entry.device_id, entry.model) for entry in ranked.devices}
            verdicts = [one for one in verdicts if device is None or (one.device_id, one.model) in there]
            _show(ranked, verdicts, as_json=as_json, tables=True)
        elif any(one.finished or one.not_ranked for one in verdicts):
            print_overview(name, verdicts)
        else:
            raise NoResultsError(f"the sweep {name!r} has no results yet", "wait for its first job")


def _told_once() -> Callable[[int, int], None]:
    """Say why it takes long, when it does: once for a journal of an earlier version."""
    said = False

    def each(_: int, jobs: int) -> None:
        nonlocal said
        if not said:
            click.echo(f"The table of results is made from the journal's attempts ({jobs} jobs), once.", err=True)
        said = True

    return each


def _of_mlflow(workspace: Workspace, sweep: str | None, device: str | None) -> Ranking:
    """Of a server that others write to, or of a sweep that the journal here does not have."""
    results = results_of(workspace, sweep)
    imported = load_imported(workspace.tracking_uri, results.name)
    return rank_results(results.frame, results.spec.objective, results.name, device, imported)


def _show(ranked: Ranking, verdicts: list[PlaceVerdict], *, as_json: bool, tables: bool) -> None:
    if as_json:
        print_json(ranking_document(ranked) | {"summary": overview_document(verdicts)})
    elif tables:
        print_ranking(ranked)
    else:
        print_overview(ranked.sweep, verdicts)


def _verdicts(ranked: Ranking) -> list[PlaceVerdict]:
    """Without a journal, how many jobs wait is not known."""
    found = []
    for _, entries in groupby(ranked.devices, key=lambda entry: (entry.device_id, entry.model)):
        there = list(entries)
        failed = sum(row.outcome == "failed" for row in there[0].not_ranked)
        finished = failed + sum(len(entry.ranking) + len(entry.checked) for entry in there)
        found += verdicts_of(ranked.sweep, there, finished)
    return found
