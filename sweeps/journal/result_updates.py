"""Updates of the journal's table of results: of the affected rows in each transaction, or of the whole table in a
rebuild."""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

from sweeps.device_facts import pool_id
from sweeps.errors import StoreError
from sweeps.journal.artifact_table import Artifacts
from sweeps.journal.attempts import Attempts
from sweeps.journal.batch_table import Batches
from sweeps.journal.changes import Changes
from sweeps.journal.file import JournalFile, News
from sweeps.journal.job_table import Jobs
from sweeps.journal.outcomes import Outcomes
from sweeps.journal.plans import Plans
from sweeps.journal.result_row import row_of_job, row_of_skipped
from sweeps.journal.results_table import Results, damaged
from sweeps.journal.schema import JOB_SENTINEL, RESULTS
from sweeps.journal.sentinels import Sentinels, spans_of
from sweeps.journal.times import Times
from sweeps.json_records import from_json
from sweeps.planning.planned_job import PlannedJob
from sweeps.records import Failed, Job, Measured
from sweeps.results import ResultRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Parts of a journal from which its results are computed."""

    plans: Plans
    jobs: Jobs
    changes: Changes
    sentinels: Sentinels
    artifacts: Artifacts
    attempts: Attempts
    batches: Batches
    times: Times
    outcomes: Outcomes


class ResultUpdates:
    """Writer of the table of results."""

    def __init__(self, file: JournalFile, results: Results, sources: Sources) -> None:
        self._file = file
        self._results = results
        self._from = sources
        self._starts: dict[tuple[str, int], int | None] = {}

    def empty(self) -> int:
        """Begin a rebuild of the table of results: until `finish`, the table counts as damaged.

        Returns the epoch, a random number of this rebuild.
        """
        with self._file.writing():
            for table in ("results", "places", "results_state", "ended"):
                self._file.db.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in RESULTS:
                self._file.db.execute(statement)
            self._file.db.execute("UPDATE results_state SET is_whole = 0")
            [epoch] = self._file.db.execute("SELECT epoch FROM results_state").fetchone()
        return int(epoch)

    def refresh(self, keys: Iterable[tuple[str, str]]) -> None:
        """Compute and write the rows of these jobs (sweep, job key) again."""
        with self._file.writing():
            self._refresh(keys)

    def refresh_places(self, sweep: str) -> None:
        """Compute and write a sweep's skipped combinations again, and the number of jobs of each of its places."""
        with self._file.writing():
            self._refresh_plan(sweep)

    def finish(self, epoch: int) -> int:
        """Mark the table of results as complete. Returns the number of its rows.

        Raises `DamagedResultsError` if the table was emptied or damaged since `empty` returned this epoch.
        """
        with self._file.writing():
            changed = self._file.db.execute(
                "UPDATE results_state SET is_whole = 1, attempt = (SELECT coalesce(max(id), 0) FROM attempts)"
                " WHERE epoch = ?",
                (epoch,),
            )
            if not changed.rowcount:
                raise damaged("another process has begun to make it, or has damaged it, meanwhile")
            [count] = self._file.db.execute("SELECT count(*) FROM results").fetchone()
        return int(count)

    def write(self, news: News) -> None:
        """Write the results that follow from the open transaction, in the same transaction.

        A damaged table stops no measurement: it is marked as damaged, and the next reader rebuilds it.
        """
        if not news.keys and not news.sweep:
            return
        self._file.db.execute("SAVEPOINT results")
        try:
            self._write_after(news)
        except (sqlite3.DatabaseError, StoreError, ValueError, TypeError, ArithmeticError):
            if not self._file.db.in_transaction:  # the disk is full: sqlite has rolled back
                raise
            self._file.db.execute("ROLLBACK TO results")
            with suppress(sqlite3.OperationalError):  # the table may be gone
                # The new epoch also stops a process that is rebuilding the table now.
                self._file.db.execute("UPDATE results_state SET is_whole = 0, epoch = abs(random())")
        self._file.db.execute("RELEASE results")

    def _write_after(self, news: News) -> None:
        keys = self._jobs_of(news.keys)
        if news.sweep:
            keys |= self._jobs_of_plan(news.sweep, news.affected)
        self._refresh(keys)
        if news.sweep:
            self._refresh_plan(news.sweep)
        self._file.db.execute("UPDATE results_state SET attempt = (SELECT coalesce(max(id), 0) FROM attempts)")

    def _jobs_of(self, touched: Iterable[str]) -> set[tuple[str, str]]:
        """Return the jobs (sweep, job key) whose results may depend on the job, build and sentinel keys in
        `touched`."""
        jobs: set[tuple[str, str]] = set()
        [last_attempt] = self._file.row("SELECT attempt FROM results_state")
        for key in touched:
            rows = self._file.rows("SELECT sweep, job_key FROM jobs WHERE job_key = ?1 OR build_key = ?1", key)
            blocks = [] if rows else self._from.sentinels.placed_blocks(key)
            if blocks and spans_of(blocks) != spans_of([block for block in blocks if block.position <= last_attempt]):
                rows = self._file.rows(f"SELECT sweep, job_key FROM jobs WHERE {JOB_SENTINEL} = ?", key)  # noqa: S608
            jobs.update(rows)
        return jobs

    def _jobs_of_plan(self, sweep: str, affected: frozenset[str]) -> set[tuple[str, str]]:
        """Return the jobs (sweep, job key) that a sweep's new plan affects and that have a result, or attempts from
        which one may follow."""
        if not affected:
            return set()
        rows = self._file.rows(
            "SELECT sweep, job_key FROM jobs WHERE sweep = ?1 AND (job_key IN (SELECT key FROM attempts)"
            " OR build_key IN (SELECT substr(key, 1, instr(key || '@', '@') - 1) FROM attempts)"
            " OR job_key IN (SELECT job_key FROM batch_items)"
            " OR job_key IN (SELECT job_key FROM results WHERE sweep = ?1))",
            sweep,
        )
        return {(name, key) for name, key in rows if key in affected}

    def _refresh(self, keys: Iterable[tuple[str, str]]) -> None:
        for sweep, job_key in sorted(keys):
            planned = self._from.jobs.planned(sweep, job_key)
            outcome = self._from.outcomes.of_job(planned)
            evaluation_id = planned.evaluation_id or ""
            attempt, _ = self._from.changes.last_attempt(planned.job)
            before = self._results.stored(sweep, job_key)
            if outcome is not None:
                row = self._result(sweep, planned, outcome)
            elif before is None:
                continue
            else:
                # The job is pending again (more rounds, or a retry): the old result stays until there is a new one. But
                # an accuracy on other images than the sweep file's must not be ranked with the new ones.
                row = replace(before[0], stale=planned.stale or before[1] != evaluation_id)
                evaluation_id = before[1]
            if before is None or before != (row, evaluation_id):
                self._results.put([(row, evaluation_id, attempt)])

    def _result(self, sweep: str, planned: PlannedJob, outcome: Measured | Failed) -> ResultRow:
        job = planned.job
        blocks = self._from.attempts.blocks(job.key, "") if isinstance(outcome, Measured) else ()
        sessions = {self._start_of(job.device_id, block.session) for block in blocks}
        return row_of_job(
            sweep,
            planned,
            outcome,
            blocks,
            self._from.artifacts.latest(job.build_key),
            self._from.attempts.settled(job.key, planned.protocol),
            tuple(sorted(start for start in sessions if start is not None)),
            self._from.batches.share(job.key),
        )

    def _start_of(self, device_id: str, run: int) -> int | None:
        """Return the start of the session to which a run on a device belongs. It is cached: later blocks do not change
        it, and the query is slow."""
        if (device_id, run) not in self._starts:
            self._starts[device_id, run] = self._from.times.session_start(device_id, run)
        return self._starts[device_id, run]

    def _refresh_plan(self, sweep: str) -> None:
        present = self._from.plans.current_id(sweep)
        skips = self._from.changes.skipped(sweep, None)
        rows = [(row_of_skipped(sweep, skip), skip.evaluation_id or "", 0) for skip in skips]
        self._results.put(entry for entry in rows if self._results.stored(sweep, entry[0].job_key) != entry[:2])
        jobs: Counter[tuple[str, str, str]] = Counter()
        under = cache(self._from.plans.planned_under)
        for record, plan_id in self._file.rows("SELECT record, plan_id FROM jobs WHERE sweep = ?", sweep):
            if plan_id == present:
                job = from_json(Job, record)
                _, _, facts = under(plan_id, job.device_id)
                place_id = pool_id(facts.fingerprint) if job.link else job.device_id
                jobs[place_id, job.model, facts.device_class] += 1
        self._file.db.execute("DELETE FROM places WHERE sweep = ?", (sweep,))
        self._file.db.executemany(
            "INSERT OR REPLACE INTO places (sweep, place_id, model, device, jobs) VALUES (?, ?, ?, ?, ?)",
            [(sweep, place_id, model, device, count) for (place_id, model, device), count in jobs.items()],
        )
