"""The times when jobs were measured, by the clock of the computer that accepted their results."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sweeps.journal.file import JournalFile
from sweeps.journal.schema import BLOCK_SESSION, JOB_DEVICE, JOB_SENTINEL
from sweeps.protocol.sessions import GAP_S, begins_session, has_start, start_text


@dataclass(frozen=True, slots=True)
class Span:
    """Interval of time, in seconds since 1970. The end is never before the start."""

    start_s: float
    end_s: float


class Times:
    """Times of attempts. A record carries the time when it was accepted; its measurement began that record's duration
    earlier."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file

    def measured(self, job_key: str, accuracy_key: str, failure_keys: Iterable[str] = ()) -> Span | None:
        """Return the interval from the start of the job's first process to the end of its last one, alone or in a
        batch.

        `accuracy_key`: the key of the job's build, whose last accuracy pass counts if the job was never timed.
        `failure_keys`: the keys of a failed job's failures; the last failure is the end. `None` if nothing is recorded.
        """
        failed = json.dumps(list(failure_keys))
        ends = [row for order in ("ASC", "DESC") for row in self._processes(job_key, order)]
        if not ends:
            ends = self._file.rows(
                f"{_DATED} WHERE key = ? AND kind = 'accuracy' ORDER BY id DESC LIMIT 1", accuracy_key
            )
        ends += self._file.rows(
            "SELECT created, 0.0 FROM attempts WHERE kind = 'failure' AND key IN (SELECT value FROM json_each(?))"
            " ORDER BY id DESC LIMIT 1",
            failed,
        )
        spans = [Span(time - max(0.0, float(seconds)), time) for time, seconds in map(_dated, ends)]
        if not spans:
            return None
        return Span(min(span.start_s for span in spans), max(span.end_s for span in spans))

    def block_seconds(self, job_key: str) -> tuple[int, float]:
        """Return the number of a job's blocks, and their mean duration in seconds, including the wait before each
        block; 0.0 without a block."""
        [count, mean] = self._file.row(
            "SELECT count(*), avg(json_extract(record, '$.device_seconds')"
            " + coalesce(json_extract(record, '$.conditions.waited_seconds'), 0.0))"
            " FROM attempts WHERE key = ? AND kind = 'block' AND json_valid(record)",
            job_key,
        )
        return int(count), float(mean or 0.0)

    def accepted(self, attempt: int) -> datetime | None:
        """Return the time when an attempt was stored; `None` if there is none with this id."""
        row = self._file.row("SELECT created FROM attempts WHERE id = ?", attempt)
        return None if row is None else datetime.fromisoformat(row[0])

    def created(self, sweep: str) -> float | None:
        """Return the time when the sweep was first planned, in seconds since 1970; `None` if it never was."""
        row = self._file.row("SELECT created, 0.0 FROM sweeps WHERE name = ?", sweep)
        return None if row is None else _dated(row)[0]

    def last_session(self) -> int:
        """Return the largest session number (`sweeps.records.Block.session`) of all accepted blocks and batches; 0 if
        there is none."""
        block = self._file.row(
            f"SELECT {BLOCK_SESSION} FROM attempts WHERE kind = 'block' ORDER BY 1 DESC LIMIT 1"  # noqa: S608  # ours
        )
        [batch] = self._file.row("SELECT max(session) FROM batches")
        return max(0 if block is None else int(block[0] or 0), int(batch or 0))

    def session_start(self, device_id: str, run: int) -> int | None:
        """Return the start of the device's session (`sweeps.protocol.sessions`) to which a run (`Block.session`)
        belongs; `None` if the run's number is not a time."""
        if not has_start(run):
            return None
        while True:
            # Only attempts within the gap between sessions (`GAP_S`) before the run matter. The search goes backwards
            # by id, which is the order of time, because the wanted block is just before the run. The `+` of `+key`
            # keeps sqlite from using the index of keys.
            oldest, newest = (self._attempts_before(start_text(time)) for time in (run - GAP_S, run))
            before = self._file.row(
                "SELECT created, CASE WHEN json_valid(record) THEN json_extract(record, '$.session') END"  # noqa: S608
                " FROM attempts WHERE kind = 'block' AND id > ?1 AND id <= ?2 AND +key IN"
                f" (SELECT job_key FROM jobs WHERE {JOB_DEVICE} = ?3 UNION"
                f" SELECT {JOB_SENTINEL} FROM jobs WHERE {JOB_DEVICE} = ?3) ORDER BY id DESC LIMIT 1",
                oldest,
                newest,
                device_id,
            )
            past = self._file.row(
                "SELECT last, session FROM past_sessions WHERE device_id = ? AND last >= ? AND last < ?"
                " ORDER BY last DESC LIMIT 1",
                device_id,
                start_text(run - GAP_S),
                start_text(run),
            )
            uses = (use for use in (before, past) if use is not None)
            before = max(uses, key=lambda use: str(use[0]), default=None)
            earlier = 0 if before is None else int(before[1] or 0)
            if before is None or begins_session(run, before[0]) or not has_start(earlier) or earlier >= run:
                return run
            run = earlier

    def _attempts_before(self, created: str) -> int:
        """Return the id of the last attempt before a time, given in the journal's text form; 0 if there is none."""
        [newest] = self._file.row("SELECT coalesce(max(id), 0) FROM attempts")
        low = 0
        while low < newest:  # ids follow time
            middle = (low + newest + 1) // 2
            attempt = self._file.row("SELECT id, created FROM attempts WHERE id >= ? ORDER BY id LIMIT 1", middle)
            if attempt[1] < created:
                low = int(attempt[0])
            else:
                newest = middle - 1
        return low

    def _processes(self, job_key: str, order: str) -> list[tuple[str, float]]:
        """Return the first (`order` ASC) or last (DESC) block and batch of a job: for each, the time when it was
        accepted, and its seconds."""
        blocks = self._file.rows(f"{_DATED} WHERE key = ? AND kind = 'block' ORDER BY id {order} LIMIT 1", job_key)
        batches = self._file.rows(
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
