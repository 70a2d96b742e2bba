"""`edgesweep rank`: prints what to ship on which device, or the variants of a sweep per device, best first."""

from collections.abc import Callable, Mapping
from pathlib import Path

import click

from sweeps.cli.options import DEVICE_NAMES, json_option, print_json, sweep_argument, workspace_option
from sweeps.journal.rebuild import whole_results
from sweeps.journal.remaining_jobs import no_results
from sweeps.launching.sweep_commands import command_hints
from sweeps.operations.stored_results import StoredSweep, device_id_of, of_latest, open_results, still_open
from sweeps.ranking.document import ranking_document
from sweeps.ranking.overview import PlaceVerdict, overview_document
from sweeps.ranking.values import Ranking
from sweeps.report.evaluation import images_document, more_images, more_images_of
from sweeps.report.overview_text import print_overview
from sweeps.report.ranking_text import print_ranking
from sweeps.store.read_journal import rank_sweep
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
    with of_latest(workspace, sweep), open_results(workspace, sweep) as stored:
        whole_results(stored.journal, _notice_once())
        names = stored.device_names
        device_id = device_id_of(device, names)
        ranked = rank_sweep(stored.journal, stored.name, device_id) if as_json or tables else None
        verdicts = [] if ranked is not None and not as_json else overview(stored.files, stored.name, stored.journal)
        if ranked is not None:
            ranked_places = {(entry.device_id, entry.model) for entry in ranked.devices}
            verdicts = [
                verdict for verdict in verdicts if device is None or (verdict.device_id, verdict.model) in ranked_places
            ]
            _show(ranked, verdicts, workspace, stored, names, as_json=as_json, verbose=verbose)
        elif any(verdict.finished or verdict.not_ranked for verdict in verdicts):
            spec = stored.journal.plans.spec(stored.name)
            notes = [*still_open(workspace, stored), *more_images_of(spec, verdicts)]
            print_overview(stored.name, verdicts, notes, hints=command_hints(workspace, stored.name), names=names)
        else:
            raise no_results(stored.journal, stored.name)


def _notice_once() -> Callable[[int, int], None]:
    """Return a callback that prints once why ranking takes long, if the table of results must be rebuilt."""
    is_told = False

    def each(_: int, jobs: int) -> None:
        nonlocal is_told
        if not is_told:
            click.echo(f"The table of results is made from the journal's attempts ({jobs} jobs), once.", err=True)
        is_told = True

    return each


def _show(
    ranked: Ranking,
    verdicts: list[PlaceVerdict],
    workspace: Workspace,
    stored: StoredSweep,
    names: Mapping[str, str],
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    spec, files = stored.journal.plans.spec(ranked.sweep), stored.files
    if as_json:
        more = {"summary": overview_document(verdicts), "evaluation_images": images_document(spec, ranked)}
        print_json(ranking_document(ranked) | more | ({"copied": files.document()} if files.is_copy else {}))
    else:
        notes = (*more_images(spec, ranked), *still_open(workspace, stored))
        print_ranking(ranked, notes, verbose=verbose, hints=command_hints(workspace, ranked.sweep), names=names)
