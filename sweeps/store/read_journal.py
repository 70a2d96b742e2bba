"""Rankings by a table of results, of a journal or of a copy: without MLflow, and only what is asked for."""

from pathlib import Path

from sweeps.journal.journal import Journal
from sweeps.journal.left import no_results
from sweeps.journal.rebuild import read_results
from sweeps.journal.results_table import Place
from sweeps.journal.told import told_by
from sweeps.ranking.rank import rank_rows
from sweeps.ranking.values import Ranking
from sweeps.results import SweepResults, devices_called, to_frame
from sweeps.workspace import Workspace


def has_sweep(workspace: Workspace, sweep: str | None) -> bool:
    """Whether a sweep (`None`: any) is in the workspace's own journal. Raises `StoreError` if that cannot be used."""
    if not workspace.journal.exists():
        return False
    with Journal.open(workspace.journal, read_only=True) as journal:
        plans = journal.plan_ids()
    return sweep in plans if sweep else bool(plans)


def rank_sweep(path: Path, sweep: str, device: str | None = None) -> Ranking:
    """As `sweeps.ranking.rank.rank` of all that the journal at `path` has of a sweep.

    A damaged table of results is made again. Raises `NoResultsError` if the sweep has no results yet, `EdgeSweepError`
    if no device matches `device`.
    """
    return read_results(path, lambda journal: _rank(journal, sweep, device))


def _rank(journal: Journal, sweep: str, device: str | None) -> Ranking:
    places = journal.result_places(sweep)
    if not places:
        raise no_results(journal, sweep)
    spec, imported = journal.spec(sweep), journal.imported(sweep)
    told = told_by(spec)
    if device is None:
        rows = journal.result_rows(sweep)
        return rank_rows(rows, spec.objective, sweep, imported=imported, told=told)
    called = devices_called({(place.place_id, name) for place, name in places.items()}, device)
    mine = {place for place, name in places.items() if (place.place_id, name) in called}
    rows = [row for place in sorted(mine) for row in journal.result_rows(sweep, place)]
    others = {(place.place_id, place.model) for place in places.keys() - mine}
    beside = [one for one in imported if one.place not in others]
    rows.sort(key=lambda row: (row.name, row.job_key))
    return rank_rows(rows, spec.objective, sweep, device, beside, told)


def read_sweep(path: Path, sweep: str) -> SweepResults:
    """All that the journal at `path` has of a sweep, as a data frame; a damaged table of results is made again. Raises
    `NoResultsError` if it has no results."""
    return read_results(path, lambda journal: _read_sweep(journal, sweep))


def _read_sweep(journal: Journal, sweep: str) -> SweepResults:
    rows = journal.result_rows(sweep)
    if not rows:
        raise no_results(journal, sweep)
    updated = next(info.updated for info in journal.sweeps() if info.name == sweep)
    return SweepResults(name=sweep, spec=journal.spec(sweep), frame=to_frame(rows), updated=updated)


def rank_place(journal: Journal, place: Place) -> Ranking:
    """The ranking of one device and model. Raises `DamagedResultsError`."""
    spec, rows = journal.spec(place.sweep), journal.result_rows(place.sweep, place)
    return rank_rows(rows, spec.objective, place.sweep, told=told_by(spec))
