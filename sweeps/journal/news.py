"""The part of the journal that knows what is new: which jobs a reader has to look at again."""

import json
from dataclasses import dataclass
from functools import cache

from sweeps.journal.plans import PlanTables
from sweeps.json_records import from_json
from sweeps.planning.planned import PlannedJob, PlannedSkip
from sweeps.protocol.sentinel import Placed, changed_spans
from sweeps.records import Block, Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a reader has come in one sweep."""

    plan_id: int
    attempt_id: int


class NewsTables(PlanTables):
    """Attempts since a reader's last look."""

    def position(self, sweep: str) -> Position:
        """Where a reader stands that has read everything up to now."""
        row = self._row("SELECT coalesce(max(id), 0) FROM attempts")
        return Position(plan_id=self._plan_id(sweep), attempt_id=0 if row is None else row[0])

    def jobs_since(self, sweep: str, position: Position | None) -> list[PlannedJob]:
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
        return self._planned_jobs(rows, present)

    def skipped_since(self, sweep: str, position: Position | None) -> list[PlannedSkip]:
        """All combinations that were ever skipped, where there is a new plan or no position; else none."""
        present = self._plan_id(sweep)
        if position is not None and position.plan_id == present:
            return []
        rows = self._rows("SELECT record, plan_id FROM skipped WHERE sweep = ? ORDER BY position", sweep)
        read = cache(self._planned_under)
        found = []
        for record, plan_id in rows:
            skipped = from_json(Skipped, record)
            protocol, evaluation_id, facts = read(plan_id, skipped.device_id)
            found.append(
                PlannedSkip(
                    skipped=skipped,
                    protocol=protocol,
                    evaluation_id=evaluation_id,
                    facts=facts,
                    stale=plan_id != present,
                )
            )
        return found

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
