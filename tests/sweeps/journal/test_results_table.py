"""The table of results: what ranking needs of each finished job, written with its attempts, made again from them."""

import sqlite3
import threading
from contextlib import closing
from dataclasses import fields, replace

import pytest

from sweeps.errors import StoreError
from sweeps.journal import rebuild as rebuild_module
from sweeps.journal.job_table import Jobs
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import MAX_ATTEMPTS
from sweeps.journal.rebuild import rebuild, whole_results
from sweeps.journal.result_place import Place
from sweeps.journal.result_updates import ResultUpdates
from sweeps.journal.results_table import COLUMNS, DamagedResultsError, Results
from sweeps.journal.schema import FILTERS
from sweeps.locks import locked
from sweeps.results import ResultRow
from sweeps.settled import Settled
from sweeps.store.verdicts import Verdicts


def measure(journal, records, job, ms=5.0, rounds=2):
    for round_ in range(rounds):
        journal.attempts.add_block(records.block(job, round_, ms=ms + round_ / 10))
    journal.attempts.add_accuracy(records.accuracy(job))


def change(path, statement):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(statement)


def test_the_table_has_the_fields_of_a_row(path):
    with Journal.open(path) as journal:
        columns = [name for (name,) in journal.file.rows("SELECT name FROM pragma_table_info('results')")]
    # Axes that came later are columns at the end.
    assert sorted(columns) == sorted(["seq", *COLUMNS])
    assert {entry.name for entry in fields(ResultRow)} - {"metrics", "run_id"} <= set(COLUMNS)


def test_a_result_is_there_with_the_attempt_that_finishes_it(path, records):
    job = records.job(0)
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(job, skipped=(records.skipped(),)))
        journal.artifacts.add(records.manifest(job))
        measure(journal, records, job, rounds=1)
        assert [row.outcome for row in journal.results.rows("phones")] == ["skipped"]
        before = journal.results.watermark()
        journal.attempts.add_block(records.block(job, 1))
        row, skipped = journal.results.rows("phones")
        assert (row.job_key, row.outcome, row.rounds) == (job.key, "measured", 2)
        assert row.metrics["artifact_mb"] == 3.5
        assert skipped.reason == "no effect"
        assert journal.results.watermark().seq > before.seq
        assert journal.results.changed_places(before.seq) == [Place(sweep="phones", place_id="local-1", model="net")]
        assert journal.jobs.places("phones")[Place(sweep="phones", place_id="local-1", model="net")][1] == 1


def test_a_transaction_that_fails_leaves_no_result(path, records):
    job = records.job(0)
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(job))

        def killed():
            with journal.transaction():
                measure(journal, records, job)
                raise RuntimeError("killed")

        with pytest.raises(RuntimeError, match="killed"):
            killed()
        assert journal.results.rows("phones") == []
        assert journal.outcomes.of_job(journal.jobs.planned("phones", job.key)) is None


def test_a_failed_job_keeps_its_row_until_a_retry_ends(path, records):
    job = records.job(0)
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(job))
        for _ in range(3):
            journal.attempts.add_failure(job.key, records.failed())
        assert journal.results.rows("phones")[0].reason == "signal 11"
        journal.attempts.retry_failures("phones")
        assert journal.results.rows("phones")[0].outcome == "failed"
        measure(journal, records, job)
        assert journal.results.rows("phones")[0].outcome == "measured"


def test_jobs_that_leave_the_sweep_are_stale_and_come_back(path, records):
    jobs = [records.job(number) for number in range(2)]
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(*jobs))
        for job in jobs:
            measure(journal, records, job)
        journal.save_plan(records.plan(jobs[0]))
        assert [row.job_key for row in journal.results.rows("phones")] == [jobs[0].key]
        journal.save_plan(records.plan(*jobs))
        assert len(journal.results.rows("phones")) == 2


