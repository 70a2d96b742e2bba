"""A driver and several hosts: where devices are, and how their answers survive faults."""

import gc
import shutil
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeps.errors import QUEUED_KIND, DeviceError
from sweeps.records import Failed
from tests.builders import phone_facts
from tests.workers.hosts.hosts import JOB, VERSIONS, Ask, Wire, World, wait_for
from workers.artifacts import ArtifactStore
from workers.hosts.interface import SILENT_S, TIME_TO_LIVE_S, Hello
from workers.hosts.lab import Lab
from workers.hosts.lab_executor import LabLane
from workers.measure.recovery_request import RecoverRequest, Taken
from workers.measure.stored_answer import StoredAnswerRequest


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.build(JOB.build_key)
    yield world
    world.close()


def named(device_id: str, host: str = "lab-1") -> Any:
    return phone_facts(device_id, name=f"host:{host}/adb:{device_id}")


def kind_of(answer: object) -> str:
    assert isinstance(answer, Failed), answer
    return answer.kind


def names(lab: Lab, name: str) -> list[str]:
    return [device.name for device in lab.select(name) if not isinstance(device, DeviceError)]


def test_devices_are_found_by_transport_host_class_and_tag(world: World) -> None:
    world.add("lab-1", "one", "two", tags=("office",))
    other, _ = world.add("lab-2", "three")
    other.names = []
    other.agent.tend()
    other.make = lambda name: phone_facts("three", model="Pixel 8", maker="Google")
    other.names = ["adb:three"]
    other.agent.tend()
    lab = world.lab()
    assert names(lab, "adb:*") == ["host:lab-1/adb:one", "host:lab-1/adb:two", "host:lab-2/adb:three"]
    assert names(lab, "adb:two") == ["host:lab-1/adb:two"]
    assert names(lab, "host:lab-2/adb:*") == ["host:lab-2/adb:three"]
    assert names(lab, 'class:"google pixel 8"') == ["host:lab-2/adb:three"]
    assert names(lab, "tag:office") == ["host:lab-1/adb:one", "host:lab-1/adb:two"]
    assert names(lab, "tag:other") == names(lab, "host:lab-3/adb:*") == []


def test_an_artifact_crosses_once_to_each_host_that_needs_it(world: World) -> None:
    _, first = world.add("lab-1", "one", "two")
    _, second = world.add("lab-2", "three")
    _, third = world.add("lab-3", "four")
    executor = world.executor(world.lab())
    for device_id in ("one", "two", "three"):
        lane = executor.lane(named(device_id))
        for number in range(2):
            assert not isinstance(lane.ask(Ask(JOB, number)), Failed)
    assert (first.received, second.received, third.received) == ([JOB.build_key], [JOB.build_key], [])
    missing = executor.lane(named("four")).ask(Ask(replace(JOB, build_key="b" * 64), 1))
    assert kind_of(missing) == "no_artifact"
    executor.close()


def test_a_host_is_asked_for_an_artifact_once_and_again_after_a_failure(world: World) -> None:
    host, wire = world.add("lab-1")
    calls: list[str] = []

    def note(method: str, _: tuple[Any, ...]) -> bool:
        calls.append(method)
        return False

    wire.faulty = note
    lane = world.executor(world.lab()).lane(named("one"))
    for number in range(3):
        assert not isinstance(lane.ask(Ask(JOB, number)), Failed)
    assert calls.count("missing") == 1
    shutil.rmtree(host.folder / "artifacts")
    host.workers[0].fails = True
    assert kind_of(lane.ask(Ask(JOB, 3))) == "worker_lost"
    assert wire.received == [JOB.build_key]
    host.workers[0].fails = False
    assert not isinstance(lane.ask(Ask(JOB, 3)), Failed)
    assert calls.count("missing") == 2
    assert wire.received == [JOB.build_key] * 2


def test_a_result_is_acknowledged_with_the_next_request_and_the_last_one_at_the_end(world: World) -> None:
    host, _ = world.add("lab-1", "one")
    executor = world.executor(world.lab())
    lane = executor.lane(named("one"))
    for number in range(3):
        lane.ask(Ask(JOB, number))
        assert host.agent.hello().stored == 1
    executor.close()
    assert host.agent.hello().stored == 0
    assert host.agent.hello().devices[0].use is None, "the device is handed back"
    assert host.workers[0].ended == "closed"


