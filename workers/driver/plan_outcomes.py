"""The outcomes of a plan's jobs so far."""

from collections.abc import Iterable

from sweeps.errors import FINAL_KINDS
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import MAX_ATTEMPTS, Complete
from sweeps.planning.plan import Plan
from sweeps.planning.planned_job import PlannedJob, planned_job
from sweeps.records import Failed, Job
from workers.driver.driver_events import AttemptFailed


class Outcomes:
    """The outcomes of one plan's jobs. Nothing is cached: each call reads the journal."""

    def __init__(self, journal: Journal, plan: Plan) -> None:
        self._journal = journal
        jobs = (*plan.jobs, *plan.sentinels)
        self._planned: dict[str, PlannedJob] = {job.key: planned_job(plan, job) for job in jobs}

    def of(self, job: Job) -> Complete | Failed | None:
        """Return the outcome of a job; `None` while it is pending."""
        return self._journal.outcomes.ending(self._planned[job.key])

    def planned(self, job: Job) -> PlannedJob:
        return self._planned[job.key]

    def pending(self, jobs: Iterable[Job]) -> list[Job]:
        return [job for job in jobs if self.of(job) is None]

    def has_failed(self, job: Job) -> bool:
        return isinstance(self.of(job), Failed)

    def is_measured(self, job: Job) -> bool:
        return isinstance(self.of(job), Complete)

    def add_failure(self, job: Job, failed: Failed) -> AttemptFailed:
        """Store a failed attempt, and return the event that reports it."""
        self._journal.attempts.add_failure(job.key, failed)
        final = failed.kind in FINAL_KINDS or len(self._journal.attempts.failures(job.key)) >= MAX_ATTEMPTS
        return AttemptFailed(job.name, failed, final=final)
