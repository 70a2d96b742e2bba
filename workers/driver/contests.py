"""Contests of one device, one for each model, that decide which jobs still get rounds. Reads from and writes to the
journal."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sweeps.batches import BatchItem, group_of
from sweeps.journal.result_row import row_of_job
from sweeps.protocol.settled_check import settles
from sweeps.protocol.stopping import Contest
from sweeps.ranking.precedence import precedence
from sweeps.records import Block, Job, Measured
from sweeps.results import ResultRow
from sweeps.settled import Settled
from workers.driver.context import RunContext
from workers.driver.driver_events import Left
from workers.driver.same_program import same_programs


class Contests:
    """The contests of one device, one for each model: a sweep chooses among the variants of each model, so models do
    not compete."""

    def __init__(self, timed: Sequence[Job], context: RunContext) -> None:
        self._journal = context.journal
        self._protocol = protocol = context.protocol
        self._names = {job.key: job.name for job in timed}
        worth: Mapping[str, float] = {}
        front = context.plan.sweep.objective.front is not None
        self._same_program: dict[str, Settled] = {}
        if protocol.budget == "race":
            sweep = context.plan.sweep
            worth = precedence([self._untimed_row(job, context) for job in timed], sweep)
            # On a front, one of two such builds may be the more accurate one.
            self._same_program = {} if front else same_programs(timed, worth, context)
            timed = [job for job in timed if job.key not in self._same_program]
        self._contests: list[Contest] = []
        for model in dict.fromkeys(job.model for job in timed):
            names = {job.key: job.name for job in timed if job.model == model}
            merit = {key: worth[key] for key in names if key in worth}
            groups = {} if front else {job.key: group_of(job) for job in timed if job.model == model}
            device_id = timed[0].device_id
            decide = self._batches_decide(names, may=device_id in context.batches_decide)
            noise = context.batches_decide.get(device_id)
            self._contests.append(
                Contest(names, protocol, merit, front=front, groups=groups, batches_decide=decide, noise=noise)
            )
        self._beaten = self._still_beaten(worth)
        self._open: list[Settled] = []
        """The decisions to end a job that are not stored yet."""
        self._winners: dict[str, int] = {}
        self._checked: dict[str, int] = {}

    @property
    def same(self) -> Collection[str]:
        """Return the keys of the jobs that are not timed, because another job is the same program."""
        return self._same_program.keys()

    def begin(self) -> list[Left]:
        """Settle the jobs that are not timed, because another job is the same program."""
        return self._settle_all(self._same_program.values())

    @property
    def active(self) -> tuple[str, ...]:
        """Return the keys of the jobs in the next round."""
        return tuple(key for contest in self._contests for key in contest.active)

    @property
    def batches(self) -> tuple[tuple[str, ...], ...]:
        """Return the job keys of each batch to measure next; each batch is one process."""
        return tuple(keys for contest in self._contests for keys in contest.batches)

    @property
    def brief(self) -> frozenset[str]:
        """Return the job keys in `batches` that have short blocks, see `sweeps.protocol.screen.Screen.brief`."""
        return frozenset(key for contest in self._contests for key in contest.brief)

    @property
    def winners(self) -> Mapping[str, int]:
        """Return the number of blocks that confirm each winner, by job key. Races that are not decided have no
        entry."""
        return self._winners

    @property
    def checked(self) -> Mapping[str, int]:
        """Return the number of blocks of each nearest rival that check the deciding batches, by job key."""
        return self._checked

    def take(self, blocks: Sequence[Block], unchecked: Collection[str] = ()) -> list[Left]:
        """Add the blocks of one round. `unchecked`: as in `settle`."""
        self._open += [settled for contest in self._contests for settled in contest.take(blocks)]
        return self.settle(unchecked)

    def settle(self, unchecked: Collection[str] = ()) -> list[Left]:
        """Store the decisions that are not stored yet, except for the jobs in `unchecked`, whose blocks may still turn
        out not to count."""
        decided = [settled for settled in self._open if settled.job_key not in unchecked]
        self._open = [settled for settled in self._open if settled.job_key in unchecked]
        return self._settle_all(decided)

    def take_batch(self, *processes: Mapping[str, BatchItem], excluded: Collection[str] = ()) -> list[Left]:
        """Add one batch, whose jobs all belong to one model. See `Contest.take_batch`."""
        keys = {key for items in processes for key in items} | set(excluded)
        contests = [contest for contest in self._contests if keys & set(contest.contending)]
        return self._settle_all(
            settled for contest in contests for settled in contest.take_batch(*processes, excluded=excluded)
        )

    def expire(self) -> list[Left]:
        """End all contests, because the device's time is used up."""
        return self._settle_all(settled for contest in self._contests for settled in contest.expire())

    def withdraw(self, key: str) -> None:
        for contest in self._contests:
            contest.withdraw(key)

    def withdraw_beaten(self) -> None:
        """Remove the jobs that lost before this run. Call this after their blocks were added."""
        for key in self._beaten:
            self.withdraw(key)

    def _untimed_row(self, job: Job, context: RunContext) -> ResultRow:
        """Return the result row of a job that is not timed yet: with its accuracy, if that is known."""
        planned = context.outcomes.planned(job)
        evaluation_id = planned.evaluation_id or ""
        accuracy = self._journal.attempts.accuracy(job.build_key, evaluation_id, job.variant.qengine, planned.executor)
        outcome = Measured(timing=None, accuracy=accuracy)
        return row_of_job(context.plan.sweep.name, planned, outcome, (), self._journal.artifacts.latest(job.build_key))

    def _batches_decide(self, keys: Iterable[str], *, may: bool) -> bool:
        """Tell whether batches decide, as they did at the start of the race: the facts about the device may have
        changed since. `may`: whether batches decide in a race that begins now."""
        if any(self._journal.attempts.block_marks(key).rounds(added=False) for key in keys):
            return False  # the race has finals
        before = [
            settled for key in keys if (settled := self._journal.attempts.settled(key, self._protocol)) is not None
        ]
        if any(settled.batches_decide for settled in before):
            return True
        return may and all(settled.reason == "out_of_time" for settled in before)

    def _still_beaten(self, worth: Mapping[str, float]) -> set[str]:
        """Return the keys of the jobs that stay eliminated, and reopen the others. New jobs make the confidence bounds
        wider: a job that was eliminated without them stays out only as long as the job that eliminated it is in the
        race and has no lower precedence."""
        beaten = set()
        for key in (key for key in self._names if key not in self._same_program):
            before = self._journal.attempts.settled(key, self._protocol)
            if before is None or not before.eliminated or not settles(before, self._protocol):
                continue
            if before.by_key in worth and worth[before.by_key] >= worth[key]:
                beaten.add(key)
            else:
                self._journal.attempts.add_settled(before.reopened())
        return beaten

    def _settle_all(self, decisions: Iterable[Settled]) -> list[Left]:
        """Store the decisions of one round together, then return the events that report them."""
        decided = list(decisions)
        with self._journal.transaction():
            return [left for settled in decided for left in self._settle(settled)]

    def _settle(self, settled: Settled) -> Iterator[Left]:
        if settled.budget == "full" and self._protocol.last_round == self._protocol.rounds:
            return  # the job had all possible rounds: nothing was decided
        if settled.job_key in self._beaten:
            return
        if settled.confirmations:
            self._winners[settled.job_key] = settled.confirmations
        if settled.checks:
            self._checked[settled.job_key] = settled.checks
        before = self._journal.attempts.settled(settled.job_key, self._protocol)
        # Another version of EdgeSweep may word the same decision differently: that is no new decision. Nor is it one if
        # a device came back, and the rounds that seemed lost had been measured again.
        stable = before is not None and before.reason == settled.reason == "stable"
        if before is None or not (
            (stable and settles(before, self._protocol)) or replace(before, message="") == replace(settled, message="")
        ):
            self._journal.attempts.add_settled(settled)
            yield Left(self._names[settled.job_key], settled)