def test_an_answer_that_is_lost_is_fetched_and_not_measured_again(world: World) -> None:
    host, wire = world.add("lab-1", "one")
    lane = world.executor(world.lab()).lane(named("one"))
    wire.faulty = lambda method, _: method == "run"
    assert kind_of(lane.ask(Ask(JOB, 1))) == "host_away"
    wire.faulty = lambda *_: False
    assert lane.ask(Ask(JOB, 1)) == "answer 0 to 1"
    assert host.workers[0].answers == ["answer 0 to 1"]


def test_after_a_cut_the_driver_goes_on_with_its_lease_or_waits_in_the_queue(world: World) -> None:
    host, wire = world.add("lab-1", "one")
    lab = world.lab()
    lane = world.executor(lab).lane(named("one"))
    assert lane.ask(Ask(JOB, 1)) == "answer 0 to 1"
    wire.cut_off()
    world.now_s += TIME_TO_LIVE_S + 1
    host.now_s += TIME_TO_LIVE_S + 1
    assert kind_of(lane.ask(Ask(JOB, 2))) == "host_away"
    wire.cut = False
    wait_for(lambda: all(answers for _, answers in lab.hellos()))
    assert lane.ask(Ask(JOB, 2)) == "answer 1 to 2", "its worker is the same"
    wire.cut_off()
    host.now_s += TIME_TO_LIVE_S + 1
    assert world.executor(world.lab("bob")).lane(named("one")).ask(Ask(JOB, 7)) == "answer 0 to 7"
    wire.cut = False
    queued = lane.ask(Ask(JOB, 3))
    assert kind_of(queued) == QUEUED_KIND
    assert isinstance(queued, Failed)
    assert "bob has one" in queued.message


def test_a_device_that_moves_is_measured_on_its_new_host(world: World) -> None:
    first, _ = world.add("lab-1", "one")
    second, _ = world.add("lab-2", "two")
    lab = world.lab()
    lane = world.executor(lab).lane(named("one"))
    lane.ask(Ask(JOB, 1))
    first.names = []
    first.agent.tend()
    wait_for(lambda: names(lab, "adb:one") == [])
    assert kind_of(lane.ask(Ask(JOB, 2))) == "offline"
    second.names = ["adb:two", "adb:one"]
    second.agent.tend()
    wait_for(lambda: names(lab, "adb:one") == ["host:lab-2/adb:one"])
    assert lane.ask(Ask(JOB, 2)) == "answer 0 to 2"


def test_a_device_that_a_person_keeps_out_on_its_host_is_not_called_offline(world: World) -> None:
    host, _ = world.add("lab-1", "one", "two", "three")
    lab = world.lab()
    lane, other = (world.executor(lab).lane(named(unit)) for unit in ("one", "two"))
    lane.ask(Ask(JOB, 1))
    way_out = "edgesweep devices readmit adb:one, on its host"
    host.kept_out = {"one": DeviceError("quarantined", "adb:one is quarantined: its battery swells", way_out)}
    # The host has not told of it yet: the lease does not help.
    assert kind_of(lane.ask(Ask(JOB, 2))) == "quarantined"
    host.names = ["adb:one", "adb:three"]
    host.agent.tend()
    wait_for(lambda: names(lab, "adb:*") == ["host:lab-1/adb:three"])
    refused = lane.ask(Ask(JOB, 2))
    assert isinstance(refused, Failed)
    assert refused.kind == "quarantined"
    assert refused.message == f"adb:one is quarantined: its battery swells ({way_out})"
    assert kind_of(lane.ask(RecoverRequest(JOB, "reconnect"))) == "quarantined"
    assert kind_of(other.ask(Ask(JOB, 2))) == "offline", "that one was unplugged"
    host.kept_out = {}
    host.agent.tend()
    wait_for(lambda: names(lab, "adb:one") != [])
    assert lane.ask(Ask(JOB, 2)) == "answer 1 to 2"


