"""The measurements of one device in one run: rounds of timed blocks, accuracy passes, sentinel checks."""

from collections.abc import Sequence

from sweeps.device_facts import DeviceFacts
from sweeps.records import Job
from workers.driver.accuracy_pass import AccuracyPass
from workers.driver.canary import Canary
from workers.driver.contact import Contact
from workers.driver.context import DeviceProgress, RunContext
from workers.driver.drift import DriftWatch
from workers.driver.rounds import Rounds
from workers.driver.side_by_side import Steps
from workers.executors.interface import DeviceLane


class DeviceRun:
    """One device's part of a run. `run()` yields events and ends early if the run is stopped."""

    def __init__(self, lane: DeviceLane, facts: DeviceFacts, jobs: Sequence[Job], context: RunContext) -> None:
        """`jobs`: pending jobs with built artifacts."""
        self._facts = facts
        self._jobs = jobs
        self._context = context
        self._progress = DeviceProgress(facts.name)
        self._contact = Contact(lane, facts, jobs, context)
        self._drift = DriftWatch(self._contact, facts, context, self._progress)
        self._rounds = Rounds(self._contact, self._drift, context, self._progress)
        self._accuracies = AccuracyPass(self._contact, context, self._progress)
        self._canary = Canary(self._contact, facts, context, self._progress)

    def run(self) -> Steps[None]:
        # Jobs that the device cannot run are checked by a reference implementation, without latency.
        timed = [job for job in self._jobs if not job.emulated]
        if not (yield from self._canary.run(timed)):
            return
        if self._context.protocol.budget == "race":
            # Accuracy comes before the race: a job that fails a constraint must not eliminate others.
            # This warms the device; the gate before the first block waits until it has cooled.
            yield from self._accuracies.run(timed)
            timed = self._raced_with(timed)
        if timed:
            yield from self._drift.check()
            if self._context.more:
                yield from self._rounds.add(timed, self._context.more)
            else:
                yield from self._rounds.run(timed, len({(job.build_key, job.variant.qengine) for job in self._jobs}))
            yield from self._drift.check()
        yield from self._accuracies.run(self._context.outcomes.pending(self._jobs))
        if not self._contact.stopped():
            yield self._progress.measuring(self._progress.done, "")

    def _raced_with(self, pending: Sequence[Job]) -> list[Job]:
        """The pending jobs, and the jobs that raced before.

        With the same candidates, the recorded rounds give the same decisions again. New jobs are compared with the
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
            and (job.key in keys or self._context.journal.was_raced(job.key))
            and not self._context.outcomes.has_failed(job)
        ]
