"""Chooses results over all places, by their axes and a few other columns."""

from collections.abc import Collection, Mapping
from dataclasses import fields

from sweeps.journal.results_table import READ, Place, ResultTables
from sweeps.journal.row_columns import stored
from sweeps.results import ResultRow
from sweeps.variant import RunAxes, Variant

FILTERS = frozenset(
    (
        "model",
        "place_id",
        "device_id",
        "device",
        "outcome",
        "preset",
        *(axis.name for kind in (Variant, RunAxes) for axis in fields(kind)),
    )
)
"""Columns by which results are chosen (`ChosenResults.matching_results`): every axis, and what people ask for."""


class ChosenResults(ResultTables):
    """Filters over the table of results."""

    def matching_results(
        self, wanted: Mapping[str, Collection[str | int]], sweep: str | None = None, *, most: int = 1_000
    ) -> list[ResultRow]:
        """Over all places: rows that have one of the wanted values in each of these columns (`FILTERS`) and are not
        stale, the fastest first, at most so many.

        Raises `ValueError` for another column, `DamagedResultsError` if a row cannot be read.
        """
        where, values = _matching(wanted, sweep)
        # First which ones, and only then their long texts.
        order = "ORDER BY latency_p50_ms IS NULL, latency_p50_ms, seq"
        chosen = f"SELECT seq FROM results{where} {order} LIMIT ?"  # noqa: S608  # names of ours
        return self._read_results(f"{READ} WHERE seq IN ({chosen}) {order}", *values, most)

    def matching_places(
        self, wanted: Mapping[str, Collection[str | int]], sweep: str | None = None
    ) -> dict[Place, int]:
        """How many rows of each place `matching_results` would find; places without any are left out."""
        where, values = _matching(wanted, sweep)
        query = f"SELECT sweep, place_id, model, count(*) FROM results{where} GROUP BY 1, 2, 3"  # noqa: S608
        return {Place(*place): count for *place, count in self._rows(query, *values)}


def _matching(wanted: Mapping[str, Collection[str | int]], sweep: str | None) -> tuple[str, list[str | int]]:
    """A condition of SQL and its values."""
    if unknown := wanted.keys() - FILTERS:
        raise ValueError(f"results are not filtered by {', '.join(sorted(unknown))}")
    given = {**wanted, **({} if sweep is None else {"sweep": [sweep]})}
    # As rows are stored; a number that no column has chooses nothing.
    asked = {
        name: [stored(value) for value in values if isinstance(value, str) or abs(value) < 2**63]
        for name, values in given.items()
    }
    parts = ["stale = 0", *(f"{name} IN ({', '.join('?' * len(one))})" for name, one in asked.items())]
    return f" WHERE {' AND '.join(parts)}", [value for one in asked.values() for value in one]