@pytest.mark.parametrize(
    ("differing", "message"),
    [
        ({"os_build": "2"}, "host:lab-2/adb:one is another one than this sweep was planned for (os_build: 2, not 1)"),
        ({"runners": (("torchscript", "runner 2"),)}, "(runner of torchscript: runner 2, not none)"),
        ({"runners": (("onnxruntime", "runner 2"),)}, ""),
    ],
)
def test_a_device_that_comes_back_as_another_one_is_not_measured_as_the_old_one(
    world: World, differing: dict[str, Any], message: str
) -> None:
    first, _ = world.add("lab-1", "one")
    second, _ = world.add("lab-2", "two")
    lab = world.lab()
    lane = world.executor(lab).lane(named("one"))
    assert lane.ask(Ask(JOB, 1)) == "answer 0 to 1"
    first.names = []
    first.agent.tend()
    second.make = lambda name: phone_facts(name.removeprefix("adb:"), **differing)
    second.names = ["adb:two", "adb:one"]
    second.agent.tend()
    wait_for(lambda: names(lab, "adb:one") == ["host:lab-2/adb:one"])
    answer = lane.ask(Ask(JOB, 2))
    if not message:
        assert answer == "answer 0 to 2", "another runtime's runner is in no key of this job"
        return
    assert isinstance(answer, Failed)
    assert (answer.kind, message in answer.message) == ("another_device", True), answer
    assert "run it again" in answer.message
    assert second.workers == []
    assert second.agent.hello().devices[-1].use is None, "it takes no lease"
    second.names = ["adb:two"]
    second.agent.tend()
    first.names = ["adb:one"]
    first.agent.tend()
    wait_for(lambda: names(lab, "adb:one") == ["host:lab-1/adb:one"])
    assert lane.ask(Ask(JOB, 2)) == "answer 1 to 2"


def test_a_host_that_was_started_again_takes_the_place_of_its_last_start(world: World) -> None:
    _, wire = world.add("lab-1", "one", boot=1)
    lab = world.lab()
    lane = world.executor(lab).lane(named("one"))
    lane.ask(Ask(JOB, 1))
    wire.cut_off()
    world.now_s += TIME_TO_LIVE_S + 1
    restarted, _ = world.add("lab-1", "one", boot=2)
    assert lane.ask(Ask(JOB, 2)) == "answer 0 to 2"
    assert [hello.boot for hello, _ in lab.hellos()] == [2]
    assert restarted.workers[0].answers == ["answer 0 to 2"]
    last = weakref.ref(wire)
    del wire, world.hosts["lab-1 0"], world.wires["ann", "lab-1 0"]
    wait_for(lambda: gc.collect() >= 0 and last() is None)  # a driver of weeks keeps no start that is gone


def test_a_host_of_another_version_is_told_and_not_used(world: World) -> None:
    world.add("lab-1", "one", versions=replace(VERSIONS, edgesweep="0.9"))
    world.add("lab-2", "two", versions=replace(VERSIONS, ray="2.61"))
    world.add("lab-3", "three")
    lab = world.lab()
    assert names(lab, "adb:*") == ["host:lab-3/adb:three"]
    assert sorted(world.messages) == [
        "the host lab-1 is not used: it has EdgeSweep 0.9 (protocol 1), not 1 (protocol 1); "
        "update it, or this computer",
        "the host lab-2 is not used: it has Ray 2.61, not 2; update it, or this computer",
    ]
    refused = world.executor(lab).lane(named("one")).ask(Ask(JOB, 1))
    assert isinstance(refused, Failed)
    assert refused.kind == "host_away"
    assert "the host lab-1: it is not used: it has EdgeSweep 0.9" in refused.message


def test_a_device_whose_host_has_left_is_not_taken_for_a_device_that_is_gone(world: World) -> None:
    _, wire = world.add("lab-1", "one")
    world.add("lab-2", "two")
    lab = world.lab()
    lane = world.executor(lab).lane(named("one"))
    lane.ask(Ask(JOB, 1))
    wire.cut_off()
    del world.hosts["lab-1 0"]
    world.now_s += TIME_TO_LIVE_S + 1
    wait_for(lambda: ("lab-2", True) in [(hello.name, answers) for hello, answers in lab.hellos()])
    answer = lane.ask(Ask(JOB, 2))
    assert isinstance(answer, Failed)
    assert answer.kind == "host_away"
    assert answer.message.startswith("the host lab-1: it is not in the lab now")
    # The name tells the host of a device that this driver never saw.
    assert kind_of(world.executor(lab).lane(named("three", "lab-3")).ask(Ask(JOB, 1))) == "host_away"
    assert kind_of(world.executor(lab).lane(named("three", "lab-2")).ask(Ask(JOB, 1))) == "offline"


