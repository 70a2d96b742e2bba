"""The journal: one sqlite file per workspace, append-only attempts. It decides what is done and what is still to do.

Only what happened is stored; outcomes, staleness and "failed too often" are worked out when they are asked for.
Each call is one transaction. A `Journal` belongs to the thread that opened it; another thread or process opens its own.
"""

from dataclasses import dataclass

from sweeps.errors import FINAL_KINDS
from sweeps.journal.attempts import AttemptTables
from sweeps.planning.plan import Plan
from sweeps.planning.planned import PlannedJob
from sweeps.protocol.blocks import summarize
from sweeps.protocol.presets import Protocol, protocol_of
from sweeps.protocol.stopping import settles
from sweeps.records import Accuracy, Failed, Job, Measured

MAX_ATTEMPTS = 3
"""One and two retries: a job that failed so often without being finished has failed."""


def judged_key(build_key: str, evaluation_id: str | None) -> str:
    """The key of a build's failure that was found on the images of one evaluation set: other images, another chance."""
    return f"{build_key}@{evaluation_id}"


def build_failure_keys(job: Job, evaluation_id: str | None) -> tuple[str, str]:
    """Where failures of the job's build stand: those that hold always, and those found on one evaluation set.

    A build that a reference verifies has another chance with the next version of that reference.
    """
    always = judged_key(job.build_key, job.reference) if job.emulated else job.build_key
    return always, judged_key(always, evaluation_id)


@dataclass(frozen=True, slots=True)
class Complete:
    """A job that has all that was asked of it; its blocks are not summarised."""

    accuracy: Accuracy | None


class Journal(AttemptTables):
    """An open journal. Use it as a context manager, or call `close()`."""

    def save_plan(self, plan: Plan) -> None:
        """See `PlanTables.save_plan`. Jobs that lost a race to one that is no longer in it race again (`reopen`)."""
        super().save_plan(plan)
        self.reopen(plan)

    def reopen(self, plan: Plan) -> None:
        """Let jobs race again that lost to a job which the sweep no longer has, or which has failed since."""
        protocol = protocol_of(plan.sweep)
        if protocol.budget != "race":
            return
        jobs = {job.key: job for job in plan.jobs}
        for key in jobs:
            settled = self.settled(key, protocol)
            if settled is None or not settled.eliminated:
                continue
            winner = jobs.get(settled.by_key)
            if winner is None or isinstance(self.sweep_outcome(plan.sweep.name, winner), Failed):
                self.add_settled(settled.reopened())

    def outcome(self, planned: PlannedJob) -> Measured | Failed | None:
        """How the job ended so far, as `ending`; all accepted blocks of one that is measured are summarised."""
        ended = self.ending(planned)
        if not isinstance(ended, Complete):
            return ended
        job = planned.job
        if job.emulated:
            return Measured(timing=None, accuracy=ended.accuracy)
        timing = summarize(job.key, self.blocks(job.key, job.sentinel), planned.protocol)
        return Measured(timing=timing, accuracy=ended.accuracy)

    def ending(self, planned: PlannedJob) -> Complete | Failed | None:
        """Whether and how the job ended so far; `None` while it is pending.

        Complete: its rounds ended (it has all that there can be, or they were settled before), or it is only checked
        by a reference; and it has an accuracy by `planned.executor`, unless none is asked for. Failed: one failure of
        its build, or `MAX_ATTEMPTS` of its own (the last one is given).
        """
        job, protocol, evaluation_id = planned.job, planned.protocol, planned.evaluation_id
        accuracy = None
        if evaluation_id is not None:
            accuracy = next(iter(self._accuracy(job.build_key, evaluation_id, planned.executor)), None)
        judged = evaluation_id is None or accuracy is not None
        if judged and (job.emulated or self.rounds_ended(job, protocol)):
            return Complete(accuracy)
        for key in build_failure_keys(job, evaluation_id):
            if build_failures := self.failures(key):
                return build_failures[-1]
        failures = self.failures(job.key)
        if failures and (len(failures) >= MAX_ATTEMPTS or failures[-1].kind in FINAL_KINDS):
            return failures[-1]
        return None

    def rounds_ended(self, job: Job, protocol: Protocol) -> bool:
        """Whether the job needs no more blocks under this protocol."""
        blocks = self.block_count(job.key)
        if blocks >= protocol.last_round:
            return True
        settled = self.settled(job.key, protocol)
        return blocks > 0 and settled is not None and settles(settled, protocol)

    def sweep_outcome(self, sweep: str, job: Job) -> Measured | Failed | None:
        """`outcome` of the job as it was last planned in this sweep."""
        return self.outcome(self.planned_job(sweep, job.key))

    def sweep_ending(self, sweep: str, job: Job) -> Complete | Failed | None:
        """`ending` of the job as it was last planned in this sweep."""
        return self.ending(self.planned_job(sweep, job.key))
