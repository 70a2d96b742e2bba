"""The journal's jobs and skipped combinations, each with the protocol, evaluation set and device facts of its plan."""

import json
from collections.abc import Iterable
from functools import cache

from sweeps.device_facts import DeviceFacts, pool_id
from sweeps.errors import StoreError
from sweeps.journal.file import FIRST_STEP, JournalFile
from sweeps.journal.plans import Plans
from sweeps.journal.result_place import Place
from sweeps.journal.result_row import row_of_waiting
from sweeps.journal.schema import JOB_DEVICE
from sweeps.json_records import from_json
from sweeps.planning.planned_job import PlannedJob
from sweeps.records import Job, Skipped
from sweeps.results import ResultRow


class Jobs:
    """Table of the jobs of all plans. A job waits while the current plan has it and the table of results has no row of
    it."""

    def __init__(self, file: JournalFile, plans: Plans) -> None:
        self._file = file
        self._plans = plans

    def of_sweep(self, sweep: str) -> list[tuple[Job, bool]]:
        """Return every job that the sweep ever had, each with whether it is stale: first the current plan's jobs in its
        order, then stale ones."""
        plan_id = self._plans.current_id(sweep)
        rows = self._file.rows(
            "SELECT record, plan_id != ? AS stale FROM jobs WHERE sweep = ? ORDER BY stale, position, job_key",
            plan_id,
            sweep,
        )
        return [(from_json(Job, record), bool(stale)) for record, stale in rows]

    def keys(self, sweep: str) -> list[str]:
        """Return the keys of every job that the sweep ever had."""
        return [key for (key,) in self._file.rows("SELECT job_key FROM jobs WHERE sweep = ?", sweep)]

    def run_keys(self, sweep: str) -> frozenset[str]:
        """Return the keys of everything of which MLflow may hold a run: each job, skipped combination and import of the
        sweep."""
        rows = self._file.rows(
            "SELECT job_key FROM jobs WHERE sweep = ?1 UNION SELECT skipped_key FROM skipped WHERE sweep = ?1"
            " UNION SELECT imported_key FROM imported WHERE sweep = ?1",
            sweep,
        )
        return frozenset(key for (key,) in rows)

    def count(self, sweep: str) -> int:
        """Return the number of jobs of the current plan."""
        [count] = self._file.row(
            "SELECT count(*) FROM jobs WHERE sweep = ? AND plan_id = ?", sweep, self._plans.current_id(sweep)
        )
        return int(count)

    def skipped(self, sweep: str) -> tuple[Skipped, ...]:
        """Return the skipped combinations of the current plan, in its order."""
        rows = self._file.rows(
            "SELECT record FROM skipped WHERE sweep = ? AND plan_id = ? ORDER BY position",
            sweep,
            self._plans.current_id(sweep),
        )
        return tuple(from_json(Skipped, record) for (record,) in rows)

    def planned(self, sweep: str, job_key: str) -> PlannedJob:
        """Return a job as in the last plan of the sweep that has it. Raises `StoreError` if the sweep never had it."""
        present = self._plans.current_id(sweep)
        row = self._file.row("SELECT record, plan_id FROM jobs WHERE sweep = ? AND job_key = ?", sweep, job_key)
        if row is None:
            raise StoreError(f"job {job_key:.12} is in no plan of the sweep {sweep!r}", FIRST_STEP)
        [planned] = self.planned_jobs([row], present)
        return planned

    def planned_jobs(self, rows: Iterable[tuple[str, int]], present: int) -> list[PlannedJob]:
        """Return jobs, each with the protocol, evaluation set and device facts of its plan. `rows`: the jobs' records
        (JSON), each with the id of its plan. `present`: the id of the sweep's current plan."""
        # Thousands of jobs share a few plans and devices.
        read = cache(self._plans.planned_under)
        planned = []
        for record, plan_id in rows:
            job = from_json(Job, record)
            protocol, evaluation_id, facts = read(plan_id, job.device_id)
            planned.append(
                PlannedJob(
                    job=job, protocol=protocol, evaluation_id=evaluation_id, facts=facts, stale=plan_id != present
                )
            )
        return planned

    def places(self, sweep: str | None = None) -> dict[Place, tuple[str, int]]:
        """Return the places of the current plans (of all sweeps or of one), each with its device's display name and its
        number of jobs."""
        rows = self._file.rows(
            "SELECT sweep, place_id, model, device, jobs FROM places WHERE ?1 = '' OR sweep = ?1", sweep or ""
        )
        return {Place(name, place_id, model): (device, jobs) for name, place_id, model, device, jobs in rows}

    def waiting(self, sweep: str) -> list[Job]:
        """Return the current plan's jobs that have no result, in the plan's order. Raises `StoreError` if there is no
        such sweep."""
        rows = self._file.rows(
            "SELECT record FROM jobs WHERE sweep = ? AND plan_id = ? AND NOT EXISTS (SELECT 1 FROM results"
            " WHERE stale = 0 AND results.sweep = jobs.sweep AND results.job_key = jobs.job_key) ORDER BY position",
            sweep,
            self._plans.current_id(sweep),
        )
        return [from_json(Job, record) for (record,) in rows]

    def waiting_rows(self, place: Place) -> list[ResultRow]:
        """The rows (`row_of_waiting`) of a place's jobs in the current plan that have no result yet, in order."""
        units = {
            device_id: pool_id(from_json(DeviceFacts, facts).fingerprint)
            for device_id, facts in self._file.rows(
                "SELECT device_id, facts FROM sweeps JOIN devices USING (plan_id) WHERE name = ?", place.sweep
            )
        }
        unit_ids = [unit for unit, pool in units.items() if place.place_id in (unit, pool)]
        rows = self._file.rows(
            # The `+` makes sqlite search by the index of devices.
            "SELECT record FROM jobs WHERE +sweep = ?1"  # noqa: S608  # an expression of ours
            " AND plan_id = (SELECT plan_id FROM sweeps WHERE name = ?1)"
            f" AND {JOB_DEVICE} IN (SELECT value FROM json_each(?2)) AND json_extract(record, '$.model') = ?3"
            f" AND ({JOB_DEVICE} = ?4 OR json_extract(record, '$.link') != '')"
            " AND NOT EXISTS (SELECT job_key FROM results"
            " WHERE results.sweep = jobs.sweep AND results.job_key = jobs.job_key) ORDER BY position",
            place.sweep,
            json.dumps(unit_ids),
            place.model,
            place.place_id,
        )
        return [row_of_waiting(place.sweep, from_json(Job, record)) for (record,) in rows]

    def waiting_row(self, sweep: str, job_key: str) -> ResultRow | None:
        """Return the row (`row_of_waiting`) of a job, whether the job has a result or not; `None` if the sweep never
        had the job."""
        record = self._file.row("SELECT record FROM jobs WHERE sweep = ? AND job_key = ?", sweep, job_key)
        return None if record is None else row_of_waiting(sweep, from_json(Job, record[0]))
