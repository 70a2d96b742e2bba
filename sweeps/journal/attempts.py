"""The journal's attempts: blocks, accuracies, failures and ends of rounds."""

from dataclasses import dataclass, replace
from datetime import datetime

from sweeps.errors import StoreError
from sweeps.journal.file import JournalFile
from sweeps.journal.plans import now
from sweeps.journal.sentinels import Sentinels, placed_blocks
from sweeps.json_records import from_json, to_json
from sweeps.label_kinds import stored_in_order
from sweeps.protocol.presets import Protocol
from sweeps.protocol.sentinel_rules import PlacedBlock
from sweeps.protocol.settled_check import same_question
from sweeps.records import Accuracy, Block, Conditions, Failed
from sweeps.settled import Settled

LATEST = 5_000
"""How many of the journal's newest attempts `Attempts.last_conditions` searches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedBlock:
    """A block with its position in the order of all measurements, and the time when it was stored."""

    placed: PlacedBlock
    stored: datetime

    @property
    def block(self) -> Block:
        return self.placed.block


@dataclass(frozen=True, slots=True)
class BlockMarks:
    """Numbers of a job's blocks: all, those that confirm it as the winner of a race, those that check batches, and
    those that were `added` after the job's rounds had ended, which no race saw."""

    blocks: int
    confirmations: int
    checks: int
    added: int

    def rounds(self, *, added: bool) -> int:
        """Return the number of rounds, with or without the `added` ones."""
        return self.blocks - self.confirmations - self.checks - (0 if added else self.added)


