"""The measurements of one device in one run: rounds of timed blocks, accuracy passes, sentinel checks."""

from collections.abc import Callable, Sequence

from sweeps.device_facts import DeviceFacts
from sweeps.records import Job
from workers.driver.accuracy_pass import AccuracyPass
from workers.driver.builds import PendingBuilds
from workers.driver.canary import Canary
from workers.driver.context import DeviceProgress, RunContext
from workers.driver.device_session import DeviceSession
from workers.driver.drift import DriftWatch
from workers.driver.rounds import Rounds
from workers.driver.scheduler import Task
from workers.executors.interface import DeviceLane


class DeviceRun:
    """The part of a run that belongs to one device. `run()` yields events and ends early if the run is stopped."""

    def __init__(
        self,
        lane: DeviceLane,
        facts: DeviceFacts,
        jobs: Sequence[Job],
        context: RunContext,
        field: PendingBuilds,
        can_run: Callable[[Job], bool],
    ) -> None:
        """Prepare to run the pending `jobs`. `field`: the builds that are still missing for these jobs and for those
        they are compared with. `can_run` tells whether a job is pending and its artifact exists."""
        self._facts = facts
        self._jobs = list(jobs)
        self._field = field
        self._can_run = can_run
        self._context = context
        self._progress = DeviceProgress(facts.name)
        self._contact = DeviceSession(lane, facts, self._jobs, context)
        self._drift = DriftWatch(self._contact, facts, context, self._progress)
        self._rounds = Rounds(self._contact, self._drift, context, self._progress)
        self._accuracies = AccuracyPass(self._contact, context, self._progress)
        self._canary = Canary(self._contact, facts, context, self._progress)

    def run(self) -> Task[None]:
        evaluated = yield from self._evaluate_early()
        if not self._contact.stopped():
            # A round has a block of every job, and a race needs its whole field.
            yield from self._field.whole()
        if self._contact.stopped():
            return
        self._jobs[:] = [job for job in self._jobs if self._can_run(job)]
        if not self._jobs:
            return
        # Jobs that the device cannot run are checked by a reference implementation, without latency.
        timed = [job for job in self._jobs if not job.emulated]
        if not (yield from self._canary.run(timed)):
            return
        if self._context.protocol.budget == "race":
            # Accuracy comes before the race: a job that fails a constraint must not eliminate others. Evaluating warms
            # the device; the gate before the first block waits until it has cooled.
            unevaluated = [job for job in timed if job.key not in evaluated]
            yield from self._accuracies.run(unevaluated, self._blocks_of(timed))
            timed = self._raced_with(timed)
        if timed:
            yield from self._drift.check()
            if self._context.more:
                yield from self._rounds.add(timed, self._context.more)
                yield from self._drift.check()
            else:
                races = self._context.protocol.budget == "race"
                builds = {(job.build_key, job.variant.qengine) for job in self._jobs}
                yield from self._rounds.run(timed, 0 if races else len(builds))
        yield from self._accuracies.run(self._context.outcomes.pending(self._jobs))
        if not self._contact.stopped():
            yield self._progress.measuring(self._progress.done, "")

    def _evaluate_early(self) -> Task[set[str]]:
        """Evaluate pending jobs of a race while other artifacts are being built: in a race, accuracy comes first
        anyhow. Return the keys of the evaluated jobs.

        With any other budget latencies come first. A quarantined device is left alone until its canary.
        """
        timed = [job for job in self._jobs if not job.emulated]
        evaluated: set[str] = set()
        if self._context.protocol.budget != "race" or self._context.more:
            return evaluated
        if self._context.health.quarantine(self._facts) is not None:
            return evaluated
        while self._field.missing and not self._contact.stopped():
            left = [job for job in timed if job.key not in evaluated]
            built = [job for job in left if job.build_key not in self._field.missing]
            if built:
                evaluated.add(built[0].key)
                if self._can_run(built[0]):
                    yield from self._accuracies.run(built[:1], len(left) - 1 + self._blocks_of(timed))
                continue
            if self._progress.done:
                total = self._progress.done + len(left) + self._blocks_of(timed)
                yield self._progress.measuring(total, "waits for builds")
            yield from self._field.more()
        return evaluated

    def _blocks_of(self, timed: Sequence[Job]) -> int:
        return len(timed) * max(1, self._context.protocol.rounds)

    def _raced_with(self, pending: Sequence[Job]) -> list[Job]:
        """Return the pending jobs, and the jobs that raced before.

        With the same candidates, the recorded rounds lead to the same decisions again. New jobs are compared with the
        candidates that are still in the race.
        """
        if self._context.more:
            return list(pending)
        keys = {job.key for job in pending}
        models = {job.model for job in pending}
        return [
            job
            for job in self._context.plan.jobs
            if job.device_id == self._facts.device_id
            and job.model in models
            and not job.emulated
            and (job.key in keys or self._context.journal.outcomes.was_raced(job.key))
            and not self._context.outcomes.has_failed(job)
        ]
