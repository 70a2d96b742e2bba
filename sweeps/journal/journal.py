"""The journal: one sqlite file per workspace with append-only attempts. It decides which jobs are done.

Only events are the truth. Outcomes, staleness and "failed too often" are computed when they are needed, and the table
of results, which follows from the events, is written in the same transaction.
Each call is one transaction. A `Journal` belongs to the thread that opened it; other threads and processes open their
own.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from sweeps.device_facts import pool_id
from sweeps.errors import StoreError
from sweeps.journal.changes import spans_of
from sweeps.journal.sweep_table import KeptSweeps
from sweeps.journal.result_row import row_of_job, row_of_skipped
from sweeps.journal.results_schema import RESULTS
from sweeps.journal.results_table import damaged
from sweeps.journal.schema import JOB_SENTINEL
from sweeps.json_records import from_json
from sweeps.planning.planned import PlannedJob
from sweeps.records import Failed, Job, Measured
from sweeps.results import ResultRow


class Journal(KeptSweeps):
    """An open journal. Use it as a context manager, or call `close()`."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        super().__init__(db, path)
        self._starts: dict[tuple[str, int], int | None] = {}

    def empty_results(self) -> int:
        """Begin to make the table of results again: until `finish_results`, it counts as damaged.

        Returns the number of this beginning, its epoch.
        """
        with self._writing():
            for table in ("results", "places", "results_state", "ended"):
                self._db.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in RESULTS:
                self._db.execute(statement)
            self._db.execute("UPDATE results_state SET is_whole = 0")
            [epoch] = self._db.execute("SELECT epoch FROM results_state").fetchone()
        return int(epoch)

    def refresh_results(self, keys: Iterable[tuple[str, str]]) -> None:
        """Write the rows of jobs (sweep, job key) again."""
        with self._writing():
            self._refresh(keys)

    def refresh_places(self, sweep: str) -> None:
        """Write the skipped combinations of a sweep again, and how many jobs each of its places has."""
        with self._writing():
            self._refresh_plan(sweep)

    def finish_results(self, epoch: int) -> int:
        """The table of results is whole now. Returns the number of its rows.

        Raises `DamagedResultsError` if it was emptied or damaged since `empty_results` returned this epoch.
        """
        with self._writing():
            changed = self._db.execute(
                "UPDATE results_state SET is_whole = 1, attempt = (SELECT coalesce(max(id), 0) FROM attempts)"
                " WHERE epoch = ?",
                (epoch,),
            )
            if not changed.rowcount:
                raise damaged("another process has begun to make it, or has damaged it, meanwhile")
            [count] = self._db.execute("SELECT count(*) FROM results").fetchone()
        return int(count)

    def _before_commit(self) -> None:
        """The results that follow from the transaction's writes are in the same transaction.

        A table that is damaged stops no measurement: it is marked, and the next reader makes it again.
        """
        replanned, self._replanned = self._replanned, ""
        if not self._touched and not replanned:
            return
        self._db.execute("SAVEPOINT results")
        try:
            self._refresh_after(replanned)
        except (sqlite3.DatabaseError, StoreError, ValueError, TypeError, ArithmeticError):
            if not self._db.in_transaction:  # the disk is full: sqlite has rolled back
                raise
            self._db.execute("ROLLBACK TO results")
            with suppress(sqlite3.OperationalError):  # the table may be gone
                # Also for whoever makes it again just now: a new epoch.
                self._db.execute("UPDATE results_state SET is_whole = 0, epoch = abs(random())")
        self._db.execute("RELEASE results")

    def _refresh_after(self, replanned: str) -> None:
        keys = self._jobs_of(self._touched)
        if replanned:
            keys |= self._jobs_of_plan(replanned)
        self._refresh(keys)
        if replanned:
            self._refresh_plan(replanned)
        self._db.execute("UPDATE results_state SET attempt = (SELECT coalesce(max(id), 0) FROM attempts)")

    def _jobs_of(self, touched: Iterable[str]) -> set[tuple[str, str]]:
        """The jobs (sweep, job key) whose results may depend on these job, build and sentinel keys."""
        found: set[tuple[str, str]] = set()
        [seen] = self._row("SELECT attempt FROM results_state")
        for key in touched:
            rows = self._rows("SELECT sweep, job_key FROM jobs WHERE job_key = ?1 OR build_key = ?1", key)
            blocks = [] if rows else self._sentinel_blocks(key)
            if blocks and spans_of(blocks) != spans_of([one for one in blocks if one.position <= seen]):
                rows = self._rows(f"SELECT sweep, job_key FROM jobs WHERE {JOB_SENTINEL} = ?", key)  # noqa: S608
            found.update(rows)
        return found

    def _jobs_of_plan(self, sweep: str) -> set[tuple[str, str]]:
        """The jobs that a sweep's new plan affects, and that have a result, or attempts that may make one."""
        if not self._affected:
            return set()
        rows = self._rows(
            "SELECT sweep, job_key FROM jobs WHERE sweep = ?1 AND (job_key IN (SELECT key FROM attempts)"
            " OR build_key IN (SELECT substr(key, 1, instr(key || '@', '@') - 1) FROM attempts)"
            " OR job_key IN (SELECT job_key FROM batch_items)"
            " OR job_key IN (SELECT job_key FROM results WHERE sweep = ?1))",
            sweep,
        )
        return {(name, key) for name, key in rows if key in self._affected}

    def _refresh(self, keys: Iterable[tuple[str, str]]) -> None:
        for sweep, job_key in sorted(keys):
            planned = self.planned_job(sweep, job_key)
            outcome = self.outcome(planned)
            evaluation_id = planned.evaluation_id or ""
            attempt, _ = self.last_attempt(planned.job)
            before = self.stored_result(sweep, job_key)
            if outcome is not None:
                row = self._result(sweep, planned, outcome)
            elif before is None:
                continue
            else:
                # Pending again (more rounds, or a retry): the old result stays until there is a new one. But an
                # accuracy on other images than the sweep file's must not be ranked with the new ones.
                row = replace(before[0], stale=planned.stale or before[1] != evaluation_id)
                evaluation_id = before[1]
            if before is None or before != (row, evaluation_id):
                self._put_results([(row, evaluation_id, attempt)])

    def _result(self, sweep: str, planned: PlannedJob, outcome: Measured | Failed) -> ResultRow:
        job = planned.job
        blocks = self.blocks(job.key, "") if isinstance(outcome, Measured) else ()
        sessions = {self._start_of(job.device_id, block.session) for block in blocks}
        return row_of_job(
            sweep,
            planned,
            outcome,
            blocks,
            self.artifact(job.build_key),
            self.settled(job.key, planned.protocol),
            tuple(sorted(start for start in sessions if start is not None)),
            self.batch_share(job.key),
        )

    def _start_of(self, device_id: str, run: int) -> int | None:
        """`session_start`, asked for once: later blocks do not change it, and the question takes long."""
        if (device_id, run) not in self._starts:
            self._starts[device_id, run] = self.session_start(device_id, run)
        return self._starts[device_id, run]

    def _refresh_plan(self, sweep: str) -> None:
        present = self._plan_id(sweep)
        skips = self.skipped_since(sweep, None)
        rows = [(row_of_skipped(sweep, skip), skip.evaluation_id or "", 0) for skip in skips]
        self._put_results(one for one in rows if self.stored_result(sweep, one[0].job_key) != (one[0], one[1]))
        jobs: Counter[tuple[str, str, str]] = Counter()
        under = cache(self._planned_under)
        for record, plan_id in self._rows("SELECT record, plan_id FROM jobs WHERE sweep = ?", sweep):
            if plan_id == present:
                job = from_json(Job, record)
                _, _, facts = under(plan_id, job.device_id)
                place_id = pool_id(facts.fingerprint) if job.link else job.device_id
                jobs[place_id, job.model, facts.device_class] += 1
        self._db.execute("DELETE FROM places WHERE sweep = ?", (sweep,))
        self._db.executemany(
            "INSERT OR REPLACE INTO places (sweep, place_id, model, device, jobs) VALUES (?, ?, ?, ?, ?)",
            [(sweep, place_id, model, device, count) for (place_id, model, device), count in jobs.items()],
        )

    def job_keys(self, sweep: str) -> list[str]:
        """Of every job that the sweep ever had."""
        return [key for (key,) in self._rows("SELECT job_key FROM jobs WHERE sweep = ?", sweep)]
