"""The agent of a device host: blocks, leases and stored results together."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from sweeps.errors import ABSENT_KINDS, DeviceError
from sweeps.records import Failed
from sweeps.variant import Variant
from tests import gallery
from tests.builders import phone_facts
from tests.workers.hosts.hosts import JOB, Ask, ControlledWorker, TestHost
from tests.workers.tiny_model import tiny_inputs
from workers.artifacts import ArtifactStore
from workers.hosts.interface import TIME_TO_LIVE_S, Beat, Granted, Queued
from workers.hosts.leases import PATIENCE_S


@pytest.fixture
def host(tmp_path: Path) -> TestHost:
    return TestHost(tmp_path)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def granted(host: TestHost, who: str = "ann") -> int:
    answer = host.agent.acquire("one", who)
    assert isinstance(answer, Granted), answer
    return answer.epoch


def kind_of(answer: object) -> str:
    assert isinstance(answer, Failed), answer
    return answer.kind


def running(host: TestHost, pool: ThreadPoolExecutor, epoch: int) -> "Future[object]":
    """A block that does not end before it is let go."""
    host.held = True
    block: Future[object] = pool.submit(host.agent.run, "one", epoch, Ask(JOB, 1))
    while not host.workers:
        pass
    assert host.workers[-1].request_event.wait(60)
    return block


def test_a_host_tells_its_devices_their_use_and_itself(host: TestHost) -> None:
    hello = host.agent.hello()
    assert (hello.name, hello.boot, hello.clock_s, hello.stored) == ("lab-1", 1, 1000.0, 0)
    assert [(device.facts.name, device.use) for device in hello.devices] == [("adb:one", None)]
    assert hello.named(hello.devices[0].facts).name == "host:lab-1/adb:one"
    assert hello.free_bytes > 0
    granted(host)
    use = host.agent.hello().devices[0].use
    assert use is not None
    assert use.who == "ann"
    host.names = []
    host.agent.tend()
    beat = host.agent.beat("ann", {}, hello.change, 0.0)
    assert beat.hello is not None
    assert beat.hello.devices == ()
    assert host.agent.beat("ann", {}, beat.hello.change, 0.0) == Beat(frozenset(), None)


def test_a_lease_that_has_ended_is_told_at_once(host: TestHost) -> None:
    epoch = granted(host)
    host.agent.free("one")
    beat = host.agent.beat("ann", {"one": epoch}, host.agent.hello().change, 1e6)
    assert beat == Beat(frozenset({"one"}), None)


def test_a_result_is_kept_and_told_again_until_it_is_acknowledged(host: TestHost) -> None:
    epoch = granted(host)
    first = host.agent.run("one", epoch, Ask(JOB, 1))
    assert host.agent.run("one", epoch, Ask(JOB, 1)) == first == "answer 0 to 1"
    assert host.agent.hello().stored == 1
    assert host.agent.run("one", epoch, Ask(JOB, 2), ["result 1"]) == "answer 1 to 2"
    assert host.agent.hello().stored == 1
    host.agent.acknowledge(["result 2"])
    assert host.agent.hello().stored == 0
    assert host.agent.run("one", epoch, Ask(JOB, 1)) == "answer 2 to 1", "it was forgotten, so it is measured"


def test_a_result_is_answered_first_and_on_the_disk_at_the_next_look(
    host: TestHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = granted(host)
    monkeypatch.setattr(os, "fsync", synced := Mock())
    host.agent.run("one", epoch, Ask(JOB, 1))
    assert not synced.called
    host.agent.tend()
    assert synced.called


def test_a_result_survives_the_agent_and_is_given_to_any_epoch(host: TestHost) -> None:
    epoch = granted(host)
    first = host.agent.run("one", epoch, Ask(JOB, 1))
    host.start()
    assert host.agent.run("one", epoch, Ask(JOB, 1)) == first
    assert kind_of(host.agent.run("one", epoch, Ask(JOB, 2))) == "lease_lost", "nothing new starts under it"
    assert granted(host) > epoch


def test_what_is_only_of_the_moment_and_what_failed_is_not_kept(host: TestHost) -> None:
    epoch = granted(host)
    host.agent.run("one", epoch, Ask(JOB, 1, stored=False))
    host.workers[0].fails = True
    assert kind_of(host.agent.run("one", epoch, Ask(JOB, 2))) == "worker_lost"
    assert host.agent.hello().stored == 0


def test_who_comes_back_after_an_outage_waits_for_its_block_and_has_the_result(
    host: TestHost, pool: ThreadPoolExecutor
) -> None:
    block = running(host, pool, epoch := granted(host))
    second_call = pool.submit(host.agent.run, "one", epoch, Ask(JOB, 1))
    host.workers[0].go.set()
    assert block.result(60) == second_call.result(60) == "answer 0 to 1"
    assert len(host.workers[0].answers) == 1, "it was measured once"


def test_a_block_is_judged_by_the_epoch_in_which_it_started(host: TestHost, pool: ThreadPoolExecutor) -> None:
    block = running(host, pool, old := granted(host, "ann"))
    host.now_s += TIME_TO_LIVE_S + 1
    waiting = host.agent.acquire("one", "bob")
    assert isinstance(waiting, Queued)
    assert waiting.running == JOB.name
    host.workers[0].go.set()
    assert block.result(60) == "answer 0 to 1"
    new = granted(host, "bob")
    assert kind_of(host.agent.run("one", old, Ask(JOB, 2))) == "lease_lost"
    assert host.agent.run("one", old, Ask(JOB, 1)) == "answer 0 to 1", "what is stored is never refused"
    host.agent.acknowledge(["result 1"])
    host.held = False
    assert host.agent.run("one", new, Ask(JOB, 3)) == "answer 0 to 3"
    assert host.workers[0].ended == "closed", "a dead driver's worker makes room"


def test_a_block_that_is_in_another_drivers_way_for_too_long_is_ended(host: TestHost, pool: ThreadPoolExecutor) -> None:
    block = running(host, pool, granted(host, "ann"))
    host.now_s += TIME_TO_LIVE_S + PATIENCE_S + 1
    host.agent.tend()
    assert not host.workers[0].ended, "nobody waits"
    assert isinstance(host.agent.acquire("one", "bob"), Queued)
    host.agent.tend()
    assert kind_of(block.result(60)) == "worker_lost"
    assert host.workers[0].ended == "killed"
    assert granted(host, "bob")


def test_a_late_end_of_a_block_does_not_end_the_next_drivers(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    host, later = TestHost(tmp_path), []
    host.apart = later.append
    host.start()
    block = running(host, pool, granted(host, "ann"))
    host.now_s += TIME_TO_LIVE_S + PATIENCE_S + 1
    assert isinstance(host.agent.acquire("one", "bob"), Queued)
    host.agent.tend()
    host.workers[0].go.set()
    block.result(60)
    host.held = False
    assert host.agent.run("one", granted(host, "bob"), Ask(JOB, 2)) == "answer 0 to 2"
    for end in later:
        end()
    assert [worker.ended for worker in host.workers] == ["killed", ""]


def test_a_person_ends_a_lease_and_its_block(host: TestHost, pool: ThreadPoolExecutor) -> None:
    block = running(host, pool, granted(host, "ann"))
    assert host.agent.free("one") == "ann"
    assert kind_of(block.result(60)) == "worker_lost"
    with pytest.raises(DeviceError, match="a person"):
        host.agent.acquire("one", "ann")
    assert granted(host, "bob")
    assert host.agent.free("other") == ""


def test_a_device_that_was_handed_back_or_whose_driver_is_gone_is_closed(host: TestHost) -> None:
    epoch = granted(host)
    host.agent.run("one", epoch, Ask(JOB, 1))
    host.agent.tend()
    assert not host.workers[0].ended
    host.agent.release("one", epoch)
    assert host.workers[0].ended == "closed"
    epoch = granted(host)
    host.agent.run("one", epoch, Ask(JOB, 2))
    host.agent.release("one", epoch - 1)
    assert not host.workers[1].ended, "that was an earlier lease"
    host.now_s += TIME_TO_LIVE_S
    host.agent.tend()
    assert host.workers[1].ended == "closed"
    assert granted(host) == epoch, "the lease is still its, as nobody else asked"
    assert host.agent.run("one", epoch, Ask(JOB, 3)) == "answer 0 to 3"


def test_a_device_that_hangs_while_it_is_handed_back_holds_up_no_other(tmp_path: Path) -> None:
    host = TestHost(tmp_path, "lab-1", "one", "two")
    host.apart = lambda call: threading.Thread(target=call, daemon=True).start()
    hangs = threading.Event()

    class Hanging(ControlledWorker):
        def close(self) -> None:
            hangs.wait(60)

    workers = {"one": Hanging(phone_facts("one")), "two": ControlledWorker(phone_facts("two"))}
    host.make_worker = lambda device: workers[device.device_id]
    host.start()
    for number, (device_id, worker) in enumerate(workers.items()):
        worker.go.set()
        epoch = host.agent.acquire(device_id, "ann")
        assert isinstance(epoch, Granted)
        host.agent.run(device_id, epoch.epoch, Ask(JOB, number))
    host.now_s += TIME_TO_LIVE_S
    host.names.append("adb:three")
    host.agent.tend()
    host.agent.tend()
    deadline = time.monotonic() + 60
    while not workers["two"].ended:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(host.agent.hello().devices) == 3
    assert not workers["one"].ended
    hangs.set()


def test_a_device_that_is_not_attached_is_not_granted(host: TestHost) -> None:
    host.names = []
    host.agent.tend()
    with pytest.raises(DeviceError, match="lab-1") as caught:
        host.agent.acquire("one", "ann")
    assert caught.value.kind == "offline"


def test_a_host_that_leaves_ends_its_blocks_in_order_and_starts_nothing(
    host: TestHost, pool: ThreadPoolExecutor
) -> None:
    block = running(host, pool, epoch := granted(host))
    leaving = pool.submit(host.agent.leave, 60.0)
    while kind_of_acquire(host) != "host_leaving":
        pass
    host.workers[0].go.set()
    assert block.result(60) == "answer 0 to 1"
    leaving.result(60)
    assert host.workers[0].ended == "closed"
    assert kind_of(host.agent.run("one", epoch, Ask(JOB, 2))) == "host_leaving"
    assert {"host_leaving", "lease_lost"} <= ABSENT_KINDS, "such jobs wait; none fails"


def kind_of_acquire(host: TestHost) -> str:
    try:
        host.agent.acquire("one", "ann")
    except DeviceError as error:
        return error.kind
    return ""


def test_a_host_that_leaves_does_not_wait_for_ever(host: TestHost, pool: ThreadPoolExecutor) -> None:
    block = running(host, pool, granted(host))
    host.agent.leave(0.0)
    assert kind_of(block.result(60)) == "worker_lost"
    assert host.workers[0].ended == "killed"


def test_an_artifact_is_received_once(host: TestHost, tmp_path: Path) -> None:
    driver = ArtifactStore(tmp_path / "driver" / "artifacts")
    manifest = gallery.build(tmp_path / "driver" / "artifacts", "b" * 64, Variant(), tiny_inputs())
    assert host.agent.missing(["b" * 64, "c" * 64]) == {"b" * 64, "c" * 64}
    host.agent.receive(driver.pack(manifest))
    assert host.agent.missing(["b" * 64, "c" * 64]) == {"c" * 64}


def test_an_artifact_that_arrives_while_another_phone_looks_for_it_stays(
    host: TestHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = ArtifactStore(tmp_path / "driver" / "artifacts")
    packed = driver.pack(gallery.build(driver.root, "a" * 64, Variant(), tiny_inputs()))
    look = ArtifactStore.look

    def looked(store: ArtifactStore, build_key: str) -> object:
        """Another phone's artifact comes just after one has seen that it is not there."""
        artifact = look(store, build_key)
        if artifact is None and store.root != driver.root:
            monkeypatch.setattr(ArtifactStore, "look", look)
            host.agent.receive(packed)
        return artifact

    monkeypatch.setattr(ArtifactStore, "look", looked)
    assert host.agent.missing(["a" * 64]) == {"a" * 64}
    assert host.agent.missing(["a" * 64]) == frozenset()


def test_facts_of_a_device_that_comes_back_changed_are_read_anew(host: TestHost) -> None:
    host.names = []
    host.agent.tend()
    host.names, host.make = ["adb:one"], lambda name: phone_facts("one", os_build="2")
    host.agent.tend()
    assert host.agent.hello().devices[0].facts.os_build == "2"
