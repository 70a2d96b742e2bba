"""What waits to be published: through faults of MLflow, of the process that publishes, and of its driver."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import verified_key
from sweeps.records import Job
from sweeps.store import publishing
from sweeps.store.lag import Lag, Marks, read_lag
from sweeps.store.outbox import Outbox
from sweeps.store.publisher import LOOK_S
from sweeps.store.publishing import Publisher
from sweeps.store.verify import verify_published
from sweeps.workspace import Workspace
from tests.fresh_mlflow import fresh_mlflow
from tests.mlflow_rows import load
from tests.store_double import DoubleClient, doubled
from tests.sweeps.conftest import Records
from tests.waited_clock import Clock

LIMIT_S = 60.0
"""For what takes a second on a machine that has nothing else to do."""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return Workspace.open(tmp_path / "it's 100")


@pytest.fixture
def journal(workspace: Workspace) -> Iterator[Journal]:
    with Journal.open(workspace.journal) as journal:
        yield journal


def planned(journal: Journal, records: Records, count: int) -> list[Job]:
    jobs = [records.job(number) for number in range(count)]
    journal.save_plan(records.plan(*jobs))
    return jobs


def measure(journal: Journal, records: Records, *jobs: Job) -> None:
    for job in jobs:
        journal.artifacts.add(records.manifest(job))
        for round_ in range(2):
            journal.attempts.add_block(records.block(job, round_))
        journal.attempts.add_accuracy(records.accuracy(job))


def eventually(what: Callable[[], bool]) -> None:
    """A process cannot tell a test when it is done; how often is asked decides nothing."""
    for _ in range(int(LIMIT_S / 0.02)):
        if what():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it did not come to be")


def left(workspace: Workspace, journal: Journal) -> int:
    """The number of finished jobs that are not published."""
    lag = read_lag(workspace, journal, "phones")
    return 99 if lag is None else lag.jobs


def published(workspace: Workspace) -> dict[str, int]:
    """The number of active runs of each job."""
    client = MlflowClient(tracking_uri=workspace.tracking_uri)
    experiment = client.get_experiment_by_name("phones")
    runs = [] if experiment is None else client.search_runs([experiment.experiment_id])
    return Counter(run.data.tags["edgesweep.job_key"] for run in runs if run.data.tags["edgesweep.record"] == "job")


# The publisher's process


def test_jobs_are_published_in_turns_while_this_computer_is_timed_else_at_once(
    workspace: Workspace, journal: Journal, records: Records
) -> None:
    fresh_mlflow(workspace.root)
    first, second, third = planned(journal, records, 3)
    with Publisher(workspace, "phones") as publisher:
        publisher.between()
        measure(journal, records, first)
        threading.Event().wait(3 * LOOK_S)
        assert published(workspace) == {}
        while left(workspace, journal):  # a turn is short, and this machine may be busy
            publisher.turn()
        assert published(workspace) == {first.key: 1}
        publisher.beside()
        measure(journal, records, second)
        eventually(lambda: not left(workspace, journal))
        publisher.between()
        measure(journal, records, third)
        assert list(publisher.drain(lambda: False))[-1:] == [(1, 1)]
        assert publisher.complaint() == ""
    assert published(workspace) == {job.key: 1 for job in (first, second, third)}
    assert read_lag(workspace, journal, "phones") == Lag(jobs=0, since=None)


def test_kill_9_of_the_publisher_loses_nothing_and_doubles_nothing(
    workspace: Workspace, journal: Journal, records: Records
) -> None:
    fresh_mlflow(workspace.root)
    jobs = planned(journal, records, 16)
    with Publisher(workspace, "phones") as publisher:
        publisher.beside()
        measure(journal, records, *jobs)
        eventually(lambda: left(workspace, journal) <= 12)
        assert publisher.pid is not None
        os.kill(publisher.pid, signal.SIGKILL)
        eventually(lambda: "ended with -9" in publisher.complaint())
        assert left(workspace, journal) > 0
        publisher.turn()  # the driver's next word
        list(publisher.drain(lambda: False))
        assert publisher.complaint() == ""
    assert published(workspace) == {job.key: 1 for job in jobs}
    assert len(load(workspace.tracking_uri, "phones").frame) == len(jobs)
    checked = verify_published(workspace, journal)
    assert checked.findings == ()
    assert checked.counts == ("MLflow, sweep phones: 16 runs, 0 being written",)


DRIVER = """
import sys
from pathlib import Path
from sweeps.store.publishing import Publisher
from sweeps.workspace import Workspace
from tests.waited_clock import Clock

