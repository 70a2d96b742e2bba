"""Devices of a host come and go."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from threading import Event, Thread

import pytest

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError
from tests.builders import phone_facts
from workers.hosts.inventory import Inventory

FACTS = phone_facts("one")


class Cable:
    """The attached devices, and which of them can be used."""

    def __init__(self) -> None:
        self.names: list[str] = ["adb:one"]
        self.troubles: dict[str, DeviceError] = {}
        self.kept_out: dict[str, DeviceError] = {}
        """By device id."""
        self.errors: dict[str, Exception] = {}
        self.looks: list[str] = []
        self.now_s = 0.0
        self.versions: tuple[tuple[str, str], ...] = ()

    def listed(self) -> tuple[list[str], dict[str, DeviceError]]:
        return [name for name in self.names if name.partition(":")[0] not in self.troubles], self.troubles

    def look(self, name: str) -> DeviceFacts:
        self.looks.append(name)
        if name in self.errors:
            raise self.errors[name]
        device_id = name.partition(":")[2].partition("@")[0]
        return replace(FACTS, name=name, device_id=device_id, runtime_versions=self.versions)


@pytest.fixture
def cable() -> Cable:
    return Cable()


def of(cable: Cable, *always: str) -> Inventory:
    kept_out = lambda facts: cable.kept_out.get(facts.device_id)  # noqa: E731
    return Inventory(cable.listed, cable.look, lambda: cable.now_s, always, kept_out=kept_out)


def ids(inventory: Inventory) -> list[str]:
    return [facts.device_id for facts in inventory.devices()]


def test_a_device_is_asked_for_its_facts_once_each_time_it_comes(cable: Cable) -> None:
    inventory = of(cable)
    for names, count in ((["adb:one"], 1), (["adb:one"], 1), ([], 0), (["adb:one", "adb:two"], 2)):
        cable.names = names
        inventory.refresh()
        assert len(ids(inventory)) == count
    assert cable.looks == ["adb:one", "adb:one", "adb:two"]


def test_the_counter_grows_with_each_change_and_only_then(cable: Cable) -> None:
    inventory = of(cable)
    changes = [inventory.change]
    for names in (["adb:one"], ["adb:one"], [], [], ["adb:two"]):
        cable.names = names
        inventory.refresh()
        changes.append(inventory.change)
    assert [later - earlier for earlier, later in pairwise(changes)] == [1, 0, 1, 0, 1]


def test_who_watches_is_told_at_once_and_who_knows_it_already_waits_in_vain(cable: Cable) -> None:
    inventory = of(cable)
    assert inventory.watch(inventory.change, 0.01) is False
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(inventory.watch, inventory.change, 60.0)
        inventory.refresh()
        assert watching.result(30) is True
    assert inventory.watch(inventory.change - 1, 0.0) is True


def test_a_device_that_cannot_be_used_is_told_and_hides_no_other(cable: Cable) -> None:
    cable.names = ["adb:one", "adb:two", "adb:three"]
    cable.errors = {"adb:one": DeviceError("unauthorized", "accept the prompt"), "adb:two": ValueError("odd facts")}
    inventory = of(cable)
    inventory.refresh()
    assert ids(inventory) == ["three"]
    assert [(refusal.kind, refusal.message) for refusal in inventory.refused()] == [
        ("unauthorized", "accept the prompt"),
        ("worker_error", "adb:two: ValueError: odd facts"),
    ]


def test_a_device_that_cannot_be_used_is_asked_again_after_a_while(cable: Cable) -> None:
    cable.errors = {"adb:one": DeviceError("unauthorized", "accept the prompt")}
    inventory = of(cable)
    for now_s, looks in ((0, 1), (5, 1), (11, 2), (12, 2)):
        cable.now_s = now_s
        inventory.refresh()
        assert len(cable.looks) == looks
    change = inventory.change
    cable.errors, cable.now_s = {}, 30
    inventory.refresh()
    assert ids(inventory) == ["one"]
    assert inventory.refused() == ()
    assert inventory.change > change


def test_a_device_without_a_runner_has_one_once_it_was_built(cable: Cable) -> None:
    inventory = of(cable)
    for now_s, looks in ((0, 1), (20, 1), (31, 2), (40, 2)):
        cable.now_s = now_s
        inventory.refresh()
        assert (len(cable.looks), inventory.change) == (looks, 1), "nothing has changed"
    cable.errors, cable.now_s = {"adb:one": DeviceError("leased", "another program has it")}, 62
    inventory.refresh()
    assert (ids(inventory), inventory.refused(), inventory.change) == (["one"], (), 1)
    cable.errors, cable.now_s, cable.versions = {}, 93, (("torchscript", "2.1"),)
    inventory.refresh()
    assert [facts.runtime_versions for facts in inventory.devices()] == [cable.versions]
    assert inventory.change == 2
    cable.now_s = 1000
    inventory.refresh()
    assert len(cable.looks) == 4, "it is left alone from then on"


def test_a_phone_with_two_connections_is_one_device_until_both_are_gone(cable: Cable) -> None:
    cable.names = ["adb:one", "adb:one@10.0.0.9"]
    inventory = of(cable)
    inventory.refresh()
    assert [facts.name for facts in inventory.devices()] == ["adb:one"]
    cable.names = ["adb:one@10.0.0.9"]
    inventory.refresh()
    assert [facts.name for facts in inventory.devices()] == ["adb:one@10.0.0.9"]


def test_a_transport_that_cannot_list_keeps_its_devices_says_why_and_hides_no_other(cable: Cable) -> None:
    inventory = of(cable, "local:here")
    inventory.refresh()
    change = inventory.change
    cable.troubles = {"adb": DeviceError("adb_server", "the adb server is gone")}
    cable.names = ["adb:one", "ssh:board"]
    inventory.refresh()
    assert set(ids(inventory)) == {"here", "one", "board"}
    assert [refusal.message for refusal in inventory.refused()] == ["the adb server is gone"]
    assert inventory.change == change + 2
    cable.names = []
    inventory.refresh()
    assert set(ids(inventory)) == {"here", "one"}, "a board that is named no more is gone"
    cable.troubles = {}
    inventory.refresh()
    assert (ids(inventory), inventory.refused()) == (["here"], ())


def test_a_device_in_quarantine_is_told_and_is_nobody_s_until_it_is_readmitted(cable: Cable) -> None:
    inventory = of(cable)
    inventory.refresh()
    cable.names = ["adb:one", "adb:two"]
    change = inventory.change
    cable.kept_out = {"one": DeviceError("quarantined", "its battery swells")}
    inventory.refresh()
    assert ids(inventory) == ["two"]
    assert [refusal.message for refusal in inventory.refused()] == ["its battery swells"]
    assert inventory.change == change + 2
    cable.kept_out = {}
    inventory.refresh()
    assert (ids(inventory), inventory.refused()) == (["one", "two"], ())
    assert inventory.change == change + 3
    assert cable.looks == ["adb:one", "adb:two"], "nobody asked it for its facts again"


def test_devices_that_are_always_there_need_no_list(cable: Cable) -> None:
    cable.troubles = {"adb": DeviceError("adb_server", "there is no adb")}
    inventory = of(cable, "local:here")
    inventory.refresh()
    assert ids(inventory) == ["here"]


def test_a_device_that_does_not_say_what_it_is_holds_up_only_those_after_it(cable: Cable) -> None:
    say, look_began = Event(), Event()

    def look(name: str) -> DeviceFacts:
        look_began.set()
        assert say.wait(60)
        return cable.look(name)

    calls: list[Thread] = []

    def call_runner(call: Callable[[], None]) -> None:
        calls.append(Thread(target=call))
        calls[-1].start()

    inventory = Inventory(cable.listed, look, lambda: cable.now_s, spawn=call_runner)
    inventory.refresh()
    assert look_began.wait(60)
    cable.names = ["adb:one", "adb:two"]
    inventory.refresh()
    inventory.refresh()
    inventory.wait(0.0)
    assert (ids(inventory), len(calls)) == ([], 1), "nobody waits"
    say.set()
    inventory.wait(60)
    assert ids(inventory) == ["one", "two"]
    assert cable.looks == ["adb:one", "adb:two"], "one after the other, each once"
    calls[0].join()


def test_a_device_that_goes_while_it_is_asked_what_it_is_is_not_there(cable: Cable) -> None:
    def look(name: str) -> DeviceFacts:
        device = cable.look(name)
        cable.names = []
        inventory.refresh()
        return device

    inventory = Inventory(cable.listed, look, lambda: cable.now_s)
    cable.names = ["adb:one"]
    inventory.refresh()
    assert (cable.looks, ids(inventory)) == (["adb:one"], [])
