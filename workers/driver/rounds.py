"""The rounds of one device: in each, one timed block of every job that is still in the contest, in shuffled order."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from sweeps.errors import FINAL_KINDS
from sweeps.journal.outcomes import MAX_ATTEMPTS
from sweeps.protocol.stopping import shuffled_order
from sweeps.records import Block, Job
from workers.driver.batch_screen import Batches
from workers.driver.contests import Contests
from workers.driver.context import DeviceProgress, RunContext
from workers.driver.device_session import DeviceSession
from workers.driver.drift import DriftWatch
from workers.driver.scheduler import Task


class Rounds:
    """The rounds of one device, whose blocks are timed and stored here. A job that failed too often gets no more
    blocks."""

    def __init__(
        self, contact: DeviceSession, drift: DriftWatch, context: RunContext, progress: DeviceProgress
    ) -> None:
        self._contact = contact
        self._drift = drift
        self._context = context
        self._journal = context.journal
        self._protocol = context.protocol
        self._progress = progress
        self._batches = Batches(contact, context, progress)
        self._given_up: set[str] = set()

    def run(self, timed: Sequence[Job], accuracies: int) -> Task[None]:
        """Run rounds until all contests are decided. `accuracies`: the number of accuracy passes that follow, for the
        progress."""
        contests = Contests(timed, self._context)
        yield from contests.begin()
        by_key = {job.key: job for job in timed if job.key not in contests.same}
        earlier = self._measured_before(by_key)
        for blocks in earlier:
            self._contact.count_earlier(blocks)
        number = yield from self._batches.recall(contests, by_key)
        if contests.batches:
            contests.withdraw_beaten()
            yield from self._batches.run(contests, by_key, number)
            if self._contact.stopped():
                return
        for blocks in earlier:
            yield from contests.take(blocks)
        contests.withdraw_beaten()
        # An incomplete round is completed; otherwise the next one begins.
        elsewhere = {job.link for job in timed} - by_key.keys()
        common = {job.key: job for job in self._context.plan.jobs if job.key in elsewhere}
        if self._completes(common):
            yield from self._left_behind(contests, by_key, self._first_round(contests.active, common)[0])
        round_, complete = self._first_round(contests.active, common)
        full, spans = self._protocol.budget == "full", self._drift.spans
        while (keys := contests.active) or (full and self._drift.unchecked):
            if not keys:
                # The next check would find a shift, and discard blocks of jobs that need no further block. In a race a
                # shift is a warning, and decides nothing.
                yield from self._drift.check()
            # The variant by which units are compared is measured beside the variants that were assigned to this unit.
            links = {by_key[key].link for key in keys} & common.keys() - self._given_up
            total = self._progress.done + len((*keys, *links)) * max(1, self._protocol.rounds - complete) + accuracies
            # Jobs that already have their block stay in the order, which must not depend on where a run was
            # interrupted.
            for key in shuffled_order([*keys, *links], round_, self._protocol.seed):
                if self._contact.stopped():
                    return
                job = by_key[key] if key in by_key else common[key]
                yield self._progress.measuring(total, f"{job.name}, round {round_ + 1}", job.key)
                yield from self._block(job, round_, added=key in links)
                if self._contact.stopped():
                    return
                if key in self._given_up and key in by_key:
                    contests.withdraw(key)
                    if self._context.outcomes.has_failed(by_key[key]):
                        self._journal.outcomes.reopen(self._context.plan)
                self._progress.done += 1
            if self._contact.stopped():
                return
            before, spans = spans, self._drift.spans
            if full and spans != before:
                contests = yield from self._decided_again(timed, by_key)
            else:
                unchecked = self._drift.unchecked if full else ()
                yield from contests.take(self._measured_now([by_key[key] for key in keys], round_), unchecked)
            minutes = self._protocol.device_minutes
            if minutes is not None and self._contact.spent_s >= 60 * minutes:
                yield from contests.expire()
            round_, complete = round_ + bool(keys), complete + bool(keys)
        yield from self._confirm(contests, by_key)

    def _decided_again(self, timed: Sequence[Job], by_key: Mapping[str, Job]) -> Task[Contests]:
        """Return new contests, decided by the blocks that count now."""
        contests = Contests(timed, self._context)
        for blocks in self._measured_before(by_key):
            yield from contests.take(blocks, self._drift.unchecked)
        for key in self._given_up & by_key.keys():
            contests.withdraw(key)
        return contests

    def _confirm(self, contests: Contests, by_key: Mapping[str, Job]) -> Task[None]:
        """Measure the winners of races again, and the rivals that check deciding batches. If the device shifted
        meanwhile, it is unknown at which speed these blocks ran: the winners are measured once more."""
        while not self._contact.stopped():
            for key, confirmations in contests.winners.items():
                existing = self._journal.attempts.block_marks(key).confirmations
                missing = self._journal.outcomes.missing_confirmations(by_key[key], confirmations)
                yield from self._after_race(by_key[key], existing, existing + missing)
            for key, checks in contests.checked.items():
                yield from self._after_race(
                    by_key[key], self._journal.attempts.block_marks(key).checks, checks, checks=True
                )
            if not self._drift.unchecked:
                return
            yield from self._drift.check()

    def _after_race(self, job: Job, existing: int, blocks: int, *, checks: bool = False) -> Task[None]:
        """Measure the winner of a race again, because the blocks by which it won make it look too fast. With `checks`,
        measure its rival."""
        purpose = "checked" if checks else "confirmed"
        for number in range(existing, blocks):
            if self._contact.stopped():
                return
            if job.key in self._given_up:
                break
            left = blocks - number
            total = self._progress.done + left
            yield self._progress.measuring(total, f"{job.name}, {purpose} {number + 1} of {blocks}", job.key)
            round_ = 1 + max((block.round for block in self._journal.attempts.blocks(job.key)), default=-1)
            yield from self._block(job, round_, confirms=not checks, checks=checks)
            self._progress.done += 1
        if job.key in self._given_up and self._context.outcomes.has_failed(job):
            self._journal.outcomes.reopen(self._context.plan)

    def add(self, timed: Sequence[Job], more: Mapping[str, int]) -> Task[None]:
        """Measure further rounds of jobs that are measured already: as many as `more` has, by job key. They decide
        nothing."""
        keys = [job.key for job in timed]
        by_key = {job.key: job for job in timed}
        first = 1 + max((block.round for key in keys for block in self._journal.attempts.blocks(key)), default=-1)
        rounds = max((more[key] for key in keys), default=0)
        for round_ in range(first, first + rounds):
            for key in shuffled_order([key for key in keys if key not in self._given_up], round_, self._protocol.seed):
                if self._contact.stopped():
                    return
                yield self._progress.measuring(len(keys) * rounds, f"{by_key[key].name}, one more round", key)
                yield from self._block(by_key[key], round_, added=True)
                self._progress.done += 1

    def _measured_before(self, by_key: Mapping[str, Job]) -> list[list[Block]]:
        """Return the blocks of earlier runs, grouped by round in time order. Blocks that were added after a race belong
        to no round of it."""
        races = self._protocol.budget == "race"
        blocks = [block for key, job in by_key.items() for block in self._journal.attempts.blocks(key, job.sentinel)]
        counted = [block for block in blocks if block.races or (block.added and not races)]
        blocks = sorted(counted, key=lambda block: block.visit)
        return [list(visit) for _, visit in groupby(blocks, key=lambda block: block.visit)]

    def _measured_now(self, jobs: Sequence[Job], round_: int) -> list[Block]:
        """Return the blocks of one round of this run."""
        blocks = (block for job in jobs for block in self._journal.attempts.blocks(job.key, job.sentinel))
        return [block for block in blocks if block.round == round_ and block.session == self._context.session]

    def _first_round(self, keys: Sequence[str], common: Collection[str]) -> tuple[int, int]:
        """Return the number of the next round, and the number of complete rounds. `common`: the keys of jobs that are
        measured beside `keys`, and have more rounds."""
        blocks = [self._journal.attempts.blocks(key) for key in keys]
        # Blocks that confirmed the winner of an earlier race belong to no round.
        complete = min((sum(block.races or block.added for block in of_job) for of_job in blocks), default=0)
        if self._completes(common):
            return complete, complete
        blocks += [self._journal.attempts.blocks(key) for key in common]
        new = 1 + max((block.round for of_job in blocks for block in of_job), default=-1)
        return new, complete if common else new

    def _completes(self, common: Collection[str]) -> bool:
        """Tell whether the round in which an earlier run ended is continued; otherwise the next round begins, so that
        all its blocks are of one session."""
        return self._protocol.budget == "full" and not common

    def _left_behind(self, contests: Contests, by_key: Mapping[str, Job], round_: int) -> Task[None]:
        """Store the block that an earlier run had requested when that run died, if the block ended all the same. It is
        the first block of this run."""
        for key in shuffled_order([*contests.active], round_, self._protocol.seed):
            if not any(block.round == round_ for block in self._journal.attempts.blocks(key)):
                block = yield from self._contact.left_behind(by_key[key], round_, self._protocol)
                if block is not None:
                    self._journal.attempts.add_block(block)
                    yield from contests.take([block])
                return

    def _block(
        self, job: Job, round_: int, *, confirms: bool = False, checks: bool = False, added: bool = False
    ) -> Task[None]:
        if any(block.round == round_ for block in self._journal.attempts.blocks(job.key)):
            return
        # Failures are counted in this call, because the outcome of a job that is already measured does not show them.
        failures = 0
        outcomes = self._context.outcomes
        while not self._contact.stopped() and failures < MAX_ATTEMPTS and not outcomes.has_failed(job):
            block = yield from self._contact.timed(job, round_, self._protocol)
            if isinstance(block, Block):
                self._journal.attempts.add_block(replace(block, confirms=confirms, checks=checks, added=added))
                yield from self._drift.count_block(job.key)
                return
            if block is not None:
                failures = MAX_ATTEMPTS if block.kind in FINAL_KINDS else failures + 1
                yield outcomes.add_failure(job, block)
        self._given_up.add(job.key)
