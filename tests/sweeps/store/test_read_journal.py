"""Rankings by the journal's table of results are those by MLflow, and overviews rank only what has changed."""

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from sweeps.cli.main import main
from sweeps.device_facts import pool_id
from sweeps.errors import EdgeSweepError, NoResultsError
from sweeps.imported import Imported
from sweeps.journal.journal import Journal
from sweeps.journal.next_step_hints import hints_of
from sweeps.journal.remaining_jobs import Left, left_of, waiting
from sweeps.journal.result_place import Place
from sweeps.planning.size import estimate
from sweeps.ranking.build_costs import costs_of
from sweeps.ranking.document import ranking_document
from sweeps.ranking.rank import rank
from sweeps.ranking.ties import LATENCY
from sweeps.records import Failed
from sweeps.spec.objective import ConstraintSpec
from sweeps.store import build_costs
from sweeps.store import verdicts as verdicts_module
from sweeps.store.mlflow import Store
from sweeps.store.read_journal import rank_sweep, read_sweep
from sweeps.store.verdicts import overview, read_current
from sweeps.workspace import Workspace
from tests.mlflow_rows import load, load_imported

HOSTILE = "net \x1b[31m' OR 1=1 -- <b>"


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return Workspace.open(tmp_path / "workspace")


def devices(records, count):
    return tuple(replace(records.facts, device_id=f"phone-{number}") for number in range(count))


def fill(workspace, records, outcomes, phones=2):
    """A sweep on some phones; `outcomes`: by job, its block medians (ms), or none for a failure."""
    facts = devices(records, phones)
    jobs = [
        replace(records.job(number), device_id=facts[number % phones].device_id, name=f"net · {number} {HOSTILE}")
        for number in range(len(outcomes))
    ]
    plan = records.plan(*jobs, skipped=(replace(records.skipped(), device_id="phone-0"),), facts=facts, rounds=3)
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(plan)
        for job, medians in zip(jobs, outcomes, strict=True):
            journal.artifacts.add(records.manifest(job))
            if medians:
                measure(journal, records, job, medians)
            else:
                for _ in range(3):
                    journal.attempts.add_failure(job.key, records.failed())
    return jobs


def measure(journal, records, job, medians):
    for round_, ms in enumerate(medians):
        journal.attempts.add_block(records.block(job, round_, ms=ms))
    journal.attempts.add_accuracy(records.accuracy(job, accuracy_drop_high_points=0.9))


def by_mlflow(workspace, device=None):
    with Journal.open(workspace.journal) as journal:
        Store(workspace.tracking_uri, workspace.mlflow_artifacts).publish(journal, "phones")
    results = load(workspace.tracking_uri, "phones")
    imported = load_imported(workspace.tracking_uri, "phones")
    told = hints_of(results.spec)
    return rank(results.frame, results.spec.objective, results.name, device, imported, told)


medians_ms = st.one_of(
    st.just(()), st.tuples(*[st.floats(4.0, 6.0).map(lambda value: round(value, 3))] * 3), st.just((5.0, 5.01, 5.02))
)


@pytest.mark.system
@given(outcomes=st.lists(medians_ms, min_size=1, max_size=9), phones=st.integers(1, 3))
@hypothesis_settings(max_examples=6, derandomize=True)
def test_the_ranking_is_the_one_by_mlflow(tmp_path_factory, records, outcomes, phones):
    workspace = Workspace.open(tmp_path_factory.mktemp("workspace"))
    fill(workspace, records, outcomes, phones)
    assert ranking_document(rank_sweep(workspace.journal, "phones")) == ranking_document(by_mlflow(workspace))
    phone = "phone-0"
    assert rank_sweep(workspace.journal, "phones", phone) == by_mlflow(workspace, phone)


def test_imported_figures_are_beside_the_same_devices(workspace, records):
    fill(workspace, records, [(5.0, 5.1, 5.2)] * 4)
    with Journal.open(workspace.journal) as journal:
        for device_id in ("phone-0", "phone-1", "elsewhere"):
            journal.imports.add("phones", imported(device_id))
    for device in (None, "phone-0", "phone"):
        assert rank_sweep(workspace.journal, "phones", device) == by_mlflow(workspace, device)


