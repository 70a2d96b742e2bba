"""What a finished job costs: its durable commit in the journal and its publication, against one MLflow call per value.

python tests/benchmarks/bench_journal.py

A job has 40 values: samples of its block in the journal, metrics in MLflow (sqlite in the same folder). In each of 9
rounds each arm runs once, in another order, after one round that warms up. Seconds of the wall clock, since a durable
commit waits for the disk; medians. The arm of MLflow's calls, twice, says how far a figure is from itself (A/A). Then
8 processes publish to one `mlflow server` at once, each from a journal of its own.
"""

import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from mlflow import MlflowClient
from report import Figure, at_least, at_most, finish

from sweeps.journal.journal import Journal
from sweeps.records import Job
from sweeps.settled import Settled
from sweeps.store.lag import Marks
from sweeps.store.mlflow import Store
from sweeps.store.outbox import Outbox
from sweeps.store.publishing import Publisher
from sweeps.workspace import Workspace
from tests.free_port import free_port
from tests.mlflow_rows import load
from tests.sweeps.conftest import Records

ROUNDS, VALUES, DRAINED = 9, 40, 12
WRITERS, JOBS_EACH = 8, 15
COMMIT, JOB, CALLS, AGAIN, DRAIN = "commit of a finished job", "job of 3 rounds", "calls", "calls again", "drain"

records = Records()


def planned(journal: Journal, count: int, name: str = "phones") -> list[Job]:
    jobs = [records.job(number) for number in range(count)]
    journal.save_plan(records.plan(*jobs, name=name, rounds=3))
    return jobs


def settled(job: Job) -> Settled:
    return Settled(job_key=job.key, budget="full", rounds=3, reason="stable", message="its rounds agree")


def measure(journal: Journal, job: Job) -> None:
    """As the driver writes a job of 3 rounds: a block is durable before the next one is asked for."""
    for round_ in range(2):
        journal.add_block(records.block(job, round_, samples=VALUES))
    end(journal, job)
    journal.add_accuracy(records.accuracy(job))


def end(journal: Journal, job: Job) -> None:
    """Its last block, and why its rounds ended."""
    with journal.together():
        journal.add_block(records.block(job, 2, samples=VALUES))
        journal.add_settled(settled(job))


class Arms:
    """Each call measures another job."""

    def __init__(self, folder: Path) -> None:
        self._workspace = Workspace.open(folder / "workspace")
        Store(self._workspace.tracking_uri, self._workspace.mlflow_artifacts).check()
        calls = Workspace.open(folder / "calls")
        Store(calls.tracking_uri, calls.mlflow_artifacts).check()
        self._client = MlflowClient(tracking_uri=calls.tracking_uri)
        self._experiment = self._client.create_experiment("calls")
        self._journal = Journal.open(self._workspace.journal)
        self._reader = Journal.open(self._workspace.journal, read_only=True)
        self._marks = Marks.open(self._workspace, "phones")
        self._outbox = Outbox(self._workspace, self._reader, "phones", self._marks)
        self._jobs = iter(planned(self._journal, (1 + ROUNDS) * (2 + DRAINED)))

    def commit(self) -> float:
        job = next(self._jobs)
        return timed(lambda: end(self._journal, job))

    def job(self) -> float:
        job = next(self._jobs)
        return timed(lambda: measure(self._journal, job))

    def calls(self) -> float:
        def one_by_one() -> None:
            run_id = self._client.create_run(self._experiment).info.run_id
            for number in range(VALUES):
                self._client.log_metric(run_id, f"value_{number}", number)
            self._client.set_terminated(run_id)

        return timed(one_by_one)

    def drain(self) -> float:
        """Seconds per job, when several wait: by the publisher's outbox, which knows what MLflow has already."""
        self._outbox.publish()  # what the other arms have left
        for _ in range(DRAINED):
            measure(self._journal, next(self._jobs))
        return timed(self._outbox.publish) / DRAINED

    def commits_of_a_job(self) -> int:
        """Each is one wait for the disk."""
        said: list[str] = []
        job = records.job(100_000)
        self._journal._db.set_trace_callback(said.append)
        measure(self._journal, job)
        self._journal._db.set_trace_callback(None)
        return said.count("COMMIT")

    def close(self) -> None:
        for one in (self._marks, self._reader, self._journal):
            one.close()


