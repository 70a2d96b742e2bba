"""Commands show a lab and act in it, with hosts within the test's process: only the way to them is not Ray's."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from sweeps.cli.lab import LabOptions
from sweeps.errors import DeviceError
from sweeps.quarantine import STATE_VARIABLE, QuarantineBook
from tests.workers.hosts.hosts import VERSIONS, World
from workers.hosts.lab import Lab
from workers.hosts.shared_quarantine import ToldBook

Command = Callable[..., CompletedProcess[str]]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world of two hosts, which the commands of this process reach."""
    world = World(tmp_path)
    world.add("lab-1", "one", "two")
    world.add("lab-2", "three")

    @contextmanager
    def opened(_options: LabOptions, _purpose: str) -> Iterator[Lab]:
        yield world.lab()

    for command in ("devices", "hosts", "quarantine"):
        monkeypatch.setattr(f"sweeps.cli.{command}.open_lab", opened)
    monkeypatch.setattr("sweeps.cli.hosts.versions", lambda: VERSIONS)
    monkeypatch.setenv("EDGESWEEP_LAB", "127.0.0.1")
    monkeypatch.setenv("EDGESWEEP_TOKEN_FILE", str(tmp_path / "token"))
    yield world
    world.close()


def words_of(ended: CompletedProcess[str]) -> str:
    return " ".join(f"{ended.stdout} {ended.stderr}".split())


def test_hosts_shows_of_each_host_its_health_its_versions_and_its_disk(world: World, edgesweep: Command) -> None:
    world.add("lab-3", "four", versions=replace(VERSIONS, edgesweep="0.9"))
    world.add("lab-4", "five", tools=(("adb", "1.0.41"),))
    shown = words_of(edgesweep("hosts"))
    assert "lab-4: answers, EdgeSweep 1, Python 3, Ray 2, adb 1.0.41, " in shown
    versions = {host["name"]: host["versions"] for host in json.loads(edgesweep("hosts", "--json").stdout)["hosts"]}
    assert versions["lab-4"]["adb"] == "1.0.41"
    assert "adb" not in versions["lab-1"]
    assert "lab-1: answers, EdgeSweep 1, Python 3, Ray 2, " in shown
    assert " GB free" in shown
    assert "lab-3: is not used, EdgeSweep 0.9, Python 3, Ray 2" in shown
    assert "lab-3 has EdgeSweep 0.9 (protocol 1), not 1 (protocol 1): update it" in shown


def test_devices_of_a_lab_tells_what_hosts_cannot_use_and_which_do_not_answer(world: World, edgesweep: Command) -> None:
    host, _ = world.add("lab-3", "four")

    def locked(name: str) -> object:
        raise DeviceError("unauthorized", f"{name} is locked", "accept the prompt")

    host.make = locked  # type: ignore[assignment]
    host.names = ["adb:five"]
    host.agent.tend()
    world.add("lab-4", "six")[1].cut = True
    ended = edgesweep("devices")
    assert "lab-3: adb:five is locked" in words_of(ended)
    assert "the link is cut" in words_of(ended)
    assert "host:lab-1/adb:one has no runner yet: its host has no program for arm64-v8a" in words_of(ended)
    document = json.loads(edgesweep("devices", "--json").stdout)
    assert [device["name"] for device in document["devices"]] == [f"host:{name}" for name in NAMES]
    kinds = [refusal["kind"] for refusal in document["refused"]]
    assert sorted(kinds) == ["host_away", "no_runner", "no_runner", "no_runner", "unauthorized"]


NAMES = ("lab-1/adb:one", "lab-1/adb:two", "lab-2/adb:three")