def imported(device_id):
    return Imported(
        model="net",
        variant="by hand",
        device="Maker Board's 3 (SoC <b>)",
        device_id=device_id,
        tool="speed_benchmark_torch",
        mean_ms=7.0,
        iterations=10,
        p50_ms=None,
        log="log.txt",
        log_sha256="0" * 64,
        imported="2026-11-24T00:00:00+00:00",
    )


def test_an_unknown_device_is_told_of(workspace, records):
    fill(workspace, records, [(5.0, 5.1, 5.2)] * 2)
    with pytest.raises(EdgeSweepError, match="no results for a device 'nokia'"):
        rank_sweep(workspace.journal, "phones", "nokia")


def test_a_sweep_without_results_is_told_of(workspace, records):
    fill(workspace, records, [])
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(records.job(0), name="empty"))
    with pytest.raises(NoResultsError, match="no results yet") as caught:
        rank_sweep(workspace.journal, "empty")
    assert re.match(r"edgesweep run SWEEP.yaml measures the 1 job that waits \(about \d+ s\); ", caught.value.next_step)


def test_verdicts_are_those_of_the_ranking(workspace, records):
    fill(workspace, records, [(5.0, 5.01, 5.02), (), (9.0, 9.1, 9.2), (5.5, 5.6, 5.7)])
    ranked = rank_sweep(workspace.journal, "phones")
    for _ in range(2):  # made, then read
        found = overview(workspace)
        assert [(one.device_id, one.winner, one.state) for one in found] == [
            (entry.device_id, entry.winner.name, "tied" if entry.unresolved else "winner") for entry in ranked.devices
        ]
        assert [one.finished for one in found] == [2, 2]


def test_stored_costs_of_builds_are_those_of_the_rows(workspace, records):
    jobs = fill(workspace, records, [(5.0, 5.01, 5.02), (), (9.0, 9.1, 9.2), (5.5, 5.6, 5.7), (4.0, 4.1, 4.2)])
    phones, model = ("phone-0", "phone-1", "phone-9"), jobs[0].model

    def stored():
        cells = read_current(workspace, lambda verdicts: build_costs.cells(verdicts.db, "phones", model, phones))
        with Journal.open(workspace.journal, read_only=True) as journal:
            objective = journal.plans.spec("phones").objective
            rows = {phone: journal.results.rows("phones", Place("phones", phone, model)) for phone in phones}
        assert cells == {phone: costs_of(rows[phone], objective) for phone in phones}
        return {cell.job_key: (cell.state, cell.ratio) for here in cells.values() for cell in here.values()}

    first = stored()
    assert [state for state, _ in first.values()].count("ships") == 4
    assert (first[jobs[1].key], first[jobs[2].key]) == (("failed", None), ("ships", pytest.approx(9.1 / 4.1, rel=0.01)))
    with Journal.open(workspace.journal) as journal:
        measure(journal, records, jobs[1], (2.0, 2.1, 2.2))
    assert stored()[jobs[3].key] == ("ships", pytest.approx(5.6 / 2.1, rel=0.01)), "a better one has come"
    plan = records.plan(*jobs[:4], facts=devices(records, 2), rounds=3)
    strict = plan.sweep.objective.model_copy(update={"constraints": (ConstraintSpec(metric=LATENCY, at_most=8.0),)})
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(plan)
    assert stored()[jobs[2].key] == ("ships", pytest.approx(9.1 / 5.01, rel=0.01)), (
        "the best one is no longer in the plan"
    )
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(replace(plan, sweep=plan.sweep.model_copy(update={"objective": strict})))
    assert stored()[jobs[2].key][0] == "may_not"


def test_a_pool_whose_units_no_longer_share_their_work_is_no_device_of_the_overview(workspace, records):
    facts = devices(records, 2)
    jobs = [replace(records.job(number), device_id=facts[number].device_id) for number in range(2)]
    shared = [replace(job, link=f"link {job.key}") for job in jobs]
    places = {one: pool_id(one.fingerprint) for one in facts}

    def seen(model, *ids):
        found = read_current(workspace, lambda verdicts: build_costs.cells(verdicts.db, "phones", model, ids))
        return [one.device_id for one in overview(workspace)], [len(found[one]) for one in ids]

    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(*shared, facts=facts, rounds=2))
        for job in jobs:
            measure(journal, records, job, (5.0, 5.01))
    [pool] = set(places.values())
    assert seen(jobs[0].model, pool, "phone-0") == ([pool], [2, 0])
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(*jobs, facts=facts, rounds=2))
    assert seen(jobs[0].model, pool, "phone-0") == (["phone-0", "phone-1"], [0, 1])


