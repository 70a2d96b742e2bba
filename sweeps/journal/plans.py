"""The part of the journal for plans: sweeps, their jobs, and the protocol and device facts of each job."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache

from pydantic import ValidationError

from sweeps.device_facts import DeviceFacts, canonical_key
from sweeps.errors import StoreError
from sweeps.journal.file import FIRST_STEP, JournalFile
from sweeps.json_records import from_json, to_json
from sweeps.planning.plan import Plan
from sweeps.planning.planned import PlannedJob
from sweeps.protocol.presets import Protocol
from sweeps.records import Job, Skipped
from sweeps.spec.sweep import SweepSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One sweep of the workspace. `updated`: when its plan was last saved, that is, when it was last started."""

    name: str
    created: datetime
    updated: datetime


class PlanTables(JournalFile):
    """Plans in the journal. Staleness is not stored: a job is stale if its plan is not its sweep's current plan."""

    _replanned = ""
    """The sweep with a new plan in the open transaction ..."""
    _affected: frozenset[str] = frozenset()
    """... and the keys of its jobs whose results may be others under that plan."""

    def save_plan(self, plan: Plan) -> None:
        """Make `plan` the sweep's current plan. Jobs that are not in it are kept and become stale."""
        spec = plan.sweep.kept_json()
        protocol = to_json(plan.protocol)
        devices = [(facts.device_id, position, to_json(facts)) for position, facts in enumerate(plan.devices)]
        jobs = [(job.key, job.build_key, position, to_json(job)) for position, job in enumerate(plan.jobs)]
        skipped = [(skipped_key(entry), position, to_json(entry)) for position, entry in enumerate(plan.skipped)]
        evaluation_id = plan.identities.evaluation_id
        content_key = canonical_key(
            {"spec": spec, "protocol": protocol, "evaluation": evaluation_id}
            | {"devices": devices, "jobs": jobs, "skipped": skipped}
        )
        name, time = plan.sweep.name, now()
        with self._writing():
            present = self._db.execute(
                "SELECT plans.content_key FROM sweeps JOIN plans ON plans.id = plan_id WHERE name = ?", (name,)
            ).fetchone()
            if present == (content_key,):
                self._db.execute("UPDATE sweeps SET updated = ? WHERE name = ?", (time, name))
                return
            self._replanned = name
            facts = {device_id: text for device_id, _, text in devices}
            found = {key: (build_key, record) for key, build_key, _, record in jobs}
            self._affected = self._changed_jobs(name, (protocol, evaluation_id), facts, found)
            plan_id = self._db.execute(
                "INSERT INTO plans (sweep, content_key, spec, protocol, evaluation_id, created)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (name, content_key, spec, protocol, evaluation_id, time),
            ).lastrowid
            self._db.execute(
                "INSERT INTO sweeps (name, plan_id, created, updated) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (name) DO UPDATE SET plan_id = excluded.plan_id, updated = excluded.updated",
                (name, plan_id, time, time),
            )
            self._db.executemany(
                "INSERT OR IGNORE INTO devices (plan_id, device_id, position, facts) VALUES (?, ?, ?, ?)",
                [(plan_id, *device) for device in devices],
            )
            self._db.executemany(
                "INSERT INTO jobs (sweep, plan_id, job_key, build_key, position, record) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (sweep, job_key) DO UPDATE SET plan_id = excluded.plan_id,"
                " build_key = excluded.build_key, position = excluded.position, record = excluded.record",
                [(name, plan_id, *job) for job in jobs],
            )
            self._db.executemany(
                "INSERT INTO skipped (sweep, plan_id, skipped_key, position, record) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (sweep, skipped_key) DO UPDATE SET plan_id = excluded.plan_id,"
                " position = excluded.position, record = excluded.record",
                [(name, plan_id, *entry) for entry in skipped],
            )

    def sweeps(self) -> list[SweepRow]:
        """All sweeps, the last updated first."""
        rows = self._rows("SELECT name, created, updated FROM sweeps ORDER BY updated DESC, rowid DESC")
        return [
            SweepRow(name=name, created=datetime.fromisoformat(created), updated=datetime.fromisoformat(updated))
            for name, created, updated in rows
        ]

    def latest_sweep(self) -> str | None:
        return next((row.name for row in self.sweeps()), None)

    def spec(self, sweep: str) -> SweepSpec:
        """The sweep file as it was last saved."""
        text = self._rows("SELECT spec FROM plans WHERE id = ?", self._plan_id(sweep))[0][0]
        try:
            return SweepSpec.model_validate_json(text)
        except ValidationError as error:
            raise StoreError(
                f"the stored sweep {sweep!r} cannot be read by this EdgeSweep: {error.errors()[0]['msg']}",
                "run the sweep file again; its results are kept",
            ) from error

    def devices(self, sweep: str) -> tuple[DeviceFacts, ...]:
        rows = self._rows("SELECT facts FROM devices WHERE plan_id = ? ORDER BY position", self._plan_id(sweep))
        return tuple(from_json(DeviceFacts, facts) for (facts,) in rows)

    def current_devices(self) -> list[tuple[str, str]]:
        """The facts (JSON) of each device of each sweep's current plan, with the sweep; the latest sweep first."""
        rows = self._rows(
            "SELECT sweeps.name, facts FROM sweeps JOIN devices ON devices.plan_id = sweeps.plan_id"
            " ORDER BY sweeps.updated DESC, sweeps.rowid DESC, position"
        )
        return [(name, facts) for name, facts in rows]

    def jobs(self, sweep: str) -> list[tuple[Job, bool]]:
        """Every job that the sweep ever had, and whether it is stale: the plan's jobs in its order, then stale ones."""
        plan_id = self._plan_id(sweep)
        rows = self._rows(
            "SELECT record, plan_id != ? AS stale FROM jobs WHERE sweep = ? ORDER BY stale, position, job_key",
            plan_id,
            sweep,
        )
        return [(from_json(Job, record), bool(stale)) for record, stale in rows]

    def skipped(self, sweep: str) -> tuple[Skipped, ...]:
        """The skipped combinations of the current plan, in its order."""
        rows = self._rows(
            "SELECT record FROM skipped WHERE sweep = ? AND plan_id = ? ORDER BY position", sweep, self._plan_id(sweep)
        )
        return tuple(from_json(Skipped, record) for (record,) in rows)

    def protocol(self, sweep: str) -> Protocol:
        """The protocol of the current plan."""
        text = self._rows("SELECT protocol FROM plans WHERE id = ?", self._plan_id(sweep))[0][0]
        return from_json(Protocol, text)

    def planned_job(self, sweep: str, job_key: str) -> PlannedJob:
        """Raises `StoreError` if the sweep never had such a job."""
        present = self._plan_id(sweep)
        row = self._row("SELECT record, plan_id FROM jobs WHERE sweep = ? AND job_key = ?", sweep, job_key)
        if row is None:
            raise StoreError(f"job {job_key:.12} is in no plan of the sweep {sweep!r}", FIRST_STEP)
        [planned] = self._planned_jobs([row], present)
        return planned

    def _changed_jobs(
        self, sweep: str, under: tuple[str, str], facts: Mapping[str, str], jobs: Mapping[str, tuple[str, str]]
    ) -> frozenset[str]:
        """The keys of what was or will be in the plan, without the jobs that stay as they are under the same protocol,
        on the same images and devices: these are most of them, and thousands take minutes to be read again."""
        present = self._row(
            "SELECT plan_id, protocol, evaluation_id FROM sweeps JOIN plans ON plans.id = plan_id WHERE name = ?", sweep
        )
        if present is None:
            return frozenset(jobs)
        rows = self._rows(
            "SELECT job_key, build_key, record FROM jobs WHERE sweep = ? AND plan_id = ?", sweep, present[0]
        )
        before = {key: (build_key, record) for key, build_key, record in rows}
        devices = self._rows("SELECT device_id, facts FROM devices WHERE plan_id = ?", present[0])
        if present[1:] != under or any(facts.get(name, text) != text for name, text in devices):
            return frozenset(before.keys() | jobs.keys())
        return frozenset(key for key in before.keys() | jobs.keys() if before.get(key) != jobs.get(key))

    def _planned_jobs(self, rows: Iterable[tuple[str, int]], present: int) -> list[PlannedJob]:
        """`rows`: records of jobs, each with the id of its plan. `present`: the id of the sweep's current plan."""
        # Thousands of jobs share a few plans and devices.
        read = cache(self._planned_under)
        found = []
        for record, plan_id in rows:
            job = from_json(Job, record)
            protocol, evaluation_id, facts = read(plan_id, job.device_id)
            found.append(
                PlannedJob(
                    job=job, protocol=protocol, evaluation_id=evaluation_id, facts=facts, stale=plan_id != present
                )
            )
        return found

    def _planned_under(self, plan_id: int, device_id: str) -> tuple[Protocol, str | None, DeviceFacts]:
        protocol, evaluation_id, facts = self._rows(
            "SELECT protocol, evaluation_id, facts FROM plans JOIN devices ON plan_id = plans.id"
            " WHERE plans.id = ? AND device_id = ?",
            plan_id,
            device_id,
        )[0]
        return from_json(Protocol, protocol).on(device_id), evaluation_id or None, from_json(DeviceFacts, facts)

    def _plan_id(self, sweep: str) -> int:
        row = self._row("SELECT plan_id FROM sweeps WHERE name = ?", sweep)
        if row is None:
            known = ", ".join(found.name for found in self.sweeps())
            raise StoreError(
                f"there is no sweep {sweep!r} in this workspace", f"it has: {known}" if known else FIRST_STEP
            )
        return int(row[0])


def skipped_key(skipped: Skipped) -> str:
    """The key of a skipped combination, in place of a job key. It does not depend on the reason."""
    content = asdict(skipped) | {"variant": skipped.variant.axes()}
    del content["kind"], content["reason"], content["device_word"]
    return f"skipped-{canonical_key(content)}"


def now() -> str:
    """The current time as the journal stores it: UTC, with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
