"""The journal's plans: the sweep file of each sweep as it was last saved, with its protocol and its devices."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime

from pydantic import ValidationError

from sweeps.device_facts import DeviceFacts, canonical_key
from sweeps.errors import StoreError
from sweeps.journal.file import FIRST_STEP, JournalFile
from sweeps.json_records import from_json, to_json
from sweeps.planning.plan import Plan
from sweeps.protocol.presets import Protocol
from sweeps.records import Skipped
from sweeps.spec.sweep import SweepSpec


class Plans:
    """Table of plans. Staleness is not stored: a job is stale if its plan is not its sweep's current plan."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file

    def save(self, plan: Plan) -> None:
        """Make `plan` the sweep's current plan. Jobs that this plan lacks are kept and become stale."""
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
        with self._file.writing():
            present = self._file.db.execute(
                "SELECT plans.content_key FROM sweeps JOIN plans ON plans.id = plan_id WHERE name = ?", (name,)
            ).fetchone()
            if present == (content_key,):
                self._file.db.execute("UPDATE sweeps SET updated = ? WHERE name = ?", (time, name))
                return
            facts = {device_id: text for device_id, _, text in devices}
            after = {key: (build_key, record) for key, build_key, _, record in jobs}
            news = self._file.news
            news.sweep, news.affected = name, self._changed_jobs(name, (protocol, evaluation_id), facts, after)
            plan_id = self._file.db.execute(
                "INSERT INTO plans (sweep, content_key, spec, protocol, evaluation_id, created)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (name, content_key, spec, protocol, evaluation_id, time),
            ).lastrowid
            self._file.db.execute(
                "INSERT INTO sweeps (name, plan_id, created, updated) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (name) DO UPDATE SET plan_id = excluded.plan_id, updated = excluded.updated",
                (name, plan_id, time, time),
            )
            self._file.db.executemany(
                "INSERT OR IGNORE INTO devices (plan_id, device_id, position, facts) VALUES (?, ?, ?, ?)",
                [(plan_id, *device) for device in devices],
            )
            self._file.db.executemany(
                "INSERT INTO jobs (sweep, plan_id, job_key, build_key, position, record) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (sweep, job_key) DO UPDATE SET plan_id = excluded.plan_id,"
                " build_key = excluded.build_key, position = excluded.position, record = excluded.record",
                [(name, plan_id, *job) for job in jobs],
            )
            self._file.db.executemany(
                "INSERT INTO skipped (sweep, plan_id, skipped_key, position, record) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (sweep, skipped_key) DO UPDATE SET plan_id = excluded.plan_id,"
                " position = excluded.position, record = excluded.record",
                [(name, plan_id, *entry) for entry in skipped],
            )

    def spec(self, sweep: str) -> SweepSpec:
        """Return the sweep file as it was last saved. Raises `StoreError`."""
        text = self._file.rows("SELECT spec FROM plans WHERE id = ?", self.current_id(sweep))[0][0]
        try:
            return SweepSpec.model_validate_json(text)
        except ValidationError as error:
            raise StoreError(
                f"the stored sweep {sweep!r} cannot be read by this EdgeSweep: {error.errors()[0]['msg']}",
                "run the sweep file again; its results are kept",
            ) from error

    def protocol(self, sweep: str) -> Protocol:
        """Return the protocol of the current plan."""
        text = self._file.rows("SELECT protocol FROM plans WHERE id = ?", self.current_id(sweep))[0][0]
        return from_json(Protocol, text)

    def devices(self, sweep: str) -> tuple[DeviceFacts, ...]:
        rows = self._file.rows("SELECT facts FROM devices WHERE plan_id = ? ORDER BY position", self.current_id(sweep))
        return tuple(from_json(DeviceFacts, facts) for (facts,) in rows)

    def current_devices(self) -> list[tuple[str, str]]:
        """Return a pair of sweep name and device facts (JSON) for each device of each sweep's current plan, the latest
        sweep first."""
        rows = self._file.rows(
            "SELECT sweeps.name, facts FROM sweeps JOIN devices ON devices.plan_id = sweeps.plan_id"
            " ORDER BY sweeps.updated DESC, sweeps.rowid DESC, position"
        )
        return [(name, facts) for name, facts in rows]

    def current_ids(self) -> dict[str, int]:
        """Return the id of each sweep's current plan, by the sweep's name."""
        return dict(self._file.rows("SELECT name, plan_id FROM sweeps"))

    def current_id(self, sweep: str) -> int:
        """Return the id of the sweep's current plan. Raises `StoreError`, which names the sweeps that exist."""
        row = self._file.row("SELECT plan_id FROM sweeps WHERE name = ?", sweep)
        if row is None:
            known = ", ".join(self.current_ids())
            raise StoreError(
                f"there is no sweep {sweep!r} in this workspace", f"it has: {known}" if known else FIRST_STEP
            )
        return int(row[0])

    def planned_under(self, plan_id: int, device_id: str) -> tuple[Protocol, str | None, DeviceFacts]:
        """Return the protocol, the id of the evaluation set and the device facts under which a plan's jobs are measured
        on a device."""
        protocol, evaluation_id, facts = self._file.rows(
            "SELECT protocol, evaluation_id, facts FROM plans JOIN devices ON plan_id = plans.id"
            " WHERE plans.id = ? AND device_id = ?",
            plan_id,
            device_id,
        )[0]
        return from_json(Protocol, protocol).on(device_id), evaluation_id or None, from_json(DeviceFacts, facts)

    def _changed_jobs(
        self, sweep: str, under: tuple[str, str], facts: Mapping[str, str], jobs: Mapping[str, tuple[str, str]]
    ) -> frozenset[str]:
        """Return the keys of the old and the new plan's jobs whose results may change. Jobs that are equal in both
        plans are left out if the protocol, the images and the devices' facts stay the same: these are most of them, and
        reading thousands again takes minutes."""
        present = self._file.row(
            "SELECT plan_id, protocol, evaluation_id FROM sweeps JOIN plans ON plans.id = plan_id WHERE name = ?", sweep
        )
        if present is None:
            return frozenset(jobs)
        rows = self._file.rows(
            "SELECT job_key, build_key, record FROM jobs WHERE sweep = ? AND plan_id = ?", sweep, present[0]
        )
        before = {key: (build_key, record) for key, build_key, record in rows}
        devices = self._file.rows("SELECT device_id, facts FROM devices WHERE plan_id = ?", present[0])
        if present[1:] != under or any(facts.get(name, text) != text for name, text in devices):
            return frozenset(before.keys() | jobs.keys())
        return frozenset(key for key in before.keys() | jobs.keys() if before.get(key) != jobs.get(key))


def skipped_key(skipped: Skipped) -> str:
    """Return the key of a skipped combination, in place of a job key. It does not depend on the reason."""
    content = asdict(skipped) | {"variant": skipped.variant.axes()}
    del content["kind"], content["reason"], content["device_word"]
    return f"skipped-{canonical_key(content)}"


def now() -> str:
    """Return the current time as the journal stores it: UTC, with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
