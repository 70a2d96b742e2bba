"""Deleting a sweep changes no figure of another one."""

from sweeps.batches import BatchShare
from sweeps.journal.journal import Journal
from tests.sweeps.journal.test_batches import batch

RUN = 1_780_000_000


def test_others_keep_their_share_of_the_processes_that_timed_both(tmp_path, records):
    gone, other = records.job(0), records.job(1)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        for name, job in (("other", other), ("gone", gone)):
            journal.save_plan(records.plan(job, name=name))
        journal.add_batch(batch(0, gone.key, other.key))
        journal.add_batch(batch(1, gone.key))
        before = journal.batch_share(other.key)
        journal.delete_sweep("gone")
        assert journal.batch_share(other.key) == before
        assert len(journal.batches([gone.key])) == 1
        journal.delete_sweep("other")
        assert journal.batch_share(gone.key) == BatchShare(device_seconds=0.0, timed_seconds=0.0, waited_seconds=0.0)
        assert journal.last_session() == 0


def test_others_keep_the_sessions_that_the_deleted_one_began(tmp_path, records):
    gone, other = records.job(0), records.job(1)
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        for name, job in (("other", other), ("gone", gone)):
            journal.save_plan(records.plan(job, name=name))
        for number, (job, run) in enumerate([(gone, RUN), (other, RUN + 600)]):
            journal.add_block(records.block(job, 0, session=run))
            journal._db.execute(
                "UPDATE attempts SET created = strftime('%Y-%m-%dT%H:%M:%S.000000+00:00', ?, 'unixepoch') WHERE id = ?",
                (run + 60, number + 1),
            )
        assert journal.session_start(other.device_id, RUN + 600) == RUN
        journal.delete_sweep("gone")
        assert journal.session_start(other.device_id, RUN + 600) == RUN
        assert journal.blocks(gone.key) == ()
