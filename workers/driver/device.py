"""The measurements of one device in one run: rounds of timed blocks, accuracy passes, looks at the sentinel."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, TypeVar, assert_never

from sweeps.errors import ABSENT_KINDS, FINAL_KINDS, HOST_KINDS, RunnerError
from sweeps.journal.journal import MAX_ATTEMPTS, Journal
from sweeps.planning.plan import Plan
from sweeps.protocol import sentinel
from sweeps.protocol.presets import Protocol
from sweeps.protocol.stopping import Contest, order, settles
from sweeps.ranking.precedence import precedence
from sweeps.records import Accuracy, Block, DeviceFacts, Failed, Job, Measured, Settled
from sweeps.store.run_content import untimed_row
from workers.driver.events import Attempt, Away, DeviceChanged, Event, Left, Measuring, Waiting
from workers.driver.side_by_side import Ask, Steps
from workers.executors.interface import DeviceLane
from workers.measure.bench import Evaluation
from workers.measure.readiness import Readiness
from workers.measure.waiting import LOOK_S, Patience
from workers.models.accuracy import evaluate
from workers.models.package import Logits
from workers.models.prepare import PreparedModel

Answer = TypeVar("Answer")

_SENTINEL_BLOCK: dict[str, Any] = {
    "warmup_iterations": 0,
    "warmup_seconds": 0.2,
    "iterations": 5,
    "min_seconds": 0.3,
    "max_seconds": 30.0,
}

_AWAY_S = 60.0
"""How long a device that goes away is waited for: a cable that slipped, a phone that starts anew."""
_AWAY_LOOK_S = 2.0
_HOST = "the host of the phones"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a device's run shares with the rest of the driver."""

    plan: Plan
    protocol: Protocol
    journal: Journal
    prepared: Mapping[str, PreparedModel]
    """By the model's name."""
    session: int
    publish: Callable[[], Iterator[Event]]
    stop: Callable[[], bool]
    more: Mapping[str, int]
    """Rounds to add to these jobs, by key, instead of what is pending."""


