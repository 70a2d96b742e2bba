"""Whole sweeps on the devices of hosts, with real builds, real evaluations and a faulty network."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeps.device_facts import DeviceFacts
from sweeps.journal.journal import Journal
from sweeps.operations.run import Watch, run_sweep
from sweeps.records import Failed, Measured
from sweeps.spec.grid import GridSpec
from sweeps.spec.protocol import ProtocolSpec
from tests import gallery
from tests.fresh_mlflow import fresh_mlflow
from tests.workers.hosts.hosts import TestHost, World, wait_for
from tests.workers.tiny_sweep import BuiltSweep
from workers.devices.fake.device import FakeDevice
from workers.driver.driver_events import AttemptFailed, Away, Event, Waiting
from workers.driver.driver_events import Measuring as MeasuringNow
from workers.driver.ladder import AwayWait
from workers.executors.lane import Lane
from workers.hosts.lab import Lab
from workers.hosts.lab_executor import LabExecutor
from workers.measure.timed_block import BlockRequest
from workers.plan_inputs import plan_sweep

GRID = GridSpec(precision=("fp32",), layout=("nchw", "nhwc"))
# The pauses of real time are short; a simulated phone's own time is free.
PATIENT = AwayWait(limit_s=60.0, poll_s=0.02)
PROTOCOL = ProtocolSpec(preset="quick", gate="none")


class Measuring(Lane):
    """On a simulated phone of the host."""

    def kill(self) -> None:
        raise NotImplementedError


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def add(world: World, name: str, *phones: str) -> TestHost:
    host, _ = world.add(name, *phones)
    host.names = []
    host.agent.tend()
    host.make = lambda unit: FakeDevice(host.folder, unit.removeprefix("fake:")).facts()
    host.make_worker = lambda device: Measuring(device, host.folder)
    host.names = [f"fake:{phone}" for phone in phones]
    host.agent.tend()
    return host


def sweep_on(tmp_path: Path, lab: Lab, *names: str, **changes: object) -> BuiltSweep:
    home = tmp_path / f"sweep of {lab.who}"
    home.mkdir(parents=True)
    sweep = BuiltSweep(home, GRID, **{"protocol": PROTOCOL} | changes)
    sweep.spec = sweep.spec.model_copy(update={"devices": names})
    sweep.plan = plan_sweep(sweep.spec, sweep.workspace.root, (home,), lab=lab.select)
    return sweep


def run(lab: Lab, sweep: BuiltSweep, journal: Journal) -> list[Event]:
    executor = LabExecutor(lab, sweep.workspace.root, builders=2)  # as on a computer with more CPUs
    return sweep.run(journal, executor=executor, away_wait=PATIENT)


def check_blocks(journal: Journal, sweep: BuiltSweep) -> None:
    """Each job is measured, with one block for each round."""
    for job in sweep.plan.jobs:
        assert isinstance(journal.outcomes.in_sweep("tiny", job), Measured)
        rounds = Counter((block.session, block.round) for block in journal.attempts.blocks(job.key))
        assert set(rounds.values()) == {1}
        assert len(rounds) == sweep.plan.protocol.rounds


def test_a_sweep_measures_on_two_hosts_and_leaves_nothing_behind(tmp_path: Path, world: World) -> None:
    hosts = [add(world, "lab-1", "steady"), add(world, "lab-2", "cool")]
    lab = world.lab()
    sweep = sweep_on(tmp_path, lab, "host:lab-1/fake:steady", "host:lab-2/fake:cool")
    with Journal.open(sweep.workspace.journal) as journal:
        events = run(lab, sweep, journal)
        check_blocks(journal, sweep)
        where = {(job.device_id, one.host) for job in sweep.plan.jobs for one in journal.attempts.blocks(job.key)}
        assert where == {("fake-steady", "lab-1"), ("fake-cool", "lab-2")}
    assert not any(isinstance(event, Away | AttemptFailed | Waiting) for event in events)
    assert {job.device_id for job in sweep.plan.jobs} == {"fake-steady", "fake-cool"}
    for host in hosts:
        hello = host.agent.hello()
        assert hello.stored == 0
        assert hello.devices[0].use is None


@pytest.mark.parametrize("seed", range(3))
def test_answers_that_are_lost_cost_no_block_and_measure_none_twice(tmp_path: Path, world: World, seed: int) -> None:
    host = add(world, "lab-1", "steady")
    lab = world.lab()
    sweep = sweep_on(tmp_path, lab, "host:lab-1/fake:steady")
    (wire,) = world.wires.values()
    chance, calls = random.Random(seed), 0
    measured: Counter[str] = Counter()

    def faulty(method: str, values: tuple[Any, ...]) -> bool:
        if method in ("hello", "beat", "release"):
            return False
        nonlocal calls
        calls += 1
        # Not thrice in one block: that is a failed attempt, in a lab as on a cable.
        if calls < 6 or chance.random() < 0.5:
            return False
        calls = 0
        return True

    class Counting(Measuring):
        def ask(self, request: Any) -> Any:
            answer = super().ask(request)
            if request.result_id and not isinstance(answer, Failed):
                measured[request.result_id] += 1
            return answer

    host.make_worker = lambda device: Counting(device, host.folder)
    wire.faulty = faulty
    with Journal.open(sweep.workspace.journal) as journal:
        events = run(lab, sweep, journal)
        check_blocks(journal, sweep)
    assert any(isinstance(event, Waiting) for event in events)
    assert not any(isinstance(event, Away | AttemptFailed) for event in events)
    assert len(measured) == sum(sweep.plan.protocol.rounds + 1 for _ in sweep.plan.jobs)
    assert set(measured.values()) == {1}


def test_a_sweep_waits_while_another_one_has_the_device_and_says_so(tmp_path: Path, world: World) -> None:
    host = add(world, "lab-1", "steady")
    other = world.lab("bob")
    waiting = world.lab("ann")
    first = other.lease(other.where("fake-steady"), "fake-steady")
    sweep = sweep_on(tmp_path, waiting, "host:lab-1/fake:steady")

    told: list[str] = []
    original = host.agent.acquire

    def acquire(device_id: str, who: str) -> object:
        answer = original(device_id, who)
        told.append(type(answer).__name__)
        if told.count("Queued") == 3:
            host.agent.release(device_id, first)
        return answer

    host.agent.acquire = acquire  # type: ignore[assignment,method-assign]
    with Journal.open(sweep.workspace.journal) as journal:
        events = run(waiting, sweep, journal)
        check_blocks(journal, sweep)
    waits = [event for event in events if isinstance(event, Waiting)]
    assert len(waits) == 1, "it is said once"
    assert "bob has fake-steady" in waits[0].lacking[0]


class Killed(BaseException):
    """The driver ends at once."""


class Counted(Measuring):
    """Counts the blocks that end, by job and round."""

    blocks: Counter[tuple[str, int]]

    def kill(self) -> None:
        """Nothing runs."""

    def ask(self, request: Any) -> Any:
        answer = super().ask(request)
        if isinstance(request, BlockRequest) and not request.job.sentinel:
            self.blocks[request.job.key, request.round] += 1
        return answer


def count_blocks(host: TestHost) -> "Counter[tuple[str, int]]":
    blocks: Counter[tuple[str, int]] = Counter()

    def make(device: DeviceFacts) -> Counted:
        worker = Counted(device, host.folder)
        worker.blocks = blocks
        return worker

    host.make_worker = make
    return blocks


def nth_block(number: int, then: Callable[[], bool]) -> Callable[[str, tuple[Any, ...]], bool]:
    """What is wrong with the answers of a host: `then`, once a block has ended so many times."""
    blocks: list[object] = []

    def faulty(method: str, values: tuple[Any, ...]) -> bool:
        if method == "run" and isinstance(values[2], BlockRequest) and not values[2].job.sentinel:
            blocks.append(values[2])
            return len(blocks) == number and then()
        return False

    return faulty


def test_a_block_that_ends_after_its_driver_died_is_the_next_runs(tmp_path: Path, world: World) -> None:
    host = add(world, "lab-1", "steady")
    lab = world.lab()
    sweep = sweep_on(tmp_path, lab, "host:lab-1/fake:steady")
    blocks = count_blocks(host)
    (wire,) = world.wires.values()

    def die() -> bool:
        raise Killed

    wire.faulty = nth_block(3, die)
    with Journal.open(sweep.workspace.journal) as journal, pytest.raises(Killed):
        run(lab, sweep, journal)
    lab.close()
    assert host.agent.hello().stored > 0
    assert sum(blocks.values()) == 3
    again = world.lab("bob")
    with Journal.open(sweep.workspace.journal) as journal:
        run(again, sweep, journal)
        check_blocks(journal, sweep)
        sessions = {block.session for job in sweep.plan.jobs for block in journal.attempts.blocks(job.key)}
        assert len(sessions) == 2
        first = [
            one for job in sweep.plan.jobs for one in journal.attempts.blocks(job.key) if one.session == min(sessions)
        ]
        assert len(first) == 3, "it is of the session in which it was measured"
    assert set(blocks.values()) == {1}, "no block was measured twice"
    assert host.agent.hello().stored == 0


def test_a_block_whose_answer_was_lost_is_collected_though_its_device_is_taken_away(
    tmp_path: Path, world: World
) -> None:
    host = add(world, "lab-1", "steady")
    lab = world.lab()
    sweep = sweep_on(tmp_path, lab, "host:lab-1/fake:steady")
    blocks = count_blocks(host)
    (wire,) = world.wires.values()
    wire.faulty = nth_block(2, lambda: bool(host.agent.free("fake-steady")))
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(
            journal, executor=LabExecutor(lab, sweep.workspace.root), away_wait=AwayWait(limit_s=0.1, poll_s=0.02)
        )
        assert any(isinstance(event, Away) for event in events)
        assert sum(len(journal.attempts.blocks(job.key)) for job in sweep.plan.jobs) == sum(blocks.values()) == 2
    assert host.agent.hello().stored == 0


def test_a_phone_that_was_updated_meanwhile_is_told_and_planned_anew(tmp_path: Path, world: World) -> None:
    host = add(world, "lab-1", "steady")
    lab = world.lab()
    sweep = sweep_on(tmp_path, lab, "host:lab-1/fake:steady")
    blocks = count_blocks(host)
    (wire,) = world.wires.values()

    def update() -> bool:
        before, names = host.make, host.names
        host.names = []
        host.agent.tend()
        host.make = lambda unit: replace(before(unit), os_build="2")
        host.names = names
        host.agent.tend()
        wait_for(lambda: lab.facts(wire.host, "fake-steady") == lab_facts(host))
        return False

    wire.faulty = nth_block(2, update)
    brief = AwayWait(limit_s=0.1, poll_s=0.02)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal, executor=LabExecutor(lab, sweep.workspace.root), away_wait=brief)
        (away,) = [event for event in events if isinstance(event, Away)]
        assert away.failed.kind == "another_device"
        assert "os_build: 2, not " in away.failed.message
        assert len([event for event in events if isinstance(event, Waiting)]) == 1, "it is said once"
        assert sum(blocks.values()) == 2
        assert not [failed for job in sweep.plan.jobs for failed in journal.attempts.failures(job.key)]
        old = {job.key for job in sweep.plan.jobs}
    again = plan_sweep(sweep.spec, sweep.workspace.root, (tmp_path / "sweep of ann",), lab=lab.select)
    assert not old & {job.key for job in again.jobs}


def lab_facts(host: TestHost) -> DeviceFacts:
    hello = host.agent.hello()
    return hello.named(hello.devices[0].facts)


@pytest.mark.system
def test_a_phone_that_comes_while_a_sweep_runs_joins_it(
    tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    host = add(world, "lab-1", "steady")
    lab = world.lab()
    sweep = sweep_on(tmp_path, lab, "host:lab-1/fake:*")
    fresh_mlflow(sweep.workspace.root)
    gallery.bring(sweep.workspace, [job.build_key for job in (*sweep.plan.jobs, *sweep.plan.sentinels)])
    measured: list[str] = []

    def plug_in(event: Event) -> None:
        if isinstance(event, MeasuringNow):
            measured.append(event.device)
            host.names = ["fake:steady", "fake:cool"]
            host.agent.tend()

    roots = (tmp_path / "sweep of ann",)
    with gallery.remembering():
        ended = run_sweep(sweep.spec, roots, sweep.workspace, "inline", lab=lab, watch=Watch(event=plug_in, quiet=True))
    gallery.keep(sweep.workspace, [job.build_key for job in (*sweep.plan.jobs, *sweep.plan.sentinels)])
    assert (ended.interrupted, ended.still_to_do) == (False, ())
    assert list(dict.fromkeys(measured)) == ["host:lab-1/fake:steady", "host:lab-1/fake:cool"]
    assert capsys.readouterr().err.count("host:lab-1/fake:cool came: measured now") == 1
    with Journal.open(sweep.workspace.journal) as journal:
        check_blocks(journal, sweep)
        assert {facts.device_id for facts in journal.plans.devices("tiny")} == {"fake-steady", "fake-cool"}
        sweep.plan = plan_sweep(sweep.spec, sweep.workspace.root, roots, lab=lab.select)
        check_blocks(journal, sweep)
    assert len(sweep.plan.jobs) == 4
