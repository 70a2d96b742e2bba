"""The expected work of a run's devices, from the plan and from earlier runs, for the schedule."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from sweeps.journal.journal import Journal
from sweeps.planning.plan import Plan
from sweeps.planning.size import block_seconds, evaluation_seconds
from sweeps.records import Accuracy, Job
from workers.driver.plan_outcomes import Outcomes
from workers.driver.schedule import Schedule


class Forecast:
    """The expected work of a run, from the plan and the journal, before the first build."""

    def __init__(self, plan: Plan, outcomes: Outcomes, journal: Journal, more: Mapping[str, int]) -> None:
        """Prepare the forecast of a run; `more` is as in `RunContext`."""
        self._plan = plan
        self._more = more
        self._outcomes = outcomes
        self._journal = journal
        self._evaluations: set[tuple[str, str]] = set()

    def tell(
        self,
        schedule: Schedule,
        pending: Iterable[Job],
        needed: Sequence[Job],
        building: Collection[str],
        beside: Collection[str],
    ) -> None:
        """Report the expected work to the schedule. `needed`: the jobs whose artifacts their devices wait for.
        `building`: the keys of the artifacts that have to be built. `beside`: the ids of the devices that measure while
        other devices' artifacts are built; artifacts that only the remaining devices need are built last."""
        for job in self._plan.jobs:
            self._learn(schedule, job)
        for job in pending:
            self._expect(schedule, job)
        for job in needed:
            if job.device_id in beside and job.build_key in building:
                schedule.wait(job.device_id, job.build_key)
        needed_beside = {job.build_key for job in needed if job.device_id in beside}
        needed_later = {job.build_key for job in needed if job.device_id not in beside}
        for key in building:
            if key in needed_later or key not in needed_beside:
                schedule.want(key)

    def _learn(self, schedule: Schedule, job: Job) -> None:
        block_s, evaluation_s = self._guesses_s(job)
        count, seconds = self._journal.times.block_seconds(job.key)
        schedule.learn(job.device_id, job.build_key, "block", seconds, block_s, count)
        if (accuracy := self._accuracy(job)) is not None:
            took_s = accuracy.device_seconds + accuracy.push_seconds
            schedule.learn(job.device_id, job.build_key, "evaluation", took_s, evaluation_s)

    def _accuracy(self, job: Job) -> Accuracy | None:
        planned = self._outcomes.planned(job)
        if planned.evaluation_id is None:
            return None
        return self._journal.attempts.accuracy(
            job.build_key, planned.evaluation_id, job.variant.qengine, planned.executor
        )

    def _guesses_s(self, job: Job) -> tuple[float, float]:
        """Return the expected seconds of a block and of an evaluation."""
        protocol = self._plan.protocol.on(job.device_id)
        return block_seconds(self._plan, protocol, job), evaluation_seconds(self._plan, job)

    def _expect(self, schedule: Schedule, job: Job) -> None:
        """Report the expected blocks and evaluation of a job. The number of rounds of a race is not known in advance;
        the rounds up to its first decision stand for them."""
        block_s, evaluation_s = self._guesses_s(job)
        if not job.emulated:
            planned = self._plan.protocol.on(job.device_id).rounds - self._journal.attempts.block_count(job.key)
            rounds = self._more.get(job.key, planned)
            schedule.expect(job.device_id, job.build_key, "block", max(0, rounds), block_s)
        # Jobs of one build share its evaluation.
        once = (job.device_id, job.build_key)
        has_evaluation = self._outcomes.planned(job).evaluation_id is not None and self._accuracy(job) is None
        if has_evaluation and once not in self._evaluations:
            self._evaluations.add(once)
            schedule.expect(job.device_id, job.build_key, "evaluation", 1, evaluation_s)
