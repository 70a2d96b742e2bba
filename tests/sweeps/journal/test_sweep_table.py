"""Deleting a sweep changes no figure of another one."""

from sweeps.batches import BatchShare
from sweeps.journal.journal import Journal
from tests.sweeps.journal.test_batch_table import batch

RUN = 1_780_000_000


def test_others_keep_their_share_of_the_processes_that_timed_both(tmp_path, records):
    deleted, other = records.job(0), records.job(1)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        for name, job in (("other", other), ("gone", deleted)):
            journal.save_plan(records.plan(job, name=name))
        journal.batches.add(batch(0, deleted.key, other.key))
        journal.batches.add(batch(1, deleted.key))
        before = journal.batches.share(other.key)
        journal.sweeps.delete("gone")
        assert journal.batches.share(other.key) == before
        assert len(journal.batches.of_jobs([deleted.key])) == 1
        journal.sweeps.delete("other")
        assert journal.batches.share(deleted.key) == BatchShare(
            device_seconds=0.0, timed_seconds=0.0, waited_seconds=0.0
        )
        assert journal.times.last_session() == 0


def test_others_keep_the_sessions_that_the_deleted_one_began(tmp_path, records):
    deleted, other = records.job(0), records.job(1)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        for name, job in (("other", other), ("gone", deleted)):
            journal.save_plan(records.plan(job, name=name))
        for number, (job, run) in enumerate([(deleted, RUN), (other, RUN + 600)]):
            journal.attempts.add_block(records.block(job, 0, session=run))
            journal.file.db.execute(
                "UPDATE attempts SET created = strftime('%Y-%m-%dT%H:%M:%S.000000+00:00', ?, 'unixepoch') WHERE id = ?",
                (run + 60, number + 1),
            )
        assert journal.times.session_start(other.device_id, RUN + 600) == RUN
        journal.sweeps.delete("gone")
        assert journal.times.session_start(other.device_id, RUN + 600) == RUN
        assert journal.attempts.blocks(deleted.key) == ()
