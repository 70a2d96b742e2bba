"""The journal's tables of batches: short blocks of several jobs in one process."""

from collections.abc import Iterable

from sweeps.batches import BatchItem, BatchShare, StoredBatch
from sweeps.journal.attempts import AttemptTables
from sweeps.journal.plans import now
from sweeps.json_records import from_json, to_json


class BatchTables(AttemptTables):
    """Batches in the journal. They are added, and never changed or deleted."""

    def add_batch(self, batch: StoredBatch) -> None:
        """Record one process, with the items that were measured; without any, nothing is recorded."""
        if not batch.items:
            return
        with self._writing():
            row = self._db.execute(
                "INSERT INTO batches (session, number, device_seconds, created) VALUES (?, ?, ?, ?)",
                (batch.session, batch.number, batch.device_seconds, now()),
            ).lastrowid
            self._db.executemany(
                "INSERT INTO batch_items (batch_id, job_key, record) VALUES (?, ?, ?)",
                [(row, key, to_json(item)) for key, item in batch.items.items()],
            )

    def batches(self, job_keys: Iterable[str]) -> list[StoredBatch]:
        """The processes that timed any of these jobs, with the items of these jobs only, in the order of measuring."""
        wanted = set(job_keys)
        found: dict[int, dict[str, BatchItem]] = {}
        for key in sorted(wanted):
            for batch_id, record in self._rows("SELECT batch_id, record FROM batch_items WHERE job_key = ?", key):
                found.setdefault(batch_id, {})[key] = from_json(BatchItem, record)
        stored = []
        for batch_id in sorted(found):
            session, number, seconds = self._row(
                "SELECT session, number, device_seconds FROM batches WHERE id = ?", batch_id
            )
            stored.append(StoredBatch(session=session, number=number, device_seconds=seconds, items=found[batch_id]))
        return stored

    def batch_share(self, job_key: str) -> BatchShare:
        """The job's part of the processes that timed it, whichever sweep asked for them; 0 without any."""
        device_seconds = timed_seconds = waited_seconds = 0.0
        for record, seconds, jobs in self._rows(
            "SELECT record, device_seconds,"
            " (SELECT count(*) FROM batch_items AS other WHERE other.batch_id = batches.id)"
            " FROM batch_items JOIN batches ON batches.id = batch_id WHERE job_key = ? ORDER BY batches.id",
            job_key,
        ):
            item = from_json(BatchItem, record)
            device_seconds += seconds / jobs
            timed_seconds += sum(item.samples_ns) / 1e9
            waited_seconds += item.conditions.waited_seconds / jobs
        return BatchShare(device_seconds=device_seconds, timed_seconds=timed_seconds, waited_seconds=waited_seconds)

    def was_raced(self, job_key: str) -> bool:
        """Whether it was measured, in a process of its own or in a batch."""
        in_batches = self._row("SELECT 1 FROM batch_items WHERE job_key = ? LIMIT 1", job_key)
        return in_batches is not None or self.block_count(job_key) > 0

    def last_session(self) -> int:
        """The largest session number of all accepted blocks and batches; 0 if there is none."""
        [largest] = self._row("SELECT max(session) FROM batches")
        return max(super().last_session(), int(largest or 0))
