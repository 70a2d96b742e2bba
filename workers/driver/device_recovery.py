"""The recovery of one device that stopped answering: the only place that takes the steps that the ladder decides."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from sweeps.device_facts import DeviceFacts
from sweeps.errors import ABSENT_KINDS, HOST_KINDS, LAB_KINDS, QUEUED_KIND
from sweeps.quarantine import Quarantine
from sweeps.records import Failed, Job
from sweeps.spec import catalog
from workers.devices.interface import Rung
from workers.driver.context import RunContext
from workers.driver.driver_events import Away, Back, Event, Quarantined, Recovering, Waiting
from workers.driver.health import Outage
from workers.driver.ladder import Ladder, Step
from workers.driver.scheduler import Call, Task
from workers.executors.interface import DeviceLane
from workers.measure.recovery_request import RecoverRequest, Taken
from workers.measure.waiting import LOOK_S

HOST = "the host of the phones"
REMIND_S = 60.0
"""The time after which a host that is still away is reported again."""


class DeviceRecovery:
    """The recovery of one device in one run."""

    def __init__(self, lane: DeviceLane, facts: DeviceFacts, context: RunContext) -> None:
        self._lane = lane
        self._facts = facts
        self._context = context
        entry = catalog.device(facts.name)
        self._has_rungs = entry is not None and bool(entry.recovery)
        self._ladder = Ladder(
            context.health.away_wait.limit_s,
            has_rungs=self._has_rungs,
            may_reboot=context.plan.sweep.recovery.reboot,
        )
        self._expected = False
        """Tells whether the device answered in this run, or only its host kept it from answering."""
        self._outage: Outage | None = None
        self._waited_s = 0.0
        self._last_waiting: tuple[str, float] | None = None
        self._host = ""
        """The name of the host that is away, or was away in this outage."""
        self._queued: tuple[float, float] | None = None
        """While another driver uses the device: the times (s) at which that began and at which it was reported last."""

    def answered(self, answer: object, job: Job) -> Task[Failed | None]:
        """Note that the device answered, which ends its outage. Return the failure if the device is to be left alone
        from now on."""
        self._expected, self._queued = True, None
        yield from self._back()
        quarantine = self._ended()
        if quarantine is None and isinstance(answer, Failed):
            quarantine = self._context.health.failed(self._facts, answer, job)
        if quarantine is None:
            return None
        yield Quarantined(self._facts.name, quarantine)
        return quarantined(self._facts, quarantine)

    def lost(self, failed: Failed, job: Job, stopped: Callable[[], bool], *, once: bool = False) -> Task[Failed | None]:
        """Take one recovery step at a time for a device that does not answer, until it might answer or the run is to
        stop.

        With `once` no step is taken yet: the next request takes it. Return the failure if the device is given up, else
        `None`.
        """
        outage = self._begun(job)
        while True:
            outage.add(failed)
            self._expected |= failed.kind in HOST_KINDS | LAB_KINDS
            # A device that never answered in this run is not waited for, unless its host lacks something.
            step: Step = "give_up"
            if self._expected:
                step = "wait" if once else self._ladder.next(failed.kind, self._waited_s)
            if step == "give_up":
                yield from self._give_up()
                return failed
            yield from self._tell(failed)
            if once:
                return None
            if step == "wait":
                yield Call(lambda: self._lane.rest(self._context.health.away_wait.poll_s))
                self._waited_s += self._context.health.away_wait.poll_s
            else:
                yield from self._take(step, job)
            # A simulated device rests on its own clock; asking a real device takes time as well.
            self._waited_s = max(self._waited_s, self._context.health.now_s() - outage.began_s)
            still = None if stopped() or not self._has_rungs else (yield from self._ask("ask", job))
            if still is None or still.kind not in ABSENT_KINDS - {QUEUED_KIND}:
                return None
            failed = still

    def queued(self, failed: Failed) -> Task[None]:
        """Wait for a while, because another driver uses the device. The device is there, and its turn comes, however
        long that takes."""
        yield from self._back()
        self._outage = None
        self._ladder.answered()
        now_s = self._context.health.now_s()
        began_s, told_s = self._queued or (now_s, now_s - LOOK_S)
        if now_s - told_s >= LOOK_S:
            told_s = now_s
            yield Waiting(self._facts.name, (failed.message,), now_s - began_s)
        self._queued = began_s, told_s
        yield Call(lambda: self._lane.rest(self._context.health.away_wait.poll_s))

    def _begun(self, job: Job) -> Outage:
        if self._outage is None:
            self._outage = self._context.health.began(self._facts, job)
            self._waited_s, self._last_waiting, self._host = 0.0, None, ""
        return self._outage

    def _ended(self) -> Quarantine | None:
        outage, self._outage = self._outage, None
        self._ladder.answered()
        return None if outage is None else self._context.health.ended(self._facts, outage)

    def _give_up(self) -> Task[None]:
        if self._expected and (quarantine := self._ended()) is not None:
            yield Quarantined(self._facts.name, quarantine)

    def _take(self, rung: Rung, job: Job) -> Task[None]:
        failed = yield from self._ask(rung, job)
        if failed is not None:
            self._ladder.refused(rung)
        yield Recovering(self._facts.name, rung, "" if failed is None else failed.message)

    def _ask(self, rung: Rung, job: Job) -> Task[Failed | None]:
        answer: Taken | Failed = yield Call(lambda: self._lane.ask(RecoverRequest(job, rung)))
        return answer if isinstance(answer, Failed) else None

    def _tell(self, failed: Failed) -> Task[None]:
        name, why, is_host = who_is_away(failed, self._facts)
        if is_host:
            self._host = name
        last = self._last_waiting
        if last is None or last[0] != why.message or self._waited_s - last[1] >= LOOK_S:
            self._last_waiting = why.message, self._waited_s
            yield Waiting(name, (why.message,), self._waited_s, is_host)

    def _back(self) -> Task[None]:
        if self._outage is not None and self._host:
            seconds = max(self._waited_s, self._context.health.now_s() - self._outage.began_s)
            yield Back(self._facts.name, self._host, seconds)


def who_is_away(failed: Failed, facts: DeviceFacts) -> tuple[str, Failed, bool]:
    """Return the name of what is away (the device, or its host if all devices of that host are away with it), the
    failure worded for that, and whether it is a host."""
    if failed.kind in HOST_KINDS:
        return HOST, failed, True
    if failed.host:
        return failed.host, replace(failed, message=failed.condition), True
    return facts.name, failed, False


def merge_host_events(events: Iterator[Event]) -> Iterator[Event]:
    """Merge events: a host that is away is reported once, with the pending jobs of all its devices, instead of once by
    each device."""
    told_s: dict[str, float] = {}
    """The seconds that a device or host had been away when it was last reported, by its name."""
    away_events: dict[str, Away] = {}
    for event in events:
        match event:
            case Away(name, failed, pending, True):
                before = away_events.get(name)
                away_events[name] = Away(name, failed, pending + (before.pending if before else 0), is_host=True)
                told_s.pop(name, None)
                continue
            case Waiting(name, _, seconds, True):
                if seconds - told_s.get(name, -math.inf) < REMIND_S:
                    continue
                told_s[name] = seconds
            case Back(_, name, _):
                if told_s.pop(name, None) is None:
                    continue
        yield event
    yield from away_events.values()


def quarantined(facts: DeviceFacts, quarantine: Quarantine) -> Failed:
    """Return the failure of a device that is quarantined, with the reason and how it gets out of quarantine."""
    message = f"{facts.name} is quarantined {quarantine.text}; {quarantine.way_out}"
    return Failed(stage="run", kind="quarantined", message=message)