def test_an_accuracy_on_other_images_is_not_ranked_with_the_new_ones(path, records):
    job = records.job(0)
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(job))
        measure(journal, records, job)
        journal.save_plan(records.plan(job, evaluation_id="f" * 64))
        assert journal.results.rows("phones") == []
        journal.attempts.add_accuracy(records.accuracy(job, evaluation_id="f" * 64))
        assert len(journal.results.rows("phones")) == 1


def test_a_new_plan_reads_only_the_jobs_again_that_it_affects(path, records, monkeypatch):
    jobs = [records.job(number) for number in range(4)]
    read = []
    original = Jobs.planned
    monkeypatch.setattr(Jobs, "planned", lambda self, *job: read.append(job[1]) or original(self, *job))

    def saves(*now, **changes):
        read.clear()
        journal.save_plan(records.plan(*now, **changes))
        rows, expected = journal.results.rows("phones"), {job.key for job in now}
        assert {row.job_key for row in rows} <= expected
        return set(read)

    with Journal.open(path) as journal:
        journal.save_plan(records.plan(*jobs[:3]))
        for job in jobs:
            measure(journal, records, job)
        assert saves(*jobs[:3], models=2) == set()  # another objective, or another model that has no jobs yet
        assert saves(*jobs, models=2) == {jobs[3].key}
        assert saves(*jobs[1:], models=2) == {jobs[0].key}
        assert saves(*jobs, models=2) == {jobs[0].key}
        renamed = replace(jobs[2], name="another name")
        assert saves(jobs[0], jobs[1], renamed, jobs[3]) == {renamed.key}
        assert [row.name for row in journal.results.rows("phones") if row.job_key == renamed.key] == ["another name"]
        assert saves(jobs[0], jobs[1], renamed, jobs[3], rounds=5) == {job.key for job in jobs}
        other = replace(records.facts, os_build="another")
        assert saves(jobs[0], jobs[1], renamed, jobs[3], rounds=5, facts=(other,)) == {job.key for job in jobs}


def test_a_sweep_that_shares_jobs_with_another_has_their_results_at_once(path, records):
    job = records.job(0)
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(job))
        measure(journal, records, job)
        journal.save_plan(records.plan(job, name="others"))
        assert [row.sweep for row in journal.results.rows("others")] == ["others"]


def test_what_is_made_again_is_what_was_written(path, records):
    jobs = [records.job(number) for number in range(4)]
    settled = Settled(job_key=jobs[1].key, budget="full", rounds=2, reason="stable", message="its rounds agree")
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(*jobs, skipped=(records.skipped(),)))
        for number, job in enumerate(jobs[:2]):
            journal.artifacts.add(records.manifest(job))
            measure(journal, records, job, ms=5.0 + number)
        journal.attempts.add_settled(settled)
        for _ in range(3):
            journal.attempts.add_failure(jobs[2].key, records.failed(message="hostile \x1b[31m' OR 1=1 --"))
        written, places = journal.results.rows("phones"), journal.jobs.places()
        before = journal.results.watermark()
    assert rebuild(path) == 4
    with Journal.open(path) as journal:
        assert journal.results.rows("phones") == written
        assert journal.jobs.places() == places
        assert journal.results.watermark().epoch != before.epoch


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE results_state SET is_whole = 0",
        "DELETE FROM results_state",
        "DROP TABLE results",
        "INSERT INTO attempts (key, kind, created) VALUES ('k', 'retry', '2026-11-24T00:00:00+00:00')",
    ],
)
def test_a_damaged_table_is_found_and_made_again(path, records, damage):
    job = records.job(0)
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(job))
        measure(journal, records, job)
        written = journal.results.rows("phones")
    change(path, damage)
    with Journal.open(path) as journal, pytest.raises(DamagedResultsError, match="made again"):
        journal.results.watermark()
    whole_results(path)
    with Journal.open(path) as journal:
        assert journal.results.rows("phones") == written


