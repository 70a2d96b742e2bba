"""Drives a plan to its end: models, builds, rounds, accuracy. A generator of events, independent of the terminal.

Everything is in the journal before its event is yielded, so the driver may be killed at any time and started again.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sweeps.device_facts import DeviceFacts
from sweeps.errors import ClusterError, DataError, ModelError
from sweeps.journal.journal import Journal, build_failure_keys
from sweeps.json_records import to_json
from sweeps.manifest import Manifest
from sweeps.planning.plan import Plan
from sweeps.protocol import sentinel
from sweeps.quarantine import QuarantineBook
from sweeps.records import Failed, Job
from sweeps.spec import catalog
from sweeps.spec.inputs import ModelSpec
from workers.artifacts import TRANSIENT_KINDS, ArtifactStore
from workers.driver.contact import merge_host_events
from workers.driver.context import RunContext
from workers.driver.device import DeviceRun
from workers.driver.events import AttemptFailed, Away, Building, Event, Preparing, Published, TrackingDown
from workers.driver.health import Health
from workers.driver.ladder import AWAY_WAIT, AwayWait
from workers.driver.outcomes import Outcomes
from workers.driver.publishing import Publishing
from workers.driver.recovery import quarantined
from workers.driver.side_by_side import Ask, Steps, side_by_side
from workers.executors.interface import BuildRequest, DeviceLane, Executor
from workers.models.prepared import PreparedModel

VERIFICATION_KINDS = frozenset({"low_sqnr", "accuracy_lost", "invalid_output"})
"""Build failures that depend on the evaluation images: with other images the build may succeed."""
_NONE: Mapping[str, float] = MappingProxyType({})


class Driver:
    """One run of one plan. `run()` yields events and ends early when `stop()` returns true."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        store: ArtifactStore,
        executor: Executor,
        prepare: Callable[[ModelSpec], PreparedModel],
        publishing: Publishing,
        stop: Callable[[], bool],
        more: Mapping[str, int] | None = None,
        away_wait: AwayWait = AWAY_WAIT,
        batches_decide: Mapping[str, float] = _NONE,
        book: QuarantineBook | None = None,
    ) -> None:
        """`more`: only measure this many further rounds of these jobs (by key), which are measured already.
        `batches_decide`: as of a `RunContext`. `book`: of devices that are to be left alone, if not this user's."""
        self._plan = plan
        self._journal = journal
        self._outcomes = Outcomes(journal, plan)
        self._store = store
        self._executor = executor
        self._prepare = prepare
        self._publishing = publishing
        self._stop = stop
        self._prepared: dict[str, PreparedModel] = {}
        self._more = more or {}
        self._health = Health(book or QuarantineBook(), away_wait)
        self._context = RunContext(
            plan=plan,
            protocol=plan.protocol,
            journal=journal,
            outcomes=self._outcomes,
            prepared=self._prepared,
            # Also where two runs start in one second, or the clock was set back.
            session=max(int(time.time()), journal.last_session() + 1),
            publish=self._publish,
            stop=stop,
            more=self._more,
            health=self._health,
            batches_decide=batches_decide,
        )

    def run(self) -> Iterator[Event]:
        """Run the plan. If a model or its data cannot be used, only its own jobs fail."""
        self._journal.save_plan(self._plan)
        if not self._more:  # these are finished before and after each round: they are published once, at the end
            self._publishing.beside()
        if self._more:
            pending = [job for job in self._plan.jobs if job.key in self._more]
        else:
            pending = self._outcomes.pending(self._plan.jobs)
        # First of all, so that nothing is built for a device that no host has.
        lanes, away = self._lanes(pending)
        yield from away
        pending = [job for job in pending if any(job.device_id == facts.device_id for facts in lanes)]
        # A measured build whose file is gone or damaged is built again, so that it can be exported.
        timed = {job.device_id for job in pending if not job.emulated}
        lost = [
            job
            for job in self._plan.jobs
            if self._outcomes.is_measured(job) and self._store.look(job.build_key) is None
        ]
        try:
            wanted = [*pending, *lost, *(job for job in self._plan.sentinels if job.device_id in timed)]
            yield from self._prepare_models(wanted)
            yield from self._build(wanted)
            # Every build has ended here. The local device comes last: the hosts of the others load this machine too.
            alone = [facts for facts in lanes if catalog.is_host(facts.name)]
            for together in ([facts for facts in lanes if facts not in alone], alone):
                runs = [*self._device_runs({facts: lanes[facts] for facts in together}, pending)]
                if runs and together is alone:
                    self._publishing.between()
                yield from merge_host_events(side_by_side(runs))
        finally:
            for lane in lanes.values():
                lane.close()
        for done, total in self._publishing.drain(self._stop):
            yield from self._complaint()
            if total:
                yield Published(done, total)
        yield from self._complaint()

    def _lanes(self, pending: Sequence[Job]) -> tuple[dict[DeviceFacts, DeviceLane], list[Away]]:
        """The lanes of devices with pending jobs, and the devices that no host has now, or that a person quarantined:
        their jobs wait."""
        lanes: dict[DeviceFacts, DeviceLane] = {}
        away: list[Away] = []
        for facts in self._plan.devices:
            jobs = [job for job in pending if job.device_id == facts.device_id]
            quarantine = self._health.quarantine(facts) if jobs else None
            if quarantine is not None and quarantine.by == "person":
                away.append(Away(facts.name, quarantined(facts, quarantine), len(self._outcomes.pending(jobs))))
                continue
            try:
                if jobs:
                    lanes[facts] = self._executor.lane(facts)
            except ClusterError as error:
                failed = Failed(stage="run", kind="offline", message=error.one_line)
                away.append(Away(facts.name, failed, len(self._outcomes.pending(jobs))))
        return lanes, away

    def _device_runs(self, lanes: Mapping[DeviceFacts, DeviceLane], pending: Sequence[Job]) -> Iterator[Steps[None]]:
        """One run per device with pending jobs."""
        for facts, lane in lanes.items():
            jobs = [job for job in pending if job.device_id == facts.device_id and self._can_run(job)]
            if jobs and not self._stop():
                yield self._device_run(lane, facts, jobs)

    def _device_run(self, lane: DeviceLane, facts: DeviceFacts, jobs: Sequence[Job]) -> Steps[None]:
        context = replace(self._context, protocol=self._plan.protocol.on(facts.device_id))
        yield from DeviceRun(lane, facts, jobs, context).run()
        # Another sweep may use this device while slower devices are still measuring.
        yield Ask(lane.close)

    def _prepare_models(self, pending: Sequence[Job]) -> Iterator[Event]:
        names = {job.model for job in pending}
        for model in (*self._plan.sweep.models, sentinel.MODEL):
            if model.name in names and not self._stop():
                yield Preparing(model.name)
                try:
                    prepared = self._prepared[model.name] = self._prepare(model)
                except (ModelError, DataError) as error:
                    yield self._unusable(model.name, error, pending)
                    continue
                with self._journal.together():
                    for manifest in (prepared.calibration_manifest, prepared.evaluation_manifest):
                        self._journal.add_data_manifest(self._plan.sweep.name, manifest.id, to_json(manifest))

    def _unusable(self, model: str, error: ModelError | DataError, pending: Sequence[Job]) -> AttemptFailed:
        failed = Failed(
            stage="load", kind="bad_model" if isinstance(error, ModelError) else "bad_data", message=error.one_line
        )
        with self._journal.together():
            for job in pending:
                if job.model == model and self._outcomes.of(job) is None:
                    self._journal.add_failure(job.key, failed)
        return AttemptFailed(model, failed, final=True)

    def _build(self, pending: Sequence[Job]) -> Iterator[Event]:
        wanted: dict[str, Job] = {}
        there: dict[str, Manifest] = {}
        for job in pending:
            if job.build_key in wanted or job.build_key in there or job.model not in self._prepared:
                continue
            if (manifest := self._store.find(job.build_key)) is None:
                wanted[job.build_key] = job
            else:
                there[job.build_key] = manifest
        with self._journal.together():
            for manifest in there.values():
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
                    with self._journal.together():
                        for key in self._failure_keys(request.build_key, failed):
                            self._journal.add_failure(key, failed)
                    yield AttemptFailed(name, failed, final=failed.kind not in TRANSIENT_KINDS)
                case packed:
                    running.pop(request.build_key)
                    done += 1
                    self._journal.add_artifact(self._store.unpack(packed))
            yield Building(done, len(requests), tuple(running.values()))

    def _failure_keys(self, build_key: str, failed: Failed) -> list[str]:
        """The keys for which the failure holds: the variant, the variant on these images, or only this attempt."""
        if failed.kind in TRANSIENT_KINDS:
            return [job.key for job in self._plan.jobs if job.build_key == build_key]
        planned = [self._outcomes.planned(job) for job in self._plan.jobs if job.build_key == build_key]
        on_images = failed.kind in VERIFICATION_KINDS
        return sorted({build_failure_keys(one.job, one.evaluation_id)[on_images] for one in planned})

    def _can_run(self, job: Job) -> bool:
        wanted = job.key in self._more or self._outcomes.of(job) is None
        return wanted and job.model in self._prepared and self._store.look(job.build_key) is not None

    def _publish(self) -> Iterator[Event]:
        self._publishing.turn()
        yield from self._complaint()

    def _complaint(self) -> Iterator[Event]:
        if message := self._publishing.complaint():
            yield TrackingDown(message)
