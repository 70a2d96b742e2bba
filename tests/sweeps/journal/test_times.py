"""When a job was measured."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

from sweeps.batches import StoredBatch
from sweeps.journal.journal import Journal
from tests.sweeps.journal.test_batch_table import item

NOON_S = datetime(2026, 1, 2, 12, tzinfo=UTC).timestamp()


def at(journal: Journal, seconds: float, table: str = "attempts") -> None:
    """Date the last row of a table."""
    text = datetime.fromtimestamp(NOON_S + seconds, UTC).isoformat(timespec="microseconds")
    with closing(sqlite3.connect(journal.path)) as db, db:
        db.execute(f"UPDATE {table} SET created = ? WHERE rowid = (SELECT max(rowid) FROM {table})", (text,))


def measured(journal: Journal, job, *failure_keys: str) -> tuple[float, float] | None:
    span = journal.times.measured(job.key, job.build_key, failure_keys)
    return None if span is None else (span.start_s - NOON_S, span.end_s - NOON_S)


def test_a_job_of_which_nothing_is_recorded_has_no_time(journal, records):
    journal.attempts.add_failure("other", records.failed())
    assert measured(journal, records.job(0), records.job(0).key) is None
    assert journal.times.created("phones") is None


def test_a_job_lasts_from_the_start_of_its_first_process_to_the_end_of_its_last(journal, records):
    job = records.job(0)
    # An accuracy is of the build: another job of it may have needed it first.
    journal.attempts.add_accuracy(records.accuracy(job))
    at(journal, -3600)
    journal.batches.add(StoredBatch(session=1, number=0, device_seconds=6.0, items={job.key: item(job.key)}))
    at(journal, 10, "batches")
    for round_, seconds in ((1, 20), (0, 30)):
        journal.attempts.add_block(records.block(job, round_, device_seconds=2.5))
        at(journal, seconds)
    journal.attempts.add_failure(job.key, records.failed())
    at(journal, 40)
    assert measured(journal, job) == (4.0, 30.0)
    assert measured(journal, job, job.key, job.build_key) == (4.0, 40.0)


def test_a_job_that_was_only_checked_has_the_time_of_its_last_accuracy_pass(journal, records):
    job = records.checked_job(0)
    for seconds in (10, 20):
        journal.attempts.add_accuracy(records.accuracy(job, device_seconds=4.0))
        at(journal, seconds)
    assert measured(journal, job) == (16.0, 20.0)


def test_a_build_that_failed_has_the_time_of_its_failure(journal, records):
    job = records.job(0)
    journal.attempts.add_failure(job.build_key, records.failed("build"))
    at(journal, 5)
    assert measured(journal, job, job.key, job.build_key) == (5.0, 5.0)


def test_a_clock_that_goes_back_makes_no_negative_span(journal, records):
    job = records.job(0)
    for round_, seconds in ((0, 3600), (1, 0)):
        journal.attempts.add_block(records.block(job, round_, device_seconds=1.0))
        at(journal, seconds)
    assert measured(journal, job) == (-1.0, 3600.0)


def test_a_sweep_begins_when_it_was_first_planned(journal, records):
    journal.save_plan(records.plan(records.job(0)))
    at(journal, 1, "sweeps")
    journal.save_plan(records.plan(records.job(0), records.job(1)))
    assert journal.times.created("phones") == NOON_S + 1