@pytest.mark.parametrize(
    "value",
    [
        *("block_medians_ms = 'x'", "extra_metrics = '[]x'", "rounds = 'many'", "settled = '{'", "fuse = 'x'"),
        """extra_metrics = '{"score": true}'""",
    ],
)
def test_a_row_that_cannot_be_read_is_told_of(path, records, value):
    job = records.job(0)
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(job))
        measure(journal, records, job)
    change(path, f"UPDATE results SET {value}")
    with Journal.open(path) as journal:
        with pytest.raises(DamagedResultsError, match="made again"):
            journal.results.rows("phones")
        with pytest.raises(DamagedResultsError, match="made again"):
            journal.results.stored("phones", job.key)


def test_a_journal_from_before_a_figure_is_readable_and_gets_its_column_when_written(path, records):
    earlier, later = records.job(0), records.job(1)
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(earlier, later))
        measure(journal, records, earlier)
        [known] = journal.results.rows("phones")
    assert "load_ms" in known.metrics
    change(path, "ALTER TABLE results DROP COLUMN load_ms")
    without = replace(known, metrics={name: value for name, value in known.metrics.items() if name != "load_ms"})

    with Journal.open(path, read_only=True) as reader:
        assert reader.results.rows("phones") == [without]
        assert reader.results.stored("phones", earlier.key)[0] == without
        assert reader.results.watermark()

    with Journal.open(path) as journal:
        assert journal.results.rows("phones") == [without]
        measure(journal, records, later)
        assert journal.results.stored("phones", later.key)[0].metrics["load_ms"] == known.metrics["load_ms"]

    rebuild(path)
    with Journal.open(path, read_only=True) as reader:
        assert reader.results.stored("phones", earlier.key)[0] == known


def test_what_the_driver_writes_while_the_table_is_made_is_in_it(path, records):
    jobs = [records.job(number) for number in range(2)]
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(*jobs))
        measure(journal, records, jobs[0])
        rebuild(path, lambda done, of: measure(journal, records, jobs[1]))
        assert len(journal.results.rows("phones")) == 2
        journal.results.watermark()


def test_a_table_that_another_process_has_emptied_meanwhile_does_not_count_as_whole(path, records):
    job = records.job(0)
    with Journal.open(path) as journal, Journal.open(path) as other:
        journal.save_plan(records.plan(job))
        journal.artifacts.add(records.manifest(job))
        measure(journal, records, job)
        with pytest.raises(DamagedResultsError, match="meanwhile"):
            rebuild(path, lambda *_: other.updates.empty())
        with pytest.raises(DamagedResultsError, match="not to its end"):
            journal.results.watermark()
        assert rebuild(path) == 1
        assert [row.job_key for row in journal.results.rows("phones")] == [job.key]


def test_of_two_readers_of_a_damaged_table_one_makes_it_and_the_other_waits(path, records, monkeypatch):
    job = records.job(0)
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(job))
        measure(journal, records, job)
    change(path, "UPDATE results_state SET is_whole = 0")
    other_is_there, emptied, marks = threading.Event(), [], []
    empty = ResultUpdates.empty

    def emptying(updates):
        emptied.append(updates)
        epoch = empty(updates)
        if threading.current_thread() is other:
            other_is_there.set()
        return epoch

    def locking(file, **options):
        if threading.current_thread() is other:
            other_is_there.set()
        return locked(file, **options)

    monkeypatch.setattr(ResultUpdates, "empty", emptying)
    monkeypatch.setattr(rebuild_module, "locked", locking)
    other = threading.Thread(target=lambda: marks.append(whole_results(path)))

    def meanwhile(*_):
        other.start()
        assert other_is_there.wait(60)

    marks.append(whole_results(path, meanwhile))
    other.join(60)
    assert len(emptied) == 1
    assert marks[0] == marks[1]


def test_where_no_lock_can_be_made_the_table_is_made_all_the_same(path, records):
    job = records.job(0)
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(job))
        measure(journal, records, job)
    change(path, "UPDATE results_state SET is_whole = 0")
    path.with_suffix(".rebuild.lock").mkdir()
    whole_results(path)
    with Journal.open(path) as journal:
        assert len(journal.results.rows("phones")) == 1


