"""Phones measure while the rest is still built: real artifacts, real answers, simulated time, builds that wait."""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sweeps.device_facts import VIRTUAL_PHONE, DeviceFacts
from sweeps.journal.journal import Journal
from sweeps.records import Failed, Measured
from sweeps.spec.grid import GridSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import ProtocolSpec
from tests import gallery
from tests.faulty_device import Faults, FaultyDevice
from tests.gallery import RememberingHost
from tests.transports import stand_in
from tests.workers.tiny_sweep import Sweep
from workers.artifacts import ArtifactStore
from workers.driver.driver_events import Away, Building, Event, Measuring
from workers.executors.build_queue import BuildQueue
from workers.executors.inline import InlineExecutor
from workers.executors.interface import BuildRequest, Builds, DeviceLane, Stop
from workers.measure.device_runner import AnswerT, DeviceRunner, Request
from workers.measure.evaluation_request import LogitsRequest
from workers.measure.timed_block import BlockRequest, ReadyRequest

LIMIT_S = 60.0
"""An event that a test waits for comes at once, or never."""
BOTH = GridSpec(precision=("fp32", "int8"), quantization=("dynamic",), layout=("nhwc",))
"""fp32 is one build for all phones, int8 is one for each ABI."""
ANY = ObjectiveSpec(constraints=())
RACE = {"budget": "race", "protocol": ProtocolSpec(preset="race", gate="none", sentinel_every=0)}


class Phone(FaultyDevice):
    """`steady` is an Arm phone; `hot` calls itself a virtual phone, which is this computer."""

    def __init__(self, folder: Path, name: str, faults: Faults | None = None) -> None:
        super().__init__(folder, name, faults=faults)
        self._host = RememberingHost(folder / f"fake-{name}")

    def facts(self) -> DeviceFacts:
        facts = super().facts()
        if self._name == "steady":
            return replace(facts, abi="arm64-v8a")
        return replace(facts, exec_context=VIRTUAL_PHONE) if self._name == "hot" else facts


@pytest.fixture(autouse=True)
def _phones(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "fake", f"{__name__}:{Phone.__name__}")


@dataclass
class Log:
    """The events in their order: `build NAME`, `built NAME`, `ask DEVICE KIND`, `done DEVICE KIND`."""

    lines: list[str] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, line: str) -> None:
        with self.changed:
            self.lines.append(line)
            self.changed.notify_all()

    def wait(self, line: str, times: int = 1) -> None:
        with self.changed:
            came = self.changed.wait_for(lambda: self.lines.count(line) >= times, LIMIT_S)
        assert came, f"{line} did not happen: {self.lines}"

    def first(self, *starts: str) -> int:
        return next(place for place, line in enumerate(self.lines) if line.startswith(starts))

    def last(self, *starts: str) -> int:
        return max(place for place, line in enumerate(self.lines) if line.startswith(starts))


class Watched(InlineExecutor):
    """Builds what other tests built, and tells what happens. `before` may hold a build or a request up."""

    def __init__(
        self,
        sweep: Sweep,
        before: Callable[[str], None] = lambda _: None,
        after: Callable[[str], None] = lambda _: None,
        faults: dict[str, Faults] | None = None,
    ) -> None:
        """The two hooks are told the line that comes next, or that came last."""
        super().__init__(sweep.workspace.root)
        self.log = Log()
        self._before = before
        self._after = after
        self._faults = faults or {}
        self._store = ArtifactStore(sweep.home / "builder" / "artifacts")
        # The test's thread prepares it: a process that a build starts ends with the thread that started it.
        inputs = sweep.prepare(sweep.spec.models[0]).build_inputs
        for key, variant in {job.build_key: job.variant for job in sweep.plan.jobs}.items():
            if self._store.find(key) is None:
                gallery.build(self._store.root, key, variant, inputs)

    def build(self, requests: Iterable[BuildRequest], stop: Stop) -> Builds:
        queue = BuildQueue.of(requests)
        while not stop() and (request := queue.take()) is not None:
            name = f"{request.variant.precision} {request.variant.qengine}".replace(" none", "")
            self._happens(f"build {name}")
            yield request, None
            manifest = self._store.find(request.build_key)
            assert manifest is not None
            self._before(f"built {name}")
            self.log.add(f"built {name}")
            yield request, self._store.pack(manifest)
            self._after(f"built {name}")

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        name = facts.name.partition(":")[2]
        if not name:
            return WatchedLane(facts.name, super().lane(facts), self._happens, self.log)
        device = Phone(self._folder, name, self._faults.get(name))
        return WatchedLane(name, DeviceRunner(device, self._folder), self._happens, self.log)

    def _happens(self, line: str) -> None:
        self._before(line)
        self.log.add(line)


