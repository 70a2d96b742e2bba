"""A device in virtual time, whose own speed is a function of time, under the real driver, journal and ranking.

Nothing is built and no process is started: a lane answers as a host would, so that a sweep takes a fraction of a
second. All jobs have their accuracy from the start.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import numpy as np

from sweeps.journal.journal import Journal
from sweeps.planning.keys import ModelIdentity
from sweeps.planning.plan import Plan
from sweeps.protocol.presets import Protocol
from sweeps.quarantine import QuarantineBook
from sweeps.ranking.rank import rank_rows
from sweeps.ranking.values import DeviceRanking
from sweeps.records import Block, Failed, Job
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import DataSpec, ModelSpec, SyntheticData
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import ProtocolSpec
from sweeps.spec.sweep import SweepSpec
from tests.builders import identities_of
from tests.sweeps.conftest import EVALUATION_ID, Records
from workers.devices.interface import Sensors
from workers.driver.builds import PendingBuilds
from workers.driver.context import RunContext
from workers.driver.device_run import DeviceRun
from workers.driver.driver_events import Event
from workers.driver.health import Health
from workers.driver.ladder import AWAY_WAIT
from workers.driver.plan_outcomes import Outcomes
from workers.driver.schedule import Schedule
from workers.driver.scheduler import run_tasks
from workers.measure.device_runner import AnswerT, Request
from workers.measure.readiness import Readiness
from workers.measure.timed_block import BlockRequest, ReadyRequest
from workers.models.prepared_model import PreparedModel

Speed = Callable[[float], float]
"""The device's slowness at a time (s): 1.5 is a time and a half."""

SENTINEL_MS = 5.0
START_S = 2.5
_SWEEP = "shifting"
_RECORDS = Records()
_NOTHING_PREPARED = cast("PreparedModel", SimpleNamespace(evaluation=SimpleNamespace(images=())))
"""Nothing is evaluated: all answers are in the journal."""


@dataclass(slots=True)
class ShiftingDevice:
    """A `DeviceLane`. Latencies are by job key, in ms without noise."""

    true_ms: Mapping[str, float]
    slowness: Speed
    process_cv: float = 0.01
    seed: int = 0
    now_s: float = 0.0
    after: Mapping[str, float] = field(default_factory=dict)
    """By job key, a factor on the latency of whatever is measured right after that job."""
    measured: list[tuple[float, str]] = field(default_factory=list)
    """When each block began, and of which job."""

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        if isinstance(request, ReadyRequest):
            ready = Readiness(sensors=Sensors(temp_c=30.0), lacking=(), busy_only=False)
            return cast("AnswerT", ready)
        if isinstance(request, BlockRequest):
            return cast("AnswerT", self._block(request.job, request.round, request.protocol))
        return Failed(stage="run", kind="no_batches", message="this device times one build in a process")

    def rest(self, seconds: float) -> None:
        self.now_s += seconds

    def close(self) -> None:
        """Nothing is kept open."""

    def _block(self, job: Job, round_: int, protocol: Protocol) -> Block:
        random = np.random.default_rng([self.seed, len(self.measured), round(1e3 * self.now_s)])
        carried = self.after.get(self.measured[-1][1], 1.0) if self.measured else 1.0
        self.measured.append((self.now_s, job.key))
        self.now_s += START_S
        ms = self.true_ms.get(job.key, SENTINEL_MS) * self.slowness(self.now_s) * carried
        ms *= math.exp(self.process_cv * random.standard_normal())
        self.now_s += protocol.warmup_seconds + protocol.min_seconds
        return _RECORDS.block(job, round_, ms=ms, samples=max(64, protocol.iterations), labels=())


class ShiftingSweep:
    """One sweep of such a device, with a journal in `folder`."""

    def __init__(
        self,
        folder: Path,
        latencies_ms: tuple[float, ...],
        *,
        budget: Literal["full", "race"] = "full",
        **protocol: Any,
    ) -> None:
        """`protocol`: fields of the sweep file; the preset is `full` or `race`."""
        self._folder = folder
        spec = SweepSpec(
            name=_SWEEP,
            models=(ModelSpec(name="net", source="mobilenet_v2", weights="random"),),
            data=DataSpec(calibration=SyntheticData(source="synthetic"), evaluation=SyntheticData(source="synthetic")),
            grids=(GridSpec(),),
            protocol=ProtocolSpec(**{"preset": budget, "gate": "none"} | protocol),
            objective=ObjectiveSpec(constraints=()),
            budget=budget,
        )
        self.sentinel = _RECORDS.job(99, name="sentinel")
        self.jobs = tuple(
            _RECORDS.job(2 * number, name=f"net build {number}", sentinel=self.sentinel.key)
            for number in range(len(latencies_ms))
        )
        self.true_ms = {job.key: ms for job, ms in zip(self.jobs, latencies_ms, strict=True)}
        net = ModelIdentity(source="torchvision:mobilenet_v2", weights_id="random:0")
        self.plan = Plan(
            sweep=spec,
            devices=(_RECORDS.facts,),
            identities=identities_of({"net": net}, evaluation_id=EVALUATION_ID),
            jobs=self.jobs,
            skipped=(),
            sentinels=(self.sentinel,),
        )

    def open(self) -> Journal:
        journal = Journal.open(self._folder / "journal.sqlite")
        with journal.transaction():
            journal.save_plan(self.plan)
            for job in self.jobs:
                if (
                    journal.attempts.accuracy(job.build_key, EVALUATION_ID, job.variant.qengine, self.facts_fingerprint)
                    is None
                ):
                    journal.artifacts.add(_RECORDS.manifest(job))
                    journal.attempts.add_accuracy(_RECORDS.accuracy(job))
        return journal

    @property
    def facts_fingerprint(self) -> str:
        return _RECORDS.facts.fingerprint

    def run(
        self, journal: Journal, device: ShiftingDevice, stop: Callable[[], bool] = lambda: False, session: int = 0
    ) -> list[Event]:
        """One run of the driver on this device, as `workers.driver.sweep_driver.Driver` makes it."""
        outcomes = Outcomes(journal, self.plan)
        earlier = journal.times.last_session()
        facts = _RECORDS.facts
        context = RunContext(
            plan=self.plan,
            protocol=self.plan.protocol.on(facts.device_id),
            journal=journal,
            outcomes=outcomes,
            prepared={"net": _NOTHING_PREPARED},
            session=max(session, earlier + 1),
            earlier=earlier,
            publish=lambda: iter(()),
            stop=stop,
            more={},
            health=Health(QuarantineBook(self._folder), AWAY_WAIT),
            batches_decide={},
            schedule=Schedule(),
        )
        pending = outcomes.pending(self.jobs)
        field_ = PendingBuilds({}, frozenset())
        run = DeviceRun(device, facts, pending, context, field_, lambda job: outcomes.of(job) is None)
        return list(run_tasks([run.run()]))

    def ranked(self, journal: Journal) -> DeviceRanking:
        [entry] = rank_rows(journal.results.rows(_SWEEP), self.plan.sweep.objective, _SWEEP).devices
        return entry

    def device(self, slowness: Speed = lambda _: 1.0, **changes: Any) -> ShiftingDevice:
        return replace(ShiftingDevice(self.true_ms, slowness), **changes)
