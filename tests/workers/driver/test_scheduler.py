"""Runs that take turns: each does its slow work in a thread, and may wait for what another one brings about."""

import threading
from collections.abc import Callable

import pytest

from workers.driver.driver_events import Event, Preparing
from workers.driver.scheduler import Call, Task, WaitUntil, run_tasks

LIMIT_S = 30.0


def lines_of(events: "list[Event]") -> list[str]:
    return [event.model for event in events if isinstance(event, Preparing)]


def test_a_run_waits_without_a_thread_until_another_one_has_brought_it_about() -> None:
    arrived: list[str] = []

    def maker() -> Task[None]:
        for name in ("one", "other"):
            yield Call(lambda: None)
            arrived.append(name)
            yield Preparing(f"made {name}")

    def user(name: str) -> Task[None]:
        yield WaitUntil(lambda: name in arrived)
        yield Preparing(f"used {name}")
        yield Call(lambda: None)

    assert lines_of(list(run_tasks([user("other"), user("one"), maker()]))) == [
        "made one",
        "used one",
        "made other",
        "used other",
    ]


@pytest.mark.parametrize("runs", [1, 2])
def test_a_run_goes_on_if_nobody_can_bring_about_what_it_waits_for(runs: int) -> None:
    def waiter() -> Task[None]:
        yield WaitUntil(lambda: False)
        yield Preparing("went on")

    assert lines_of(list(run_tasks([waiter() for _ in range(runs)]))) == ["went on"] * runs


def test_who_waits_holds_nobody_up() -> None:
    """Both asks must be under way at once, while a third run waits."""
    met = threading.Barrier(2, timeout=LIMIT_S)
    ended: list[str] = []

    def asker(name: str) -> Task[None]:
        yield Call(met.wait)
        ended.append(name)

    def waiter() -> Task[None]:
        yield WaitUntil(lambda: len(ended) == 2)
        yield Preparing("both ended")

    assert lines_of(list(run_tasks([waiter(), asker("a"), asker("b")]))) == ["both ended"]


def test_an_error_of_the_work_is_raised_where_it_was_asked_for() -> None:
    def broken() -> None:
        raise ValueError("broken")

    def run(ask: Callable[[], object]) -> Task[None]:
        try:
            yield Call(ask)
        except ValueError as error:
            yield Preparing(str(error))

    assert lines_of(list(run_tasks([run(broken), run(lambda: None)]))) == ["broken"]
    assert lines_of(list(run_tasks([run(broken)]))) == ["broken"]
