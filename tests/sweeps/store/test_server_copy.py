"""A copy of a tracking server that others write to: it reads what is new, and comes to have what the server has."""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from mlflow import MlflowClient

from sweeps.cli.main import main
from sweeps.errors import StoreError
from sweeps.imported import Imported
from sweeps.journal.journal import Journal
from sweeps.json_records import to_json
from sweeps.metrics import METRICS
from sweeps.ranking.document import ranking_document
from sweeps.records import Job
from sweeps.settled import Settled
from sweeps.store import copied, copy_file, run_writer
from sweeps.store.copied import ResultFiles, in_words, result_files
from sweeps.store.copy_file import copy_path
from sweeps.store.mlflow import Store
from sweeps.store.read_journal import rank_sweep
from sweeps.store.verdicts import overview
from sweeps.workspace import Workspace
from tests.fresh_mlflow import fresh_mlflow
from tests.mlflow_servers import MlflowServer
from tests.sweeps.conftest import Records

HOSTILE = "net \x1b[31m' OR 1=1 -- <b>"


class Team:
    """One computer that measures and publishes to a shared store, and another one that only reads."""

    def __init__(self, folder: Path, uri: str, records: Records) -> None:
        self.uri, self.records = uri, records
        self.measuring = Workspace.open(folder / "measuring")
        self.reading = Workspace.open(folder / "reading")
        self.client = MlflowClient(tracking_uri=uri)
        self.read = 0
        """How many runs the last look read."""

    def plan(self, count: int, name: str = "phones") -> list[Job]:
        jobs = [self.records.job(number, name=f"net · {number} {HOSTILE}") for number in range(count)]
        with Journal.open(self.measuring.journal) as journal:
            journal.save_plan(self.records.plan(*jobs, name=name))
        return jobs

    def publish(self, *jobs: Job, ms: float = 5.0, sweep: str = "phones") -> None:
        with Journal.open(self.measuring.journal) as journal:
            for job in jobs:
                journal.add_artifact(self.records.manifest(job))
                for round_ in range(2):
                    journal.add_block(self.records.block(job, round_, ms=ms + round_ / 100))
                journal.add_accuracy(self.records.accuracy(job, accuracy_drop_high_points=0.9))
            Store(self.uri, self.measuring.mlflow_artifacts).publish(journal, sweep)

    def copy(self, **options: Any) -> ResultFiles:
        self.read = 0

        def each(count: int) -> None:
            self.read += count

        return result_files(self.reading, each=each, **options)

    def copied(self, sweep: str = "phones", **options: Any) -> set[str]:
        """The job keys of a new copy."""
        with Journal.open(self.copy(**options).journal, read_only=True) as journal:
            return {row.job_key for row in journal.result_rows(sweep)}

    def run_of(self, job: Job, sweep: str = "phones") -> str:
        experiment = self.client.get_experiment_by_name(sweep)
        found = self.client.search_runs([experiment.experiment_id], f"tags.`edgesweep.job_key` = '{job.key}'")
        return found[0].info.run_id


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"sqlite:///{fresh_mlflow(tmp_path / 'shared')}"


@pytest.fixture
def team(tmp_path: Path, uri: str, records: Records, monkeypatch: pytest.MonkeyPatch) -> Team:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setattr(copied, "_SHARE", 0)  # how long a look took says how busy the machine is
    monkeypatch.setattr(copied, "LOOKS", tuple(look._replace(every_s=0.0) for look in copied.LOOKS[:1]) + LATER)
    return Team(tmp_path, uri, records)


LATER = tuple(look._replace(every_s=1e9) for look in copied.LOOKS[1:])
"""Looks that come only when they are asked for."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets how far the clock of the computer that publishes is ahead, in seconds."""

    def skew(ahead_s: float) -> None:
        now = run_writer_time
        monkeypatch.setattr(run_writer, "time", SimpleNamespace(time=lambda: now() + ahead_s))

    return skew


run_writer_time = run_writer.time.time


def test_a_copy_is_read_as_a_journal_is(team: Team) -> None:
    jobs = team.plan(3)
    team.publish(*jobs[:2])
    with Journal.open(team.measuring.journal) as journal:
        journal.add_imported("phones", imported())
        for _ in range(3):
            journal.add_failure(jobs[2].key, team.records.failed())
    team.publish()
    files = team.copy()
    assert (files.is_copy, files.complete, files.error, files.left_out) == (True, True, "", 0)
    ranked, expected = (rank_sweep(path, "phones") for path in (files.journal, team.measuring.journal))
    assert ranking_document(ranked) == ranking_document(expected)
    assert ranked.devices[0].imported == expected.devices[0].imported != ()
    theirs = overview(team.measuring)
    assert [one._replace(finished=0) for one in overview(files)] == [one._replace(finished=0) for one in theirs]


