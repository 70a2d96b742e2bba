"""Batches in the journal."""

from contextlib import closing
from dataclasses import replace

import pytest

from sweeps.batches import BatchItem, BatchShare, StoredBatch
from sweeps.journal import schema as journal_schema
from sweeps.journal.journal import Journal
from sweeps.json_records import to_json
from sweeps.planning.planned import planned_job
from sweeps.protocol.spent import spent
from sweeps.records import Conditions, Failed, Measured
from sweeps.settled import Settled


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.sqlite"


def item(key: str, ms: float = 10.0) -> BatchItem:
    return BatchItem(
        job_key=key,
        samples_ns=(round(ms * 1e6),) * 5,
        warmup_ns=(round(ms * 1e6),),
        first_inference_ns=None,
        load_ns=1_000,
        backend_ran="cpu",
        engine_ran="none",
        threads_ran=1,
        runner="python-torchscript 2 batch 1",
        runtime_version="2.12.1",
        artifact_sha256="ab" * 32,
        conditions=Conditions(),
    )


def batch(number: int, *keys: str, session: int = 100) -> StoredBatch:
    return StoredBatch(
        session=session, number=number, device_seconds=3.5, items={key: item(key, 10.0 + number) for key in keys}
    )


def test_batches_come_back_in_the_order_of_measuring_with_the_items_that_were_asked_for(path):
    written = [batch(0, "a", "b"), batch(1, "b", "a"), batch(0, "a", session=200), batch(2, "x")]
    with closing(Journal.open(path)) as journal:
        for one in written:
            journal.add_batch(one)
        journal.add_batch(StoredBatch(session=300, number=0, device_seconds=1.0, items={}))
        assert journal.batches(["a", "b"]) == written[:3]
        assert [one.items.keys() for one in journal.batches(["b"])] == [{"b"}, {"b"}]
        assert journal.batches(["unknown"]) == []
        assert journal.last_session() == 200, "a process of nobody is not recorded"
        assert (journal.was_raced("x"), journal.was_raced("unknown")) == (True, False)


def test_the_shares_of_all_jobs_are_the_seconds_of_the_processes(path):
    waited = replace(item("a"), conditions=Conditions(waited_seconds=4.0))
    with closing(Journal.open(path)) as journal:
        for one in (batch(0, "a", "b", "c"), batch(1, "a", "b"), batch(2, "x")):
            journal.add_batch(one)
        journal.add_batch(StoredBatch(session=9, number=0, device_seconds=1.0, items={"a": waited}))
        shares = {key: journal.batch_share(key) for key in ("a", "b", "c", "x")}
        assert journal.batch_share("unknown") == BatchShare()
    assert sum(share.device_seconds for share in shares.values()) == pytest.approx(3 * 3.5 + 1.0)
    assert shares["b"].device_seconds == pytest.approx(3.5 / 3 + 3.5 / 2)
    assert shares["b"].timed_seconds == pytest.approx(5 * 0.010 + 5 * 0.011)
    assert {key: share.waited_seconds for key, share in shares.items()} == {"a": 4.0, "b": 0.0, "c": 0.0, "x": 0.0}


def test_a_share_has_the_medians_of_its_blocks_that_count_and_which_process_each_is_of(path):
    fell_back, moved = (replace(item("a", 7.0), labels=(label,)) for label in ("backend_fell_back", "device_changed"))
    with closing(Journal.open(path)) as journal:
        for number, items in enumerate([{"a": item("a", 10.0), "b": item("b", 20.0)}, {"a": fell_back}, {"a": moved}]):
            journal.add_batch(StoredBatch(session=100, number=number, device_seconds=1.0, items=items))
        first, third = journal.batch_share("a").medians_ms
        assert (first[1], third[1]) == (10.0, 7.0), "a shift is only a warning in a race"
        assert first[0] < third[0]
        assert journal.batch_share("b").medians_ms == ((first[0], 20.0),), "one process has one number"


