"""A host whose disk is full: it says so, starts nothing, and goes on once there is room."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.exceptions import RayError, RayTaskError

from sweeps.cli.hosts import troubles
from sweeps.errors import LAB_KINDS, DeviceError, StoreError
from sweeps.records import Failed
from tests.builders import phone_facts
from tests.workers.hosts.hosts import JOB, VERSIONS, Ask, ControlledWorker, TestHost, World
from workers.hosts.actors import HostActor
from workers.hosts.agent_start import not_started
from workers.hosts.disk import LEAST_BYTES
from workers.hosts.interface import Granted
from workers.hosts.this_machine import HostConfig
from workers.measure.recovery_request import RecoverRequest


class SmallDisk:
    """A file system of its own, which a test fills."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, but: int = 0) -> None:
        with (self.folder / "others").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(self.folder).free - but)

    def empty(self) -> None:
        (self.folder / "others").unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", f"size={LEAST_BYTES + 2**24}", "tmpfs", folder]
    mounted = subprocess.run(argv, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted; enable with a privileged container: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def world(tmp_path: Path, disk: SmallDisk) -> Iterator[World]:
    """A world whose hosts are on the small disk, and whose driver is not."""
    world = World(disk.folder)
    world.build(JOB.build_key)
    shutil.move(disk.folder / "driver", tmp_path / "driver")
    (disk.folder / "driver").symlink_to(tmp_path / "driver")
    yield world
    world.close()


def named() -> object:
    return phone_facts("one", name="host:lab-1/adb:one")


def refusals(host: TestHost) -> list[str]:
    return troubles([(host.agent.hello(), True)], VERSIONS, 1000.0)


def full(answer: object) -> str:
    """The message of a failure that is the host's disk's."""
    assert isinstance(answer, Failed), answer
    assert answer.kind == "host_disk"
    assert answer.kind in LAB_KINDS, "it is waited for, and costs no attempt"
    assert answer.host == "the host lab-1", "one line for all of its devices"
    return answer.condition


def test_a_host_whose_disk_is_full_says_so_and_its_devices_wait_for_room(world: World, disk: SmallDisk) -> None:
    host, wire = world.add("lab-1", "one")
    lane = world.executor(world.lab()).lane(named())  # type: ignore[arg-type]
    disk.fill()
    assert refusals(host) == [
        f"lab-1: its disk is full: 0 MB are free in {host.folder}, 64 MB are needed "
        "(free space there: its devices wait for it)"
    ]
    assert "its disk is full: 0 MB" in full(lane.ask(Ask(JOB, 1)))
    assert "its disk is full" in full(lane.ask(RecoverRequest(JOB, "ask")))
    assert (host.workers, wire.received) == ([], [])
    disk.empty()
    host.agent.tend()
    assert refusals(host) == []
    assert lane.ask(Ask(JOB, 1)) == "answer 0 to 1"


def test_a_block_in_which_the_disk_fills_up_arrives_and_none_is_started_after_it(world: World, disk: SmallDisk) -> None:
    host, _ = world.add("lab-1", "one")
    lane = world.executor(world.lab()).lane(named())  # type: ignore[arg-type]

    class Filling(ControlledWorker):
        def ask(self, request: object) -> object:  # type: ignore[override]
            answer = super().ask(request)  # type: ignore[arg-type]
            if len(self.answers) == 2:
                disk.fill()
            return answer

    worker = Filling(phone_facts("one"))
    worker.go.set()
    host.make_worker = lambda device: worker
    assert lane.ask(Ask(JOB, 1)) == "answer 0 to 1"
    assert lane.ask(Ask(JOB, 2)) == "answer 1 to 2", "it could not be kept, and is there all the same"
    assert host.outbox.trouble is not None
    full(lane.ask(Ask(JOB, 3)))
    assert worker.answers == ["answer 0 to 1", "answer 1 to 2"]
    disk.empty()
    host.agent.tend()
    assert host.outbox.trouble is None
    assert lane.ask(Ask(JOB, 3)) == "answer 2 to 3"


def test_a_program_that_ends_as_the_hosts_disk_fills_up_is_no_failure_of_its_job(world: World, disk: SmallDisk) -> None:
    host, _ = world.add("lab-1", "one")
    lane = world.executor(world.lab()).lane(named())  # type: ignore[arg-type]

    class Failing(ControlledWorker):
        def ask(self, request: object) -> object:  # type: ignore[override]
            if request == Ask(JOB, 2):
                disk.fill(but=LEAST_BYTES // 2)
            return Failed(stage="run", kind="no_space", message="No space left")

    host.make_worker = lambda device: Failing(phone_facts("one"))  # type: ignore[return-value]
    answer = lane.ask(Ask(JOB, 1))
    assert isinstance(answer, Failed)
    assert answer.kind == "no_space", "there is room on the host: the device is full"
    assert "32 MB are free" in full(lane.ask(Ask(JOB, 2)))


def test_an_artifact_that_does_not_fit_waits_for_room(world: World, disk: SmallDisk) -> None:
    host, wire = world.add("lab-1", "one")
    lane = world.executor(world.lab()).lane(named())  # type: ignore[arg-type]

    def fills(method: str, _: tuple[object, ...]) -> bool:
        if method == "missing":
            disk.fill()
        return False

    wire.faulty = fills
    assert "its disk refuses: [Errno 28] No space left on device" in full(lane.ask(Ask(JOB, 1)))
    assert host.agent.missing([JOB.build_key]), "and no half of it stays"
    wire.faulty = lambda *_: False
    disk.empty()
    assert lane.ask(Ask(JOB, 1)) == "answer 0 to 1"


def test_an_agent_starts_on_a_full_disk_and_works_once_there_is_room(disk: SmallDisk) -> None:
    host = TestHost(disk.folder / "host")
    answer = host.agent.acquire("one", "ann")
    assert isinstance(answer, Granted)
    host.agent.run("one", answer.epoch, Ask(JOB, 1))
    host.outbox.close()
    disk.fill()
    host.start()
    assert [error.kind for error in host.agent.hello().refused] == ["host_disk"]
    with pytest.raises(DeviceError, match="the host lab-1: its disk is full"):
        host.agent.acquire("one", "ann")
    disk.empty()
    host.agent.tend()
    assert refusals(host) == ["lab-1 keeps 1 results that no driver has fetched, 7 days at most"]
    second = host.agent.acquire("one", "ann")
    assert isinstance(second, Granted)
    assert second.epoch > answer.epoch
    assert host.agent.run("one", second.epoch, Ask(JOB, 1)) == "answer 0 to 1", "what was kept is there"


def test_an_agent_that_does_not_start_says_why_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "state" / "outbox.sqlite").mkdir(parents=True)
    config = HostConfig(name="lab-1", state=tmp_path / "state")
    with pytest.raises(StoreError) as caught:
        HostActor.__ray_actor_class__(config, 1).check()
    failure = not_started(RayTaskError("check", "Traceback ...", caught.value))
    assert failure.message == f"the agent of this host does not start: {caught.value.message}"
    assert failure.next_step == caught.value.next_step != ""
    assert not_started(RayError("killed")).message == "the agent of this host does not start: killed"
