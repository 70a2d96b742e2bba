"""The part of the journal that knows what was planned: sweeps, their jobs, and what each job was planned under.

It also finds which of these jobs a reader has to look at again.
"""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TypeVar

from pydantic import ValidationError

from sweeps.errors import StoreError
from sweeps.journal_file import FIRST_STEP, JournalFile
from sweeps.json_records import from_json, to_json
from sweeps.plan import Plan
from sweeps.protocol import Protocol, protocol_of
from sweeps.records import Block, DeviceFacts, Job, Skipped, canonical_key
from sweeps.sentinel import Placed, changed_spans
from sweeps.spec import SweepSpec

Planned = TypeVar("Planned", Job, Skipped)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One sweep of the workspace. `updated` is when its plan was last saved, i.e. when it was last started."""

    name: str
    created: datetime
    updated: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a job or a skipped combination was planned under, the last time that it was planned."""

    stale: bool
    """Not in the sweep's present plan any more."""
    protocol: Protocol
    evaluation_id: str | None
    facts: DeviceFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a reader has come in one sweep."""

    plan_id: int
    attempt_id: int


class PlanTables(JournalFile):
    """Plans in the journal. Staleness is not stored: a job is stale when its plan is not its sweep's any more."""

    def save_plan(self, plan: Plan) -> None:
        """Make `plan` the sweep's present one. Jobs that it no longer has are kept and become stale."""
        spec = plan.sweep.model_dump_json()
        protocol = to_json(protocol_of(plan.sweep))
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
        """As it was last saved."""
        text = self._rows("SELECT spec FROM plans WHERE id = ?", self._plan_id(sweep))[0][0]
        try:
            return SweepSpec.model_validate_json(text)
        except ValidationError as error:
            raise StoreError(
                f"the stored sweep {sweep!r} can not be read by this EdgeSweep: {error.errors()[0]['msg']}",
                "run the sweep file again; its results are kept",
            ) from error

    def devices(self, sweep: str) -> tuple[DeviceFacts, ...]:
        rows = self._rows("SELECT facts FROM devices WHERE plan_id = ? ORDER BY position", self._plan_id(sweep))
        return tuple(from_json(DeviceFacts, facts) for (facts,) in rows)

    def jobs(self, sweep: str) -> list[tuple[Job, bool]]:
        """Every job that the sweep ever had, and whether it is stale: the plan's order first, stale ones after it."""
        plan_id = self._plan_id(sweep)
        rows = self._rows(
            "SELECT record, plan_id != ? AS stale FROM jobs WHERE sweep = ? ORDER BY stale, position, job_key",
            plan_id,
            sweep,
        )
        return [(from_json(Job, record), bool(stale)) for record, stale in rows]

    def skipped(self, sweep: str) -> tuple[Skipped, ...]:
        """Of the present plan, in its order."""
        rows = self._rows(
            "SELECT record FROM skipped WHERE sweep = ? AND plan_id = ? ORDER BY position", sweep, self._plan_id(sweep)
        )
        return tuple(from_json(Skipped, record) for (record,) in rows)

    def position(self, sweep: str) -> Position:
        """Where a reader stands that has read everything up to now."""
        row = self._row("SELECT coalesce(max(id), 0) FROM attempts")
        return Position(plan_id=self._plan_id(sweep), attempt_id=0 if row is None else row[0])

    def protocol(self, sweep: str) -> Protocol:
        """Of the present plan."""
        text = self._rows("SELECT protocol FROM plans WHERE id = ?", self._plan_id(sweep))[0][0]
        return from_json(Protocol, text)

    def circumstances(self, sweep: str, job_key: str) -> Circumstances:
        """Raises `StoreError` where the sweep never had such a job."""
        plan_id = self._plan_id(sweep)
        row = self._row(
            "SELECT plan_id, json_extract(record, '$.device_id') FROM jobs WHERE sweep = ? AND job_key = ?",
            sweep,
            job_key,
        )
        if row is None:
            raise StoreError(f"job {job_key:.12} is in no plan of the sweep {sweep!r}", FIRST_STEP)
        return self._circumstances(row[0], row[1], row[0] != plan_id)

    def jobs_since(self, sweep: str, position: Position | None) -> list[tuple[Job, Circumstances]]:
        """The jobs with new attempts since `position`, and those of a device of which its sentinel says something else
        since; all of them where there is a new plan or no position."""
        present = self._plan_id(sweep)
        everything = position is None or position.plan_id != present
        newer = 0 if position is None else position.attempt_id
        sentinels = [] if everything else self._sentinels_with_news(sweep, newer)
        rows = self._rows(
            "SELECT record, plan_id FROM jobs WHERE sweep = ? AND (? OR"
            " job_key IN (SELECT key FROM attempts WHERE id > ?) OR"
            " build_key IN (SELECT key FROM attempts WHERE id > ?) OR"
            " json_extract(record, '$.sentinel') IN (SELECT value FROM json_each(?))) ORDER BY position",
            sweep,
            everything,
            newer,
            newer,
            json.dumps(sentinels),
        )
        jobs = [(from_json(Job, record), plan_id) for record, plan_id in rows]
        return self._with_circumstances(jobs, present)

    def skipped_since(self, sweep: str, position: Position | None) -> list[tuple[Skipped, Circumstances]]:
        """All combinations that were ever skipped, where there is a new plan or no position; else none."""
        present = self._plan_id(sweep)
        if position is not None and position.plan_id == present:
            return []
        rows = self._rows("SELECT record, plan_id FROM skipped WHERE sweep = ? ORDER BY position", sweep)
        return self._with_circumstances([(from_json(Skipped, record), plan_id) for record, plan_id in rows], present)

    def _sentinels_with_news(self, sweep: str, newer: int) -> list[str]:
        """Those whose blocks after `newer` change what is said of the ones measured before them. Most looks do not, and
        all jobs of a device would be worked out again after each of them."""
        rows = self._rows(
            "SELECT DISTINCT json_extract(record, '$.sentinel') FROM jobs WHERE sweep = ?"
            " AND json_extract(record, '$.sentinel') IN (SELECT key FROM attempts WHERE id > ? AND kind = 'block')",
            sweep,
            newer,
        )
        found = []
        for (key,) in rows:
            looks = self._looks(key)
            if changed_spans(looks) != changed_spans([one for one in looks if one.position <= newer]):
                found.append(key)
        return found

    def _looks(self, sentinel: str) -> list[Placed]:
        """Its blocks in the order of measuring."""
        return sorted(self._placed(sentinel), key=lambda one: one.position)

    def _placed(self, job_key: str) -> list[Placed]:
        """The blocks of a job, or of a sentinel, in order of rounds."""
        rows = self._rows("SELECT id, record FROM attempts WHERE key = ? AND kind = 'block' ORDER BY round", job_key)
        return [Placed(position, from_json(Block, record)) for position, record in rows]

    def _with_circumstances(
        self, planned: list[tuple[Planned, int]], present: int
    ) -> list[tuple[Planned, Circumstances]]:
        # Thousands of jobs share a few plans and devices.
        read = cache(self._circumstances)
        return [(entry, read(plan_id, entry.device_id, plan_id != present)) for entry, plan_id in planned]

    def _circumstances(self, plan_id: int, device_id: str, stale: bool) -> Circumstances:
        protocol, evaluation_id, facts = self._rows(
            "SELECT protocol, evaluation_id, facts FROM plans JOIN devices ON plan_id = plans.id"
            " WHERE plans.id = ? AND device_id = ?",
            plan_id,
            device_id,
        )[0]
        return Circumstances(
            stale=stale,
            protocol=from_json(Protocol, protocol),
            evaluation_id=evaluation_id or None,
            facts=from_json(DeviceFacts, facts),
        )

    def _plan_id(self, sweep: str) -> int:
        row = self._row("SELECT plan_id FROM sweeps WHERE name = ?", sweep)
        if row is None:
            known = ", ".join(found.name for found in self.sweeps())
            raise StoreError(
                f"there is no sweep {sweep!r} in this workspace", f"it has: {known}" if known else FIRST_STEP
            )
        return int(row[0])


def skipped_key(skipped: Skipped) -> str:
    """Stands for a job key where there is no job: the same combination has the same one, whatever the reason."""
    content = asdict(skipped) | {"variant": skipped.variant.axes()}
    del content["reason"]
    return f"skipped-{canonical_key(content)}"


def now() -> str:
    """In UTC, to the microsecond, as the journal stores it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