class WatchedLane:
    def __init__(self, name: str, lane: DeviceLane, happens: Callable[[str], None], log: Log) -> None:
        self._name = name
        self._lane = lane
        self._happens = happens
        self._log = log

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        kinds = {ReadyRequest: "ready", BlockRequest: "block", LogitsRequest: "evaluate"}
        kind = kinds.get(type(request), "other")
        self._happens(f"ask {self._name} {kind}")
        answer = self._lane.ask(request)
        self._happens(f"done {self._name} {kind}")
        return answer

    def rest(self, seconds: float) -> None:
        self._lane.rest(seconds)

    def close(self) -> None:
        self._lane.close()
        self._log.add(f"close {self._name}")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        yield journal


def sweep_of(folder: Path, *phones: str, grid: GridSpec = BOTH, **changes: object) -> Sweep:
    devices = tuple(phone if phone == "local" else f"fake:{phone}" for phone in phones)
    return Sweep(folder, grid, devices=devices, **{"objective": ANY, "budget": "full"} | changes)


def measured(sweep: Sweep, journal: Journal) -> list[bool]:
    return [isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs]


def test_a_phone_is_measured_while_only_other_phones_artifacts_are_built(tmp_path: Path, journal: Journal) -> None:
    sweep = sweep_of(tmp_path, "cool", "steady")
    order: list[str] = []

    def before(line: str) -> None:
        if line.startswith("built int8"):
            order.append("cool" if "x86" in line else "steady")
            if len(order) == 2:  # the first of the two phones has its field by now
                executor.log.wait(f"done {order[0]} block", times=4)

    executor = Watched(sweep, before)
    events = sweep.run(journal, executor=executor)
    assert all(measured(sweep, journal))
    log = executor.log
    assert log.lines[:2] == ["build fp32", "built fp32"], "what most phones wait for comes first"
    for phone, build in (("cool", "built int8 x86"), ("steady", "built int8 qnnpack")):
        assert log.first(f"ask {phone}") > log.first(build), "a round has a block of every job: it waits for its field"
    events_of_builds = [event for event in events if isinstance(event, Building)]
    assert [event.done for event in events_of_builds] == sorted(event.done for event in events_of_builds)
    assert (events_of_builds[0].done, events_of_builds[0].total, events_of_builds[-1]) == (0, 3, Building(3, 3, ()))
    assert events.index(events_of_builds[-1]) > events.index(
        next(event for event in events if isinstance(event, Measuring))
    )


def test_a_race_evaluates_what_is_there_and_times_nothing_before_its_whole_field_is(
    tmp_path: Path, journal: Journal
) -> None:
    sweep = sweep_of(tmp_path, "cool", **RACE)

    def before(line: str) -> None:
        if line.startswith("built int8"):
            executor.log.wait("done cool evaluate")

    executor = Watched(sweep, before)
    events = sweep.run(journal, executor=executor)
    log = executor.log
    assert log.first("done cool evaluate") < log.first("built int8") < log.first("ask cool block", "ask cool other")
    assert log.lines.count("ask cool evaluate") == 2, "no image is evaluated twice"
    assert all(measured(sweep, journal))
    events_of_blocks = [event for event in events if isinstance(event, Measuring)]
    assert [event.done for event in events_of_blocks] == sorted(event.done for event in events_of_blocks)
    assert all(event.done <= event.total for event in events_of_blocks)
    assert "waits for builds" in {event.running for event in events_of_blocks}