def test_a_sweep_without_results_has_no_rows(path, records):
    with Journal.open(path) as journal:
        assert journal.results.watermark().seq == 0
        journal.save_plan(records.plan(records.job(0)))
        assert journal.results.rows("phones") == []
        assert journal.results.rows("no such sweep") == []


def test_a_rebuild_needs_a_journal(path):
    with pytest.raises(StoreError, match="no journal"):
        whole_results(path)


def test_units_that_share_the_work_are_one_place(path, records):
    job = records.job(0)
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(replace(job, link=job.key)))
        measure(journal, records, job)
        [place] = journal.jobs.places("phones")
        assert place.place_id == f"class:{records.facts.fingerprint}"
        assert len(journal.results.rows("phones", place)) == 1


@pytest.mark.parametrize("damage", ["DROP TABLE results", "DELETE FROM results_state", "DROP TABLE results_state"])
def test_a_damaged_table_stops_no_measurement(path, records, damage):
    job = records.job(0)
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(job))
    change(path, damage)
    with Journal.open(path) as journal:
        measure(journal, records, job)
        assert len(journal.attempts.blocks(job.key)) == 2
    whole_results(path)
    with Journal.open(path) as journal:
        assert len(journal.results.rows("phones")) == 1


def harm_pages(path, table):
    """Overwrite the first page of a table or index."""
    with Journal.open(path) as journal:
        [root] = journal.file.row("SELECT rootpage FROM sqlite_master WHERE name = ?", table)
        [size] = journal.file.row("PRAGMA page_size")
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)


@pytest.mark.parametrize("table", ["results", "results_state"])
def test_damaged_pages_of_the_table_are_found(path, records, table):
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(records.job(0)))
    harm_pages(path, table)
    with Journal.open(path) as journal, pytest.raises(DamagedResultsError, match="made again"):
        journal.results.watermark()


def test_a_figure_that_no_table_takes_stops_no_measurement(path, records, monkeypatch):
    job = records.job(0)

    def too_large(*_):
        raise OverflowError("Python int too large to convert to SQLite INTEGER")

    with Journal.open(path) as journal:
        journal.save_plan(records.plan(job))
        monkeypatch.setattr(Results, "put", too_large)
        measure(journal, records, job)
        assert len(journal.attempts.blocks(job.key)) == 2
        with pytest.raises(DamagedResultsError, match="made again"):
            journal.results.watermark()


def test_results_are_chosen_by_their_axes_over_all_places(path, records):
    jobs = [records.job(number) for number in range(4)]  # odd ones are int8, each has its number of threads
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(*jobs, skipped=(records.skipped(),)))
        for job, ms in zip(jobs, (4.0, 3.0, 2.0, 1.0), strict=True):
            measure(journal, records, job, ms=ms)

        def chosen(conditions, **options):
            return [row.job_key for row in journal.results.matching(conditions, **options)]

        measured = {"outcome": ["measured"]}
        assert chosen(measured) == [job.key for job in reversed(jobs)]  # the fastest first
        assert chosen(measured, most=1) == [jobs[3].key]
        assert chosen({"precision": ["int8"]}) == [jobs[3].key, jobs[1].key]
        assert chosen({"precision": ["int8"], "threads": [1, 2]}) == [jobs[1].key]
        assert chosen({"fuse": [True]}, sweep="phones") == [jobs[3].key, jobs[1].key]
        assert chosen({}, sweep="' OR 1=1 --") == []
        assert len(chosen({})) == 5
        place = Place("phones", "local-1", "net")
        assert journal.results.matching_places({"precision": ["int8", "fp32"]}) == {place: 5}
        assert journal.results.matching_places({"qengine": ["x86"]}, "phones") == {place: 2}
        for nothing in ({"threads": [10**30]}, {"precision": []}, {"layout": ["\udcff"]}, {"device": ["' OR 1=1 --"]}):
            assert (chosen(nothing), journal.results.matching_places(nothing)) == ([], {})
        with pytest.raises(ValueError, match="not filtered by protocol"):
            chosen({"protocol": ["{}"]})
        journal.save_plan(records.plan(jobs[0]))
        assert chosen({}) == [jobs[0].key]  # the others are stale


