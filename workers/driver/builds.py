"""The builds of one run, built while devices measure finished builds."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import build_failure_keys
from sweeps.manifest import Manifest
from sweeps.planning.plan import Plan
from sweeps.records import Failed, Job
from workers.artifacts import TRANSIENT_KINDS, ArtifactStore
from workers.driver.driver_events import AttemptFailed, Building
from workers.driver.plan_outcomes import Outcomes
from workers.driver.schedule import Schedule
from workers.driver.scheduler import Call, Task, WaitUntil
from workers.executors.build_queue import BuildQueue
from workers.executors.interface import BuildRequest, Builds, Executor
from workers.models.prepared_model import PreparedModel

VERIFICATION_KINDS = frozenset({"low_sqnr", "accuracy_lost", "invalid_output"})
"""Build failures that depend on the evaluation images: with other images the build may succeed."""

_Step = tuple[BuildRequest, Manifest | Failed | None] | None
"""The start of a build (`None` in the second place) or its outcome; `None` alone: no build is left."""


class RunBuilds:
    """The builds that a run needs, and their progress. `steps` runs the builds; a `PendingBuilds` tells a device which
    of its builds it still waits for."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        outcomes: Outcomes,
        store: ArtifactStore,
        schedule: Schedule,
        stop: Callable[[], bool],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create an empty set of builds; `look` adds those of the plan. `now_s` returns the seconds of a clock that is
        never set."""
        self._now_s = now_s
        self._plan = plan
        self._journal = journal
        self._outcomes = outcomes
        self._store = store
        self._schedule = schedule
        self._stop = stop
        self._jobs: dict[str, Job] = {}
        """One job for each build that has not ended, by build key."""
        self._running: dict[str, tuple[str, float]] = {}
        """The builds that run now: their names and the times (s) at which they began, by build key."""
        self._done = 0

    def look(self, jobs: Iterable[Job]) -> None:
        """Find out which artifacts exist, and which have to be built."""
        existing: dict[str, Manifest] = {}
        for job in jobs:
            if job.build_key in self._jobs or job.build_key in existing:
                continue
            if (manifest := self._store.find(job.build_key)) is None:
                self._jobs[job.build_key] = job
            else:
                existing[job.build_key] = manifest
        with self._journal.transaction():
            for manifest in existing.values():
                self._journal.artifacts.add(manifest)

    @property
    def waiting(self) -> frozenset[str]:
        """Return the keys of the builds that have not ended."""
        return frozenset(self._jobs)

    def field(self, jobs: Sequence[Job], *, quiet: bool = False) -> "PendingBuilds":
        """Return the builds that one device waits for: those of `jobs`; with `quiet` all builds of the run, so that the
        device measures only while nothing is built."""
        keys = frozenset(job.build_key for job in jobs) & self._jobs.keys()
        return PendingBuilds(self._jobs, frozenset(self._jobs) if quiet else keys)

    def steps(self, executor: Executor, prepared: Mapping[str, PreparedModel]) -> Task[None]:
        """Build everything. At the end no device waits for a build any more, even if the run was stopped."""
        requests = [BuildRequest(key, job.variant, prepared[job.model].build_inputs) for key, job in self._jobs.items()]
        queue = BuildQueue(
            requests,
            rank=lambda request: self._schedule.rank(request.build_key),
            seconds=lambda request: self._schedule.build_s(_like(request)),
        )
        yield Building(0, len(requests), ())
        stopping = False
        builds = executor.build(queue, lambda: stopping)
        while True:
            # The request to stop is read in the thread of the journal: nothing new is started before the next look.
            stopping = self._stop()
            step: _Step = yield Call(lambda: self._next(builds))
            if step is None:
                break
            request, outcome = step
            yield from self._take(request, outcome)
            running = tuple(name for name, _ in self._running.values())
            yield Building(self._done, len(requests) - queue.left_out, running)
        for key in [*self._jobs]:
            self._end(key)

    def _next(self, builds: Builds) -> _Step:
        """Return the next step. Runs in the thread of the builds, which also checks the artifact."""
        for request, outcome in builds:
            return request, outcome if outcome is None or isinstance(outcome, Failed) else self._store.unpack(outcome)
        return None

    def _take(self, request: BuildRequest, outcome: Manifest | Failed | None) -> Task[None]:
        key = request.build_key
        if outcome is None:
            self._running[key] = self._jobs[key].name, self._now_s()
            return
        name, began_s = self._running.pop(key)
        self._done += 1
        if isinstance(outcome, Failed):
            with self._journal.transaction():
                for failure_key in self._failure_keys(key, outcome):
                    self._journal.attempts.add_failure(failure_key, outcome)
            self._end(key)
            yield AttemptFailed(name, outcome, final=outcome.kind not in TRANSIENT_KINDS)
        else:
            self._journal.artifacts.add(outcome)
            self._schedule.built(key, _like(request), self._now_s() - began_s)
            self._end(key)

    def _end(self, key: str) -> None:
        self._schedule.drop(key)
        del self._jobs[key]

    def _failure_keys(self, build_key: str, failed: Failed) -> list[str]:
        """Return the keys under which the failure is stored. A transient failure counts as one attempt of each job of
        the build; one that depends on the evaluation images holds for the variant on these images, any other for the
        variant."""
        if failed.kind in TRANSIENT_KINDS:
            return [job.key for job in self._plan.jobs if job.build_key == build_key]
        planned = [self._outcomes.planned(job) for job in self._plan.jobs if job.build_key == build_key]
        on_images = failed.kind in VERIFICATION_KINDS
        return sorted(
            {build_failure_keys(planned_job.job, planned_job.evaluation_id)[on_images] for planned_job in planned}
        )


class PendingBuilds:
    """The builds that one device waits for before it compares anything. Builds that only other devices need are not
    among them."""

    def __init__(self, not_ended: Mapping[str, Job], keys: frozenset[str]) -> None:
        """Wait for the builds with these `keys`. `not_ended`: the jobs of builds that have not ended, by build key; it
        shrinks as builds end."""
        self._not_ended = not_ended
        self._keys = keys

    @property
    def missing(self) -> frozenset[str]:
        """Return the keys of the device's builds that have not ended."""
        return self._keys & self._not_ended.keys()

    def whole(self) -> Task[None]:
        """Wait until all builds of the device have ended."""
        if self.missing:
            yield WaitUntil(lambda: not self.missing)

    def more(self) -> Task[None]:
        """Wait until another build has ended."""
        before = self.missing
        if before:
            yield WaitUntil(lambda: self.missing != before)


def _like(request: BuildRequest) -> str:
    """Return a text that is equal for builds that take about equally long."""
    variant = request.variant
    return f"{id(request.inputs)} {variant.runtime} {variant.backend} {variant.precision} {variant.quantization}"