@pytest.mark.system
def test_this_computer_is_measured_when_nothing_is_built_on_it_any_more(tmp_path: Path, journal: Journal) -> None:
    sweep = sweep_of(tmp_path, "local", "hot", "steady", grid=BOTH)

    def before(line: str) -> None:
        if line == "built int8 x86":
            executor.log.wait("done steady block", times=4)

    executor = Watched(sweep, before)
    sweep.run(journal, executor=executor)
    log = executor.log
    assert all(measured(sweep, journal))
    assert log.first("ask steady") < log.last("built") < log.first("ask hot"), "a virtual phone is this computer, too"
    assert log.last("done hot", "done steady") < log.first("ask local")
    assert log.last("built") == log.first("built int8 x86"), "what only this computer needs is built last"


def test_what_only_a_phone_needs_that_is_gone_is_left_to_another_run(tmp_path: Path, journal: Journal) -> None:
    sweep = sweep_of(tmp_path, "cool", "steady", **RACE)
    faults = {"steady": Faults(gone_from_s=0.01)}
    executor = Watched(
        sweep, after=lambda line: executor.log.wait("close steady") if line == "built fp32" else None, faults=faults
    )
    events: list[Event] = sweep.run(journal, executor=executor)
    [away] = [event for event in events if isinstance(event, Away)]
    assert (away.device, away.pending) == ("fake:steady", 2)
    assert {line for line in executor.log.lines if line.startswith("built")} == {"built fp32", "built int8 x86"}
    assert [event for event in events if isinstance(event, Building)][-1] == Building(2, 2, ())
    sweep.run(journal, executor=Watched(sweep))
    assert all(measured(sweep, journal))


def test_a_stop_keeps_what_runs_on_a_phone_and_what_is_being_built(tmp_path: Path, journal: Journal) -> None:
    sweep = sweep_of(tmp_path, "cool", "steady")
    stopped = threading.Event()
    first: list[str] = []

    def before(line: str) -> None:
        if line.startswith("built int8"):
            first.append(line)
            if len(first) == 2:
                stopped.wait(LIMIT_S)  # a block runs
        if line.endswith("block"):
            executor.log.wait("build int8 x86")
            executor.log.wait("build int8 qnnpack")
            stopped.set()

    executor = Watched(sweep, before)
    sweep.run(journal, stop=stopped.is_set, executor=executor)
    assert sum(journal.attempts.block_count(job.key) for job in sweep.plan.jobs) == 1
    assert sum(journal.artifacts.latest(job.build_key) is not None for job in sweep.plan.jobs) == 4
    resumed = Watched(sweep)
    sweep.run(journal, executor=resumed)
    assert all(measured(sweep, journal))
    assert not [line for line in resumed.log.lines if line.startswith("build")]
    assert sum(journal.attempts.block_count(job.key) for job in sweep.plan.jobs) == 8


def test_a_phone_is_pushed_to_and_cools_down_while_another_one_is_measured(tmp_path: Path, journal: Journal) -> None:
    sweep = sweep_of(tmp_path, "cool", "steady", grid=GridSpec(precision=("fp32",), layout=("nhwc",)))

    def before(line: str) -> None:
        # Pushing and waiting are one request: on each phone it only ends when the other one has measured meanwhile.
        if line == "done steady ready":
            executor.log.wait("done cool block")
        if line == "ask cool ready" and executor.log.lines.count("ask cool ready") == 1:
            executor.log.wait("done steady block")

    executor = Watched(sweep, before)
    sweep.run(journal, executor=executor)
    assert all(measured(sweep, journal))
    log = executor.log
    assert log.first("ask steady ready") < log.first("done cool block") < log.first("ask steady block")
    assert log.first("done steady block") < log.lines.index("ask cool ready", log.first("done cool block"))