def test_a_step_to_bring_a_device_back_is_taken_on_the_host_that_had_it_last(world: World) -> None:
    host, _ = world.add("lab-1", "one")
    world.add("lab-2", "two")
    lab = world.lab()
    lane = world.executor(lab).lane(named("one"))
    lane.ask(Ask(JOB, 1))
    host.names = []
    host.agent.tend()
    wait_for(lambda: names(lab, "adb:one") == [])
    steps: list[str] = []
    host.workers[0].take = lambda request: steps.append(request.rung) or Taken(request.rung)  # type: ignore[func-returns-value]
    assert kind_of(lane.ask(Ask(JOB, 2))) == "offline"
    assert lane.ask(RecoverRequest(JOB, "restart_adb")) == Taken("restart_adb")
    assert steps == ["restart_adb"]


def test_a_device_on_two_hosts_is_measured_once_and_told(world: World) -> None:
    world.add("lab-1", "one")
    world.add("lab-2", "one")
    lab = world.lab()
    assert names(lab, "adb:*") == ["host:lab-1/adb:one"]
    assert world.messages == [
        "host:lab-2/adb:one and host:lab-1/adb:one both call themselves one: measured as host:lab-1/adb:one"
    ]


def test_a_host_whose_answer_waits_for_the_driver_is_not_away(world: World) -> None:
    _, wire = world.add("lab-1", "one")
    lab = world.lab()
    wire.cut_off()
    world.now_s += SILENT_S + 1
    assert [answers for _, answers in lab.hellos()] == [False]
    wire.late = True
    assert [answers for _, answers in lab.hellos()] == [True]
    assert lab.where("one") is wire.host


def test_a_host_whose_clock_is_an_hour_off_measures_like_the_others(world: World) -> None:
    host, _ = world.add("lab-1", "one")
    host.now_s += 3600
    lab = world.lab()
    assert world.messages == ["the host lab-1: its clock is 60 min ahead of this computer's: set one of them"]
    assert world.executor(lab).lane(named("one")).ask(Ask(JOB, 1)) == "answer 0 to 1"


def test_a_host_whose_results_cannot_be_kept_says_so_and_they_still_arrive(world: World) -> None:
    host, _ = world.add("lab-1", "one")
    lab = world.lab()
    lane = world.executor(lab).lane(named("one"))
    lane.ask(Ask(JOB, 1))
    host.outbox.close()
    assert lane.ask(Ask(JOB, 2)) == "answer 1 to 2"
    hello: Hello = host.agent.hello()
    assert [error.kind for error in hello.refused] == ["host_disk"]
    assert "outbox.sqlite" in hello.refused[0].message


def test_devices_without_a_host_in_their_name_are_this_machines_own(world: World, tmp_path: Path) -> None:
    executor = world.executor(world.lab())
    lane = executor.lane(phone_facts("gone", name="fake:gone"))
    assert kind_of(lane.ask(Ask(JOB, 1))) == "unknown_device"
    executor.close()


def test_the_driver_store_is_not_the_hosts(world: World) -> None:
    host, _ = world.add("lab-1", "one")
    world.executor(world.lab()).lane(named("one")).ask(Ask(JOB, 1))
    assert ArtifactStore(host.folder / "artifacts").find(JOB.build_key) is not None


def test_a_person_ends_the_use_of_a_device_by_its_name(world: World) -> None:
    world.add("lab-1", "one")
    lab = world.lab()
    lane = world.executor(lab).lane(named("one"))
    lane.ask(Ask(JOB, 1))
    person = world.lab("person")
    assert person.free("host:lab-1/adb:one") == "ann"
    assert person.free("host:lab-1/adb:one") == ""
    assert kind_of(lane.ask(Ask(JOB, 2))) == "leased"
    with pytest.raises(DeviceError, match="host:lab-1/adb:two"):
        person.free("host:lab-1/adb:two")


def test_a_head_that_is_gone_is_noticed_also_where_the_devices_host_answers(world: World) -> None:
    world.add("lab-1", "one")
    lab = world.lab()
    lane = world.executor(lab).lane(named("one"))
    hosts, calls = world.hosts, 0

    class NoHead(dict[str, Any]):
        def __iter__(self) -> Iterator[str]:
            nonlocal calls
            calls += 1
            raise DeviceError("head_away", "the lab's head: it does not answer")

    def pass_by(seconds: float) -> None:
        world.now_s += seconds
        wait_for(lambda: all(answers for _, answers in lab.hellos()))

    world.hosts = NoHead()
    pass_by(9.0)
    assert lane.ask(Ask(JOB, 1)) == "answer 0 to 1"
    assert calls == 0, "it is not asked before each block"
    pass_by(1.0)
    for _ in range(2):
        assert kind_of(lane.ask(Ask(JOB, 2))) == "head_away"
    assert calls == 2
    world.hosts = hosts
    assert lane.ask(Ask(JOB, 2)) == "answer 1 to 2"