@pytest.mark.parametrize("name", ["host:lab-2/adb:three", "adb:three", "three"])
def test_a_device_of_a_lab_is_kept_out_and_let_in_again_and_hosts_says_so(
    world: World, edgesweep: Command, name: str
) -> None:
    put = edgesweep("devices", "quarantine", name, "--reason", "battery swells")
    assert put.returncode == 0, put.stderr
    assert "host:lab-2/adb:three is quarantined since" in words_of(put)
    assert QuarantineBook().quarantine("three") is not None
    hosts_shown = edgesweep("hosts")
    assert "host:lab-2/adb:three is quarantined since" in words_of(hosts_shown)
    assert "by a person: battery swells; edgesweep devices readmit lets it in again" in words_of(hosts_shown)
    hosts = json.loads(edgesweep("hosts", "--json").stdout)["hosts"]
    quarantines = {device["name"]: device["quarantine"] for host in hosts for device in host["devices"]}
    assert quarantines.pop("host:lab-2/adb:three")["reason"] == "battery swells"
    assert set(quarantines.values()) == {None}
    assert "it is let in again" in words_of(edgesweep("devices", "readmit", name))
    assert QuarantineBook().quarantine("three") is None


def test_what_the_sweeps_of_another_user_leave_alone_is_shown_and_kept_from_nobody(
    world: World, edgesweep: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(1000, 2000, 100))
    with monkeypatch.context() as bobs:
        bobs.setenv(STATE_VARIABLE, str(tmp_path / "bob"))
        bob = world.lab("bob@desk sweep 1f2a")
        book = ToldBook(bob, now_s=lambda: float(next(times)))
    for job in ("a", "b", "c"):
        book.add_fault("three", "host:lab-2/adb:three", "rebooted", "it restarted", job)
    line = "lab-2: sweeps of bob@desk leave three alone, quarantined since 1970-01-01 00:20 UTC by EdgeSweep: 3 faults"
    assert line in words_of(edgesweep("hosts"))
    (hint,) = [hint for host in json.loads(edgesweep("hosts", "--json").stdout)["hosts"] for hint in host["hints"]]
    assert (hint["device_id"], hint["user"]) == ("three", "bob@desk")
    ann = world.lab("ann@desk sweep 3b4c")
    assert ann.lease(ann.where("three"), "three") > 0
    book.pass_canary("three")
    assert "leave three alone" not in words_of(edgesweep("hosts"))


def test_hosts_show_a_quarantine_until_it_ends_and_again_after_a_restart_of_the_host(
    world: World, edgesweep: Command
) -> None:
    lab = world.lab()
    book = ToldBook(lab)
    for at_s, job in ((1000, "a"), (1100, "b"), (1200, "c")):
        ToldBook(lab, now_s=lambda at_s=at_s: float(at_s)).add_fault("three", "adb:three", "rebooted", "it did", job)  # type: ignore[misc]
    host = world.hosts["lab-2 1"]
    assert [hint.device_id for hint in host.agent.hello().hints] == ["three"]
    host.start()
    assert host.agent.hello().hints == ()
    book.retell(["one", "three"])
    assert [hint.device_id for hint in host.agent.hello().hints] == ["three"]
    assert "it is let in again" in words_of(edgesweep("devices", "readmit", "three"))
    assert host.agent.hello().hints == ()
    book.put("three", "adb:three", "battery swells")
    book.retell(["three"])
    assert host.agent.hello().hints == (), "what a person put there is shown on the person's computer"


def test_a_host_of_another_version_is_told_nothing(world: World) -> None:
    host, wire = world.add("lab-3", "four", versions=replace(VERSIONS, protocol=0))
    lab = world.lab()
    methods: list[str] = []
    wire.faulty = lambda method, _: methods.append(method) is None and False
    lab.hint("four", "by EdgeSweep")
    assert "hint" not in methods
    assert host.agent.hello().hints == ()


def test_a_name_that_means_several_devices_of_a_lab_or_none_is_refused(world: World, edgesweep: Command) -> None:
    several = edgesweep("devices", "quarantine", "class:Maker Phone")
    assert several.returncode == 1
    assert "'class:Maker Phone' names 3 devices" in words_of(several)
    assert "host:lab-1/adb:one, host:lab-1/adb:two, host:lab-2/adb:three" in words_of(several)
    assert edgesweep("devices", "quarantine", "host:lab-2/adb:nobody").returncode == 1
    assert QuarantineBook().records() == []


def test_a_lab_before_the_verb_is_told_where_it_belongs(edgesweep: Command) -> None:
    refused = edgesweep("devices", "--lab", "10.0.0.5", "quarantine", "adb:one")
    assert refused.returncode == 2
    assert "write --lab after quarantine" in refused.stderr
