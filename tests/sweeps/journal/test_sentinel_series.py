"""Sessions of a device, and what its sentinel says of them, from a real journal."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from sweeps.journal.sentinel_series import sentinel_series
from sweeps.journal.sentinels import Sentinels
from sweeps.protocol.sentinel_rules import CHECK_BLOCKS, round_of

DAY_S = 86_400
START = 1_790_000_000


@pytest.fixture
def clock(monkeypatch):
    """The journal's clock, in seconds since 1970: set it before a block is stored."""

    def set_to(at_s):
        text = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="microseconds")
        monkeypatch.setattr("sweeps.journal.attempts.now", lambda: text)

    return set_to


def measure(journal, clock, records, job, run, *, rounds=1, first=0, ends_after_s=60):
    for round_ in range(first, first + rounds):
        clock(run + ends_after_s)
        journal.attempts.add_block(records.block(job, round_, session=run))


def test_a_session_begins_with_a_start_30_minutes_after_the_last_block_of_the_device(journal, clock, records):
    job, other = records.job(0), records.job(1)
    journal.save_plan(records.plan(job, other))
    # The second run starts an hour after the start of the first, but that ran for 50 minutes.
    soon, late = START + 3600, START + DAY_S
    measure(journal, clock, records, job, START, ends_after_s=3000)
    measure(journal, clock, records, other, soon)
    measure(journal, clock, records, job, soon + 1500, first=1)
    measure(journal, clock, records, job, late, first=2)
    assert [journal.times.session_start("local-1", run) for run in (START, soon, soon + 1500, late)] == [START] * 3 + [
        late
    ]


def test_blocks_of_another_device_do_not_matter(journal, clock, records):
    first, second = records.job(0), records.job(1, device_id="phone-2")
    journal.save_plan(records.plan(first, second, facts=(records.facts, replace(records.facts, device_id="phone-2"))))
    measure(journal, clock, records, first, START)
    measure(journal, clock, records, second, START + DAY_S)
    measure(journal, clock, records, first, START + DAY_S + 600, first=1)
    assert journal.times.session_start("local-1", START + DAY_S + 600) == START + DAY_S + 600
    assert journal.times.session_start("phone-2", START + DAY_S + 600) == START + DAY_S


def test_a_check_of_the_sentinel_belongs_to_the_session_too(journal, clock, records):
    sentinel = records.job(9)
    job = records.job(0, sentinel=sentinel.key)
    journal.save_plan(records.plan(job))
    measure(journal, clock, records, sentinel, START)
    assert journal.times.session_start("local-1", START + 600) == START


def test_a_run_of_the_oldest_journals_has_no_start_and_a_damaged_block_stops_nothing(journal, path, clock, records):
    job = records.job(0)
    journal.save_plan(records.plan(job))
    assert journal.times.session_start("local-1", 3) is None
    measure(journal, clock, records, job, START)
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute("UPDATE attempts SET record = '{'").rowcount == 1
    assert journal.times.session_start("local-1", START + 600) == START + 600


def test_the_series_of_a_sentinel_has_each_block_with_its_session(journal, path, clock, records):
    sentinel = records.job(9)
    journal.save_plan(records.plan(records.job(0, sentinel=sentinel.key)))
    for day in range(2):
        measure(journal, clock, records, sentinel, START + day * DAY_S, rounds=3, first=10 * day)
    series_of = sentinel_series(path, ["local-1", "elsewhere"])
    (series,) = series_of["local-1"]
    assert series.sessions == (START,) * 3 + (START + DAY_S,) * 3
    assert series.medians_ms == pytest.approx((5.003,) * 6)
    assert series_of["elsewhere"] == ()


def test_without_a_journal_there_is_no_evidence(tmp_path):
    assert sentinel_series(tmp_path / "none.sqlite", ["local-1"]) == {}
    assert not (tmp_path / "none.sqlite").exists()


def look(journal, records, check, ms):
    sentinel = replace(records.job(0), key="5" * 64)
    for number in range(CHECK_BLOCKS):
        journal.attempts.add_block(records.block(sentinel, round_of(check, number), ms=ms))


def test_the_blocks_of_a_sentinel_are_read_again_only_when_there_is_a_new_one(journal, records, monkeypatch):
    job = records.job(0, sentinel="5" * 64)
    journal.save_plan(records.plan(job))
    look(journal, records, 0, ms=5.0)
    journal.attempts.add_block(records.block(job, 0))
    read, real = [], Sentinels.placed_blocks
    monkeypatch.setattr(Sentinels, "placed_blocks", lambda self, key: (read.append(key), real(self, key))[1])

    def changed():
        return ["device_changed" in block.labels for block in journal.attempts.blocks(job.key, job.sentinel)]

    assert [changed() for _ in range(3)] == [[False]] * 3
    assert len(read) == 1
    look(journal, records, 1, ms=9.0)
    read.clear()
    assert [changed() for _ in range(3)] == [[True]] * 3
    assert len(read) == 1


def test_what_a_transaction_that_failed_had_of_a_sentinel_is_forgotten(journal, records):
    job = records.job(0, sentinel="5" * 64)
    journal.save_plan(records.plan(job))
    look(journal, records, 0, ms=5.0)
    journal.attempts.add_block(records.block(job, 0))

    def changed():
        return ["device_changed" in block.labels for block in journal.attempts.blocks(job.key, job.sentinel)]

    def killed():
        with journal.transaction():
            look(journal, records, 1, ms=5.0)
            assert changed() == [False]
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        killed()
    with journal.transaction():  # under the same ids
        look(journal, records, 1, ms=9.0)
    assert changed() == [True]