publisher = Publisher(Workspace(Path(sys.argv[1])), "phones")
print(publisher.pid, flush=True)
publisher.beside()
sys.stdin.read()
"""


def test_the_publisher_of_a_killed_driver_ends(workspace: Workspace, journal: Journal, records: Records) -> None:
    fresh_mlflow(workspace.root)
    planned(journal, records, 1)
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(workspace.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with driver:
        assert driver.stdout is not None
        pid = int(driver.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        driver.kill()
    eventually(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    """Whether it is there, and no zombie that the first process has not collected yet."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def silent_server() -> Iterator[str]:
    """It takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.fault(46, "a server that never answers", "the sweep goes on, sent later")
def test_a_server_that_never_answers_holds_up_neither_a_turn_nor_the_end(
    workspace: Workspace, journal: Journal, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure(journal, records, *planned(journal, records, 1))
    for name in ("READY_LIMIT_S", "TURN_LIMIT_S", "STOPPED_LIMIT_S", "END_LIMIT_S"):
        monkeypatch.setattr(publishing, name, 0.05)
    with silent_server() as uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        with Publisher(workspace, "phones") as publisher:
            pid = publisher.pid
            publisher.between()
            publisher.turn()
            list(publisher.drain(lambda: True))
    assert pid is not None
    assert not _runs(pid)


def test_a_publisher_that_hangs_is_given_up(
    workspace: Workspace, journal: Journal, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure(journal, records, *planned(journal, records, 1))
    for name in ("READY_LIMIT_S", "SILENCE_LIMIT_S", "END_LIMIT_S"):
        monkeypatch.setattr(publishing, name, 0.05)
    with Publisher(workspace, "phones") as publisher:
        pid = publisher.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        publisher.between()
        list(publisher.drain(lambda: False))
    assert not _runs(pid)


# Faults of MLflow


class Flaky(DoubleClient):
    """Refuses what the test says: the numbers of the runs that are created."""

    created = 0
    refuses: Callable[[int], bool] = staticmethod(lambda number: False)

    def create_run(self, *words: object, **named: object) -> object:
        Flaky.created += 1
        if Flaky.refuses(Flaky.created):
            raise MlflowException("429 Too Many Requests")
        return super().create_run(*words, **named)


@pytest.fixture
def flaky() -> Iterator[type[Flaky]]:
    with doubled(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlflow.MlflowClient", Flaky)
        patch.setattr(Flaky, "created", 0)
        patch.setattr(Flaky, "refuses", staticmethod(lambda number: False))
        yield Flaky


def test_a_server_that_refuses_every_third_run_gets_all_of_them_once(
    flaky: type[Flaky], workspace: Workspace, journal: Journal, records: Records
) -> None:
    jobs = planned(journal, records, 9)
    measure(journal, records, *jobs)
    flaky.refuses = staticmethod(lambda number: number % 3 == 0)
    clock, told = Clock(), []
    with Outbox.of(workspace, journal, "phones") as outbox:
        assert outbox.left() == 9
        assert outbox.drain(lambda _: told.append(outbox.left()), clock=clock, sleep=clock.sleep) == ""
        assert outbox.left() == 0
    assert clock.waits == [1, 1, 1, 1], "the sweep's own run and 9 of jobs; it takes two between two refusals"
    assert sorted(set(told), reverse=True) == list(range(9, -1, -1)), "each job counts as soon as MLflow has it"
    assert verify_published(workspace, journal).findings == ()
    assert len(load(workspace.tracking_uri, "phones").frame) == len(jobs)


def test_a_server_that_takes_nothing_is_given_up_and_the_lag_says_since_when(
    flaky: type[Flaky], workspace: Workspace, journal: Journal, records: Records
) -> None:
    before = datetime.now(UTC)
    first, second = planned(journal, records, 2)
    measure(journal, records, first)
    between = datetime.now(UTC)
    measure(journal, records, second)
    flaky.refuses = staticmethod(lambda number: number > 2)
    clock = Clock()
    with Outbox.of(workspace, journal, "phones") as outbox:
        said = outbox.drain(clock=clock, sleep=clock.sleep)
    assert "429 Too Many Requests" in said
    assert clock.waits == [1, 2, 4, 8, 16], "the next wait would end after the minute"
    lag = read_lag(workspace, journal, "phones")
    assert lag is not None
    assert lag.jobs == 1, "the first one was taken"
    assert lag.since is not None
    assert before < between <= lag.since
    assert lag.text == f"1 finished job is not in MLflow yet, the first since {lag.since:%Y-%m-%d %H:%M} UTC"


# The lag


def test_a_build_that_fails_on_its_images_after_the_first_publication_is_published(
    flaky: type[Flaky], workspace: Workspace, journal: Journal, records: Records
) -> None:
    [job] = planned(journal, records, 1)
    with Outbox.of(workspace, journal, "phones") as outbox:
        assert outbox.publish() == 0
        journal.attempts.add_failure(verified_key(job.build_key, records.evaluation_id), records.failed("verify"))
        assert outbox.left() == 1
        assert outbox.publish() == 1
        assert outbox.left() == 0


def test_the_lag_is_unknown_without_marks_and_total_where_the_database_is_gone(
    flaky: type[Flaky], workspace: Workspace, journal: Journal, records: Records
) -> None:
    measure(journal, records, *planned(journal, records, 2))
    assert read_lag(workspace, journal, "phones") is None, "an older EdgeSweep may have published them"
    with Outbox.of(workspace, journal, "phones") as outbox:
        outbox.publish()
    assert read_lag(workspace, journal, "phones") == Lag(jobs=0, since=None)
    (workspace.root / "mlflow.sqlite").unlink()
    lag = read_lag(workspace, journal, "phones")
    assert lag is not None
    assert lag.jobs == 2
    with Outbox.of(workspace, journal, "phones") as outbox:
        assert outbox.left() == 2
        assert outbox.publish() == 2
        assert outbox.left() == 0


def test_a_damaged_file_of_marks_stops_no_publication(
    flaky: type[Flaky], workspace: Workspace, journal: Journal, records: Records
) -> None:
    measure(journal, records, *planned(journal, records, 1))
    workspace.published.write_bytes(b"no database, and longer than the header of one would be: " * 9)
    assert read_lag(workspace, journal, "phones") is None
    with Outbox.of(workspace, journal, "phones") as outbox:
        assert outbox.publish() == 1
    assert read_lag(workspace, journal, "phones") == Lag(jobs=0, since=None)


def test_the_marks_of_one_server_say_nothing_of_another_and_hold_no_password(
    workspace: Workspace, journal: Journal, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job] = planned(journal, records, 1)
    measure(journal, records, job)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:sesame@example.org/mlflow")
    with Marks.open(workspace, "phones") as marks:
        marks.add(job.key, 1000)
    assert read_lag(workspace, journal, "phones") == Lag(jobs=0, since=None)
    assert b"sesame" not in workspace.published.read_bytes()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://example.com/mlflow")
    assert read_lag(workspace, journal, "phones") is None


def test_what_goes_wrong_in_the_journal_is_no_publication(
    flaky: type[Flaky], workspace: Workspace, journal: Journal
) -> None:
    with Outbox.of(workspace, journal, "phones") as outbox, pytest.raises(StoreError, match="no sweep 'phones'"):
        outbox.publish()