def timed(what: Callable[[], object]) -> float:
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


@contextmanager
def mlflow_server(folder: Path) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder / 'mlflow.sqlite'}"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    without = {"MLFLOW_DISABLE_TELEMETRY": "1", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=os.environ | without)
    try:
        for _ in range(1800):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def at_once(folder: Path) -> tuple[int, int, float]:
    """Jobs that are missing or there twice, complaints, and seconds, of 8 publishers at once."""
    complaints: list[str] = []
    with mlflow_server(folder) as uri:
        os.environ["MLFLOW_TRACKING_URI"] = uri
        workspaces = {f"writer-{number}": Workspace.open(folder / f"writer-{number}") for number in range(WRITERS)}
        for name, workspace in workspaces.items():
            with Journal.open(workspace.journal) as journal:
                for job in planned(journal, JOBS_EACH, name):
                    measure(journal, job)

        def publish(name: str, workspace: Workspace) -> None:
            with Publisher(workspace, name) as publisher:
                for _ in publisher.drain(lambda: False):
                    complaints.append(publisher.complaint())
                complaints.append(publisher.complaint())

        threads = [threading.Thread(target=publish, args=one) for one in workspaces.items()]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took_s = time.perf_counter() - began
        wrong = 0
        client = MlflowClient(tracking_uri=uri)
        for name in workspaces:
            frame = load(uri, name).frame
            experiment = client.get_experiment_by_name(name)
            assert experiment is not None
            runs = client.search_runs([experiment.experiment_id], "tags.`edgesweep.record` = 'job'")
            wrong += abs(len(frame) - JOBS_EACH) + abs(len(runs) - JOBS_EACH)
        del os.environ["MLFLOW_TRACKING_URI"]
    for message in filter(None, complaints):
        print(message, file=sys.stderr)
    return wrong, len(list(filter(None, complaints))), took_s


def main() -> None:
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    shuffle = random.Random(0).sample
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name, closing(Arms(Path(name))) as arms:
        by_name = {COMMIT: arms.commit, JOB: arms.job, CALLS: arms.calls, AGAIN: arms.calls, DRAIN: arms.drain}
        rounds = [{arm: by_name[arm]() for arm in shuffle(list(by_name), len(by_name))} for _ in range(1 + ROUNDS)][1:]
        commits = arms.commits_of_a_job()
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name:
        wrong, complaints, took_s = at_once(Path(name))
    ms = {arm: 1000 * statistics.median(one[arm] for one in rounds) for arm in by_name}
    finish(
        "journal: a finished job of 40 values",
        [
            at_least("calls / commit of a finished job", ms[CALLS] / ms[COMMIT], "times", 100),
            at_least("calls / drain", ms[CALLS] / ms[DRAIN], "times", 5),
            at_most(f"{WRITERS} writers: jobs lost or doubled", wrong, "jobs", 0),
            at_most(f"{WRITERS} writers: errors", complaints, "errors", 0),
            Figure(f"{WRITERS} writers of {JOBS_EACH} jobs", took_s, "s"),
            Figure("calls / job of 3 rounds", ms[CALLS] / ms[JOB], "times"),
            Figure("durable commits of a job of 3 rounds", commits, ""),
            *(Figure(arm, value, "ms") for arm, value in ms.items()),
            Figure("calls, A/A", ms[AGAIN] / ms[CALLS], "times"),
        ],
        rounds=rounds,
    )


if __name__ == "__main__":
    main()