class DeviceRun:
    """One device's share of a run. `run()` yields events and ends early once `stop()` says so."""

    def __init__(self, lane: DeviceLane, facts: DeviceFacts, jobs: Sequence[Job], around: Surroundings) -> None:
        """`jobs` are pending, their artifacts built."""
        self._lane = lane
        self._facts = facts
        self._jobs = jobs
        self._plan = around.plan
        self._protocol = around.protocol
        self._journal = around.journal
        self._around = around
        self._names = {job.key: job.name for job in around.plan.jobs if job.device_id == facts.device_id}
        self._expected = False
        self._is_away = False
        self._sentinel = next((job for job in around.plan.sentinels if job.device_id == facts.device_id), None)
        self._first_look: tuple[Block, ...] = ()
        self._since_look = 0
        self._patience = Patience(around.protocol)
        self._spent_s = 0.0
        self._done = 0
        self._given_up: set[str] = set()
        self._beaten: set[str] = set()

    def run(self) -> Steps[None]:
        # What the device can not run itself is checked by a reference, which has no time.
        timed = [job for job in self._jobs if not job.emulated]
        if self._protocol.budget == "race":
            # Who may win at all is known before the race: what fails a constraint must not beat the others.
            # It warms the device, which the gate before the first block waits for.
            yield from self._accuracies(timed)
            timed = self._raced_with(timed)
        if timed:
            yield from self._look_at_sentinel()
            yield from self._more_rounds(timed) if self._around.more else self._rounds(timed)
            yield from self._look_at_sentinel()
        yield from self._accuracies([job for job in self._jobs if self._outcome(job) is None])
        if not self._stop():
            yield Measuring(self._facts.name, self._done, self._done, "")

    def _raced_with(self, pending: Sequence[Job]) -> list[Job]:
        """Also who was in the race before: rounds that were measured decide the same with the same contenders, and
        newcomers are compared with who was not beaten."""
        if self._around.more:
            return list(pending)
        keys = {job.key for job in pending}
        models = {job.model for job in pending}
        return [
            job
            for job in self._plan.jobs
            if job.device_id == self._facts.device_id
            and job.model in models
            and not job.emulated
            and (job.key in keys or self._journal.blocks(job.key))
            and not self._has_failed(job)
        ]

    def _rounds(self, timed: Sequence[Job]) -> Steps[None]:
        by_key = {job.key: job for job in timed}
        worth: dict[str, float] = {}
        if self._protocol.budget == "race":
            sweep = self._plan.sweep
            worth = precedence([untimed_row(self._journal, sweep.name, job) for job in timed], sweep)
        contests = self._contests(timed, worth)
        self._beaten = self._still_beaten(list(by_key), worth)
        for blocks in self._visits(by_key):
            self._spent_s += sum(block.device_seconds + block.conditions.waited_seconds for block in blocks)
            yield from self._taken(contests, blocks)
        for key in self._beaten:
            for contest in contests:
                contest.withdraw(key)
        # A round in which somebody is missing goes on; where all are done with all, the next one begins.
        round_ = self._first_round(_contending(contests))
        accuracies = len({(job.build_key, job.variant.qengine) for job in self._jobs})
        while keys := _contending(contests):
            total = self._done + len(keys) * max(1, self._protocol.rounds - round_) + accuracies
            # Keys that are done already stay in the order: it must not depend on where a run was interrupted.
            for key in order(keys, round_, self._protocol.seed):
                if self._stop():
                    return
                yield Measuring(self._facts.name, self._done, total, f"{by_key[key].name}, round {round_ + 1}")
                yield from self._block(by_key[key], round_)
                if self._stop():
                    return
                if key in self._given_up:
                    for contest in contests:
                        contest.withdraw(key)
                    if self._has_failed(by_key[key]):
                        self._journal.reopen(self._plan)
                self._done += 1
            yield from self._taken(contests, self._visit([by_key[key] for key in keys], round_))
            minutes = self._protocol.device_minutes
            if minutes is not None and self._spent_s >= 60 * minutes:
                for contest in contests:
                    for settled in contest.expire():
                        yield from self._settle(settled)
            round_ += 1

    def _still_beaten(self, keys: Sequence[str], worth: Mapping[str, float]) -> set[str]:
        """Newcomers make the bounds wider: who was beaten beyond doubt without them stays out, while whoever beat it is
        in the race and worth no less. The others come back."""
        found = set()
        for key in keys:
            before = self._journal.settled(key, self._protocol)
            if before is None or not before.eliminated or not settles(before, self._protocol):
                continue
            if before.by_key in worth and worth[before.by_key] >= worth[key]:
                found.add(key)
            else:
                self._journal.add_settled(before.reopened())
        return found

    def _contests(self, timed: Sequence[Job], worth: Mapping[str, float]) -> list[Contest]:
        """One for each model: what is asked is which of its variants to ship, not which model."""
        front = self._plan.sweep.objective.front is not None
        found: list[Contest] = []
        for model in dict.fromkeys(job.model for job in timed):
            names = {job.key: job.name for job in timed if job.model == model}
            found.append(
                Contest(names, self._protocol, {key: worth[key] for key in names if key in worth}, front=front)
            )
        return found

    def _taken(self, contests: Sequence[Contest], blocks: Sequence[Block]) -> Steps[None]:
        for contest in contests:
            for settled in contest.take(blocks):
                yield from self._settle(settled)

    def _more_rounds(self, timed: Sequence[Job]) -> Steps[None]:
        keys = [job.key for job in timed]
        by_key = {job.key: job for job in timed}
        first = 1 + max(block.round for key in keys for block in self._journal.blocks(key))
        rounds = max(self._around.more[key] for key in keys)
        for round_ in range(first, first + rounds):
            for key in order([key for key in keys if key not in self._given_up], round_, self._protocol.seed):
                if self._stop():
                    return
                yield Measuring(self._facts.name, self._done, len(keys) * rounds, f"{by_key[key].name}, one more round")
                yield from self._block(by_key[key], round_)
                self._done += 1

    def _visits(self, by_key: Mapping[str, Job]) -> list[list[Block]]:
        """What is measured already, round by round, in the order of time."""
        blocks = [block for key, job in by_key.items() for block in self._journal.blocks(key, job.sentinel)]
        blocks.sort(key=lambda block: block.visit)
        return [list(visit) for _, visit in groupby(blocks, key=lambda block: block.visit)]

    def _visit(self, jobs: Sequence[Job], round_: int) -> list[Block]:
        """The blocks of one round of this run."""
        found = (block for job in jobs for block in self._journal.blocks(job.key, job.sentinel))
        return [block for block in found if block.round == round_ and block.session == self._around.session]

    def _first_round(self, keys: Sequence[str]) -> int:
        rounds = [{block.round for block in self._journal.blocks(key)} for key in keys]
        fewest = min((len(one) for one in rounds), default=0)
        return (
            fewest if self._protocol.budget == "full" else 1 + max((max(one, default=-1) for one in rounds), default=-1)
        )

    def _settle(self, settled: Settled) -> Steps[None]:
        if settled.budget == "full" and self._protocol.last_round == self._protocol.rounds:
            return  # it has all the rounds that there are: nothing was decided
        if settled.job_key not in self._beaten and self._journal.settled(settled.job_key, self._protocol) != settled:
            self._journal.add_settled(settled)
            yield Left(self._names[settled.job_key], settled)

    def _block(self, job: Job, round_: int) -> Steps[None]:
        if any(block.round == round_ for block in self._journal.blocks(job.key)):
            return
        # Counted here, since a job that is measured already has an outcome that no failure changes.
        failures = 0
        while not self._stop() and failures < MAX_ATTEMPTS and not self._has_failed(job):
            block = yield from self._timed(job, round_, self._protocol)
            if isinstance(block, Block):
                self._journal.add_block(block)
                self._since_look += 1
                every = self._protocol.sentinel_every
                if every and self._since_look >= every:
                    yield from self._look_at_sentinel()
                return
            if block is not None:
                failures = MAX_ATTEMPTS if block.kind in FINAL_KINDS else failures + 1
                yield self._attempt_failed(job, block)
        self._given_up.add(job.key)

    def _timed(self, job: Job, round_: int, protocol: Protocol) -> Steps[Block | Failed | None]:
        """One block behind its gate, not stored yet. `None` where the run is to stop."""
        for _ in range(MAX_ATTEMPTS):
            readiness = yield from self._ready(job)
            if not isinstance(readiness, Readiness):
                return readiness
            block = yield from self._asked(partial(self._lane.block, job, round_, protocol, readiness), once=True)
            if isinstance(block, Block):
                self._spent_s += block.device_seconds
                return replace(block, session=self._around.session)
            if block is not None or self._stop():
                return block
            # It was away: what was known of its state is of before.
        message = f"the device went away in {MAX_ATTEMPTS} tries of one block"
        return Failed(stage="run", kind="disconnected", message=message)

    def _ready(self, job: Job) -> Steps[Readiness | Failed | None]:
        """Wait for the device as the protocol says."""
        waited = seconds = 0.0
        while not self._stop():
            found = yield from self._asked(self._looking(job, seconds))
            if not isinstance(found, Readiness):
                return found
            waited += found.waited_seconds
            self._spent_s += found.waited_seconds
            seconds = self._patience.next_wait_s(found, waited)
            if not seconds:
                return self._patience.ended(replace(found, waited_seconds=waited))
            yield Waiting(self._facts.name, found.lacking, waited)
        return None

    def _looking(self, job: Job, seconds: float) -> Callable[[], Readiness | Failed]:
        return lambda: self._lane.make_ready(job, self._protocol.gate, seconds)

    def _asked(self, call: Callable[[], Answer | Failed], *, once: bool = False) -> Steps[Answer | Failed | None]:
        """What the device answers. One that has gone away is waited for; `None` where that was in vain, which ends
        its run, or where the run is to stop; with `once`, where it has gone away at all."""
        waited, began = 0.0, 0.0
        told: tuple[str, float] | None = None
        while True:
            answer: Answer | Failed = yield Ask(call)
            if not isinstance(answer, Failed) or answer.kind not in ABSENT_KINDS:
                self._expected = True
                return answer
            if self._stop():
                return None
            # From its first silence: until then it answered, however long that took.
            began = began or time.monotonic()
            # One that was never there in this run is not expected to come. What its host lacks tells nothing of it.
            self._expected |= answer.kind in HOST_KINDS
            if not self._expected or waited >= _AWAY_S:
                self._is_away = True
                pending = sum(self._outcome(job) is None for job in self._jobs)
                yield Away(_whose(answer, self._facts.name), answer, pending)
                return None
            if told is None or told[0] != answer.message or waited - told[1] >= LOOK_S:
                told = answer.message, waited
                yield Waiting(_whose(answer, self._facts.name), (answer.message,), waited)
            if once:
                return None
            yield Ask(lambda: self._lane.rest(_AWAY_LOOK_S))
            # A simulated device rests on its own clock; to look for a real one takes time as well.
            waited = max(waited + _AWAY_LOOK_S, time.monotonic() - began)

    def _stop(self) -> bool:
        return self._is_away or self._around.stop()

    def _look_at_sentinel(self) -> Steps[None]:
        """Time the sentinel; a second time where it seems to have moved."""
        job = self._sentinel
        if job is None or self._stop():
            return
        self._since_look = 0
        protocol = replace(self._protocol, **_SENTINEL_BLOCK)
        look = sentinel.next_look(self._journal.blocks(job.key))
        blocks: list[Block] = []
        for number in range(2 * sentinel.LOOK_BLOCKS):
            if number == sentinel.LOOK_BLOCKS and not self._moved(blocks):
                break
            yield Measuring(self._facts.name, self._done, max(1, self._done), "sentinel")
            block = yield from self._timed(job, sentinel.round_of(look, number), protocol)
            if not isinstance(block, Block):
                # Without it nothing is lost but the warning; what is wrong with the device shows in its jobs.
                return
            self._journal.add_block(block)
            blocks.append(block)
        if not self._first_look:
            self._first_look = tuple(blocks)
        elif self._moved(blocks):
            yield DeviceChanged(self._facts.name)

    def _moved(self, blocks: Sequence[Block]) -> bool:
        return bool(self._first_look) and sentinel.moved(blocks, self._first_look)

    def _accuracies(self, jobs: Sequence[Job]) -> Steps[None]:
        for number, job in enumerate(jobs):
            if self._stop():
                return
            yield Measuring(self._facts.name, self._done, self._done + len(jobs) - number, f"{job.name}, accuracy")
            yield from self._accuracy(job)
            self._done += 1
            yield from self._around.publish()

    def _accuracy(self, job: Job) -> Steps[None]:
        prepared = self._around.prepared[job.model]
        evaluation_id = self._plan.identities.evaluation_id
        executor = job.reference or self._facts.fingerprint
        evaluation = Evaluation(evaluation_id=evaluation_id, images=prepared.evaluation.images)
        while not self._stop() and not self._has_failed(job):
            if self._journal.accuracy(job.build_key, evaluation_id, job.variant.qengine, executor) is not None:
                return
            logits = yield from self._asked(lambda: self._lane.logits(job, evaluation))
            if logits is None:
                return
            match logits if isinstance(logits, Failed) else _judge(job, evaluation_id, executor, logits, prepared):
                case Accuracy() as accuracy:
                    self._journal.add_accuracy(accuracy)
                case Failed() as failed:
                    yield self._attempt_failed(job, failed)
                case never:
                    assert_never(never)

    def _attempt_failed(self, job: Job, failed: Failed) -> Attempt:
        self._journal.add_failure(job.key, failed)
        final = failed.kind in FINAL_KINDS or len(self._journal.failures(job.key)) >= MAX_ATTEMPTS
        return Attempt(job.name, failed, final=final)

    def _has_failed(self, job: Job) -> bool:
        return isinstance(self._outcome(job), Failed)

    def _outcome(self, job: Job) -> Measured | Failed | None:
        return self._journal.outcome(job, self._protocol, self._plan.identities.evaluation_id, self._facts.fingerprint)


def told_once(events: Iterator[Event]) -> Iterator[Event]:
    """What a host lacks, all of its devices lack: one event instead of one from each, with the jobs of all."""
    waited = -1.0
    away: Away | None = None
    for event in events:
        match event:
            case Away(device, failed, pending) if device == _HOST:
                away = Away(device, failed, pending + (away.pending if away else 0))
                continue
            case Waiting(device, _, seconds) if device == _HOST:
                if seconds <= waited:
                    continue
                waited = seconds
            case Measuring():
                waited = -1.0
        yield event
    if away is not None:
        yield away


def _whose(failed: Failed, device: str) -> str:
    return _HOST if failed.kind in HOST_KINDS else device


def _contending(contests: Sequence[Contest]) -> tuple[str, ...]:
    return tuple(key for contest in contests for key in contest.contending)


def _judge(job: Job, evaluation_id: str, executor: str, logits: Logits, prepared: PreparedModel) -> Accuracy | Failed:
    try:
        return evaluate(
            job.build_key,
            evaluation_id,
            job.variant.qengine,
            executor,
            logits,
            prepared.evaluation_logits,
            prepared.evaluation.labels,
        )
    except RunnerError as error:
        return Failed(stage="evaluate", kind=error.kind, message=error.message)
