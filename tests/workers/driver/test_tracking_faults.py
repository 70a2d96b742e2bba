"""MLflow fails while two virtual phones are measured: nothing is lost, and nothing comes twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.journal.journal import Journal
from sweeps.records import Measured
from sweeps.store.publishing import Publisher
from tests.faulty_phone import FaultyPhone
from tests.fresh_mlflow import fresh_mlflow
from tests.mlflow_servers import MODES, MlflowServer, Proxy
from tests.workers.phone_sweep import PhoneSweep, amid, assert_invariants, timed
from workers.driver.driver_events import Event, TrackingDown

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.suite]

Pair = list[FaultyPhone]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MlflowServer]:
    """On sqlite. Of this test alone: the jobs of all are the same."""
    folder = tmp_path / "server"
    server = MlflowServer(folder, f"sqlite:///{fresh_mlflow(folder)}")
    server.start()
    yield server
    server.stop()


def run(sweep: PhoneSweep, journal: Journal) -> list[Event]:
    with Publisher(sweep.workspace, "tiny") as publisher:
        return sweep.run(journal, publishing=publisher)


def whole(sweep: PhoneSweep, journal: Journal) -> None:
    assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)
    assert [timed(phone) for phone in sweep.phones] == [2, 2]
    assert_invariants(sweep, journal, faults=0)


@pytest.mark.fault(46, "a proxy: writes slow, 500, 429, or replies lost", "published once, no block lost")
def test_a_server_that_misbehaves_gets_each_job_once(
    pair: Pair, built: Path, tmp_path: Path, server: MlflowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = PhoneSweep(tmp_path, built, pair)
    proxy = Proxy(server.port)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", proxy.uri)
    with proxy.serving(), Journal.open(sweep.workspace.journal) as journal:
        run(sweep, journal)
        assert set(proxy.harmed) == set(MODES)
        proxy.every = 0
        whole(sweep, journal)


@pytest.mark.fault(46, "SIGKILL of MLflow's server in a block", "told once, published by the next run")
def test_a_server_that_is_killed_gets_all_when_it_is_back(
    pair: Pair, built: Path, tmp_path: Path, server: MlflowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = PhoneSweep(tmp_path, built, pair)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    with Journal.open(sweep.workspace.journal) as journal:
        killed = amid(pair[:1], server.stop)
        try:
            events = run(sweep, journal)
        finally:
            killed.join()
            server.start()
        assert sum(isinstance(event, TrackingDown) for event in events) == 1
        whole(sweep, journal)
