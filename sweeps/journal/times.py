"""When a job was measured, by the clock of the computer that accepted its results."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sweeps.journal.assignments import AssignmentTables


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, in seconds since 1970. The end is never before the start."""

    start_s: float
    end_s: float


class TimeTables(AssignmentTables):
    """The times of attempts. A record is dated when it is accepted; what it measured began its own seconds before."""

    def measured(self, job_key: str, accuracy_key: str, failure_keys: Iterable[str] = ()) -> Span | None:
        """From the start of the job's first process to the end of its last one, alone or in a batch.

        `accuracy_key`: key of its build, whose last accuracy pass counts for a job without a process of its own.
        `failure_keys`: of a failed job; its last failure is its end. `None` if nothing is recorded.
        """
        failed = json.dumps(list(failure_keys))
        ends = [row for order in ("ASC", "DESC") for row in self._processes(job_key, order)]
        if not ends:
            ends = self._rows(f"{_DATED} WHERE key = ? AND kind = 'accuracy' ORDER BY id DESC LIMIT 1", accuracy_key)
        ends += self._rows(
            "SELECT created, 0.0 FROM attempts WHERE kind = 'failure' AND key IN (SELECT value FROM json_each(?))"
            " ORDER BY id DESC LIMIT 1",
            failed,
        )
        spans = [Span(time - max(0.0, float(seconds)), time) for time, seconds in map(_dated, ends)]
        if not spans:
            return None
        return Span(min(one.start_s for one in spans), max(one.end_s for one in spans))

    def block_seconds(self, job_key: str) -> tuple[int, float]:
        """How many blocks a job has, and the mean of what each took, with the wait before it; 0.0 without any."""
        [count, mean] = self._row(
            "SELECT count(*), avg(json_extract(record, '$.device_seconds')"
            " + coalesce(json_extract(record, '$.conditions.waited_seconds'), 0.0))"
            " FROM attempts WHERE key = ? AND kind = 'block' AND json_valid(record)",
            job_key,
        )
        return int(count), float(mean or 0.0)

    def accepted(self, attempt: int) -> datetime | None:
        """When an attempt was stored; `None` if there is none with this id."""
        row = self._row("SELECT created FROM attempts WHERE id = ?", attempt)
        return None if row is None else datetime.fromisoformat(row[0])

    def created(self, sweep: str) -> float | None:
        """When the sweep was first planned, in seconds since 1970; `None` if it never was."""
        row = self._row("SELECT created, 0.0 FROM sweeps WHERE name = ?", sweep)
        return None if row is None else _dated(row)[0]

    def _processes(self, job_key: str, order: str) -> list[tuple[str, float]]:
        """The first or the last block and batch of a job: when it was accepted, and its seconds."""
        blocks = self._rows(f"{_DATED} WHERE key = ? AND kind = 'block' ORDER BY id {order} LIMIT 1", job_key)
        batches = self._rows(
            "SELECT created, device_seconds FROM batch_items JOIN batches ON batches.id = batch_id"  # noqa: S608  # ASC or DESC
            f" WHERE job_key = ? ORDER BY batches.id {order} LIMIT 1",
            job_key,
        )
        return [*blocks, *batches]


_DATED = (
    "SELECT created, CASE WHEN json_valid(record) THEN coalesce(json_extract(record, '$.device_seconds'), 0.0)"
    " ELSE 0.0 END FROM attempts"
)


def _dated(row: tuple[str, float]) -> tuple[float, float]:
    created, seconds = row
    return datetime.fromisoformat(created).timestamp(), seconds
