"""The scheduler that runs builds and several devices in parallel: slow work is done in threads, everything else in the
caller's thread."""

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from workers.driver.driver_events import Event

Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class Call:
    """Slow work, which a run yields between its events. The result is sent into the run's generator, an exception is
    thrown into it."""

    call: Callable[[], object]


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """A wait, which a run yields that has nothing to do until `holds()` is true. Other runs make it true. If no other
    run has work in progress, the run is continued all the same."""

    holds: Callable[[], bool]


Task = Generator[Event | Call | WaitUntil, Any, Returned]
"""The generator of one run: yields the events, `Call`s and `WaitUntil`s of a device or of the builds; `Returned` is its
return value."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of an `Call`, with which its run continues."""

    run: Task[None]
    value: object = None
    error: BaseException | None = None


class WorkerPool(Protocol):
    """The workers that do the work of `Call`s."""

    def start(self, run: Task[None], ask: Call) -> None: ...

    def next(self) -> Answered:
        """Wait for the next answer, whichever is ready first."""
        ...


class Threads:
    """One thread for each `Call`. After Ctrl-C the threads are left behind; they end with the process."""

    def __init__(self) -> None:
        self._answers: SimpleQueue[Answered] = SimpleQueue()

    def start(self, run: Task[None], ask: Call) -> None:
        threading.Thread(target=lambda: self._answers.put(answer(run, ask)), daemon=True).start()

    def next(self) -> Answered:
        return self._answers.get()


def run_tasks(runs: Sequence[Task[None]], hands: WorkerPool | None = None) -> Iterator[Event]:
    """Yield the events of all runs as they occur. Only one run executes its own code at a time, so runs may share a
    journal.

    A single run does its work in the caller's thread, so that Ctrl-C can interrupt it, unless `hands` are given.
    """
    if len(runs) == 1 and hands is None:
        yield from _alone(runs[0])
        return
    hands = hands or Threads()
    under_way = 0
    parked: list[tuple[Task[None], WaitUntil]] = []
    ready = [Answered(run) for run in runs]
    while ready or under_way:
        if not ready:
            ready.append(hands.next())
            under_way -= 1
        answered = ready.pop(0)
        match (yield from _next_step(answered.run, answered)):
            case Call() as ask:
                hands.start(answered.run, ask)
                under_way += 1
            case WaitUntil() as until:
                parked.append((answered.run, until))
        nobody_works = not ready and not under_way
        ready += [Answered(run) for run, until in parked if nobody_works or until.holds()]
        waking = [entry.run for entry in ready]
        parked = [entry for entry in parked if entry[0] not in waking]


def _alone(run: Task[None]) -> Iterator[Event]:
    answered = Answered(run)
    while (step := (yield from _next_step(run, answered))) is not None:
        answered = answer(run, step) if isinstance(step, Call) else Answered(run)


def _next_step(run: Task[None], answered: Answered) -> Generator[Event, None, Call | WaitUntil | None]:
    """Yield a run's events up to its next `Call` or `WaitUntil`, and return that; `None`: the run has ended."""
    try:
        step = run.throw(answered.error) if answered.error else run.send(answered.value)
        while not isinstance(step, Call | WaitUntil):
            yield step
            step = next(run)
    except StopIteration:
        return None
    return step


def answer(run: Task[None], ask: Call) -> Answered:
    """Do the work of an `Call`, and return its result or its exception."""
    try:
        return Answered(run, value=ask.call())
    except BaseException as error:  # noqa: BLE001  # thrown where it was asked for; unanswered, it would be waited for
        return Answered(run, error=error)
