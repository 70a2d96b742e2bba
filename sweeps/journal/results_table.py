"""The journal's table of results: a row for each finished job and skipped combination of a sweep, as rankings need it.

It is made from the attempts, in the same transaction as each of them, and can be made again. `seq` is its watermark:
each change of a row gives it a number that is larger than all before.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Self

from sweeps.device_facts import DeviceFacts, pool_id
from sweeps.errors import StoreError
from sweeps.journal.result_row import row_of_waiting
from sweeps.journal.row_columns import ROW_COLUMNS, read_row, values_of
from sweeps.journal.schema import JOB_DEVICE, JOB_SENTINEL
from sweeps.journal.times import TimeTables
from sweeps.json_records import from_json
from sweeps.records import Conditions, Job
from sweeps.results import ResultRow

LATEST = 5_000
"""So many attempts are looked through for what a device was like last."""

COLUMNS = ("attempt", "place_id", "evaluation_id", *ROW_COLUMNS)
"""Those of the table, without `seq`."""
READ = f"SELECT {', '.join(ROW_COLUMNS)} FROM results"  # noqa: S608  # names of ours
_READ_WITH_EVALUATION = READ.replace("SELECT ", "SELECT evaluation_id, ", 1)
_PLACES = ", ".join("?" * len(COLUMNS))
_PUT = f"INSERT OR REPLACE INTO results ({', '.join(COLUMNS)}) VALUES ({_PLACES})"  # noqa: S608  # names of ours


class DamagedResultsError(StoreError):
    """The table of results is not what the attempts make of it."""


class Place(NamedTuple):
    """One device (or pool of units that share the work) and model of a sweep."""

    sweep: str
    place_id: str
    """As `sweeps.results.ResultRow.place`: a unit's id, or that of its pool."""
    model: str

    @classmethod
    def of(cls, row: ResultRow) -> Self:
        return cls(row.sweep, pool_id(row.fingerprint) if row.link else row.device_id, row.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """How far a reader has read. The epoch changes when the table was made again."""

    epoch: int
    seq: int


class ResultTables(TimeTables):
    """Results in the journal."""

    def watermark(self) -> Watermark:
        """As of now. Raises `DamagedResultsError` if the table is not whole, or lacks attempts of the journal."""
        with _reading():
            state = self._row(
                "SELECT is_whole, epoch, attempt, (SELECT coalesce(max(id), 0) FROM attempts),"
                " (SELECT coalesce(max(seq), 0) FROM results) FROM results_state"
            )
        if state is None or not state[0]:
            raise damaged("it was not made yet, or not to its end")
        if state[2] != state[3]:
            raise damaged("it does not have the last attempts")
        return Watermark(epoch=state[1], seq=state[4])

    def changed_places(self, since: int) -> list[Place]:
        """Those with changes after a `seq`."""
        rows = self._rows("SELECT DISTINCT sweep, place_id, model FROM results WHERE seq > ?", since)
        return [Place._make(row) for row in rows]

    def result_places(self, sweep: str) -> dict[Place, str]:
        """The places of a sweep with rows that are not stale, each with its device for people."""
        rows = self._rows("SELECT DISTINCT place_id, model, device FROM results WHERE sweep = ? AND stale = 0", sweep)
        return {Place(sweep, place_id, model): device for place_id, model, device in rows}

    def plan_ids(self) -> dict[str, int]:
        """The current plan of each sweep."""
        return dict(self._rows("SELECT name, plan_id FROM sweeps"))

    def planned_places(self, sweep: str | None = None) -> dict[Place, tuple[str, int]]:
        """Of the current plans (of one sweep): the device for people, and the number of jobs."""
        rows = self._rows(
            "SELECT sweep, place_id, model, device, jobs FROM places WHERE ?1 = '' OR sweep = ?1", sweep or ""
        )
        return {Place(name, one, model): (device, jobs) for name, one, model, device, jobs in rows}

    def waiting_jobs(self, place: Place, ended: Iterable[str] | None = None) -> list[ResultRow]:
        """The rows (`row_of_waiting`) of a place's jobs in the current plan that have no result yet, in order. `ended`:
        the keys of those that have one elsewhere, in a copy; then the results here do not count."""
        here = "SELECT job_key FROM results WHERE results.sweep = jobs.sweep AND results.job_key = jobs.job_key"
        there = "SELECT 1 FROM json_each(?5) WHERE value = jobs.job_key"
        units = {
            device_id: pool_id(from_json(DeviceFacts, facts).fingerprint)
            for device_id, facts in self._rows(
                "SELECT device_id, facts FROM sweeps JOIN devices USING (plan_id) WHERE name = ?", place.sweep
            )
        }
        mine = [unit for unit, pool in units.items() if place.place_id in (unit, pool)]
        rows = self._rows(
            # `+`: by the index of devices.
            "SELECT record FROM jobs WHERE +sweep = ?1"  # noqa: S608  # an expression of ours
            " AND plan_id = (SELECT plan_id FROM sweeps WHERE name = ?1)"
            f" AND {JOB_DEVICE} IN (SELECT value FROM json_each(?2)) AND json_extract(record, '$.model') = ?3"
            f" AND ({JOB_DEVICE} = ?4 OR json_extract(record, '$.link') != '')"
            f" AND NOT EXISTS ({here if ended is None else there}) ORDER BY position",
            place.sweep,
            json.dumps(mine),
            place.model,
            place.place_id,
            *([] if ended is None else [json.dumps(list(ended))]),
        )
        return [row_of_waiting(place.sweep, from_json(Job, record)) for (record,) in rows]

    def waiting_job(self, sweep: str, job_key: str) -> ResultRow | None:
        """The row (`row_of_waiting`) of a job, whether it has a result or not; `None` if the sweep never had it."""
        record = self._row("SELECT record FROM jobs WHERE sweep = ? AND job_key = ?", sweep, job_key)
        return None if record is None else row_of_waiting(sweep, from_json(Job, record[0]))

    def jobs_left(self, sweep: str) -> list[Job]:
        """Those of the current plan without a result, in its order. Raises `StoreError` if there is no such sweep."""
        rows = self._rows(
            "SELECT record FROM jobs WHERE sweep = ? AND plan_id = ? AND NOT EXISTS (SELECT 1 FROM results"
            " WHERE stale = 0 AND results.sweep = jobs.sweep AND results.job_key = jobs.job_key) ORDER BY position",
            sweep,
            self._plan_id(sweep),
        )
        return [from_json(Job, record) for (record,) in rows]

    def builds_tried(self, sweep: str, build_keys: Iterable[str]) -> set[tuple[str, str]]:
        """On which device which of these builds has a job with a result: build key and device id."""
        rows = self._rows(
            "SELECT DISTINCT build_key, device_id FROM results WHERE sweep = ? AND stale = 0 AND outcome != 'skipped'"
            " AND build_key IN (SELECT value FROM json_each(?))",
            sweep,
            json.dumps(list(build_keys)),
        )
        return {(build_key, device_id) for build_key, device_id in rows}

    def result_rows(self, sweep: str, place: Place | None = None) -> list[ResultRow]:
        """The rows of a sweep, or of one of its places, that are not stale, in order of their names.

        Raises `DamagedResultsError` if a row cannot be read.
        """
        where, values = " WHERE sweep = ?", [sweep]
        if place is not None:
            where, values = f"{where} AND place_id = ? AND model = ?", [sweep, place.place_id, place.model]
        rows = self._read_results(f"{READ}{where} AND stale = 0", *values)
        return sorted(rows, key=lambda row: (row.name, row.job_key))

    def ended_counts(self, sweep: str) -> dict[str, dict[str, int]]:
        """By the id of each unit, also of a pool: its jobs that are `measured` and `failed`."""
        rows = self._rows(
            "SELECT device_id, outcome, jobs FROM ended WHERE sweep = ? AND jobs > 0 AND outcome != 'skipped'", sweep
        )
        found: dict[str, dict[str, int]] = {}
        for device_id, outcome, count in rows:
            found.setdefault(device_id, {})[outcome] = count
        return found

    def ended_jobs(self, sweep: str, since: int) -> dict[str, int]:
        """The newest attempt of each job that has a result, by job key, where it is later than `since`."""
        return dict(
            self._rows(
                "SELECT job_key, attempt FROM results WHERE sweep = ? AND stale = 0 AND outcome != 'skipped'"
                " AND attempt > ?",
                sweep,
                since,
            )
        )

    def last_results(self, sweep: str, count: int) -> list[ResultRow]:
        """The jobs that ended last, the latest first. Raises as `result_rows`."""
        # Backwards by `seq`, not by the index of axes: the sweep that runs has the latest rows.
        where = " WHERE +sweep = ? AND +stale = 0 AND outcome != 'skipped' ORDER BY seq DESC LIMIT ?"
        return self._read_results(f"{READ}{where}", sweep, count)

    def last_conditions(self, sweep: str, blocks: int = 40) -> dict[str, Conditions]:
        """By device id: of the last block, for the devices of the last `blocks` of a sweep, if they are among the
        journal's latest: otherwise the sweep has ended long ago."""
        rows = self._rows(
            "SELECT json_extract(jobs.record, '$.device_id'), json_extract(attempts.record, '$.conditions')"
            " FROM attempts CROSS JOIN jobs ON job_key = key AND sweep = ? WHERE kind = 'block' AND"
            " attempts.id > (SELECT max(id) FROM attempts) - ? AND json_valid(attempts.record)"
            " ORDER BY attempts.id DESC LIMIT ?",
            sweep,
            LATEST,
            blocks,
        )
        return {device_id: from_json(Conditions, text) for device_id, text in reversed(rows)}

    def stored_result(self, sweep: str, job_key: str) -> tuple[ResultRow, str] | None:
        """One row, also a stale one, with the id of its evaluation set. Raises as `result_rows`."""
        query = f"{_READ_WITH_EVALUATION} WHERE sweep = ? AND job_key = ?"
        with _reading():
            found = self._row(query, sweep, job_key)
            return None if found is None else (read_row(found[1:]), str(found[0]))

    def some_results(self, sweep: str, job_keys: Iterable[str]) -> dict[str, ResultRow]:
        """Rows by job key, also stale ones; without those that the sweep does not have. Raises as `result_rows`."""
        where = " WHERE sweep = ? AND job_key IN (SELECT value FROM json_each(?))"
        return {row.job_key: row for row in self._read_results(f"{READ}{where}", sweep, json.dumps(list(job_keys)))}

    def sentinels_of(self, sweep: str, device_id: str, place_ids: Iterable[str]) -> list[str]:
        """The keys of the sentinels of those jobs that have a result on this device, under any of these places."""
        keys: dict[str, None] = {}
        for place_id in place_ids:
            rows = self._rows(
                f"SELECT DISTINCT {JOB_SENTINEL} FROM jobs WHERE {JOB_DEVICE} = ?3 AND +sweep = ?1"  # noqa: S608
                " AND EXISTS (SELECT 1 FROM results WHERE results.sweep = jobs.sweep"
                " AND results.job_key = jobs.job_key AND place_id = ?2 AND device_id = ?3)",
                sweep,
                place_id,
                device_id,
            )
            keys |= dict.fromkeys(key for (key,) in rows if key)
        return list(keys)

    def _read_results(self, query: str, *values: str | int) -> list[ResultRow]:
        with _reading():
            return [read_row(one) for one in self._rows(query, *values)]

    def _put_results(self, rows: Iterable[tuple[ResultRow, str, int]]) -> None:
        """Write rows, each with the id of its evaluation set and its newest attempt."""
        self._db.executemany(
            _PUT,
            [[attempt, Place.of(row).place_id, evaluation_id, *values_of(row)] for row, evaluation_id, attempt in rows],
        )


@contextmanager
def _reading() -> Iterator[None]:
    """Raises `DamagedResultsError` where a row cannot be read."""
    try:
        yield
    except (ValueError, TypeError, StoreError, sqlite3.Error) as error:
        raise damaged(getattr(error, "message", str(error))) from error


def damaged(why: str) -> DamagedResultsError:
    return DamagedResultsError(
        f"the journal's table of results must be made again: {why}", "run `edgesweep journal rebuild`"
    )