def imported() -> Imported:
    return Imported(
        model="net",
        variant="by hand",
        device="Maker Board's 3 (SoC <b>)",
        device_id="local-1",
        tool="speed_benchmark_torch",
        mean_ms=7.0,
        iterations=10,
        p50_ms=None,
        log="log.txt",
        log_sha256="0" * 64,
        imported="2026-11-24T00:00:00+00:00",
    )


def check_that_a_copy_comes_to_have_what_the_server_has(team: Team, clock: Callable[[float], None]) -> None:
    """Publish, copy, publish more, copy again; delete a run, restore it, set a clock back."""
    jobs = team.plan(6)
    clock(-7200.0)
    team.publish(*jobs[:4])
    assert team.copied() == {job.key for job in jobs[:4]}
    assert team.read == 5  # and the sweep's own run
    clock(-3600.0)
    team.publish(jobs[4])
    assert team.copied() == {job.key for job in jobs[:5]}
    clock(0.0)
    team.publish(jobs[5])
    assert team.copied() == {job.key for job in jobs}
    assert team.read <= 3  # the new one, the last one (the overlap), and the sweep's own

    run_id = team.run_of(jobs[0])
    before = overview(team.copy())
    team.client.delete_run(run_id)
    assert jobs[0].key in team.copied()
    assert jobs[0].key not in team.copied(compare=True)
    assert overview(team.copy())[0].ranked == before[0].ranked - 1
    team.client.restore_run(run_id)
    assert team.copied(compare=True) == {job.key for job in jobs}
    assert overview(team.copy()) == before

    late = team.plan(1, name="late")
    clock(-86400.0)  # another computer, whose clock is a day behind
    team.publish(*late, sweep="late")
    assert team.copied("late") == {late[0].key}  # the experiment is new
    later = team.plan(2, name="late")
    team.publish(later[1], sweep="late")
    assert team.copied("late") == {late[0].key}
    assert team.copied("late", compare=True) == {job.key for job in later}


def test_a_copy_comes_to_have_what_the_store_has(team: Team, clock: Callable[[float], None]) -> None:
    check_that_a_copy_comes_to_have_what_the_server_has(team, clock)