def test_what_is_left_is_estimated_as_from_the_whole_plan(workspace, records):
    facts = devices(records, 2)
    builds = [records.job(number).build_key for number in range(2)]
    jobs = [
        replace(records.job(number), device_id=facts[number % 2].device_id, build_key=builds[number // 4])
        for number in range(8)
    ]
    skipped = replace(records.skipped(), device_id="phone-0")
    plan = records.plan(*jobs, skipped=(skipped,), facts=facts, rounds=2)
    gone = replace(records.job(9), device_id="phone-1", build_key=jobs[7].build_key)
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(*jobs, gone, skipped=(skipped,), facts=facts, rounds=2))
        for job in (jobs[0], jobs[4], gone):
            measure(journal, records, job, (5.0, 5.01))
        journal.save_plan(plan)
        journal.artifacts.add(records.manifest(jobs[0]))
        ended = journal.results.ended_jobs("phones", -1)
        assert set(ended) == {jobs[0].key, jobs[4].key}
        expected = estimate(plan, journal.plans.protocol("phones"), ended, {jobs[0].build_key})
        assert left_of(journal, "phones") == Left(jobs=6, seconds=expected.seconds)
        untold = estimate(plan, journal.plans.protocol("phones"), ended, set())
        assert untold.seconds > expected.seconds
        assert journal.results.builds_tried("phones", [jobs[0].build_key]) == {(jobs[0].build_key, "phone-0")}
        with pytest.raises(EdgeSweepError, match="no sweep 'other'"):
            left_of(journal, "other")


def test_some_rows_are_read_by_their_jobs(workspace, records):
    jobs = fill(workspace, records, [(5.0, 5.01, 5.02)] * 3)
    with Journal.open(workspace.journal) as journal:
        found = journal.results.some("phones", [jobs[2].key, jobs[0].key, "another"])
        assert found == {job.key: journal.results.stored("phones", job.key)[0] for job in (jobs[0], jobs[2])}


def test_only_places_with_news_are_ranked(workspace, records, monkeypatch):
    jobs = fill(workspace, records, [(5.0, 5.01, 5.02)] * 4)
    judged = []
    real = verdicts_module.rank_rows
    monkeypatch.setattr(
        verdicts_module,
        "rank_rows",
        lambda rows, *rest, **more: (judged.append(rows[0].device_id), real(rows, *rest, **more))[1],
    )
    overview(workspace)
    assert sorted(judged) == ["phone-0", "phone-1"]
    judged.clear()
    overview(workspace)
    assert judged == []
    with Journal.open(workspace.journal) as journal:
        for _ in range(3):
            journal.attempts.add_failure(jobs[1].key, records.failed())
        assert journal.outcomes.of_job(journal.jobs.planned("phones", jobs[1].key)) is not None
        journal.artifacts.add(records.manifest(jobs[1]).model_copy(update={"file_bytes": 9_000_000}))
    overview(workspace)
    assert judged == ["phone-1"]


def test_jobs_that_wait_make_a_verdict_provisional(workspace, records):
    facts = devices(records, 2)
    jobs = [replace(records.job(number), device_id=facts[number // 2].device_id) for number in range(4)]
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(*jobs, facts=facts, rounds=2))
        measure(journal, records, jobs[0], (5.0, 5.01))
    assert [(one.device_id, one.state, one.waiting) for one in overview(workspace)] == [
        ("phone-0", "provisional", 1),
        ("phone-1", "waiting", 2),
    ]
    with Journal.open(workspace.journal, read_only=True) as journal:
        [line] = waiting(journal, "phones")
    assert line.startswith("edgesweep run SWEEP.yaml measures the 3 jobs that wait (about ")
    with Journal.open(workspace.journal) as journal:
        journal.attempts.add_failure(jobs[3].key, Failed(stage="load", kind="bad_model", message="no"))
        before, jobs_left = left_of(journal, "phones").seconds, left_of(journal, "phones").jobs
        journal.artifacts.add(records.manifest(jobs[2]))
        assert 0 < left_of(journal, "phones").seconds < before, "what is built is not built again"
        for job in jobs[1:3]:
            measure(journal, records, job, (5.0, 5.01))
        assert (jobs_left, left_of(journal, "phones").text) == (2, "")


def test_where_nothing_may_win_and_jobs_wait_they_are_the_next_step(workspace, records):
    facts = devices(records, 1)
    jobs = [replace(records.job(number), device_id=facts[0].device_id) for number in range(2)]
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(*jobs, facts=facts, rounds=2))
        journal.attempts.add_failure(jobs[0].key, Failed(stage="load", kind="bad_model", message="no"))
    [found] = overview(workspace)
    assert (found.state, found.settle) == ("waiting", "edgesweep run SWEEP.yaml")


def test_a_new_plan_changes_what_waits_and_ranks_no_place_again(workspace, records, monkeypatch):
    facts = devices(records, 3)
    jobs = [replace(records.job(number), device_id=facts[number // 2].device_id) for number in range(6)]
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(records.plan(*jobs[:2], facts=facts[:1], rounds=2))
        measure(journal, records, jobs[0], (5.0, 5.01))
        measure(journal, records, jobs[1], (9.0, 9.01))
    assert [(one.device_id, one.state, one.waiting) for one in overview(workspace)] == [("phone-0", "winner", 0)]

    def states():
        return [(one.device_id, one.state, one.waiting) for one in overview(workspace)]

    def plan(*jobs):
        with Journal.open(workspace.journal) as journal:
            journal.save_plan(records.plan(*jobs, facts=facts, rounds=2))

    judged = []
    real = verdicts_module.rank_rows
    monkeypatch.setattr(
        verdicts_module, "rank_rows", lambda *given, **more: (judged.append(given), real(*given, **more))[1]
    )
    more = replace(records.job(9), device_id="phone-0")
    plan(*jobs[:4], more)
    assert states() == [("phone-0", "provisional", 1), ("phone-1", "waiting", 2)]
    assert judged == []
    plan(*jobs[:2], *jobs[4:])
    assert states() == [("phone-0", "winner", 0), ("phone-2", "waiting", 2)]
    assert judged == []
    with Journal.open(workspace.journal) as journal:
        measure(journal, records, jobs[4], (5.0, 5.01))
    assert states() == [("phone-0", "winner", 0), ("phone-2", "provisional", 1)]
    assert len(judged) == 1


def test_stored_verdicts_may_be_lost_damaged_or_of_another_version(workspace, records):
    fill(workspace, records, [(5.0, 5.01, 5.02)] * 4)
    expected = overview(workspace)
    for content in (None, b"no database", b"SQLite format 3\x00" + b"\xff" * 200):
        workspace.verdicts.unlink()
        if content is not None:
            workspace.verdicts.write_bytes(content)
        assert overview(workspace) == expected


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_file_of_verdicts_that_another_process_makes_just_now_is_left_to_it(workspace, records, monkeypatch, mode):
    fill(workspace, records, [(5.0, 5.01, 5.02)] * 4)
    expected = overview(workspace)
    with closing(sqlite3.connect(workspace.verdicts)) as db:
        made = "\n".join(db.iterdump())
    workspace.verdicts.unlink()
    monkeypatch.setattr(verdicts_module, "BRIEF_S", 0.0)
    with closing(sqlite3.connect(workspace.verdicts, isolation_level=None)) as other:
        other.execute(f"PRAGMA journal_mode = {mode}")
        other.execute("BEGIN IMMEDIATE")
        for statement in made.removeprefix("BEGIN TRANSACTION;").removesuffix("COMMIT;").split(";\n"):
            other.execute(statement)
        file = workspace.verdicts.stat().st_ino
        assert overview(workspace) == expected
        assert workspace.verdicts.stat().st_ino == file
        other.execute(f"PRAGMA user_version = {verdicts_module._VERSION}")
        other.execute("COMMIT")
    assert overview(workspace) == expected
    assert workspace.verdicts.stat().st_ino == file


def test_verdicts_are_made_anew_when_an_older_journal_was_put_back(workspace, records):
    older = workspace.root / "older.sqlite"
    slow, fast = (replace(records.job(number), device_id="phone-0") for number in range(2))
    with Journal.open(workspace.journal) as journal, closing(sqlite3.connect(older)) as copy:
        journal.save_plan(records.plan(slow, fast, facts=devices(records, 1), rounds=3))
        measure(journal, records, slow, (5.0, 5.01, 5.02))
        journal.file.db.backup(copy)
        measure(journal, records, fast, (1.0, 1.01, 1.02))
    assert [one.winner for one in overview(workspace)] == [fast.name]
    older.replace(workspace.journal)
    assert [one.winner for one in overview(workspace)] == [slow.name]


@pytest.mark.parametrize(
    "read",
    [
        lambda workspace: rank_sweep(workspace.journal, "phones"),
        lambda workspace: read_sweep(workspace.journal, "phones").frame.to_dict(),
        overview,
    ],
)
def test_a_row_that_cannot_be_read_is_made_again_for_every_reader(workspace, records, read):
    fill(workspace, records, [(5.0, 5.01, 5.02)] * 2)
    with Journal.open(workspace.journal) as journal:
        written = journal.results.rows("phones")
    with closing(sqlite3.connect(workspace.journal)) as db, db:
        db.execute("UPDATE results SET trust = '['")
    read(workspace)
    with Journal.open(workspace.journal) as journal:
        assert journal.results.rows("phones") == written


def test_rank_imports_neither_pandas_scipy_mlflow_nor_torch(workspace, records):
    fill(workspace, records, [(5.0, 5.01, 5.02)] * 4)
    code = (
        "import sys; from sweeps.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print('LOADED', sorted({'pandas', 'scipy', 'mlflow', 'torch', 'ray'} & set(sys.modules)))"
    )
    for words in ([], ["--device", "phone-0"], ["--all"], ["--json"]):
        command = [sys.executable, "-c", code, "rank", "--workspace", str(workspace.root), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "LOADED []" in done.stdout, words


def test_a_run_is_made_of_the_journal_s_row_whose_damaged_table_is_made_again(workspace, records):
    [job] = fill(workspace, records, [(5.0, 5.01, 5.02)], phones=1)

    def published_load_ms():
        by_mlflow(workspace)
        frame = load(workspace.tracking_uri, "phones").frame
        return frame[frame.job_key == job.key].load_ms.item()

    with Journal.open(workspace.journal) as journal:
        [measured] = [row.metrics["load_ms"] for row in journal.results.rows("phones") if row.timed]
        journal.file.db.execute("UPDATE results SET load_ms = 1234.5")
    assert published_load_ms() == 1234.5
    with Journal.open(workspace.journal) as journal:
        journal.file.db.execute("DROP TABLE results")
    assert published_load_ms() == measured


@pytest.mark.parametrize("words", [(), ("--device", "phone-0"), ("--all",), ("--json",)])
def test_rank_opens_the_journal_once(workspace, records, monkeypatch, words):
    fill(workspace, records, [(5.0, 5.01, 5.02), (7.0, 7.01, 7.02), ()])
    opened, connect = [], sqlite3.connect

    def connecting(database, *given, **named):
        opened.append(str(database))
        return connect(database, *given, **named)

    monkeypatch.setattr(sqlite3, "connect", connecting)
    done = CliRunner().invoke(main, ["rank", "--workspace", str(workspace.root), *words])
    assert done.exit_code == 0, done.output
    assert [name for name in opened if f"/{workspace.journal.name}" in name] == [
        f"{workspace.journal.resolve().as_uri()}?mode=ro"
    ]


def test_rank_shows_the_winners_and_tables_when_they_are_asked_for(workspace, records):
    fill(workspace, records, [(5.0, 5.01, 5.02), (7.0, 7.01, 7.02), (6.0, 6.01, 6.02), ()])

    def shown(*words):
        done = CliRunner().invoke(main, ["rank", "--workspace", str(workspace.root), *words])
        assert done.exit_code == 0, done.output
        return done.output

    assert "Not ranked" not in shown()
    assert "phone-0, Maker" in shown(), "both have one name"
    assert "--all" in shown()
    assert "Not ranked" in shown("--all")
    assert "signal 11" not in shown("--device", "phone-0")
    document = json.loads(shown("--json"))
    assert [one["device_id"] for one in document["devices"]] == ["phone-0", "phone-1"]
    assert [one["state"] for one in document["summary"]] == ["winner", "winner"]
    assert [one["device_id"] for one in json.loads(shown("--json", "--device", "phone-1"))["summary"]] == ["phone-1"]
    assert "\x1b" not in shown("--all")
