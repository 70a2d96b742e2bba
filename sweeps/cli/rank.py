"""`edgesweep rank`: what to ship on which device, or the variants of a sweep per device, best first."""

from collections.abc import Callable, Mapping
from pathlib import Path

import click

from sweeps.cli.options import DEVICE_NAMES, json_option, print_json, sweep_argument, workspace_option
from sweeps.journal.journal import Journal
from sweeps.journal.left import no_results
from sweeps.journal.rebuild import whole_results
from sweeps.launching.here import here
from sweeps.operations.stored_results import files_and_name, meant, names_of, of_latest, plans_of, still_open
from sweeps.ranking.document import ranking_document
from sweeps.ranking.overview import PlaceVerdict, overview_document
from sweeps.ranking.values import Ranking
from sweeps.report.evaluation import images_document, more_images, more_images_of
from sweeps.report.overview import print_overview
from sweeps.report.ranking import print_ranking
from sweeps.store.read_journal import rank_sweep
from sweeps.store.result_files import ResultFiles
from sweeps.store.verdicts import overview
from sweeps.workspace import Workspace


@click.command()
@sweep_argument
@workspace_option
@click.option("--device", help=f"The table of this device only ({DEVICE_NAMES}).")
@click.option("--all", "everything", is_flag=True, help="The tables of all devices.")
@click.option("-v", "--verbose", is_flag=True, help="Name all variants that share a reason; print long reasons whole.")
@json_option
def rank(
    sweep: str | None,
    root: Path,
    device: str | None,
    everything: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Rank the variants of a sweep (by default the latest) per device: the winners, or whole tables.

    \b
    Example: edgesweep rank --device local --json
    """
    workspace = Workspace(root)
    tables = everything or verbose or device is not None
    with of_latest(workspace, sweep):
        files, name = files_and_name(workspace, sweep)
        whole_results(files.journal, _told_once())
        names = names_of(plans_of(files), name)
        ranked = rank_sweep(files.journal, name, meant(device, names)) if as_json or tables else None
        verdicts = [] if ranked is not None and not as_json else overview(files, name)
        if ranked is not None:
            there = {(entry.device_id, entry.model) for entry in ranked.devices}
            verdicts = [one for one in verdicts if device is None or (one.device_id, one.model) in there]
            _show(ranked, verdicts, workspace, files, names, as_json=as_json, verbose=verbose)
        elif any(one.finished or one.not_ranked for one in verdicts):
            notes = [*still_open(workspace, files, name)]
            with Journal.open(files.journal, read_only=True) as journal:
                notes += more_images_of(journal.spec(name), verdicts)
            print_overview(name, verdicts, notes, here=here(workspace, name), names=names)
        else:
            with Journal.open(files.journal, read_only=True) as journal:
                raise no_results(journal, name)


def _told_once() -> Callable[[int, int], None]:
    """Say why it takes long, when it does: once for a journal of an earlier version."""
    said = False

    def each(_: int, jobs: int) -> None:
        nonlocal said
        if not said:
            click.echo(f"The table of results is made from the journal's attempts ({jobs} jobs), once.", err=True)
        said = True

    return each


def _show(
    ranked: Ranking,
    verdicts: list[PlaceVerdict],
    workspace: Workspace,
    files: ResultFiles,
    names: Mapping[str, str],
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    with Journal.open(files.journal, read_only=True) as journal:
        spec = journal.spec(ranked.sweep)
    if as_json:
        more = {"summary": overview_document(verdicts), "evaluation_images": images_document(spec, ranked)}
        print_json(ranking_document(ranked) | more | ({"copied": files.document()} if files.is_copy else {}))
    else:
        notes = (*more_images(spec, ranked), *still_open(workspace, files, ranked.sweep))
        print_ranking(ranked, notes, verbose=verbose, here=here(workspace, ranked.sweep), names=names)
