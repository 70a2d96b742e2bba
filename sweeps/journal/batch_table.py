"""The journal's batches: processes that each timed a short block of several jobs."""

from collections.abc import Iterable

from sweeps.batches import BatchItem, BatchShare, StoredBatch
from sweeps.journal.file import JournalFile
from sweeps.journal.plans import now
from sweeps.json_records import from_json, to_json
from sweeps.label_kinds import disqualified
from sweeps.protocol.clock import figure_ns
from sweeps.protocol.sentinel_rules import in_race
from sweeps.records import Failed


class Batches:
    """Table of batches. They are added, and never changed or deleted."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file

    def add(self, batch: StoredBatch) -> None:
        """Record one batch with its items (the blocks of jobs) and the failures of jobs in it.

        A batch without items and failures is not recorded: no query would return it.
        """
        if not batch.items and not batch.failed:
            return
        with self._file.writing():
            row = self._file.db.execute(
                "INSERT INTO batches (session, number, device_seconds, created) VALUES (?, ?, ?, ?)",
                (batch.session, batch.number, batch.device_seconds, now()),
            ).lastrowid
            self._file.db.executemany(
                "INSERT INTO batch_items (batch_id, job_key, record) VALUES (?, ?, ?)",
                [(row, key, to_json(item)) for key, item in batch.items.items()],
            )
            self._file.db.executemany(
                "INSERT INTO batch_failures (batch_id, job_key, record) VALUES (?, ?, ?)",
                [(row, key, to_json(failed)) for key, failed in batch.failed.items()],
            )
            self._file.news.keys.update(batch.items, batch.failed)

    def of_jobs(self, job_keys: Iterable[str]) -> list[StoredBatch]:
        """Return the batches that timed any of these jobs, or in which one of them failed, in the order of measuring.

        Items and failures of other jobs are left out.
        """
        items: dict[int, dict[str, BatchItem]] = {}
        failed: dict[int, dict[str, Failed]] = {}
        for key in sorted(set(job_keys)):
            for batch_id, record in self._file.rows("SELECT batch_id, record FROM batch_items WHERE job_key = ?", key):
                items.setdefault(batch_id, {})[key] = from_json(BatchItem, record)
            for batch_id, record in self._file.rows(
                "SELECT batch_id, record FROM batch_failures WHERE job_key = ?", key
            ):
                failed.setdefault(batch_id, {})[key] = from_json(Failed, record)
        stored = []
        for batch_id in sorted({*items, *failed}):
            session, number, seconds = self._file.row(
                "SELECT session, number, device_seconds FROM batches WHERE id = ?", batch_id
            )
            stored.append(
                StoredBatch(
                    session=session,
                    number=number,
                    device_seconds=seconds,
                    items=items.get(batch_id, {}),
                    failed=failed.get(batch_id, {}),
                )
            )
        return stored

    def share(self, job_key: str) -> BatchShare:
        """Return the job's share of the batches that timed it, for whichever sweep they were run; all figures are 0
        without a batch."""
        device_seconds = timed_seconds = waited_seconds = 0.0
        medians_ms: list[tuple[int, float]] = []
        for process, record, seconds, jobs in self._file.rows(
            "SELECT batches.id, record, device_seconds,"
            " (SELECT count(*) FROM batch_items AS other WHERE other.batch_id = batches.id)"
            " FROM batch_items JOIN batches ON batches.id = batch_id WHERE job_key = ? ORDER BY batches.id",
            job_key,
        ):
            item = from_json(BatchItem, record)
            device_seconds += seconds / jobs
            timed_seconds += sum(item.samples_ns) / 1e9
            waited_seconds += item.conditions.waited_seconds / jobs
            if not disqualified(in_race(item.labels)):
                medians_ms.append((process, figure_ns(item.samples_ns) / 1e6))
        return BatchShare(
            device_seconds=device_seconds,
            timed_seconds=timed_seconds,
            waited_seconds=waited_seconds,
            medians_ms=tuple(medians_ms),
        )

    def has_timed(self, job_key: str) -> bool:
        """Tell whether any batch timed the job."""
        return self._file.row("SELECT 1 FROM batch_items WHERE job_key = ? LIMIT 1", job_key) is not None
