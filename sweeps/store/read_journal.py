"""Rankings by a table of results, of a journal or of a copy: without MLflow, and only what is asked for."""

from pathlib import Path

from sweeps.journal.journal import Journal
from sweeps.journal.next_step_hints import hints_of
from sweeps.journal.rebuild import read_results
from sweeps.journal.remaining_jobs import no_results
from sweeps.ranking.rank import rank_rows
from sweeps.ranking.values import Ranking
from sweeps.results import SweepResults, devices_called, to_frame


def rank_sweep(source: Path | Journal, sweep: str, device: str | None = None) -> Ranking:
    """Rank all that a journal has of a sweep, as `sweeps.ranking.rank.rank` does. `source`: as of `read_results`.

    A damaged table of results is made again. Raises `NoResultsError` if the sweep has no results yet, `EdgeSweepError`
    if no device matches `device`.
    """
    return read_results(source, lambda journal: _rank(journal, sweep, device))


def _rank(journal: Journal, sweep: str, device: str | None) -> Ranking:
    places = journal.results.places(sweep)
    if not places:
        raise no_results(journal, sweep)
    spec, imported = journal.plans.spec(sweep), journal.imports.of_sweep(sweep)
    hints = hints_of(spec)
    if device is None:
        rows = journal.results.rows(sweep)
        return rank_rows(rows, spec.objective, sweep, imported=imported, hints=hints)
    called = devices_called({(place.place_id, name) for place, name in places.items()}, device)
    chosen = {place for place, name in places.items() if (place.place_id, name) in called}
    rows = [row for place in sorted(chosen) for row in journal.results.rows(sweep, place)]
    other_places = {(place.place_id, place.model) for place in places.keys() - chosen}
    beside = [figure for figure in imported if figure.place not in other_places]
    rows.sort(key=lambda row: (row.name, row.job_key))
    return rank_rows(rows, spec.objective, sweep, device, beside, hints)


def read_sweep(source: Path | Journal, sweep: str) -> SweepResults:
    """All that a journal has of a sweep, as a data frame; a damaged table of results is made again. `source`: as of
    `read_results`. Raises `NoResultsError` if it has no results."""
    return read_results(source, lambda journal: _read_sweep(journal, sweep))


def _read_sweep(journal: Journal, sweep: str) -> SweepResults:
    rows = journal.results.rows(sweep)
    if not rows:
        raise no_results(journal, sweep)
    updated = next(info.updated for info in journal.sweeps.all() if info.name == sweep)
    return SweepResults(name=sweep, spec=journal.plans.spec(sweep), frame=to_frame(rows), updated=updated)
