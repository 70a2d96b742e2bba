"""The journal: one sqlite file per workspace with append-only attempts. It decides which jobs are done.

Only events are stored. Outcomes, staleness and "failed too often" are computed when they are needed.
Each call is one transaction. A `Journal` belongs to the thread that opened it; other threads and processes open their
own.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from sweeps.device_facts import pool_id
from sweeps.errors import FINAL_KINDS, StoreError
from sweeps.journal.result_row import row_of_job, row_of_skipped
from sweeps.journal.results_table import ResultTables
from sweeps.journal.schema import RESULTS
from sweeps.json_records import from_json
from sweeps.planning.plan import Plan
from sweeps.planning.planned import PlannedJob
from sweeps.protocol.blocks import summarize
from sweeps.protocol.ended import settles
from sweeps.protocol.presets import Protocol, protocol_of
from sweeps.protocol.sentinel import changed_spans
from sweeps.records import Accuracy, Failed, Job, Measured
from sweeps.results import ResultRow

MAX_ATTEMPTS = 3
"""The first attempt and two retries: after this many failures, an unfinished job has failed."""


def verified_key(build_key: str, evaluation_id: str | None) -> str:
    """The key of a failure that holds only for one evaluation set: with other images, the build is tried again."""
    return f"{build_key}@{evaluation_id}"


def build_failure_keys(job: Job, evaluation_id: str | None) -> tuple[str, str]:
    """The keys of failures of the job's build: failures that always hold, and failures on one evaluation set.

    A build that a reference implementation verifies is tried again with the next version of that reference.
    """
    always = verified_key(job.build_key, job.reference) if job.emulated else job.build_key
    return always, verified_key(always, evaluation_id)


@dataclass(frozen=True, slots=True)
class Complete:
    """A finished job, without a summary of its blocks."""

    accuracy: Accuracy | None


class Journal(ResultTables):
    """An open journal. Use it as a context manager, or call `close()`."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        super().__init__(db, path)
        self._starts: dict[tuple[str, int], int | None] = {}

    def save_plan(self, plan: Plan) -> None:
        """As `PlanTables.save_plan`; then `reopen` the jobs whose elimination is no longer valid."""
        super().save_plan(plan)
        self.reopen(plan)

    def reopen(self, plan: Plan) -> None:
        """Reopen each job if the job that eliminated it, or led a race that batches decided, has failed or is no longer
        in the sweep."""
        protocol = protocol_of(plan.sweep)
        if protocol.budget != "race":
            return
        jobs = {job.key: job for job in plan.jobs}
        for key in jobs:
            settled = self.settled(key, protocol)
            if settled is None or not (settled.eliminated or settled.by_key):
                continue
            eliminator = jobs.get(settled.by_key)
            if eliminator is None or isinstance(self.sweep_outcome(plan.sweep.name, eliminator), Failed):
                self.add_settled(settled.reopened())

    def outcome(self, planned: PlannedJob) -> Measured | Failed | None:
        """As `ending`, but with the summary of all accepted blocks if the job is complete."""
        ended = self.ending(planned)
        if not isinstance(ended, Complete):
            return ended
        job = planned.job
        if job.emulated:
            return Measured(timing=None, accuracy=ended.accuracy)
        # What only checks batches makes no figure. A job without another block of its own has none.
        blocks = [block for block in self.blocks(job.key, job.sentinel) if not block.checks]
        timing = summarize(job.key, blocks, planned.protocol) if blocks else None
        return Measured(timing=timing, accuracy=ended.accuracy)

    def ending(self, planned: PlannedJob) -> Complete | Failed | None:
        """How the job ended; `None` while it is pending.

        Complete: its rounds ended (the maximum was reached, or they were settled earlier), or it is only checked by a
        reference implementation; and it has an accuracy by `planned.executor`, unless none is needed. Failed: its build
        failed once, or the job failed `MAX_ATTEMPTS` times; the last failure is returned.
        """
        job, protocol, evaluation_id = planned.job, planned.protocol, planned.evaluation_id
        accuracy = None
        if evaluation_id is not None:
            accuracy = next(iter(self._accuracy(job.build_key, evaluation_id, planned.executor)), None)
        judged = evaluation_id is None or accuracy is not None
        if judged and (job.emulated or self.rounds_ended(job, protocol)):
            return Complete(accuracy)
        for key in build_failure_keys(job, evaluation_id):
            if build_failures := self.failures(key):
                return build_failures[-1]
        failures = self.failures(job.key)
        if failures and (len(failures) >= MAX_ATTEMPTS or failures[-1].kind in FINAL_KINDS):
            return failures[-1]
        return None

    def rounds_ended(self, job: Job, protocol: Protocol) -> bool:
        """Whether the job needs no more blocks under this protocol."""
        settled = self.settled(job.key, protocol)
        if settled is not None and (
            settled.confirmations > self.confirmation_count(job.key) or settled.checks > self.check_count(job.key)
        ):
            return False
        rounds = self.round_count(job.key, added=protocol.budget == "full")
        if rounds >= protocol.last_round:
            return True
        if settled is None or not settles(settled, protocol):
            return False
        return self.block_count(job.key) > 0 or settled.batches > 0 or settled.reason == "same_program"

    def sweep_outcome(self, sweep: str, job: Job) -> Measured | Failed | None:
        """`outcome` of the job as it was last planned in this sweep."""
        return self.outcome(self.planned_job(sweep, job.key))

    def sweep_ending(self, sweep: str, job: Job) -> Complete | Failed | None:
        """`ending` of the job as it was last planned in this sweep."""
        return self.ending(self.planned_job(sweep, job.key))

    def empty_results(self) -> None:
        """Begin to make the table of results again: until `finish_results`, it counts as damaged."""
        with self._writing():
            for table in ("results", "places", "results_state"):
                self._db.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in RESULTS:
                self._db.execute(statement)
            self._db.execute("UPDATE results_state SET is_whole = 0")

    def refresh_results(self, keys: Iterable[tuple[str, str]]) -> None:
        """Write the rows of jobs (sweep, job key) again."""
        with self._writing():
            self._refresh(keys)

    def refresh_places(self, sweep: str) -> None:
        """Write the skipped combinations of a sweep again, and how many jobs each of its places has."""
        with self._writing():
            self._refresh_plan(sweep)

    def finish_results(self) -> int:
        """The table of results is whole now. Returns the number of its rows."""
        with self._writing():
            self._db.execute(
                "UPDATE results_state SET is_whole = 1, attempt = (SELECT coalesce(max(id), 0) FROM attempts)"
            )
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
        except (sqlite3.DatabaseError, StoreError, ValueError, TypeError):
            if not self._db.in_transaction:  # the disk is full: sqlite has rolled back
                raise
            self._db.execute("ROLLBACK TO results")
            with suppress(sqlite3.OperationalError):  # the table may be gone
                self._db.execute("UPDATE results_state SET is_whole = 0")
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
            if blocks and changed_spans(blocks) != changed_spans([one for one in blocks if one.position <= seen]):
                rows = self._rows("SELECT sweep, job_key FROM jobs WHERE json_extract(record, '$.sentinel') = ?", key)
            found.update(rows)
        return found

    def _jobs_of_plan(self, sweep: str) -> set[tuple[str, str]]:
        """The jobs of a sweep with a new plan that have a result, or attempts that may make one."""
        rows = self._rows(
            "SELECT sweep, job_key FROM jobs WHERE sweep = ?1 AND (job_key IN (SELECT key FROM attempts)"
            " OR build_key IN (SELECT substr(key, 1, instr(key || '@', '@') - 1) FROM attempts)"
            " OR job_key IN (SELECT job_key FROM batch_items)"
            " OR job_key IN (SELECT job_key FROM results WHERE sweep = ?1))",
            sweep,
        )
        return set(rows)

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