def test_a_host_that_has_joined_and_does_not_answer_is_told(world: World) -> None:
    _, wire = world.add("lab-1", "one")
    wire.cut = True
    lab = world.lab()
    assert lab.hellos() == ()
    assert [error.message for error in lab.mute()] == ["the link is cut"]
    wire.cut = False
    lab.look()
    assert [hello.name for hello, answers in lab.hellos() if answers] == ["lab-1"]
    assert lab.mute() == ()


def test_a_host_whose_answer_is_an_unexpected_error_is_heard_again_once_it_answers(world: World) -> None:
    _, wire = world.add("lab-1", "one")
    lab = world.lab()
    broken: list[str] = []

    def out_of_threads(method: str, _: tuple[Any, ...]) -> bool:
        if method == "beat":
            broken.append(method)
            raise RuntimeError("can't start new thread")
        return False

    wire.faulty = out_of_threads
    wait_for(lambda: len(broken) > 1)
    world.now_s += SILENT_S + 1
    assert [answers for _, answers in lab.hellos()] == [False]
    wire.faulty = lambda *_: False
    wait_for(lambda: [answers for _, answers in lab.hellos()] == [True])


def lose_answer(world: World, wire: Wire, lane: LabLane) -> StoredAnswerRequest[str]:
    """A block ends, and its driver does not hear of it. Returns how to ask for what is kept."""
    wire.faulty = lambda method, _: method == "run"
    assert kind_of(lane.ask(Ask(JOB, 1))) == "host_away"
    wire.faulty = lambda *_: False
    return StoredAnswerRequest(JOB, Ask(JOB, 1))


def lane_of(world: World, lab: Lab, device_id: str = "one") -> LabLane:
    lane = world.executor(lab).lane(named(device_id))
    assert isinstance(lane, LabLane)
    return lane


def test_what_a_host_keeps_is_collected_without_a_lease(world: World) -> None:
    host, wire = world.add("lab-1", "one")
    lane = lane_of(world, world.lab())
    request = lose_answer(world, wire, lane)
    world.lab("person").free("host:lab-1/adb:one")
    assert kind_of(lane.ask(Ask(JOB, 2))) == "leased"
    assert lane.ask(request) == "answer 0 to 1"
    assert host.agent.hello().stored == 1, "until it is in the journal"
    lane.close()
    assert host.agent.hello().stored == 0
    assert kind_of(lane.ask(request)) == "not_kept"
    assert host.workers[0].answers == ["answer 0 to 1"]


def test_collecting_does_not_wait_for_another_drivers_block(world: World) -> None:
    host, wire = world.add("lab-1", "one")
    ann = world.lab()
    lane = lane_of(world, ann)
    request = lose_answer(world, wire, lane)
    ann.hand_back("one")
    host.held = True
    bob = lane_of(world, world.lab("bob"))
    with ThreadPoolExecutor(1) as pool:
        block = pool.submit(bob.ask, Ask(JOB, 7))
        wait_for(lambda: len(host.workers) > 1 and host.workers[1].request_event.is_set())
        assert kind_of(lane.ask(Ask(JOB, 1))) == QUEUED_KIND
        assert lane.ask(request) == "answer 0 to 1"
        assert kind_of(lane.ask(StoredAnswerRequest(JOB, Ask(JOB, 2)))) == "not_kept"
        host.workers[1].go.set()
        assert block.result(60) == "answer 0 to 7"


def test_the_result_of_a_moved_device_is_its_last_hosts_also_after_a_restart(world: World) -> None:
    first, wire = world.add("lab-1", "one")
    second, _ = world.add("lab-2", "two")
    lab = world.lab()
    lane = lane_of(world, lab)
    lose_answer(world, wire, lane)
    first.names = []
    first.identity["boot"] = 2
    del world.hosts["lab-1 0"]
    world.hosts["lab-1 again"] = first
    first.start()
    lab.look()
    second.names = ["adb:two", "adb:one"]
    second.agent.tend()
    wait_for(lambda: names(lab, "adb:one") == ["host:lab-2/adb:one"])
    assert lane.ask(Ask(JOB, 1)) == "answer 0 to 1"
    assert second.workers == []
    assert lane.ask(Ask(JOB, 2)) == "answer 0 to 2"
    assert first.agent.hello().stored == 0


