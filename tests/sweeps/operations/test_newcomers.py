"""Devices that the sweep file asks for, that came or came back, join a sweep that runs, each once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from sweeps.operations.newcomers import Newcomers
from sweeps.quarantine import QuarantineBook
from tests.builders import phone_facts
from tests.workers.hosts.hosts import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


@pytest.fixture
def book(tmp_path: Path) -> QuarantineBook:
    return QuarantineBook(tmp_path / "state")


def named(device_id: str, host: str = "lab-1") -> DeviceFacts:
    return phone_facts(device_id, name=f"host:{host}/adb:{device_id}")


def test_a_new_phone_or_host_with_phones_joins_if_the_sweep_file_asks_for_it(
    world: World, book: QuarantineBook
) -> None:
    host, _ = world.add("lab-1", "one")
    planned = [named("one")]
    lab = world.lab()
    every = Newcomers(["adb:*"], planned, lab, book=book)
    single = Newcomers(["adb:one", "local"], planned, lab, book=book)
    assert every.joining(planned, ()) == ()
    host.names.append("adb:two")
    host.agent.tend()
    world.add("lab-2", "three")
    while not (names := every.joining(planned, ())):
        pass
    while len(names) < 2:
        names += every.joining(planned, ())
    assert sorted(names) == ["host:lab-1/adb:two", "host:lab-2/adb:three"]
    assert every.joining(planned, ()) == (), "each is told of once: it may not be usable"
    assert single.joining(planned, ()) == ()


def test_a_device_that_went_away_joins_again_when_it_is_back_and_not_in_quarantine(
    world: World, book: QuarantineBook
) -> None:
    world.add("lab-1", "one", "two")
    planned = [named("one"), named("two"), named("three", "lab-2")]
    newcomers = Newcomers(["adb:*"], planned, world.lab(), book=book)
    book.put("two", "host:lab-1/adb:two", "it falls from the table")
    away = {"one", "two", "three"}
    assert newcomers.joining(planned, away) == ("host:lab-1/adb:one",), "three is still away"
    assert newcomers.joining(planned, away) == ()
    book.readmit("two")
    assert newcomers.joining(planned, away) == ("host:lab-1/adb:two",)


def test_phones_of_this_computer_join_by_their_names(book: QuarantineBook) -> None:
    listed = ["adb:one", "adb:useless"]
    planned = [phone_facts("one")]
    newcomers = Newcomers(["adb:*"], planned, None, lambda: (listed, {}), book)
    listed.append("adb:two")
    assert newcomers.joining(planned, ()) == ("adb:two",), "what could not be planned before is no newcomer"
    listed.remove("adb:one")
    assert newcomers.joining(planned, {"one"}) == ()
    listed.append("adb:one")
    assert newcomers.joining(planned, {"one"}) == ("adb:one",)
    assert Newcomers(["adb:one"], planned, None, lambda: (listed, {}), book).joining(planned, ()) == ()


def test_without_an_adb_server_no_phone_joins_and_without_a_head_nothing(world: World, book: QuarantineBook) -> None:
    boards: list[str] = []
    no_server = {"adb": DeviceError("adb_server", "there is none")}
    newcomers = Newcomers(["adb:*", "ssh:*"], [], None, lambda: (boards, no_server), book)
    assert newcomers.joining([], ()) == ()
    boards.append("ssh:pi@board-1")
    assert newcomers.joining([], ()) == ("ssh:pi@board-1",), "what is no phone joins all the same"
    world.add("lab-1", "one")
    lab = world.lab()

    def no_head() -> None:
        raise DeviceError("host_away", "the head does not answer")

    lab.look = no_head  # type: ignore[method-assign]
    assert Newcomers(["adb:*"], [named("one")], lab, book=book).joining([named("one")], ()) == ()
