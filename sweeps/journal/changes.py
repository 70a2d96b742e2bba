"""The journal's changes: which jobs a reader must reload since its last read."""

import json
from dataclasses import dataclass
from functools import cache

from sweeps.journal.file import JournalFile
from sweeps.journal.job_table import Jobs
from sweeps.journal.plans import Plans
from sweeps.journal.schema import JOB_SENTINEL
from sweeps.journal.sentinels import Sentinels, spans_of
from sweeps.json_records import from_json
from sweeps.planning.planned_job import PlannedJob, PlannedSkip
from sweeps.records import Job, Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Last plan and attempt of one sweep that a reader has read."""

    plan_id: int
    attempt_id: int


class Changes:
    """Queries for what changed in the journal since a reader's last position."""

    def __init__(self, file: JournalFile, plans: Plans, jobs: Jobs, sentinels: Sentinels) -> None:
        self._file = file
        self._plans = plans
        self._jobs = jobs
        self._sentinels = sentinels

    def position(self, sweep: str) -> Position:
        """Return the position of a reader that has read everything up to now."""
        row = self._file.row("SELECT coalesce(max(id), 0) FROM attempts")
        return Position(plan_id=self._plans.current_id(sweep), attempt_id=0 if row is None else row[0])

    def jobs(self, sweep: str, position: Position | None) -> list[PlannedJob]:
        """Return the jobs with attempts after `position`, and all jobs of devices whose sentinel has shown another
        speed since. If the sweep has a new plan or `position` is `None`, return all jobs."""
        present = self._plans.current_id(sweep)
        reads_all = position is None or position.plan_id != present
        newer = 0 if position is None else position.attempt_id
        sentinels = [] if reads_all else self._sentinels_with_changes(sweep, newer)
        rows = self._file.rows(
            "SELECT record, plan_id FROM jobs WHERE sweep = ? AND (? OR"
            " job_key IN (SELECT key FROM attempts WHERE id > ?) OR"
            # A failure that holds for one evaluation set or reference only has the key: build key, `@`, id of the set
            # or reference.
            " build_key IN (SELECT substr(key, 1, instr(key || '@', '@') - 1) FROM attempts WHERE id > ?) OR"
            " json_extract(record, '$.sentinel') IN (SELECT value FROM json_each(?))) ORDER BY position",
            sweep,
            reads_all,
            newer,
            newer,
            json.dumps(sentinels),
        )
        return self._jobs.planned_jobs(rows, present)

    def skipped(self, sweep: str, position: Position | None) -> list[PlannedSkip]:
        """Return every combination that the sweep ever skipped, if the plan is new or `position` is `None`; otherwise
        an empty list."""
        present = self._plans.current_id(sweep)
        if position is not None and position.plan_id == present:
            return []
        rows = self._file.rows("SELECT record, plan_id FROM skipped WHERE sweep = ? ORDER BY position", sweep)
        read = cache(self._plans.planned_under)
        skips = []
        for record, plan_id in rows:
            skipped = from_json(Skipped, record)
            protocol, evaluation_id, facts = read(plan_id, skipped.device_id)
            skips.append(
                PlannedSkip(
                    skipped=skipped,
                    protocol=protocol,
                    evaluation_id=evaluation_id,
                    facts=facts,
                    stale=plan_id != present,
                )
            )
        return skips

    def last_attempt(self, job: Job) -> tuple[int, str]:
        """Return the id of the newest attempt at this job or its build, and the time when it was stored; (0, "") if
        there is none."""
        row = self._file.row(
            "SELECT id, created FROM attempts WHERE key IN (?1, ?2) OR (key > ?2 || '@' AND key < ?2 || 'A')"
            " ORDER BY id DESC LIMIT 1",
            job.key,
            job.build_key,
        )
        return (0, "") if row is None else (int(row[0]), str(row[1]))

    def _sentinels_with_changes(self, sweep: str, newer: int) -> list[str]:
        """Return the keys of the sentinels whose blocks after the attempt `newer` changed the spans in which the
        device's own speed differs. Most sentinel looks change no span; then the device's jobs need no reload."""
        rows = self._file.rows(
            f"SELECT DISTINCT {JOB_SENTINEL} FROM jobs WHERE sweep = ?2"  # noqa: S608  # an expression of ours
            f" AND {JOB_SENTINEL} IN (SELECT key FROM attempts WHERE id > ?1 AND kind = 'block')",
            newer,
            sweep,
        )
        changed = []
        for (key,) in rows:
            blocks = self._sentinels.placed_blocks(key)
            if spans_of(blocks) != spans_of([block for block in blocks if block.position <= newer]):
                changed.append(key)
        return changed