def test_results_are_chosen_without_reading_their_long_texts(path):
    with Journal.open(path) as journal:
        indexed = {name for (name,) in journal.file.rows("SELECT name FROM pragma_index_info('results_by_axes')")}
    assert indexed >= set(FILTERS)


def test_each_start_of_a_run_finds_the_last_session_by_an_index(path):
    with Journal.open(path) as journal:
        queries: list[str] = []
        journal.file.db.set_trace_callback(queries.append)
        journal.times.last_session()
        journal.file.db.set_trace_callback(None)
        plans = [row[3] for query in queries for row in journal.file.rows(f"EXPLAIN QUERY PLAN {query}")]
    assert any("INDEX attempts_by_session" in plan for plan in plans), plans
    assert not any("TEMP B-TREE" in plan for plan in plans), plans


def test_the_jobs_that_have_ended_are_counted_with_each_result_that_is_written(path, records):
    jobs = [replace(records.job(number), device_id=f"phone-{number % 2}") for number in range(6)]
    units = tuple(replace(records.facts, device_id=f"phone-{number}") for number in range(2))

    def counts(journal):
        counts = journal.results.ended_counts("phones")
        rows = journal.file.rows(
            "SELECT device_id, outcome, count(*) FROM results WHERE stale = 0 AND outcome != 'skipped' GROUP BY 1, 2"
        )
        assert counts == {
            device: {outcome: count for row_device, outcome, count in rows if row_device == device}
            for device, _, _ in rows
        }
        return counts

    with Journal.open(path) as journal:
        journal.save_plan(records.plan(*jobs, rounds=1, facts=units))
        assert counts(journal) == {}
        for job in jobs[:3]:
            measure(journal, records, job, rounds=1)
        for _ in range(MAX_ATTEMPTS):
            journal.attempts.add_failure(jobs[3].key, records.failed())
        assert counts(journal) == {"phone-0": {"measured": 2}, "phone-1": {"measured": 1, "failed": 1}}
        journal.attempts.retry_failures("phones")
        measure(journal, records, jobs[3], rounds=1)
        assert counts(journal) == {"phone-0": {"measured": 2}, "phone-1": {"measured": 2}}
        journal.save_plan(records.plan(*jobs[1:], rounds=1, facts=units))
        assert counts(journal) == {"phone-0": {"measured": 1}, "phone-1": {"measured": 2}}
        before = counts(journal)
    rebuild(path)
    with Journal.open(path, read_only=True) as journal:
        assert counts(journal) == before


def test_what_waits_and_what_is_in_trouble_is_told_of_each_place(path, records, tmp_path):
    done, distrusted, broken, late, elsewhere = (records.job(number) for number in range(5))
    elsewhere = replace(elsewhere, model="other net")
    place = Place("phones", done.device_id, done.model)
    with Journal.open(path) as journal:
        journal.save_plan(records.plan(done, distrusted, broken, late, elsewhere, rounds=1))
        assert len(journal.jobs.waiting_rows(place)) == 4
        measure(journal, records, done, rounds=1)
        with Verdicts.open(tmp_path / "verdicts.sqlite") as verdicts:
            assert [(entry.failed, entry.untrusted) for entry in verdicts.overview(journal)] == [(0, 0), (0, 0)]
        journal.attempts.add_block(records.block(distrusted, 0, labels=("throttled",)))
        journal.attempts.add_accuracy(records.accuracy(distrusted))
        for _ in range(MAX_ATTEMPTS):
            journal.attempts.add_failure(broken.key, records.failed())
        assert [row.name for row in journal.jobs.waiting_rows(place)] == [late.name]
        assert [row.job_key for row in journal.jobs.waiting_rows(place._replace(model="other net"))] == [elsewhere.key]
        with Verdicts.open(tmp_path / "verdicts.sqlite") as verdicts:
            verdict_of = {entry.model: (entry.failed, entry.untrusted) for entry in verdicts.overview(journal)}
        assert verdict_of == {done.model: (1, 1), "other net": (0, 0)}
