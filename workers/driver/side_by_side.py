"""Runs several devices in parallel: each device's slow work in its own thread, everything else in the caller's."""

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

from workers.driver.events import Event

Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class Ask:
    """Work for a device, yielded between events. Its result is sent into the generator, its exception is thrown in."""

    call: Callable[[], object]


Steps = Generator[Event | Ask, Any, Returned]
"""A generator of one device's events and `Ask`s; `Returned` is its return value."""


@dataclass(frozen=True, slots=True)
class _Answered:
    run: Steps[None]
    value: object = None
    error: BaseException | None = None


def side_by_side(runs: Sequence[Steps[None]]) -> Iterator[Event]:
    """The events of all runs as they occur. Only one run executes its own code at a time, so runs may share a journal.

    A single run does its work in the caller's thread, so that Ctrl-C can interrupt it. With several runs, Ctrl-C leaves
    their threads behind; they end with the process.
    """
    if len(runs) == 1:
        yield from _alone(runs[0])
        return
    answers: SimpleQueue[_Answered] = SimpleQueue()
    under_way = 0
    for run in runs:
        under_way += yield from _until_it_asks(run, _Answered(run), answers)
    while under_way:
        answered = answers.get()
        under_way += (yield from _until_it_asks(answered.run, answered, answers)) - 1


def _alone(run: Steps[None]) -> Iterator[Event]:
    answered = _Answered(run)
    while (ask := (yield from _next_ask(run, answered))) is not None:
        answered = _answer(run, ask)


def _until_it_asks(
    run: Steps[None], answered: _Answered, answers: "SimpleQueue[_Answered]"
) -> Generator[Event, None, int]:
    """1 if work is in progress now, 0 if the run has ended."""
    ask = yield from _next_ask(run, answered)
    if ask is None:
        return 0
    threading.Thread(target=lambda: answers.put(_answer(run, ask)), daemon=True).start()
    return 1


def _next_ask(run: Steps[None], answered: _Answered) -> Generator[Event, None, Ask | None]:
    try:
        step = run.throw(answered.error) if answered.error else run.send(answered.value)
        while not isinstance(step, Ask):
            yield step
            step = next(run)
    except StopIteration:
        return None
    return step


def _answer(run: Steps[None], ask: Ask) -> _Answered:
    try:
        return _Answered(run, value=ask.call())
    except BaseException as error:  # noqa: BLE001  # thrown where it was asked for; unanswered, it would be waited for
        return _Answered(run, error=error)