@pytest.mark.system
def test_a_copy_comes_to_have_what_a_server_has_and_stays_when_that_is_away(
    tmp_path: Path,
    records: Records,
    team: Team,
    clock: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "server"
    server = MlflowServer(folder, f"sqlite:///{fresh_mlflow(folder)}")
    server.start()
    try:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
        mates = Team(tmp_path / "team", server.uri, records)
        check_that_a_copy_comes_to_have_what_the_server_has(mates, clock)
    finally:
        server.stop()
    files = mates.copy()
    assert files.complete
    assert "cannot be reached" in files.error
    shown = rank(mates, "phones")
    assert (shown.exit_code, "phones: what to ship" in shown.stdout) == (0, True)
    assert "seconds ago; MLflow at http://127.0.0.1" in shown.stderr
    assert "Traceback" not in shown.stderr


def rank(team: Team, *words: str) -> Result:
    return CliRunner().invoke(main, ["rank", "--workspace", str(team.reading.root), *words])


def test_a_writer_whose_clock_is_far_ahead_hides_nobody(team: Team, clock: Callable[[float], None]) -> None:
    ahead = team.plan(1, name="ahead")
    clock(1e8)
    team.publish(*ahead, sweep="ahead")
    jobs = team.plan(2)
    clock(0.0)
    team.publish(jobs[0])
    team.copy()
    team.publish(jobs[1])
    assert team.copied() == {job.key for job in jobs}


def test_more_rounds_replace_a_row_and_tell_of_it(team: Team) -> None:
    [job] = team.plan(1)
    team.publish(job)
    with Journal.open(team.copy().journal, read_only=True) as journal:
        before = journal.watermark()
    with Journal.open(team.measuring.journal) as journal:
        journal.save_plan(team.records.plan(job, rounds=3))
        journal.add_block(team.records.block(job, 2, ms=9.0))
    team.publish()
    with Journal.open(team.copy().journal, read_only=True) as journal:
        assert [row.rounds for row in journal.result_rows("phones")] == [3]
        assert [place.sweep for place in journal.changed_places(before.seq)] == ["phones"]
        after = journal.watermark()
    with Journal.open(team.copy(compare=True).journal, read_only=True) as journal:
        assert journal.watermark() == after  # nothing has changed, so no place is ranked again


def test_of_two_runs_of_a_job_the_last_written_counts_and_the_other_when_that_is_gone(
    team: Team, clock: Callable[[float], None]
) -> None:
    [job] = team.plan(1)
    clock(-100.0)
    team.publish(job)
    first = team.client.get_run(team.run_of(job))
    copied_run = team.client.create_run(first.info.experiment_id, tags=dict(first.data.tags))
    for name, value in first.data.params.items():
        team.client.log_param(copied_run.info.run_id, name, value)
    for name, value in first.data.metrics.items():
        later = {"edgesweep_published_s": value + 50, "latency_p50_ms": 1.0}.get(name, value)
        team.client.log_metric(copied_run.info.run_id, name, later)
    team.client.set_terminated(copied_run.info.run_id)

    def latency() -> list[float]:
        with Journal.open(team.copy(compare=True).journal, read_only=True) as journal:
            return [row.metrics["latency_p50_ms"] for row in journal.result_rows("phones")]

    assert latency() == [1.0]
    team.client.delete_run(copied_run.info.run_id)
    assert latency() == [first.data.metrics["latency_p50_ms"]]


def test_a_run_that_takes_the_place_of_another_and_was_purged_stops_no_copy(team: Team, uri: str) -> None:
    jobs = team.plan(2)
    team.publish(*jobs)
    first = team.client.get_run(team.run_of(jobs[0]))
    twin = team.client.create_run(first.info.experiment_id, tags=dict(first.data.tags)).info.run_id
    for name, value in first.data.params.items():
        team.client.log_param(twin, name, value)
    for name, value in first.data.metrics.items():
        team.client.log_metric(twin, name, value)
    team.client.set_terminated(twin)
    assert len(team.copied()) == 2
    team.client.delete_run(twin)
    with closing(sqlite3.connect(uri.removeprefix("sqlite:///"))) as db, db:
        for table in ("metrics", "latest_metrics", "params", "tags", "runs"):
            db.execute(f"DELETE FROM {table} WHERE run_uuid = ?", (first.info.run_id,))
    assert team.copied(compare=True) == {jobs[1].key}
    assert team.copy().error == ""


@pytest.mark.parametrize("error", [sqlite3.OperationalError("no such table: x"), OSError(5, "Input/output error")])
def test_whatever_stops_a_look_beside_a_reader_is_told_of(
    team: Team, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    team.publish(*team.plan(1))
    path = team.copy().journal

    def stopped(*_: object) -> None:
        raise error

    monkeypatch.setattr(copied.CopyFile, "set_experiments", stopped)
    copied._beside(team.uri, path, compare=False)
    assert str(error) in team.copy(wait=False).error
    monkeypatch.undo()


def test_a_damaged_row_that_is_to_be_replaced_is_told_of_and_the_copy_is_made_anew(team: Team) -> None:
    [job] = team.plan(1)
    team.publish(job)
    with closing(sqlite3.connect(team.copy().journal)) as db, db:
        db.execute("UPDATE results SET trust = '['")
    team.client.set_tag(team.run_of(job), "edgesweep.trust", '["throttled"]')
    with pytest.raises(StoreError, match="the copy of MLflow's results is damaged"):
        team.copy(compare=True)
    assert team.copied() == {job.key}


def test_a_deleted_sweep_is_gone_and_comes_back(team: Team) -> None:
    team.publish(*team.plan(1))
    team.publish(*team.plan(1, name="other"), sweep="other")
    assert {one.sweep for one in overview(team.copy())} == {"phones", "other"}
    experiment = team.client.get_experiment_by_name("other")
    team.client.delete_experiment(experiment.experiment_id)
    files = team.copy()
    assert {one.sweep for one in overview(files)} == {"phones"}
    with closing(sqlite3.connect(files.verdicts)) as db:
        assert db.execute("SELECT DISTINCT sweep FROM costs").fetchall() == [("phones",)]
    shown = rank(team, "other")
    assert (shown.exit_code, "there is no sweep 'other' in MLflow" in shown.output) == (1, True)
    team.client.restore_experiment(experiment.experiment_id)
    assert {one.sweep for one in overview(team.copy())} == {"phones", "other"}


def test_a_database_that_was_made_anew_is_read_as_a_whole(team: Team, uri: str) -> None:
    team.publish(*team.plan(2))
    assert len(team.copied()) == 2
    with closing(sqlite3.connect(uri.removeprefix("sqlite:///"))) as db, db:
        db.execute("UPDATE experiments SET creation_time = creation_time + 1")
        db.execute("DELETE FROM tags WHERE run_uuid IN (SELECT run_uuid FROM runs WHERE status = 'FINISHED')")
    files = team.copy()
    assert files.left_out == 3
    with Journal.open(files.journal, read_only=True) as journal:
        assert journal.result_rows("phones") == []


def test_what_is_not_edgesweeps_or_cannot_be_read_is_left_out_and_counted(team: Team) -> None:
    jobs = team.plan(5)
    team.publish(*jobs)
    experiment = team.client.get_experiment_by_name("phones")
    team.client.create_run(experiment.experiment_id, run_name="somebody's")
    team.client.create_experiment("not a sweep")
    for job, tag, value in (
        (jobs[0], "edgesweep.trust", "[" * 4000),
        (jobs[1], "edgesweep.rounds", "9" * 40),
        (jobs[2], "edgesweep.block_medians_ms", "[[0, -1]]"),
        (jobs[3], "edgesweep.settled", '{"job_key": 1}'),
    ):
        team.client.set_tag(team.run_of(job), tag, value)
    files = team.copy()
    assert files.left_out == 5
    assert "5 runs were left out, which cannot be read" in files.text
    assert team.copied() == {jobs[4].key}
    team.client.set_tag(team.run_of(jobs[0]), "edgesweep.trust", "[]")
    assert team.copied(compare=True) == {jobs[0].key, jobs[4].key}


def test_figures_that_are_not_finite_are_left_out_and_stop_no_copy(team: Team) -> None:
    jobs = team.plan(2)
    team.publish(*jobs)
    with Journal.open(team.measuring.journal) as journal:
        journal.add_imported("phones", imported())
    team.publish()
    experiment = team.client.get_experiment_by_name("phones")
    [figure] = team.client.search_runs([experiment.experiment_id], "tags.`edgesweep.record` = 'imported'")
    text = figure.data.tags["edgesweep.imported"]
    assert '"mean_ms":7.0' in text
    team.client.set_tag(figure.info.run_id, "edgesweep.imported", text.replace('"mean_ms":7.0', '"mean_ms":Infinity'))
    settled = Settled(job_key=jobs[0].key, budget="race", rounds=2, reason="slower", message="", ratio=1.5)
    endless = to_json(settled).replace('"ratio":1.5', '"ratio":NaN')
    team.client.set_tag(team.run_of(jobs[0]), "edgesweep.settled", endless)
    assert team.copied() == {jobs[1].key}
    files = team.copy()
    assert (files.left_out, files.error) == (2, "")


def test_a_sweep_file_of_another_version_hides_no_other_sweep(team: Team) -> None:
    team.publish(*team.plan(1))
    team.publish(*team.plan(1, name="newer"), sweep="newer")
    experiment = team.client.get_experiment_by_name("newer")
    [own] = team.client.search_runs([experiment.experiment_id], "tags.`edgesweep.record` = 'sweep'")
    team.client.set_tag(own.info.run_id, "edgesweep.spec.0", '{"name": "newer", "quantum": true}')
    files = team.copy()
    assert {one.sweep for one in overview(files)} == {"phones"}
    with pytest.raises(StoreError, match="cannot be read by this EdgeSweep"):
        rank_sweep(files.journal, "newer")
    assert "cannot be read by this EdgeSweep" in rank(team, "newer").output


def test_runs_of_early_versions_are_found_by_comparing(team: Team, uri: str) -> None:
    jobs = team.plan(3)
    team.publish(*jobs[:2])
    team.copy()
    team.publish(jobs[2])
    with closing(sqlite3.connect(uri.removeprefix("sqlite:///"))) as db, db:
        for table in ("metrics", "latest_metrics"):
            db.execute(f"DELETE FROM {table} WHERE key = 'edgesweep_published_s'")
    assert team.copied() == {job.key for job in jobs[:2]}
    assert team.copied(compare=True) == {job.key for job in jobs}


@pytest.mark.parametrize("harm", ["no database", "half a database", "another version", "not whole", "no table"])
def test_a_copy_that_is_damaged_or_of_another_version_is_made_anew(team: Team, harm: str) -> None:
    jobs = team.plan(2)
    team.publish(*jobs)
    path = team.copy().journal
    match harm:
        case "no database":
            path.write_bytes(b"no database")
        case "half a database":
            with path.open("r+b") as file:
                file.truncate(5000)
        case _:
            statement = {
                "another version": "PRAGMA application_id = 7",
                "not whole": "UPDATE results_state SET is_whole = 0",
                "no table": "DROP TABLE copy_looks",
            }[harm]
            with closing(sqlite3.connect(path)) as db, db:
                db.execute(statement)
    assert team.copied() == {job.key for job in jobs}
    assert team.read == 3


def test_each_version_has_a_copy_of_its_own_and_old_ones_go_when_one_is_made(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.publish(*team.plan(1))
    used = team.copy().journal
    monkeypatch.setattr(copy_file, "VERSION", copy_file.VERSION + 1)
    monkeypatch.setattr(copy_file, "_MARK", copy_file._MARK + 1)
    monkeypatch.setattr(copy_file, "_TABLES", copy_file._TABLES.replace(str(copy_file._MARK - 1), str(copy_file._MARK)))
    newer = team.copy().journal
    assert newer != used
    assert used.exists(), "another version may use it"
    server = used.name.partition(".")[0]
    unused = [used.with_name(f"{server}{end}") for end in (".sqlite", ".lock", ".verdicts.sqlite")]
    unused += used.parent.glob(f"{used.stem}.*")
    assert used in unused
    another = used.with_name("another.v1-1.sqlite")
    for path in (*unused, another):
        path.touch()
        os.utime(path, (1.0, 1.0))
    newer.unlink()
    team.copy()
    assert [path for path in unused if path.exists()] == []
    assert another.exists()


def test_verdicts_that_have_missed_a_week_of_results_go_when_all_runs_are_compared(team: Team) -> None:
    team.publish(*team.plan(1))
    overview(files := team.copy())
    newest_s = time.time()
    unused, late = (files.verdicts.with_name(f"{files.journal.stem}.{name}.verdicts.sqlite") for name in "ab")
    for path, days in ((unused, 8), (late, 6)):
        path.touch()
        os.utime(path, (newest_s - days * 86400,) * 2)
    team.copy()
    assert unused.exists(), "a look for news is quick"
    team.copy(compare=True)
    assert [path.exists() for path in (unused, late, files.verdicts)] == [False, True, True]


def test_a_damaged_row_is_told_of_and_the_next_command_makes_the_copy_anew(team: Team) -> None:
    team.publish(*team.plan(2))
    with closing(sqlite3.connect(team.copy().journal)) as db, db:
        db.execute("UPDATE results SET trust = '['")
    shown = rank(team, "--all")
    assert (shown.exit_code, "the copy of MLflow's results is damaged" in shown.output) == (1, True)
    assert "it is made anew" in shown.output
    assert rank(team, "--all").exit_code == 0


def test_only_its_user_can_read_a_copy_and_its_name_has_no_secret(team: Team) -> None:
    team.publish(*team.plan(1))
    files = team.copy()
    overview(files)
    for path in files.journal.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or path == files.verdicts, path
    assert stat.S_IMODE(files.journal.parent.stat().st_mode) == 0o700
    names = [copy_path(f"https://ann{password}@example.test/mlflow").name for password in ("", ":one", ":two")]
    assert len(set(names)) == 1
    assert copy_path("https://bob@example.test/mlflow").name not in names
    assert copy_path("https://ann@example.test/other").name not in names


def test_one_reader_brings_a_copy_up_to_date_and_the_others_read_what_is_there(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = team.plan(2)
    team.publish(jobs[0])
    team.copy()
    team.publish(jobs[1])
    is_looking, may_go_on = threading.Event(), threading.Event()
    real = copied.experiments

    def slow(client: Any) -> Any:
        is_looking.set()
        assert may_go_on.wait(60)
        return real(client)

    monkeypatch.setattr(copied, "experiments", slow)
    first = threading.Thread(target=lambda: result_files(team.reading))
    first.start()
    assert is_looking.wait(60)
    assert team.copied() == {jobs[0].key}  # does not wait for the first one
    may_go_on.set()
    first.join()
    assert team.copied() == {job.key for job in jobs}


def test_a_reader_that_does_not_wait_gets_the_copy_as_it_is(team: Team) -> None:
    jobs = team.plan(2)
    team.publish(jobs[0])
    assert team.copied(wait=False) == {jobs[0].key}  # the first one is waited for
    team.publish(jobs[1])
    team.copy(wait=False)
    for _ in range(3000):
        if len(team.copied(wait=False)) == 2:
            break
        threading.Event().wait(0.02)
    assert team.copied(wait=False) == {job.key for job in jobs}
    for thread in threading.enumerate():
        if thread.name == copied.THREAD:
            thread.join()


def test_a_server_that_was_never_there_is_told_of(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ann:secret@127.0.0.1:9")
    shown = rank(team)
    assert (shown.exit_code, "cannot be reached" in shown.output) == (1, True)
    assert "secret" not in shown.output
    assert "start the server" in shown.output


def test_a_folder_that_cannot_be_written_is_told_of(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("EDGESWEEP_STATE", str(tmp_path / "a file"))
    shown = rank(team)
    assert (shown.exit_code, "no copy of MLflow can be kept in" in shown.output) == (1, True)
    assert "EDGESWEEP_STATE" in shown.output


def test_looks_come_when_their_time_has_come_and_no_more_often_than_they_may_cost(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", team.uri)
    monkeypatch.setenv("EDGESWEEP_STATE", str(team.reading.root / "state"))
    team.publish(*team.plan(1))
    path = team.copy().journal

    def due(now_s: float, took_s: float = 0.0) -> str | None:
        with copied.CopyFile.at(path) as file:
            file.looked([look.name for look in copied.LOOKS], 1000.0, took_s)
            look = copied._due(file, now_s)
        return look.name if look else None

    assert [due(1000.0 + later) for later in (0.5, 2, 59, 61, 599, 601)] == [
        *(None, "news", "news", "hour", "hour", "all"),
    ]
    assert due(990.0) == "all"  # the clock went back
    assert [due(1601.0, took_s=40.0), due(1801.0, took_s=40.0)] == [None, "all"]


def test_the_workspaces_own_journal_is_read_where_its_store_is_its_own(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.publish(*team.plan(1))
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    files = result_files(team.measuring)
    assert files == ResultFiles(journal=team.measuring.journal, verdicts=team.measuring.verdicts)
    assert (files.text, files.is_copy) == ("", False)


def test_a_misspelt_sweep_copies_nothing_of_a_workspaces_own_store(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    team.uri = f"sqlite:///{fresh_mlflow(team.measuring.root)}"
    team.publish(*team.plan(1))
    shown = CliRunner().invoke(main, ["rank", "phonse", "--workspace", str(team.measuring.root)])
    assert (shown.exit_code, "there is no sweep 'phonse' in MLflow" in shown.output) == (1, True)
    assert "it has: phones" in shown.output
    assert not copy_path(team.measuring.tracking_uri).exists()


def test_rank_says_how_old_a_copy_is(team: Team) -> None:
    team.publish(*team.plan(2))
    shown = rank(team)
    assert (shown.exit_code, "phones: what to ship" in shown.stdout) == (0, True)
    assert "Results: copied from MLflow at sqlite:///" in shown.stderr
    assert "\x1b" not in shown.output
    document = rank(team, "--json", "--compare-runs")
    assert '"complete": true' in document.stdout
    assert [in_words(age_s) for age_s in (3, 119, 121, 7300, 200000)] == [
        *("3 seconds", "119 seconds", "2 minutes", "2 hours", "2 days"),
    ]


def test_every_metric_is_in_a_copy(team: Team) -> None:
    [job] = team.plan(1)
    team.publish(job)
    with (
        Journal.open(team.copy().journal, read_only=True) as copy,
        Journal.open(team.measuring.journal, read_only=True) as journal,
    ):
        [theirs], [row] = journal.result_rows("phones"), copy.result_rows("phones")
    assert len(set(METRICS) & set(row.metrics)) > 10
    assert row == replace(theirs, device_seconds=row.device_seconds)


def test_copies_are_in_the_users_state(team: Team) -> None:
    assert copy_path(team.uri).is_relative_to(os.environ["EDGESWEEP_STATE"])
