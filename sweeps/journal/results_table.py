"""The journal's table of results: a row for each finished job and skipped combination of a sweep, as rankings need it.

The table is a cache: its rows are computed from the attempts, in the same transaction as each attempt, and can be
rebuilt (`sweeps.journal.result_updates`). Each write of a row gives the row a `seq` larger than all before; the largest
`seq` is the table's watermark.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sweeps.errors import StoreError
from sweeps.journal.file import JournalFile
from sweeps.journal.result_place import Place
from sweeps.journal.row_columns import FIGURE_COLUMNS, ROW_COLUMNS, read_row, selected, stored, values_of
from sweeps.journal.schema import FILTERS, result_columns
from sweeps.results import ResultRow

COLUMNS = ("attempt", "place_id", "evaluation_id", *ROW_COLUMNS)
"""The columns of the table, without `seq`."""
_PLACES = ", ".join("?" * len(COLUMNS))
_PUT = f"INSERT OR REPLACE INTO results ({', '.join(COLUMNS)}) VALUES ({_PLACES})"  # noqa: S608  # names of ours


class DamagedResultsError(StoreError):
    """Error for a table of results that does not agree with the attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """Position up to which a reader has read. The epoch changes with each rebuild of the table."""

    epoch: int
    seq: int


class Results:
    """Table of results."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file
        self._columns: frozenset[str] = frozenset()
        """Columns that the table in this file has; empty until they are read."""

    def watermark(self) -> Watermark:
        """Return the current position of the table. Raises `DamagedResultsError` if the table is incomplete or lacks
        the last attempts."""
        with _reading():
            state = self._file.row(
                "SELECT is_whole, epoch, attempt, (SELECT coalesce(max(id), 0) FROM attempts),"
                " (SELECT coalesce(max(seq), 0) FROM results) FROM results_state"
            )
        if state is None or not state[0]:
            raise damaged("it was not made yet, or not to its end")
        if state[2] != state[3]:
            raise damaged("it does not have the last attempts")
        return Watermark(epoch=state[1], seq=state[4])

    def changed_places(self, since: int) -> list[Place]:
        """Return the places whose rows have changed since the watermark `since`."""
        rows = self._file.rows("SELECT DISTINCT sweep, place_id, model FROM results WHERE seq > ?", since)
        return [Place._make(row) for row in rows]

    def places(self, sweep: str) -> dict[Place, str]:
        """Return the places of a sweep that have rows which are not stale, each with its device's display name."""
        rows = self._file.rows(
            "SELECT DISTINCT place_id, model, device FROM results WHERE sweep = ? AND stale = 0", sweep
        )
        return {Place(sweep, place_id, model): device for place_id, model, device in rows}

    def rows(self, sweep: str, place: Place | None = None) -> list[ResultRow]:
        """Return the rows of a sweep, or of one of its places, that are not stale, sorted by name.

        Raises `DamagedResultsError` if a row cannot be read.
        """
        where, values = "WHERE sweep = ?", [sweep]
        if place is not None:
            where, values = f"{where} AND place_id = ? AND model = ?", [sweep, place.place_id, place.model]
        rows = self._read(f"{where} AND stale = 0", *values)
        return sorted(rows, key=lambda row: (row.name, row.job_key))

    def ended_counts(self, sweep: str) -> dict[str, dict[str, int]]:
        """Return the numbers of `measured` and `failed` jobs, by the device id of each unit (also for units in a
        pool)."""
        rows = self._file.rows(
            "SELECT device_id, outcome, jobs FROM ended WHERE sweep = ? AND jobs > 0 AND outcome != 'skipped'", sweep
        )
        counts: dict[str, dict[str, int]] = {}
        for device_id, outcome, count in rows:
            counts.setdefault(device_id, {})[outcome] = count
        return counts

    def ended_jobs(self, sweep: str, since: int) -> dict[str, int]:
        """Return the id of the newest attempt of each job that has a result, by job key, if that attempt is later than
        `since`."""
        return dict(
            self._file.rows(
                "SELECT job_key, attempt FROM results WHERE sweep = ? AND stale = 0 AND outcome != 'skipped'"
                " AND attempt > ?",
                sweep,
                since,
            )
        )

    def builds_tried(self, sweep: str, build_keys: Iterable[str]) -> set[tuple[str, str]]:
        """Return the build key and the device id of each job that has a result and is of one of these builds."""
        rows = self._file.rows(
            "SELECT DISTINCT build_key, device_id FROM results WHERE sweep = ? AND stale = 0 AND outcome != 'skipped'"
            " AND build_key IN (SELECT value FROM json_each(?))",
            sweep,
            json.dumps(list(build_keys)),
        )
        return {(build_key, device_id) for build_key, device_id in rows}

    def last(self, sweep: str, count: int) -> list[ResultRow]:
        """Return the rows of the `count` jobs that ended last, the latest first. Raises as `rows`."""
        # The order is backwards by `seq`, not by the index of axes: the sweep that runs has the latest rows.
        where = "WHERE +sweep = ? AND +stale = 0 AND outcome != 'skipped' ORDER BY seq DESC LIMIT ?"
        return self._read(where, sweep, count)

    def stored(self, sweep: str, job_key: str) -> tuple[ResultRow, str] | None:
        """Return the row of a job, even if stale, and the id of its evaluation set; `None` without a row. Raises as
        `rows`."""
        with _reading():
            columns = f"evaluation_id, {self._selected()}"
            query = f"SELECT {columns} FROM results WHERE sweep = ? AND job_key = ?"  # noqa: S608  # names of ours
            stored = self._file.row(query, sweep, job_key)
            return None if stored is None else (read_row(stored[1:]), str(stored[0]))

    def some(self, sweep: str, job_keys: Iterable[str]) -> dict[str, ResultRow]:
        """Return rows by job key, including stale ones; keys without a row in this sweep are left out. Raises as
        `rows`."""
        where = "WHERE sweep = ? AND job_key IN (SELECT value FROM json_each(?))"
        return {row.job_key: row for row in self._read(where, sweep, json.dumps(list(job_keys)))}

    def matching(
        self, filters: Mapping[str, Collection[str | int]], sweep: str | None = None, *, most: int = 1_000
    ) -> list[ResultRow]:
        """Return the rows that are not stale and whose value in each column of `filters` (a key of `FILTERS`) is one of
        the given values; the fastest first, at most `most` rows.

        Raises `ValueError` for another column, `DamagedResultsError` if a row cannot be read.
        """
        where, values = _matching(filters, sweep)
        # The query chooses the rows first, and only then reads their long texts.
        order = "ORDER BY latency_p50_ms IS NULL, latency_p50_ms, seq"
        chosen = f"SELECT seq FROM results{where} {order} LIMIT ?"  # noqa: S608  # names of ours
        return self._read(f"WHERE seq IN ({chosen}) {order}", *values, most)

    def matching_places(
        self, filters: Mapping[str, Collection[str | int]], sweep: str | None = None
    ) -> dict[Place, int]:
        """Return, for each place, the number of rows that `matching` would find there; places without any are left
        out."""
        where, values = _matching(filters, sweep)
        query = f"SELECT sweep, place_id, model, count(*) FROM results{where} GROUP BY 1, 2, 3"  # noqa: S608
        return {Place(*place): count for *place, count in self._file.rows(query, *values)}

    def put(self, rows: Iterable[tuple[ResultRow, str, int]]) -> None:
        """Write rows, each with the id of its evaluation set and its newest attempt."""
        self._file.db.executemany(
            _PUT,
            [[attempt, Place.of(row).place_id, evaluation_id, *values_of(row)] for row, evaluation_id, attempt in rows],
        )

    def _read(self, where: str, *values: str | int) -> list[ResultRow]:
        with _reading():
            query = f"SELECT {self._selected()} FROM results {where}"  # noqa: S608  # names of ours
            return [read_row(record) for record in self._file.rows(query, *values)]

    def _selected(self) -> str:
        """Return the column list of a SELECT that `read_row` can parse."""
        if not self._columns >= FIGURE_COLUMNS.keys():  # the next opening for writing adds the columns that lack
            self._columns = result_columns(self._file.db)
        return selected(self._columns)


