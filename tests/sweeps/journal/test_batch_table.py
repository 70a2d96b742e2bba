"""Batches in the journal."""

from contextlib import closing
from dataclasses import replace

import pytest

from sweeps.batches import BatchItem, BatchShare, StoredBatch
from sweeps.journal.journal import Journal
from sweeps.planning.planned_job import planned_job
from sweeps.protocol.device_time import spent
from sweeps.records import Conditions, Failed, Measured
from sweeps.settled import Settled


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


def test_batches_come_back_in_the_order_of_measuring_with_the_requested_items(path):
    written = [batch(0, "a", "b"), batch(1, "b", "a"), batch(0, "a", session=200), batch(2, "x")]
    with closing(Journal.open(path)) as journal:
        for shared_process in written:
            journal.batches.add(shared_process)
        journal.batches.add(StoredBatch(session=300, number=0, device_seconds=1.0, items={}))
        assert journal.batches.of_jobs(["a", "b"]) == written[:3]
        assert [stored.items.keys() for stored in journal.batches.of_jobs(["b"])] == [{"b"}, {"b"}]
        assert journal.batches.of_jobs(["unknown"]) == []
        assert journal.times.last_session() == 200, "a process of nobody is not recorded"
        assert (journal.outcomes.was_raced("x"), journal.outcomes.was_raced("unknown")) == (True, False)


def test_the_shares_of_all_jobs_are_the_seconds_of_the_processes(path):
    waited = replace(item("a"), conditions=Conditions(waited_seconds=4.0))
    with closing(Journal.open(path)) as journal:
        for written in (batch(0, "a", "b", "c"), batch(1, "a", "b"), batch(2, "x")):
            journal.batches.add(written)
        journal.batches.add(StoredBatch(session=9, number=0, device_seconds=1.0, items={"a": waited}))
        shares = {key: journal.batches.share(key) for key in ("a", "b", "c", "x")}
        assert journal.batches.share("unknown") == BatchShare()
    assert sum(share.device_seconds for share in shares.values()) == pytest.approx(3 * 3.5 + 1.0)
    assert shares["b"].device_seconds == pytest.approx(3.5 / 3 + 3.5 / 2)
    assert shares["b"].timed_seconds == pytest.approx(5 * 0.010 + 5 * 0.011)
    assert {key: share.waited_seconds for key, share in shares.items()} == {"a": 4.0, "b": 0.0, "c": 0.0, "x": 0.0}


def test_a_share_has_the_medians_of_its_blocks_that_count_and_the_process_of_each(path):
    fell_back, moved = (replace(item("a", 7.0), labels=(label,)) for label in ("backend_fell_back", "device_changed"))
    with closing(Journal.open(path)) as journal:
        for number, items in enumerate([{"a": item("a", 10.0), "b": item("b", 20.0)}, {"a": fell_back}, {"a": moved}]):
            journal.batches.add(StoredBatch(session=100, number=number, device_seconds=1.0, items=items))
        first, third = journal.batches.share("a").medians_ms
        assert (first[1], third[1]) == (10.0, 7.0), "a shift is only a warning in a race"
        assert first[0] < third[0]
        assert journal.batches.share("b").medians_ms == ((first[0], 20.0),), "one process has one number"


def test_a_process_in_which_all_failed_is_kept_with_its_time_and_who_failed(path):
    crashed = Failed(stage="run", kind="crashed", message="signal 11")
    lost = StoredBatch(session=100, number=0, device_seconds=2.5, items={}, failed={"a": crashed})
    mixed = replace(batch(0, "b"), failed={"c": crashed})
    with closing(Journal.open(path)) as journal:
        journal.batches.add(lost)
        journal.batches.add(mixed)
        assert journal.batches.of_jobs(["a", "b", "c"]) == [lost, mixed]
        assert journal.batches.of_jobs(["a"]) == [lost]
        assert journal.batches.of_jobs(["b"]) == [replace(mixed, failed={})]
        assert journal.times.last_session() == 100
        assert not journal.outcomes.was_raced("a"), "it was not measured"
    assert spent([], batches=[lost]).starting_s == 2.5


def test_a_job_that_left_in_batches_is_complete_and_has_no_figure(path, records):
    job = records.job(0)
    plan = records.plan(job)
    planned = planned_job(plan, job)
    with Journal.open(path) as journal:
        journal.save_plan(plan)
        journal.attempts.add_accuracy(records.accuracy(job))
        journal.batches.add(batch(0, job.key))
        assert journal.outcomes.ending(planned) is None
        left = Settled(job_key=job.key, budget="full", rounds=0, reason="slower", message="slower", batches=1)
        journal.attempts.add_settled(replace(left, batches=0))
        assert journal.outcomes.ending(planned) is None, "without a block or a batch, nothing was measured"
        journal.attempts.add_settled(left)
        outcome = journal.outcomes.of_job(planned)
    assert isinstance(outcome, Measured)
    assert outcome.timing is None
    assert outcome.accuracy is not None


def test_a_winner_is_complete_when_it_is_confirmed(path, records):
    job = records.job(0)
    plan = records.plan(job)
    planned = planned_job(plan, job)
    with Journal.open(path) as journal:
        journal.save_plan(plan)
        journal.attempts.add_accuracy(records.accuracy(job))
        journal.attempts.add_block(records.block(job, 0))
        won = Settled(
            job_key=job.key,
            budget="full",
            rounds=planned.protocol.rounds,
            reason="best",
            message="the best",
            confirmations=2,
        )
        journal.attempts.add_settled(replace(won, confirmations=0))
        before = journal.outcomes.ending(planned)
        journal.attempts.add_settled(won)
        for round_ in (1, 2):
            assert journal.outcomes.ending(planned) is None
            journal.attempts.add_block(replace(records.block(job, round_, ms=20.0), confirms=True))
        outcome = journal.outcomes.of_job(planned)
    assert before is None or before.accuracy is not None
    assert isinstance(outcome, Measured)
    assert outcome.timing is not None
    assert outcome.timing.figures["latency_p50_ms"] == pytest.approx(20.0, rel=1e-3), (
        "only the confirming blocks are published"
    )
    assert len(outcome.timing.block_medians_ms) == 1
    assert len(outcome.timing.confirmed_medians_ms) == 2
