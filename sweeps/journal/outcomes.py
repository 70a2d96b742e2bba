"""The outcomes of the journal's jobs, computed from their attempts on demand."""

from collections.abc import Callable
from dataclasses import dataclass

from sweeps.errors import FINAL_KINDS
from sweeps.journal.attempts import Attempts
from sweeps.journal.batch_table import Batches
from sweeps.journal.job_table import Jobs
from sweeps.journal.sentinels import Sentinels
from sweeps.planning.plan import Plan
from sweeps.planning.planned_job import PlannedJob
from sweeps.protocol.blocks import summarize
from sweeps.protocol.lost_rounds import lost_count, missing_confirmations, missing_rounds
from sweeps.protocol.presets import Protocol, protocol_of
from sweeps.protocol.settled_check import settles
from sweeps.records import Accuracy, Block, Failed, Job, Measured

MAX_ATTEMPTS = 3
"""The first attempt and two retries: after this many failures, an unfinished job has failed."""


def verified_key(build_key: str, evaluation_id: str | None) -> str:
    """Return the key of a failure that holds only for one evaluation set: with other images, the build is tried
    again."""
    return f"{build_key}@{evaluation_id}"


def build_failure_keys(job: Job, evaluation_id: str | None) -> tuple[str, str]:
    """Return the two keys of the build's failures: of failures that always hold, and of failures on one evaluation set.

    For a build that a reference implementation verifies, both keys contain the reference's version: with another
    version the build is tried again.
    """
    always = verified_key(job.build_key, job.reference) if job.emulated else job.build_key
    return always, verified_key(always, evaluation_id)


@dataclass(frozen=True, slots=True)
class Complete:
    """Finished job, without a summary of its blocks."""

    accuracy: Accuracy | None


class Outcomes:
    """Outcomes of the jobs of an open journal."""

    def __init__(self, jobs: Jobs, attempts: Attempts, batches: Batches, sentinels: Sentinels) -> None:
        self._jobs = jobs
        self._attempts = attempts
        self._batches = batches
        self._sentinels = sentinels

    def reopen(self, plan: Plan) -> None:
        """Reopen each job that left its race because of another job (its eliminator, or the leader of a race that
        batches decided), if that other job has failed or is no longer in the sweep."""
        protocol = protocol_of(plan.sweep)
        if protocol.budget != "race":
            return
        jobs = {job.key: job for job in plan.jobs}
        for key in jobs:
            settled = self._attempts.settled(key, protocol)
            if settled is None or not (settled.eliminated or settled.by_key):
                continue
            eliminator = jobs.get(settled.by_key)
            if eliminator is None or isinstance(self.in_sweep(plan.sweep.name, eliminator), Failed):
                self._attempts.add_settled(settled.reopened())

    def of_job(self, planned: PlannedJob) -> Measured | Failed | None:
        """Return the outcome of a job as `ending` does, but with the summary of all accepted blocks if the job is
        complete.

        A job that still lacks replacements for lost blocks has an outcome, too: its labels say what is wrong.
        """
        ended = self._ending(planned, is_enough=self._had_its_rounds)
        if not isinstance(ended, Complete):
            return ended
        job = planned.job
        if job.emulated:
            return Measured(timing=None, accuracy=ended.accuracy)
        # A block that only checks batches does not count for the job's figure. A job with no other block has no figure.
        blocks = [block for block in self._attempts.blocks(job.key, job.sentinel) if not block.checks]
        timing = summarize(job.key, blocks, planned.protocol) if blocks else None
        return Measured(timing=timing, accuracy=ended.accuracy)

    def ending(self, planned: PlannedJob) -> Complete | Failed | None:
        """Return the outcome of a job; `None` while the job is pending.

        `Complete`: the job's rounds ended (the maximum was reached, or they were settled earlier), or the job is only
        checked by a reference implementation; and the build has an accuracy by `planned.executor`, unless none is
        needed. `Failed`: the build failed once, or the job failed `MAX_ATTEMPTS` times or with a final kind of failure;
        the last failure is returned.
        """
        return self._ending(planned, is_enough=self.rounds_ended)

    def _ending(self, planned: PlannedJob, *, is_enough: Callable[[Job, Protocol], bool]) -> Complete | Failed | None:
        job, protocol, evaluation_id = planned.job, planned.protocol, planned.evaluation_id
        accuracy = None
        if evaluation_id is not None:
            accuracy = next(iter(self._attempts.accuracies(job.build_key, evaluation_id, planned.executor)), None)
        judged = evaluation_id is None or accuracy is not None
        if judged and (job.emulated or is_enough(job, protocol)):
            return Complete(accuracy)
        for key in build_failure_keys(job, evaluation_id):
            if build_failures := self._attempts.failures(key):
                return build_failures[-1]
        failures = self._attempts.failures(job.key)
        if failures and (len(failures) >= MAX_ATTEMPTS or failures[-1].kind in FINAL_KINDS):
            return failures[-1]
        return None

    def rounds_ended(self, job: Job, protocol: Protocol) -> bool:
        """Tell whether the job needs no more blocks under this protocol, not even to replace lost ones."""
        return self._had_its_rounds(job, protocol) and not self._lacks_lost(job, protocol)

    def _lacks_lost(self, job: Job, protocol: Protocol) -> bool:
        changed = self._changed(job)
        if not changed:
            return False
        if protocol.budget == "full":
            rounds = self._attempts.block_marks(job.key).rounds(added=True)
            return missing_rounds(protocol, rounds, lost_count(changed)) > 0
        settled = self._attempts.settled(job.key, protocol)
        return settled is not None and self.missing_confirmations(job, settled.confirmations) > 0

    def _had_its_rounds(self, job: Job, protocol: Protocol) -> bool:
        settled = self._attempts.settled(job.key, protocol)
        marks = self._attempts.block_marks(job.key)
        if settled is not None and (settled.confirmations > marks.confirmations or settled.checks > marks.checks):
            return False
        if marks.rounds(added=protocol.budget == "full") >= protocol.last_round:
            return True
        if settled is None or not settles(settled, protocol):
            return False
        return marks.blocks > 0 or settled.batches > 0 or settled.reason == "same_program"

    def missing_confirmations(self, job: Job, needed: int) -> int:
        """Return how many more confirmation blocks this winner of a race needs, to have `needed` that are not lost."""
        lost = lost_count(block for block in self._changed(job) if block.confirms)
        return missing_confirmations(needed, self._attempts.block_marks(job.key).confirmations, lost)

    def _changed(self, job: Job) -> tuple[Block, ...]:
        """Return the blocks of a job if any of them may be lost, otherwise none: most devices never shift, which saves
        reading blocks."""
        return (
            self._attempts.blocks(job.key, job.sentinel) if job.sentinel and self._sentinels.spans(job.sentinel) else ()
        )

    def in_sweep(self, sweep: str, job: Job) -> Measured | Failed | None:
        """Return the outcome (`of_job`) of the job as it was last planned in this sweep."""
        return self.of_job(self._jobs.planned(sweep, job.key))

    def was_raced(self, job_key: str) -> bool:
        """Tell whether the job was timed, in a separate process or in a batch."""
        return self._batches.has_timed(job_key) or self._attempts.block_count(job_key) > 0