REMOTE = "10.0.0.7:5555"
"""The address of a phone that every host may reach."""


def test_a_phone_in_the_network_is_its_first_hosts_also_while_that_is_cut_off(world: World) -> None:
    second, _ = world.add("lab-2", REMOTE)
    first, wire = world.add("lab-1", REMOTE)
    lane = lane_of(world, world.lab(), REMOTE)
    assert lane.ask(Ask(JOB, 1)) == "answer 0 to 1"
    assert len(first.workers) == 1, "whoever joined first"
    wire.cut_off()
    world.now_s += SILENT_S + 1
    wait_for(lambda: isinstance(lane.ask(Ask(JOB, 2)), Failed))
    assert kind_of(lane.ask(Ask(JOB, 2))) == "host_away", "its block may run there, and would be ended as an orphan"
    assert second.workers == []
    wire.cut = False
    wait_for(lambda: lane.ask(Ask(JOB, 2)) == "answer 1 to 2")


def test_a_phone_that_another_sweep_has_through_another_host_is_waited_for(world: World) -> None:
    world.add("lab-2", REMOTE)
    ann = world.lab()
    lane = lane_of(world, ann, REMOTE)
    assert lane.ask(Ask(JOB, 1)) == "answer 0 to 1"
    first, _ = world.add("lab-1", REMOTE)
    bob = lane_of(world, world.lab("bob"), REMOTE)
    queued = bob.ask(Ask(JOB, 7))
    assert isinstance(queued, Failed)
    assert (queued.kind, queued.message) == (QUEUED_KIND, f"ann has {REMOTE} at the host lab-2")
    assert first.workers == []
    ann.look()
    assert lane.ask(Ask(JOB, 2)) == "answer 1 to 2", "it stays where it is"
    ann.hand_back(REMOTE)
    assert bob.ask(Ask(JOB, 7)) == "answer 0 to 7"
    assert len(first.workers) == 1


def test_a_serial_of_two_hosts_by_cable_is_the_first_ones_also_while_it_is_cut_off(world: World) -> None:
    first, wire = world.add("lab-1", "one")
    second, _ = world.add("lab-2", "one")
    lab = world.lab()
    assert names(lab, "adb:one") == ["host:lab-1/adb:one"]
    assert world.messages == [
        "host:lab-2/adb:one and host:lab-1/adb:one both call themselves one: measured as host:lab-1/adb:one"
    ]
    lane = lane_of(world, lab)
    assert lane.ask(Ask(JOB, 1)) == "answer 0 to 1"
    wire.cut_off()
    world.now_s += SILENT_S + 1
    wait_for(lambda: isinstance(lane.ask(Ask(JOB, 2)), Failed))
    refused = lane.ask(Ask(JOB, 2))
    assert isinstance(refused, Failed)
    assert (refused.kind, "lab-1" in refused.message) == ("host_away", True), "it is another phone that lab-2 has"
    assert second.workers == []
    wire.cut = False
    wait_for(lambda: lane.ask(Ask(JOB, 2)) == "answer 1 to 2")
    # Unplugged there while both answer, it is one that has moved.
    first.names = []
    first.agent.tend()
    wait_for(lambda: names(lab, "adb:one") == ["host:lab-2/adb:one"])
    assert lane.ask(Ask(JOB, 3)) == "answer 0 to 3"


@pytest.mark.parametrize("phone", ["one", "127.0.0.1:5555", "localhost:5555", "[::1]:5555"])
def test_a_phone_on_a_cable_that_is_elsewhere_has_left_a_host_that_is_silent(world: World, phone: str) -> None:
    _, wire = world.add("lab-1", phone)
    second, _ = world.add("lab-2", "two")
    lab = world.lab()
    lane = lane_of(world, lab, phone)
    lane.ask(Ask(JOB, 1))
    wire.cut_off()
    world.now_s += SILENT_S + 1
    second.names = ["adb:two", f"adb:{phone}"]
    second.agent.tend()
    wait_for(lambda: lane.ask(Ask(JOB, 2)) == "answer 0 to 2")
    assert len(second.workers) == 1
