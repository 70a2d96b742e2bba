"""Runs that take turns: each does its slow work in a thread, and may wait for what another one brings about."""

import threading
from collections.abc import Callable

import pytest

from workers.driver.driver_events import Event, Preparing
from workers.driver.scheduler import Ask, Steps, Until, side_by_side

LIMIT_S = 30.0


def told(events: "list[Event]") -> list[str]:
    return [event.model for event in events if isinstance(event, Preparing)]


def test_a_run_waits_without_a_thread_until_another_one_has_brought_it_about() -> None:
    there: list[str] = []

    def maker() -> Steps[None]:
        for name in ("one", "other"):
            yield Ask(lambda: None)
            there.append(name)
            yield Preparing(f"made {name}")

    def user(name: str) -> Steps[None]:
        yield Until(lambda: name in there)
        yield Preparing(f"used {name}")
        yield Ask(lambda: None)

    assert told(list(side_by_side([user("other"), user("one"), maker()]))) == [
        "made one",
        "used one",
        "made other",
        "used other",
    ]


@pytest.mark.parametrize("runs", [1, 2])
def test_a_run_goes_on_if_nobody_can_bring_about_what_it_waits_for(runs: int) -> None:
    def waiter() -> Steps[None]:
        yield Until(lambda: False)
        yield Preparing("went on")

    assert told(list(side_by_side([waiter() for _ in range(runs)]))) == ["went on"] * runs


def test_who_waits_holds_nobody_up() -> None:
    """Both asks must be under way at once, while a third run waits."""
    met = threading.Barrier(2, timeout=LIMIT_S)
    ended: list[str] = []

    def asker(name: str) -> Steps[None]:
        yield Ask(met.wait)
        ended.append(name)

    def waiter() -> Steps[None]:
        yield Until(lambda: len(ended) == 2)
        yield Preparing("both ended")

    assert told(list(side_by_side([waiter(), asker("a"), asker("b")]))) == ["both ended"]


def test_an_error_of_the_work_is_raised_where_it_was_asked_for() -> None:
    def broken() -> None:
        raise ValueError("broken")

    def run(ask: Callable[[], object]) -> Steps[None]:
        try:
            yield Ask(ask)
        except ValueError as error:
            yield Preparing(str(error))

    assert told(list(side_by_side([run(broken), run(lambda: None)]))) == ["broken"]
    assert told(list(side_by_side([run(broken)]))) == ["broken"]
