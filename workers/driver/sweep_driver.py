"""The driver, which runs a plan to its end: models, builds, rounds, accuracy. A generator of events, independent of the
terminal.

Everything is in the journal before its event is yielded, so the driver may be killed at any time and started again.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sweeps.device_facts import DeviceFacts
from sweeps.errors import ClusterError, DataError, ModelError
from sweeps.journal.journal import Journal
from sweeps.json_records import to_json
from sweeps.planning.plan import Plan
from sweeps.protocol import sentinel_rules
from sweeps.quarantine import QuarantineBook
from sweeps.records import Failed, Job
from sweeps.spec import catalog
from sweeps.spec.model_inputs import ModelSpec
from sweeps.temporary import delete_abandoned
from workers.artifacts import ArtifactStore
from workers.driver.builds import RunBuilds
from workers.driver.context import RunContext
from workers.driver.device_recovery import merge_host_events, quarantined
from workers.driver.device_run import DeviceRun
from workers.driver.driver_events import AttemptFailed, Away, Event, Preparing, Published, TrackingDown
from workers.driver.forecast import Forecast
from workers.driver.health import Health
from workers.driver.ladder import AWAY_WAIT, AwayWait
from workers.driver.plan_outcomes import Outcomes
from workers.driver.publisher_interface import Publishing
from workers.driver.schedule import Schedule
from workers.driver.scheduler import Call, Task, run_tasks
from workers.executors.interface import DeviceLane, Executor
from workers.models.prepared_model import PreparedModel

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
        """Prepare a run of one plan. `more`: only measure this many further rounds of these jobs (by key), which are
        measured already. `batches_decide`: as in `RunContext`. `book`: the quarantine book, by default that of this
        user."""
        self._plan = plan
        self._journal = journal
        self._outcomes = Outcomes(journal, plan)
        self._store = store
        self._executor = executor
        self._prepare = prepare
        self._publishing = publishing
        self._stop = stop
        self._prepared: dict[str, PreparedModel] = {}
        self._health = Health(book or QuarantineBook(), away_wait)
        schedule = Schedule()
        earlier = journal.times.last_session()
        self._builds = RunBuilds(plan, journal, self._outcomes, store, schedule, stop)
        self._context = RunContext(
            plan=plan,
            protocol=plan.protocol,
            journal=journal,
            outcomes=self._outcomes,
            prepared=self._prepared,
            # The session number is a new one even if two runs start in one second, or the clock was set back.
            session=max(int(time.time()), earlier + 1),
            earlier=earlier,
            publish=self._publish,
            stop=stop,
            more=more or {},
            health=self._health,
            batches_decide=batches_decide,
            schedule=schedule,
        )

    def run(self) -> Iterator[Event]:
        """Run the plan, and yield its events. If a model or its data cannot be used, only the jobs of that model
        fail."""
        delete_abandoned()  # the files of killed drivers and of their builders
        self._journal.save_plan(self._plan)
        if (
            not self._context.more
        ):  # jobs with added rounds are finished before and after each round: they are published once, at the end
            self._publishing.beside()
        if self._context.more:
            pending = [job for job in self._plan.jobs if job.key in self._context.more]
        else:
            pending = self._outcomes.pending(self._plan.jobs)
        # Devices come first, so that nothing is built for a device that no host has.
        lanes, away_events = self._lanes(pending)
        yield from away_events
        reachable = {facts.device_id for facts in lanes}
        pending = [job for job in pending if job.device_id in reachable]
        # A build that was measured and whose file is missing or damaged is built again, so that it can be exported.
        timed = {job.device_id for job in pending if not job.emulated}
        lost = [
            job
            for job in self._plan.jobs
            if self._outcomes.is_measured(job) and self._store.look(job.build_key) is None
        ]
        try:
            sentinels = [job for job in self._plan.sentinels if job.device_id in timed]
            yield from self._prepare_models([*pending, *sentinels, *lost])
            pending, sentinels, lost = (
                [job for job in jobs if job.model in self._prepared] for jobs in (pending, sentinels, lost)
            )
            self._builds.look([*pending, *sentinels, *lost])
            links = {job.link for job in pending}
            common = [job for job in lost if job.key in links]
            # A race compares new jobs with those that were measured before; units are compared by one of these.
            needed = [*pending, *sentinels, *(lost if self._context.protocol.budget == "race" else common)]
            yield from self._measure(lanes, pending, needed)
        finally:
            for lane in lanes.values():
                lane.close()
        for done, total in self._publishing.drain(self._stop):
            yield from self._complaint()
            if total:
                yield Published(done, total)
        yield from self._complaint()

    def _measure(
        self, lanes: Mapping[DeviceFacts, DeviceLane], pending: Sequence[Job], needed: Sequence[Job]
    ) -> Iterator[Event]:
        """Build, and measure meanwhile. `needed`: the jobs whose artifacts must exist before a device compares
        anything. The local device is measured last: builds, and the hosts of the other devices, load this machine
        too."""
        jobs, fields = _by_device(pending), _by_device(needed)

        def run(facts: DeviceFacts) -> Task[None]:
            device_id = facts.device_id
            return self._device_run(lanes[facts], facts, jobs.get(device_id, []), fields.get(device_id, []))

        local = [facts for facts in lanes if catalog.is_host(facts.name)]
        beside = [facts for facts in lanes if not catalog.is_host(facts.name)]
        runs = [run(facts) for facts in beside]
        building = self._builds.waiting
        beside_ids = {facts.device_id for facts in beside if not catalog.is_here(facts)}
        if beside or building:
            forecast = Forecast(self._plan, self._outcomes, self._journal, self._context.more)
            forecast.tell(self._context.schedule, pending, needed, building, beside_ids)
        if building:
            runs.insert(0, self._builds.steps(self._executor, self._prepared))
        yield from merge_host_events(run_tasks(runs))
        if local:
            self._publishing.between()
        runs = [run(facts) for facts in local]
        yield from merge_host_events(run_tasks(runs))

    def _lanes(self, pending: Sequence[Job]) -> tuple[dict[DeviceFacts, DeviceLane], list[Away]]:
        """Return the lanes of the devices with pending jobs, and an `Away` for each device that no host has now or that
        a person quarantined: the jobs of these devices wait."""
        lanes: dict[DeviceFacts, DeviceLane] = {}
        away_events: list[Away] = []
        by_device = _by_device(pending)
        for facts in self._plan.devices:
            jobs = by_device.get(facts.device_id, [])
            quarantine = self._health.quarantine(facts) if jobs else None
            if quarantine is not None and quarantine.by == "person":
                away_events.append(Away(facts.name, quarantined(facts, quarantine), len(self._outcomes.pending(jobs))))
                continue
            try:
                if jobs:
                    lanes[facts] = self._executor.lane(facts)
            except ClusterError as error:
                failed = Failed(stage="run", kind="offline", message=error.one_line)
                away_events.append(Away(facts.name, failed, len(self._outcomes.pending(jobs))))
        return lanes, away_events

    def _device_run(
        self, lane: DeviceLane, facts: DeviceFacts, jobs: Sequence[Job], needed: Sequence[Job]
    ) -> Task[None]:
        """Measure the `jobs` of one device."""
        field = self._builds.field(needed, quiet=catalog.is_here(facts))
        context = replace(self._context, protocol=self._plan.protocol.on(facts.device_id))
        yield from DeviceRun(lane, facts, jobs, context, field, self._can_run).run()
        # Artifacts that only this device waits for are not built any more.
        self._context.schedule.leave(facts.device_id)
        # Another sweep may use this device while slower devices are still measuring.
        yield Call(lane.close)

    def _prepare_models(self, pending: Sequence[Job]) -> Iterator[Event]:
        names = {job.model for job in pending}
        for model in (*self._plan.sweep.models, sentinel_rules.MODEL):
            if model.name in names and not self._stop():
                yield Preparing(model.name)
                try:
                    prepared = self._prepared[model.name] = self._prepare(model)
                except (ModelError, DataError) as error:
                    yield self._unusable(model.name, error, pending)
                    continue
                with self._journal.transaction():
                    for manifest in (prepared.calibration_manifest, prepared.evaluation_manifest):
                        self._journal.artifacts.add_data(self._plan.sweep.name, manifest.id, to_json(manifest))

    def _unusable(self, model: str, error: ModelError | DataError, pending: Sequence[Job]) -> AttemptFailed:
        failed = Failed(
            stage="load", kind="bad_model" if isinstance(error, ModelError) else "bad_data", message=error.one_line
        )
        with self._journal.transaction():
            for job in pending:
                if job.model == model and self._outcomes.of(job) is None:
                    self._journal.attempts.add_failure(job.key, failed)
        return AttemptFailed(model, failed, final=True)

    def _can_run(self, job: Job) -> bool:
        is_open = job.key in self._context.more or self._outcomes.of(job) is None
        return is_open and job.model in self._prepared and self._store.look(job.build_key) is not None

    def _publish(self) -> Iterator[Event]:
        self._publishing.turn()
        yield from self._complaint()

    def _complaint(self) -> Iterator[Event]:
        if message := self._publishing.complaint():
            yield TrackingDown(message)


def _by_device(jobs: Iterable[Job]) -> dict[str, list[Job]]:
    by_device: dict[str, list[Job]] = {}
    for job in jobs:
        by_device.setdefault(job.device_id, []).append(job)
    return by_device