def test_a_process_in_which_all_failed_is_kept_with_its_time_and_who_failed(path):
    crashed = Failed(stage="run", kind="crashed", message="signal 11")
    lost = StoredBatch(session=100, number=0, device_seconds=2.5, items={}, failed={"a": crashed})
    mixed = replace(batch(0, "b"), failed={"c": crashed})
    with closing(Journal.open(path)) as journal:
        journal.add_batch(lost)
        journal.add_batch(mixed)
        assert journal.batches(["a", "b", "c"]) == [lost, mixed]
        assert journal.batches(["a"]) == [lost]
        assert journal.batches(["b"]) == [replace(mixed, failed={})]
        assert journal.last_session() == 100
        assert not journal.was_raced("a"), "it was not measured"
    assert spent([], batches=[lost]).starting_s == 2.5


def test_a_journal_of_the_version_before_failures_in_batches_takes_them(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(journal_schema, "MIGRATIONS", journal_schema.MIGRATIONS[:4])
        patch.setattr(Journal, "_before_commit", lambda self: None)  # it had no table of results
        with Journal.open(path) as journal:
            journal._db.execute("INSERT INTO batches VALUES (1, 100, 0, 3.5, '2026-01-01T00:00:00')")
            record = to_json(item("a"))
            journal._db.execute("INSERT INTO batch_items VALUES (1, 'a', ?)", (record,))
    later = replace(batch(1), failed={"a": Failed(stage="run", kind="crashed", message="signal 11")})
    with Journal.open(path) as journal:
        journal.add_batch(later)
        assert journal.batches(["a"]) == [batch(0, "a"), later]


def test_a_journal_of_the_version_before_batches_takes_them(path, records, monkeypatch):
    job = records.job(0)
    with monkeypatch.context() as patch:
        patch.setattr(journal_schema, "MIGRATIONS", journal_schema.MIGRATIONS[:3])
        patch.setattr(Journal, "_before_commit", lambda self: None)  # it had no table of results
        with Journal.open(path) as journal:
            journal.save_plan(records.plan(job))
            journal.add_block(records.block(job, 0))
    with Journal.open(path) as journal:
        assert journal.batches([job.key]) == []
        assert journal.was_raced(job.key)
        journal.add_batch(batch(0, job.key))
        assert len(journal.blocks(job.key)) == 1, "a batch is no block"
        assert journal.batches([job.key]) == [batch(0, job.key)]


def test_a_job_that_left_in_batches_is_complete_and_has_no_figure(path, records):
    job = records.job(0)
    plan = records.plan(job)
    planned = planned_job(plan, job)
    with Journal.open(path) as journal:
        journal.save_plan(plan)
        journal.add_accuracy(records.accuracy(job))
        journal.add_batch(batch(0, job.key))
        assert journal.ending(planned) is None
        left = Settled(job_key=job.key, budget="full", rounds=0, reason="slower", message="slower", batches=1)
        journal.add_settled(replace(left, batches=0))
        assert journal.ending(planned) is None, "without a block or a batch, nothing was measured"
        journal.add_settled(left)
        outcome = journal.outcome(planned)
    assert isinstance(outcome, Measured)
    assert outcome.timing is None
    assert outcome.accuracy is not None


def test_a_winner_is_complete_when_it_is_confirmed(path, records):
    job = records.job(0)
    plan = records.plan(job)
    planned = planned_job(plan, job)
    with Journal.open(path) as journal:
        journal.save_plan(plan)
        journal.add_accuracy(records.accuracy(job))
        journal.add_block(records.block(job, 0))
        won = Settled(
            job_key=job.key,
            budget="full",
            rounds=planned.protocol.rounds,
            reason="best",
            message="the best",
            confirmations=2,
        )
        journal.add_settled(replace(won, confirmations=0))
        before = journal.ending(planned)
        journal.add_settled(won)
        for round_ in (1, 2):
            assert journal.ending(planned) is None
            journal.add_block(replace(records.block(job, round_, ms=20.0), confirms=True))
        outcome = journal.outcome(planned)
    assert before is None or before.accuracy is not None
    assert isinstance(outcome, Measured)
    assert outcome.timing is not None
    assert outcome.timing.latency_p50_ms == pytest.approx(20.0, rel=1e-3), "only the confirming blocks are published"
    assert len(outcome.timing.block_medians_ms) == 1
    assert len(outcome.timing.confirmed_medians_ms) == 2
