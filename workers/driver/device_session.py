"""The session of a run with one device: waits until the device is ready, and until it is back if it goes away."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

from sweeps.batches import Batch
from sweeps.device_facts import DeviceFacts
from sweeps.errors import ABSENT_KINDS, QUEUED_KIND
from sweeps.journal.outcomes import MAX_ATTEMPTS
from sweeps.protocol.presets import Protocol
from sweeps.records import Block, Failed, Job
from workers.devices.interface import Sensors
from workers.driver.context import RunContext
from workers.driver.device_recovery import DeviceRecovery, who_is_away
from workers.driver.driver_events import Away, Waiting
from workers.driver.scheduler import Call, Task
from workers.executors.interface import DeviceLane
from workers.measure.batch_request import BatchRequest
from workers.measure.device_runner import AnswerT, Request
from workers.measure.readiness import Readiness
from workers.measure.stored_answer import StoredAnswerRequest
from workers.measure.timed_block import BlockRequest, ReadyRequest
from workers.measure.waiting import Wait, WaitLimits

_UNKNOWN = Readiness(sensors=Sensors(), lacking=(), busy_only=False)
"""The readiness of a device whose sensors are not read."""


class DeviceSession:
    """The session with one device. It sends requests to the device, and gives it up for this run once it has been away
    for too long."""

    def __init__(self, lane: DeviceLane, facts: DeviceFacts, jobs: Sequence[Job], context: RunContext) -> None:
        """Open a session. If the device goes away, the jobs that are in `jobs` by then wait for the next run."""
        self._lane = lane
        self._facts = facts
        self._jobs = jobs
        self._context = context
        self._run = _run(context, context.session)
        self._earlier = context.earlier
        self._limits = WaitLimits(context.protocol)
        self._recovery = DeviceRecovery(lane, facts, context)
        self._is_away = False
        self._spent_s = 0.0

    def stopped(self) -> bool:
        """Tell whether nothing more is to be requested: the run is to stop, or the device is away."""
        return self._is_away or self._context.stop()

    @property
    def spent_s(self) -> float:
        """Return the time spent on blocks and on waiting (s), by the device's clock."""
        return self._spent_s

    def count_earlier(self, blocks: Iterable[Block]) -> None:
        """Add the time that blocks of earlier runs took to the time spent."""
        self._spent_s += sum(block.device_seconds + block.conditions.waited_seconds for block in blocks)

    def count_seconds(self, seconds: float) -> None:
        """Add the seconds of an earlier batch to the time spent."""
        self._spent_s += seconds

    def timed(self, job: Job, round_: int, protocol: Protocol) -> Task[Block | Failed | None]:
        """Time one block once the gate lets it begin, and return it without storing it. `None`: the run is to stop."""
        block = yield from self._behind_gate(job, lambda ready: BlockRequest(job, round_, protocol, ready, self._run))
        if isinstance(block, Block):
            self._spent_s += block.device_seconds
            took_s = block.device_seconds + block.conditions.waited_seconds
            self._context.schedule.done(job.device_id, job.build_key, "block", took_s)
            return replace(block, session=self._context.session)
        return block

    def left_behind(self, job: Job, round_: int, protocol: Protocol) -> Task[Block | None]:
        """Return the block that the run before requested last, if that run died and the block ended all the same; it
        belongs to that run's session. The device's host is asked once, for the first block that this run would measure:
        the order of blocks does not depend on where a run ends."""
        session, self._earlier = self._earlier, 0
        if not session:
            return None
        run = _run(self._context, session)
        block = yield from self._stored_answer(BlockRequest(job, round_, protocol, _UNKNOWN, run))
        return None if block is None else replace(block, session=session)

    def batch(
        self, jobs: Sequence[Job], protocol: Protocol, number: int, brief: Collection[str] = ()
    ) -> Task[Batch | Failed | None]:
        """Time these jobs in this order in one process, once the gate lets it begin. `None`: the run is to stop.

        `number`: the number of the batch, which no other batch of these jobs has in this run. `brief`: as in
        `BatchRequest`.
        """
        run = f"{self._run} {number}"
        batch = yield from self._behind_gate(jobs[0], lambda ready: BatchRequest.of(jobs, protocol, ready, brief, run))
        if isinstance(batch, Batch):
            self._spent_s += batch.device_seconds
        return batch

    def _behind_gate(self, job: Job, request: Callable[[Readiness], Request[AnswerT]]) -> Task[AnswerT | Failed | None]:
        sent: Request[AnswerT] | None = None
        for _ in range(MAX_ATTEMPTS):
            readiness = yield from self._ready(job)
            if not isinstance(readiness, Readiness):
                # Nothing more can be measured, but the host of the device may have the last answer.
                stored = yield from self._stored_answer(sent)
                return readiness if stored is None else stored
            sent = request(readiness)
            answer = yield from self.answer_of(sent, once=True)
            if answer is not None:
                return answer
            if self.stopped():
                return (yield from self._stored_answer(sent))
            # The device was away, so its state is read again.
        message = f"the device went away in {MAX_ATTEMPTS} tries of one block"
        return Failed(stage="run", kind="disconnected", message=message)

    def _stored_answer(self, request: Request[AnswerT] | None) -> Task[AnswerT | None]:
        """Return the answer to a request, if it was lost on the way and the device's host has stored it. The device
        itself is not asked."""
        if request is None or not request.result_id:
            return None
        answer: AnswerT | Failed = yield Call(partial(self._lane.ask, StoredAnswerRequest(request.job, request)))
        return None if isinstance(answer, Failed) else answer

    def answer_of(self, request: Request[AnswerT], *, once: bool = False) -> Task[AnswerT | Failed | None]:
        """Send a request and return the device's answer. A device that has gone away is brought back, or waited for.

        `None`: the device did not come back, which ends its run, or the run is to stop; with `once` also if the device
        went away at all, or another driver uses it now.
        """
        while not self._is_away:
            left_s = self._context.schedule.about_s(request.job.device_id)
            sent = replace(request, left_s=left_s, left_at_least=self._is_open)
            answer: AnswerT | Failed = yield Call(partial(self._lane.ask, sent))
            if not isinstance(answer, Failed) or answer.kind not in ABSENT_KINDS:
                kept_out = yield from self._recovery.answered(answer, request.job)
                if kept_out is None:
                    return answer
                yield from self.leave(kept_out)
                # A measurement counts, although it came late; a failure here is not the fault of any job.
                return None if isinstance(answer, Failed) else answer
            if self.stopped():
                return None
            if answer.kind == QUEUED_KIND:
                # The device is there, and its turn comes, however long that takes.
                yield from self._recovery.queued(answer)
                if once:
                    return None
                continue
            lost = yield from self._recovery.lost(answer, request.job, self.stopped, once=once)
            if lost is not None:
                yield from self.leave(lost)
            if once or self.stopped():
                return None
        return None

    @property
    def _is_open(self) -> bool:
        """Tell whether it is unknown when the work ends: a race ends when it is decided, so only the rounds up to its
        first decision are expected. If rounds are added, their number is known."""
        return self._context.protocol.budget == "race" and not self._context.more

    def leave(self, failed: Failed) -> Task[None]:
        """Give the device up for this run."""
        self._is_away = True
        name, failed, is_host = who_is_away(failed, self._facts)
        yield Away(name, failed, len(self._context.outcomes.pending(self._jobs)), is_host)

    def _ready(self, job: Job) -> Task[Readiness | Failed | None]:
        """Wait until the device is ready, or until the protocol ends the wait."""
        wait = Wait(self._limits)
        while not self.stopped():
            readiness = yield from self.answer_of(ReadyRequest(job, self._context.protocol.gate, wait.look_s))
            if not isinstance(readiness, Readiness):
                return readiness
            self._spent_s += readiness.waited_seconds
            ended = wait.ended(readiness)
            if ended is not None:
                return ended
            yield Waiting(self._facts.name, readiness.words, wait.waited_s)
        return None


def _run(context: RunContext, session: int) -> str:
    """Return the text by which hosts identify a run of the driver."""
    return f"{context.plan.sweep.name} {session}"
