"""Drives a plan to its end: models, builds, rounds, accuracy. A generator of events; knows no terminal.

Everything is in the journal before its event is yielded, so the driver may be ended at any moment and started again.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from sweeps.errors import RunnerError, StoreError
from sweeps.journal import MAX_ATTEMPTS, Journal, build_failure_keys
from sweeps.json_records import to_json
from sweeps.plan import Plan
from sweeps.protocol import Protocol, order
from sweeps.records import Accuracy, Block, DeviceFacts, Failed, Job, Measured
from sweeps.spec import ModelSpec
from workers.accuracy import evaluate
from workers.bench import Evaluation
from workers.build import TRANSIENT_KINDS, ArtifactStore
from workers.executor import BuildRequest, DeviceLane, Executor
from workers.models import PreparedModel
from workers.runtimes.interface import Logits

# A tracking server that is down must not cost every job its time-out.
_PUBLISH_AGAIN_S = 60.0
JUDGED_KINDS = frozenset({"low_sqnr", "accuracy_lost", "invalid_output"})
"""Failed builds that were found on evaluation images: other images may find otherwise."""


@dataclass(frozen=True, slots=True)
class Preparing:
    """A model's weights or reference answers are being made ready."""

    model: str


@dataclass(frozen=True, slots=True)
class Building:
    """Artifacts: how many are done, and which are being built now."""

    done: int
    total: int
    running: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measuring:
    """Blocks and accuracy passes of one device: how many are done, and what runs now (empty at the end)."""

    device: str
    done: int
    total: int
    running: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try went wrong; `final` when there is no other."""

    name: str
    failed: Failed
    final: bool


@dataclass(frozen=True, slots=True)
class TrackingDown:
    """MLflow does not answer. Nothing is lost: the journal feeds it later."""

    message: str


Event = Preparing | Building | Measuring | Attempt | TrackingDown


class Driver:
    """One run of one plan. `run()` yields events and ends early once `stop()` says so."""

    def __init__(
        self,
        plan: Plan,
        protocol: Protocol,
        journal: Journal,
        store: ArtifactStore,
        executor: Executor,
        prepare: Callable[[ModelSpec], PreparedModel],
        publish: Callable[[], object],
        stop: Callable[[], bool],
    ) -> None:
        self._plan = plan
        self._protocol = protocol
        self._journal = journal
        self._store = store
        self._executor = executor
        self._prepare = prepare
        self._publish = publish
        self._stop = stop
        self._prepared: dict[str, PreparedModel] = {}
        self._publish_after = 0.0
        self._session = int(time.time())

    def run(self) -> Iterator[Event]:
        """Raises `ModelError` or `DataError` before anything is built where a model or its data can not be used."""
        self._journal.save_plan(self._plan)
        pending = [job for job in self._plan.jobs if self._outcome(job) is None]
        # Measured, but its file is gone or damaged: it is built again, so that it can be exported.
        lost = [job for job in self._plan.jobs if self._is_measured(job) and self._store.look(job.build_key) is None]
        # Before anything is built: a device that no host has is known at once.
        lanes = {
            facts: self._executor.lane(facts)
            for facts in self._plan.devices
            if any(job.device_id == facts.device_id for job in pending)
        }
        try:
            yield from self._prepare_models([*pending, *lost])
            yield from self._build([*pending, *lost])
            # Every build has ended here: the local device shares this machine with the builds.
            for facts, lane in lanes.items():
                jobs = [job for job in pending if job.device_id == facts.device_id and self._can_run(job)]
                if jobs and not self._stop():
                    yield from self._measure(lane, facts, jobs)
        finally:
            for lane in lanes.values():
                lane.close()
        yield from self._publish_now(force=True)

    def _prepare_models(self, pending: Sequence[Job]) -> Iterator[Event]:
        names = {job.model for job in pending}
        for model in self._plan.sweep.models:
            if model.name in names and not self._stop():
                yield Preparing(model.name)
                prepared = self._prepared[model.name] = self._prepare(model)
                for manifest in (prepared.calibration_manifest, prepared.evaluation_manifest):
                    self._journal.add_data_manifest(self._plan.sweep.name, manifest.id, to_json(manifest))

    def _build(self, pending: Sequence[Job]) -> Iterator[Event]:
        wanted: dict[str, Job] = {}
        for job in pending:
            if job.build_key in wanted or job.model not in self._prepared:
                continue
            if (manifest := self._store.find(job.build_key)) is None:
                wanted[job.build_key] = job
            else:
                self._journal.add_artifact(manifest)
        requests = [
            BuildRequest(key, job.variant, self._prepared[job.model].build_inputs) for key, job in wanted.items()
        ]
        running: dict[str, str] = {}
        done = 0
        if requests:
            yield Building(done, len(requests), ())
        for request, outcome in self._executor.build(requests, self._stop):
            match outcome:
                case None:
                    running[request.build_key] = wanted[request.build_key].name
                case Failed() as failed:
                    name = running.pop(request.build_key)
                    done += 1
                    for key in self._failure_keys(request.build_key, failed):
                        self._journal.add_failure(key, failed)
                    yield Attempt(name, failed, final=failed.kind not in TRANSIENT_KINDS)
                case packed:
                    running.pop(request.build_key)
                    done += 1
                    self._journal.add_artifact(self._store.unpack(packed))
            yield Building(done, len(requests), tuple(running.values()))

    def _failure_keys(self, build_key: str, failed: Failed) -> list[str]:
        """What a failed build speaks of: the variant, the variant on these images, or only this try."""
        if failed.kind in TRANSIENT_KINDS:
            return [job.key for job in self._plan.jobs if job.build_key == build_key]
        jobs = [job for job in self._plan.jobs if job.build_key == build_key]
        on_images = failed.kind in JUDGED_KINDS
        return sorted({build_failure_keys(job, self._plan.identities.evaluation_id)[on_images] for job in jobs})

    def _measure(self, lane: DeviceLane, facts: DeviceFacts, jobs: Sequence[Job]) -> Iterator[Event]:
        # What the device can not run itself is checked by a reference, which has no time.
        by_key = {job.key: job for job in jobs if not job.emulated}
        total = len(by_key) * self._protocol.rounds + len({_accuracy_key(job) for job in jobs})
        done = 0
        for round_ in range(self._protocol.rounds):
            # Keys that are done already stay in the order: it must not depend on where a run was interrupted.
            for key in order(list(by_key), round_, self._protocol.seed):
                if self._stop():
                    return
                job = by_key[key]
                yield Measuring(facts.name, done, total, f"{job.name}, round {round_ + 1} of {self._protocol.rounds}")
                yield from self._block(lane, job, round_)
                done += 1
        for job in jobs:
            if self._stop():
                return
            yield Measuring(facts.name, done, total, f"{job.name}, accuracy")
            yield from self._accuracy(lane, facts, job)
            done = min(done + 1, total)
            yield from self._publish_now(force=False)
        yield Measuring(facts.name, total, total, "")

    def _block(self, lane: DeviceLane, job: Job, round_: int) -> Iterator[Event]:
        if any(block.round == round_ for block in self._journal.blocks(job.key)):
            return
        while not self._stop() and not isinstance(self._outcome(job), Failed):
            match lane.block(job, round_, self._protocol):
                case Block() as block:
                    self._journal.add_block(replace(block, session=self._session))
                    return
                case Failed() as failed:
                    yield self._attempt_failed(job, failed)
                case never:
                    assert_never(never)

    def _accuracy(self, lane: DeviceLane, facts: DeviceFacts, job: Job) -> Iterator[Event]:
        prepared = self._prepared[job.model]
        evaluation_id = self._plan.identities.evaluation_id
        evaluation = Evaluation(evaluation_id=evaluation_id, images=prepared.evaluation.images)
        while not self._stop() and self._outcome(job) is None:
            logits = lane.logits(job, evaluation)
            match (
                logits
                if isinstance(logits, Failed)
                else _judge(job, evaluation_id, job.reference or facts.fingerprint, logits, prepared)
            ):
                case Accuracy() as accuracy:
                    self._journal.add_accuracy(accuracy)
                case Failed() as failed:
                    yield self._attempt_failed(job, failed)
                case never:
                    assert_never(never)

    def _attempt_failed(self, job: Job, failed: Failed) -> Attempt:
        self._journal.add_failure(job.key, failed)
        return Attempt(job.name, failed, final=len(self._journal.failures(job.key)) >= MAX_ATTEMPTS)

    def _is_measured(self, job: Job) -> bool:
        return isinstance(self._outcome(job), Measured)

    def _can_run(self, job: Job) -> bool:
        return self._outcome(job) is None and self._store.look(job.build_key) is not None

    def _outcome(self, job: Job) -> Measured | Failed | None:
        fingerprint = next(facts.fingerprint for facts in self._plan.devices if facts.device_id == job.device_id)
        return self._journal.outcome(job, self._protocol.rounds, self._plan.identities.evaluation_id, fingerprint)

    def _publish_now(self, *, force: bool) -> Iterator[Event]:
        if not force and time.monotonic() < self._publish_after:
            return
        try:
            self._publish()
        except StoreError as error:
            self._publish_after = time.monotonic() + _PUBLISH_AGAIN_S
            yield TrackingDown(error.message)


def _judge(job: Job, evaluation_id: str, executor: str, logits: Logits, prepared: PreparedModel) -> Accuracy | Failed:
    try:
        return evaluate(
            job.build_key,
            evaluation_id,
            job.variant.qengine,
            executor,
            logits,
            prepared.evaluation_logits,
            prepared.evaluation.labels,
        )
    except RunnerError as error:
        return Failed(stage="evaluate", kind=error.kind, message=error.message)


def _accuracy_key(job: Job) -> tuple[str, str]:
    """An accuracy is measured once for all thread counts of a build."""
    return job.build_key, job.variant.qengine