@contextmanager
def _reading() -> Iterator[None]:
    """Translate errors of reading a row into `DamagedResultsError`."""
    try:
        yield
    except (ValueError, TypeError, StoreError, sqlite3.Error) as error:
        raise damaged(getattr(error, "message", str(error))) from error


def damaged(why: str) -> DamagedResultsError:
    return DamagedResultsError(
        f"the journal's table of results must be made again: {why}", "run `edgesweep journal rebuild`"
    )


def _matching(filters: Mapping[str, Collection[str | int]], sweep: str | None) -> tuple[str, list[str | int]]:
    """Return a WHERE clause and its values. Raises `ValueError` for a column that is not in `FILTERS`."""
    if unknown := filters.keys() - FILTERS:
        raise ValueError(f"results are not filtered by {', '.join(sorted(unknown))}")
    all_filters = {**filters, **({} if sweep is None else {"sweep": [sweep]})}
    # Values are compared as rows store them; a number that no column has chooses nothing.
    stored_filters = {
        name: [stored(value) for value in values if isinstance(value, str) or abs(value) < 2**63]
        for name, values in all_filters.items()
    }
    parts = ["stale = 0", *(f"{name} IN ({', '.join('?' * len(values))})" for name, values in stored_filters.items())]
    return f" WHERE {' AND '.join(parts)}", [value for values in stored_filters.values() for value in values]
