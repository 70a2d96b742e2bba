"""Which jobs of one device still get rounds: one contest for each model, fed with blocks, from and to the journal."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sweeps.protocol.stopping import Contest, settles
from sweeps.ranking.precedence import precedence
from sweeps.records import Block, Job, Measured, Settled
from sweeps.results import ResultRow
from sweeps.store.run_content import of_job
from workers.driver.context import RunContext
from workers.driver.events import Left


class Contests:
    """What is asked is which of a model's variants to ship, not which model: models do not compete."""

    def __init__(self, timed: Sequence[Job], context: RunContext) -> None:
        self._journal = context.journal
        self._protocol = protocol = context.protocol
        self._names = {job.key: job.name for job in timed}
        worth: Mapping[str, float] = {}
        if protocol.budget == "race":
            sweep = context.plan.sweep
            worth = precedence([self._untimed_row(job, context) for job in timed], sweep)
        front = context.plan.sweep.objective.front is not None
        self._contests: list[Contest] = []
        for model in dict.fromkeys(job.model for job in timed):
            names = {job.key: job.name for job in timed if job.model == model}
            merit = {key: worth[key] for key in names if key in worth}
            self._contests.append(Contest(names, protocol, merit, front=front))
        self._beaten = self._still_beaten(worth)

    @property
    def contending(self) -> tuple[str, ...]:
        """Keys of the jobs that the next round is for."""
        return tuple(key for contest in self._contests for key in contest.contending)

    def take(self, blocks: Sequence[Block]) -> Iterator[Left]:
        """The blocks of one round."""
        for contest in self._contests:
            for settled in contest.take(blocks):
                yield from self._settle(settled)

    def expire(self) -> Iterator[Left]:
        """The device's time is over."""
        for contest in self._contests:
            for settled in contest.expire():
                yield from self._settle(settled)

    def withdraw(self, key: str) -> None:
        for contest in self._contests:
            contest.withdraw(key)

    def withdraw_beaten(self) -> None:
        """Those that lost before this run, once the contests have seen their blocks."""
        for key in self._beaten:
            self.withdraw(key)

    def _untimed_row(self, job: Job, context: RunContext) -> ResultRow:
        """As it is known before it is timed: its accuracy, if that is known yet."""
        planned = context.outcomes.planned(job)
        evaluation_id = planned.evaluation_id or ""
        accuracy = self._journal.accuracy(job.build_key, evaluation_id, job.variant.qengine, planned.executor)
        outcome = Measured(timing=None, accuracy=accuracy)
        return of_job(context.plan.sweep.name, planned, outcome, (), self._journal.artifact(job.build_key)).row

    def _still_beaten(self, worth: Mapping[str, float]) -> set[str]:
        """Newcomers make the bounds wider. A job that was beaten beyond doubt without them stays out, while the job
        that beat it is in the race and worth no less. The others come back."""
        found = set()
        for key in self._names:
            before = self._journal.settled(key, self._protocol)
            if before is None or not before.eliminated or not settles(before, self._protocol):
                continue
            if before.by_key in worth and worth[before.by_key] >= worth[key]:
                found.add(key)
            else:
                self._journal.add_settled(before.reopened())
        return found

    def _settle(self, settled: Settled) -> Iterator[Left]:
        if settled.budget == "full" and self._protocol.last_round == self._protocol.rounds:
            return  # it has all the rounds that there are: nothing was decided
        if settled.job_key in self._beaten:
            return
        before = self._journal.settled(settled.job_key, self._protocol)
        # Another version may say the same in other words: nothing new was decided then.
        if before is None or replace(before, message="") != replace(settled, message=""):
            self._journal.add_settled(settled)
            yield Left(self._names[settled.job_key], settled)
