"""The part of the journal that finds changes: which jobs a reader must read again."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from sweeps.journal.plans import PlanTables
from sweeps.journal.schema import JOB_SENTINEL
from sweeps.json_records import from_json
from sweeps.planning.planned import PlannedJob, PlannedSkip
from sweeps.protocol.sentinel import PlacedBlock, Span, changed_spans, doubtful_spans
from sweeps.records import Block, Job, Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The last plan and attempt of one sweep that a reader has seen."""

    plan_id: int
    attempt_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedBlock:
    """A block with its position in the order of all measurements, and the time when it was stored."""

    placed: PlacedBlock
    stored: datetime

    @property
    def block(self) -> Block:
        return self.placed.block


class ChangeTables(PlanTables):
    """Changes since a reader's last position."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        super().__init__(db, path)
        self._spans: dict[str, tuple[int | None, list[Span]]] = {}
        """By sentinel: the id of its newest block, and where the device changed up to it."""

    def position(self, sweep: str) -> Position:
        """The position of a reader that has read everything up to now."""
        row = self._row("SELECT coalesce(max(id), 0) FROM attempts")
        return Position(plan_id=self._plan_id(sweep), attempt_id=0 if row is None else row[0])

    def jobs_since(self, sweep: str, position: Position | None) -> list[PlannedJob]:
        """The jobs with new attempts since `position`, and all jobs of devices whose sentinel result changed since. If
        the plan is new or `position` is `None`: all jobs."""
        present = self._plan_id(sweep)
        everything = position is None or position.plan_id != present
        newer = 0 if position is None else position.attempt_id
        sentinels = [] if everything else self._sentinels_with_changes(sweep, newer)
        rows = self._rows(
            "SELECT record, plan_id FROM jobs WHERE sweep = ? AND (? OR"
            " job_key IN (SELECT key FROM attempts WHERE id > ?) OR"
            # A failure on one evaluation set has its own key: the build key, `@`, and what it holds for.
            " build_key IN (SELECT substr(key, 1, instr(key || '@', '@') - 1) FROM attempts WHERE id > ?) OR"
            " json_extract(record, '$.sentinel') IN (SELECT value FROM json_each(?))) ORDER BY position",
            sweep,
            everything,
            newer,
            newer,
            json.dumps(sentinels),
        )
        return self._planned_jobs(rows, present)

    def last_attempt(self, job: Job) -> tuple[int, str]:
        """Position and time of the newest attempt at this job or its build; (0, "") if there is none."""
        row = self._row(
            "SELECT id, created FROM attempts WHERE key IN (?1, ?2) OR (key > ?2 || '@' AND key < ?2 || 'A')"
            " ORDER BY id DESC LIMIT 1",
            job.key,
            job.build_key,
        )
        return (0, "") if row is None else (int(row[0]), str(row[1]))

    def skipped_since(self, sweep: str, position: Position | None) -> list[PlannedSkip]:
        """All combinations that were ever skipped, if the plan is new or `position` is `None`; otherwise none."""
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

    def _sentinels_with_changes(self, sweep: str, newer: int) -> list[str]:
        """The sentinels whose blocks after `newer` change the spans of a changed device. Most checks change nothing,
        and then the jobs of the device need not be read again."""
        rows = self._rows(
            f"SELECT DISTINCT {JOB_SENTINEL} FROM jobs WHERE sweep = ?2"  # noqa: S608  # an expression of ours
            f" AND {JOB_SENTINEL} IN (SELECT key FROM attempts WHERE id > ?1 AND kind = 'block')",
            newer,
            sweep,
        )
        found = []
        for (key,) in rows:
            blocks = self._sentinel_blocks(key)
            if spans_of(blocks) != spans_of([one for one in blocks if one.position <= newer]):
                found.append(key)
        return found

    def _attempts_before(self, created: str) -> int:
        """The id of the last attempt before a time, as the journal writes it; 0 if there is none."""
        [newest] = self._row("SELECT coalesce(max(id), 0) FROM attempts")
        low = 0
        while low < newest:  # ids follow time
            middle = (low + newest + 1) // 2
            found = self._row("SELECT id, created FROM attempts WHERE id >= ? ORDER BY id LIMIT 1", middle)
            if found[1] < created:
                low = int(found[0])
            else:
                newest = middle - 1
        return low

    def changed_spans(self, sentinel: str) -> list[Span]:
        """Where the device changed, by this sentinel: for good, or in doubt.

        The sentinel's blocks are read again only when there is a new one: each job that ends asks.
        """
        [newest] = self._row("SELECT max(id) FROM attempts WHERE key = ? AND kind = 'block'", sentinel)
        known = self._spans.get(sentinel)
        if known is None or known[0] != newest:
            known = self._spans[sentinel] = newest, spans_of(self._sentinel_blocks(sentinel))
        return known[1]

    def _after_rollback(self) -> None:
        super()._after_rollback()
        self._spans.clear()

    def _sentinel_blocks(self, sentinel: str) -> list[PlacedBlock]:
        """The sentinel's blocks in the order of measuring."""
        return sorted(self._placed(sentinel), key=lambda one: one.position)

    def dated_blocks(self, key: str) -> list[DatedBlock]:
        """The blocks of a job or a sentinel in the order of measuring, each with the time when it was stored."""
        rows = self._rows("SELECT id, record, created FROM attempts WHERE key = ? AND kind = 'block' ORDER BY id", key)
        return [
            DatedBlock(placed=PlacedBlock(position, from_json(Block, record)), stored=datetime.fromisoformat(created))
            for position, record, created in rows
        ]

    def _placed(self, job_key: str) -> list[PlacedBlock]:
        """The blocks of a job, or of a sentinel, in order of rounds."""
        rows = self._rows("SELECT id, record FROM attempts WHERE key = ? AND kind = 'block' ORDER BY round", job_key)
        return [PlacedBlock(position, from_json(Block, record)) for position, record in rows]


def spans_of(blocks: Sequence[PlacedBlock]) -> list[Span]:
    """Where a device changed, by the blocks of its sentinel in the order of measuring: those that changed for good come
    first."""
    return [*changed_spans(blocks), *doubtful_spans(blocks)]