class Attempts:
    """Table of attempts. They are added, and never changed or deleted."""

    def __init__(self, file: JournalFile, sentinels: Sentinels) -> None:
        self._file = file
        self._sentinels = sentinels

    def add_block(self, block: Block) -> bool:
        """Accept one block. Return `False` and change nothing if the job has a block of this round already.

        The first block of a round stays: a repeated or late reply must not change an accepted result.
        Raises `StoreError` for an incomplete block.
        """
        if missing := incomplete(block):
            raise StoreError(
                f"a block of job {block.job_key:.12} (round {block.round}) is not accepted: {missing}",
                "run the same command again; if this happens again, please report it",
            )
        with self._file.writing():
            cursor = self._file.db.execute(
                "INSERT INTO attempts (key, kind, round, record, created) VALUES (?, 'block', ?, ?, ?)"
                " ON CONFLICT (key, round) WHERE kind = 'block' DO NOTHING",
                (block.job_key, block.round, to_json(block), now()),
            )
            self._file.news.keys.add(block.job_key)
            return cursor.rowcount == 1

    def blocks(self, job_key: str, sentinel: str = "") -> tuple[Block, ...]:
        """Return the accepted blocks in order of rounds.

        With the key of the device's sentinel, blocks from spans in which the device's own speed had changed get the
        label `device_changed`, or `device_moved` if the device returned to its former speed.
        """
        spans = self._sentinels.spans(sentinel) if sentinel else []
        labelled = []
        for placed in placed_blocks(self._file, job_key):
            span = next((span for span in spans if span.holds(placed)), None)
            labels = placed.block.labels if span is None else stored_in_order((*placed.block.labels, span.label))
            labelled.append(replace(placed.block, labels=labels))
        return tuple(labelled)

    def dated_blocks(self, key: str) -> list[DatedBlock]:
        """Return the blocks of a job or a sentinel in the order of measuring, each with the time when it was stored."""
        rows = self._file.rows(
            "SELECT id, record, created FROM attempts WHERE key = ? AND kind = 'block' ORDER BY id", key
        )
        return [
            DatedBlock(placed=PlacedBlock(position, from_json(Block, record)), stored=datetime.fromisoformat(created))
            for position, record, created in rows
        ]

    def block_count(self, job_key: str) -> int:
        """Return the number of blocks of a job, without reading them."""
        [count] = self._file.row("SELECT count(*) FROM attempts WHERE key = ? AND kind = 'block'", job_key)
        return int(count)

    def block_marks(self, job_key: str) -> BlockMarks:
        """Count a job's blocks by their purpose."""
        marks = self._file.row(
            "SELECT count(*), total(json_extract(record, '$.confirms')), total(json_extract(record, '$.checks')),"
            " total(json_extract(record, '$.added')) FROM attempts WHERE key = ? AND kind = 'block'",
            job_key,
        )
        return BlockMarks(*map(int, marks))

    def last_conditions(self, sweep: str, blocks: int = 40) -> dict[str, Conditions]:
        """Return the conditions of each device's last block, by device id. Only the last `blocks` blocks of the sweep
        are read, and only those among the journal's `LATEST` attempts: with none there, the sweep has ended long
        ago."""
        rows = self._file.rows(
            "SELECT json_extract(jobs.record, '$.device_id'), json_extract(attempts.record, '$.conditions')"
            " FROM attempts CROSS JOIN jobs ON job_key = key AND sweep = ? WHERE kind = 'block' AND"
            " attempts.id > (SELECT max(id) FROM attempts) - ? AND json_valid(attempts.record)"
            " ORDER BY attempts.id DESC LIMIT ?",
            sweep,
            LATEST,
            blocks,
        )
        return {device_id: from_json(Conditions, text) for device_id, text in reversed(rows)}

    def add_accuracy(self, accuracy: Accuracy) -> None:
        """Record an accuracy. For each build, evaluation set, engine and executor, the newest one counts."""
        self._append(accuracy.build_key, "accuracy", to_json(accuracy))

    def accuracy(self, build_key: str, evaluation_id: str, engine: str, executor: str) -> Accuracy | None:
        """Return the newest accuracy of a build on an evaluation set, by one engine and one executor."""
        accuracies = self.accuracies(build_key, evaluation_id, executor)
        return next((accuracy for accuracy in accuracies if accuracy.engine == engine), None)

    def accuracies(self, build_key: str, evaluation_id: str, executor: str) -> list[Accuracy]:
        """Return the accuracies of a build on an evaluation set, the newest first.

        The engine is not part of the query, because it is part of the build key.
        """
        rows = self._file.rows(
            "SELECT record FROM attempts WHERE key = ? AND kind = 'accuracy'"
            " AND json_extract(record, '$.evaluation_id') = ? AND json_extract(record, '$.executor') = ?"
            " ORDER BY id DESC",
            build_key,
            evaluation_id,
            executor,
        )
        return [from_json(Accuracy, record) for (record,) in rows]

    def add_failure(self, key: str, failed: Failed) -> None:
        """Record a failure. `key`: one of `build_failure_keys` for a failed build, otherwise a job key."""
        self._append(key, "failure", to_json(failed))

    def failures(self, key: str) -> tuple[Failed, ...]:
        """Return the failures since the last retry, the oldest first."""
        rows = self._file.rows("SELECT record FROM live_failures WHERE key = ? ORDER BY id", key)
        return tuple(from_json(Failed, record) for (record,) in rows)

    def retry_failures(self, sweep: str, *, kind: str = "") -> int:
        """Let failed jobs of this sweep be tried again; with `kind`, only jobs with a failure of that kind. Returns the
        number of jobs.

        The failures stay in the journal, but no longer count. Failures of a build are retried for every sweep that
        needs it.
        """
        with self._file.writing():
            keys = self._file.db.execute(
                "SELECT DISTINCT job_key, key FROM jobs JOIN live_failures"
                " ON key IN (job_key, build_key) OR key LIKE build_key || '@%'"
                " WHERE sweep = ? AND (? = '' OR json_extract(live_failures.record, '$.kind') = ?)",
                (sweep, kind, kind),
            ).fetchall()
            self._file.db.executemany(
                "INSERT INTO attempts (key, kind, created) VALUES (?, 'retry', ?)",
                [(key, now()) for key in sorted({key for _, key in keys})],
            )
            self._file.news.keys.update(job_key for job_key, _ in keys)
        return len({job_key for job_key, _ in keys})

    def add_settled(self, settled: Settled) -> None:
        """Record why a job's rounds ended. The newest reason counts."""
        self._append(settled.job_key, "settled", to_json(settled))

    def settled(self, job_key: str, protocol: Protocol | None = None) -> Settled | None:
        """Return the newest reason why the rounds of this job ended; with `protocol`, the newest that answers the same
        question (`same_question`)."""
        rows = self._file.rows(
            "SELECT record FROM attempts WHERE key = ? AND kind = 'settled' ORDER BY id DESC", job_key
        )
        reasons = (from_json(Settled, record) for (record,) in rows)
        return next((reason for reason in reasons if protocol is None or same_question(reason, protocol)), None)

    def _append(self, key: str, kind: str, record: str) -> None:
        with self._file.writing():
            self._file.db.execute(
                "INSERT INTO attempts (key, kind, record, created) VALUES (?, ?, ?, ?)", (key, kind, record, now())
            )
            # A failure that holds for one evaluation set or reference only has the key: build key, `@`, id of the set
            # or reference.
            self._file.news.keys.add(key.partition("@")[0])


def incomplete(block: Block) -> str | None:
    """Return the reason why a block is not accepted; `None` if it may be."""
    required = ("job_key", "backend_ran", "engine_ran", "runner", "runtime_version", "artifact_sha256")
    if empty := [name for name in required if not getattr(block, name)]:
        return f"no {', '.join(empty)}"
    if block.exit_code != 0:
        return f"its process ended with {block.exit_code}"
    if not block.samples_ns:
        return "no samples"
    times = (*block.samples_ns, *block.warmup_ns, block.first_inference_ns, block.load_ns)
    if impossible := [time for time in times if time is not None and not time > 0]:
        return f"a time of {impossible[0]} ns"
    return None
