"""Jobs that take a known time on two slots: by EdgeSweep's driver with journal and MLflow on, and by Ray Tune.

    python tests/benchmarks/jobs_at_once.py WHO JOBS SECONDS FOLDER

WHO is `edgesweep` or `tune`. Prints one line of JSON: `seconds` until every job is done and recorded (in the journal;
by Tune), and `published` until MLflow has them all. Starts (models, Ray, MLflow) are not timed.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from sweeps.device_facts import DeviceFacts
from sweeps.journal.journal import Journal
from sweeps.records import Failed
from sweeps.spec.grid import GridSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import ProtocolSpec
from sweeps.store.mlflow import Store
from sweeps.store.publishing import Publisher
from tests.sweeps.conftest import Records
from tests.workers.tiny_sweep import Sweep
from workers.artifacts import ArtifactStore
from workers.devices.interface import Sensors
from workers.driver.events import Measuring
from workers.driver.sweep import Driver
from workers.executors.inline import InlineExecutor
from workers.executors.interface import DeviceLane
from workers.measure.device_runner import AnswerT, Request
from workers.measure.readiness import Readiness
from workers.measure.requests import BlockRequest, ReadyRequest

SLOTS = ("fake:cool", "fake:steady")
READY = Readiness(sensors=Sensors(), lacking=(), busy_only=False)

records = Records()


class SleepingLane:
    """A device whose blocks take a time that is known."""

    def __init__(self, seconds: float, began_s: list[float]) -> None:
        self._seconds = seconds
        self._began_s = began_s

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        self._began_s.append(time.perf_counter())
        answer: Any
        match request:
            case ReadyRequest():
                answer = READY
            case BlockRequest():
                time.sleep(self._seconds)
                answer = records.block(request.job, request.round, samples=40, device_seconds=self._seconds)
            case _:
                raise TypeError(f"not expected: {request}")
        return answer  # type: ignore[no-any-return]

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None: ...


class Sleepers(InlineExecutor):
    def __init__(self, folder: Path, seconds: float) -> None:
        super().__init__(folder)
        self._seconds = seconds
        self.began_s: list[float] = []

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        return SleepingLane(self._seconds, self.began_s)


def edgesweep(jobs: int, seconds: float, folder: Path) -> dict[str, float]:
    grid = GridSpec(precision=("fp32",), layout=("nhwc",), threads=tuple(range(1, jobs // len(SLOTS) + 1)))
    protocol = ProtocolSpec(preset="quick", rounds=1, gate="none")
    sweep = Sweep(
        folder, grid, devices=SLOTS, budget="full", protocol=protocol, objective=ObjectiveSpec(constraints=())
    )
    plan, workspace = sweep.plan, sweep.workspace
    assert len(plan.jobs) == jobs
    store = ArtifactStore(workspace.artifacts)
    [build] = {job.build_key: job for job in plan.jobs}.values()
    store.build(build.build_key, build.variant, sweep.prepare(sweep.spec.models[0]).build_inputs)
    Store(workspace.tracking_uri, workspace.mlflow_artifacts).check()
    sleepers = Sleepers(workspace.root, seconds)
    ended_s = 0.0
    with Journal.open(workspace.journal) as journal:
        journal.save_plan(plan)
        for facts in plan.devices:  # what is timed is neither its build nor its accuracy
            evaluation_id = plan.identities.evaluation_id
            journal.attempts.add_accuracy(
                records.accuracy(build, executor=facts.fingerprint, evaluation_id=evaluation_id)
            )
        with Publisher(workspace, plan.sweep.name) as publisher:
            driver = Driver(plan, journal, store, sleepers, sweep.prepare, publisher, lambda: False)
            for event in driver.run():
                if isinstance(event, Measuring) and not event.running:
                    ended_s = time.perf_counter()
            published_s = time.perf_counter()
        assert all(journal.attempts.block_count(job.key) == 1 for job in plan.jobs)
    began_s = sleepers.began_s[0]
    return {"seconds": ended_s - began_s, "published": published_s - began_s}


def tune(jobs: int, seconds: float, folder: Path) -> dict[str, float]:
    """Each trial reports once; its callback writes it to MLflow. Actors are used again: a process for each trial would
    take seconds to start."""
    os.environ |= {"RAY_AIR_NEW_OUTPUT": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    os.environ |= {"RAY_USE_UVLOOP": "0"}  # as in our own arm
    import ray
    from ray import tune as ray_tune
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    uri = f"sqlite:///{folder / 'tune.sqlite'}"
    Store(uri, folder / "artifacts").check()

    def job(config: dict[str, int]) -> None:
        began_s = time.time()
        time.sleep(seconds)
        ray_tune.report({"latency_ms": 5.0, "began_s": began_s})

    ray.init(num_cpus=len(SLOTS), include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    tuner = ray_tune.Tuner(
        job,
        param_space={"threads": ray_tune.grid_search(list(range(jobs)))},
        tune_config=ray_tune.TuneConfig(reuse_actors=True, max_concurrent_trials=len(SLOTS)),
        run_config=ray_tune.RunConfig(
            storage_path=str(folder / "results"),
            verbose=0,
            callbacks=[MLflowLoggerCallback(tracking_uri=uri, experiment_name="tune")],
        ),
    )
    found = tuner.fit()
    ended_s = time.time()
    assert len(found) == jobs
    assert not found.errors
    first_s = min(one.metrics["began_s"] for one in found)
    ray.shutdown()
    # Its callback writes in Tune's own loop: all is in MLflow by then.
    return {"seconds": ended_s - first_s, "published": ended_s - first_s}


if __name__ == "__main__":
    who, count, each_s, where = sys.argv[1:]
    print(json.dumps({"edgesweep": edgesweep, "tune": tune}[who](int(count), float(each_s), Path(where))))
