"""A device that stops answering in a sweep: what is done about it, and when it is left alone.

On simulated phones, whose time costs nothing; test_phone_recovery.py takes the steps themselves on virtual ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError, HostError
from sweeps.journal.journal import Journal
from sweeps.quarantine import QuarantineBook, Rule
from sweeps.records import Failed, Measured
from sweeps.spec import catalog
from sweeps.spec.grid import GridSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import ProtocolSpec
from sweeps.spec.recovery import RecoverySpec
from tests.gallery import RememberingPhone
from tests.transports import stand_in
from tests.workers.tiny_sweep import BuiltSweep
from workers.devices.interface import Rung
from workers.driver.canary import BLOCKS
from workers.driver.device_recovery import merge_host_events
from workers.driver.driver_events import AttemptFailed, Away, Back, Event, Quarantined, Readmitted, Recovering, Waiting
from workers.driver.ladder import AwayWait
from workers.executors.inline import InlineExecutor
from workers.executors.interface import DeviceLane
from workers.measure.device_runner import AnswerT, DeviceRunner, Request, failed
from workers.measure.recovery_request import RecoverRequest, Taken
from workers.measure.timed_block import BlockRequest

# Two jobs of three blocks each.
GRID = GridSpec(precision=("fp32",), layout=("nchw",), threads=(1, 2))
ROUNDS = ProtocolSpec(preset="quick", rounds=3, warmup_seconds=0.01, min_seconds=0.02, iterations=3, gate="none")
WAIT = AwayWait(60.0, 2.0)


class Link:
    """A lane to a phone that stops answering at some of its blocks, counted from 1."""

    def __init__(
        self, bench: DeviceRunner, faults: Mapping[int, str], mends: Rung | None, refuses: Rung | None
    ) -> None:
        """`faults`: kinds of failure. Only `mends` ends one; without it, the second pause does."""
        self._bench = bench
        self._faults = faults
        self._mends = mends
        self._refuses = refuses
        self._out = ""
        self._rests = 0
        self.blocks = 0
        self.rungs: list[Rung] = []

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        if isinstance(request, RecoverRequest):
            return self._climb(request.rung)
        if isinstance(request, BlockRequest) and not self._out:
            self.blocks += 1
            self._out = self._faults.get(self.blocks, "")
            if self._out == "crashed":
                self._out = ""
                return Failed(stage="run", kind="crashed", message="signal 11")
        return self._failed() if self._out else self._bench.ask(request)

    def _climb(self, rung: Rung) -> Taken | Failed:
        if rung == "ask":
            return self._failed() if self._out else Taken(rung)
        self.rungs.append(rung)
        if rung == self._refuses:
            return Failed(stage="run", kind="adb_in_use", message="another phone is measured")
        if rung == self._mends:
            self._out = ""
        return Taken(rung)

    def _failed(self) -> Failed:
        if self._out == "host_away":
            return failed("run", HostError(self._out, "the host lab-2", f"it is {self._out}"))
        return failed("run", DeviceError(self._out, f"it is {self._out}"))

    def rest(self, seconds: float) -> None:
        self._bench.rest(seconds)
        self._rests += 1
        if self._mends is None and self._rests % 2 == 0:
            self._out = ""

    def close(self) -> None:
        self._bench.close()


class Phones(InlineExecutor):
    def __init__(
        self,
        folder: Path,
        faults: Mapping[int, str] | None = None,
        mends: Rung | None = None,
        refuses: Rung | None = None,
    ) -> None:
        super().__init__(folder)
        self._at = folder
        self._words = faults or {}, mends, refuses
        self.links: list[Link] = []

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        bench = DeviceRunner(RememberingPhone(self._at, facts.name.partition(":")[2]), self._at)
        self.links.append(Link(bench, *self._words))
        return self.links[-1]


@pytest.fixture(autouse=True)
def _phones_with_rungs(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "fake", f"{RememberingPhone.__module__}:{RememberingPhone.__name__}")
    monkeypatch.setitem(catalog.devices(), "fake", replace(catalog.devices()["fake"], recovery="the links above"))


@pytest.fixture
def sweep(tmp_path: Path) -> BuiltSweep:
    return sweep_of(tmp_path)


def sweep_of(folder: Path, **changes: object) -> BuiltSweep:
    any_ = ObjectiveSpec(constraints=())
    return BuiltSweep(folder, GRID, **{"devices": ("fake:steady",), "objective": any_, "protocol": ROUNDS} | changes)


@pytest.fixture
def journal(sweep: BuiltSweep) -> Iterator[Journal]:
    with Journal.open(sweep.workspace.journal) as journal:
        yield journal


@pytest.fixture
def book(tmp_path: Path) -> QuarantineBook:
    return QuarantineBook(tmp_path / "state", rule=Rule(apart_s=0.0))


def run(sweep: BuiltSweep, journal: Journal, phones: Phones, book: QuarantineBook) -> list[Event]:
    return sweep.run(journal, executor=phones, away_wait=WAIT, book=book)


def rungs(events: list[Event]) -> list[tuple[Rung, bool]]:
    return [(event.rung, not event.refused) for event in events if isinstance(event, Recovering)]


def of(kind: type, events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


def measured(sweep: BuiltSweep, journal: Journal) -> list[bool]:
    return [isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs]


def blocks(sweep: BuiltSweep, journal: Journal) -> list[int]:
    return [len(journal.attempts.blocks(job.key)) for job in sweep.plan.jobs]


def test_a_cable_that_slips_needs_no_step(sweep: BuiltSweep, journal: Journal, book: QuarantineBook) -> None:
    events = run(sweep, journal, Phones(sweep.workspace.root, {2: "offline"}), book)
    assert rungs(events) == []
    assert of(Waiting, events)
    assert measured(sweep, journal) == [True, True]
    assert blocks(sweep, journal) == [3, 3]


@pytest.mark.parametrize(
    ("kind", "mends", "steps"),
    [
        ("offline", "reconnect", ["reconnect"]),
        ("unresponsive", "reconnect", ["reconnect"]),
        ("unresponsive", "restart_adb", ["reconnect", "restart_adb"]),
    ],
)
def test_a_phone_is_brought_back_by_the_gentlest_step_that_helps(
    sweep: BuiltSweep, journal: Journal, book: QuarantineBook, kind: str, mends: Rung, steps: list[Rung]
) -> None:
    events = run(sweep, journal, Phones(sweep.workspace.root, {2: kind}, mends), book)
    assert rungs(events) == [(step, True) for step in steps]
    assert of(Away, events) == []
    assert blocks(sweep, journal) == [3, 3], "nothing is lost, and nothing is measured twice"
    assert not any(journal.attempts.failures(job.key) for job in sweep.plan.jobs), "no job is to blame"


def test_a_step_that_is_refused_is_told_and_the_next_one_is_tried(tmp_path: Path, book: QuarantineBook) -> None:
    sweep = sweep_of(tmp_path, recovery=RecoverySpec(reboot=True))
    with Journal.open(sweep.workspace.journal) as journal:
        phones = Phones(sweep.workspace.root, {2: "unresponsive"}, "reboot", refuses="restart_adb")
        events = run(sweep, journal, phones, book)
        assert rungs(events) == [("reconnect", True), ("restart_adb", False), ("reboot", True)]
        [refused] = [event.refused for event in events if isinstance(event, Recovering) and event.refused]
        assert refused == "another phone is measured"
        assert measured(sweep, journal) == [True, True]


def test_a_phone_is_restarted_only_where_the_sweep_file_says_so(
    sweep: BuiltSweep, journal: Journal, book: QuarantineBook
) -> None:
    phones = Phones(sweep.workspace.root, {2: "mode_stays"}, "reboot")
    events = run(sweep, journal, phones, book)
    assert phones.links[0].rungs == []
    [away] = of(Away, events)
    assert isinstance(away, Away)
    assert (away.failed.kind, away.pending) == ("mode_stays", 2)
    assert blocks(sweep, journal) == [1, 0] or blocks(sweep, journal) == [0, 1]


def test_a_phone_that_nothing_brings_back_is_given_up_after_every_step(tmp_path: Path, book: QuarantineBook) -> None:
    sweep = sweep_of(tmp_path, recovery=RecoverySpec(reboot=True))
    with Journal.open(sweep.workspace.journal) as journal:
        events = run(sweep, journal, Phones(sweep.workspace.root, {2: "unresponsive"}, "ask"), book)
        assert [rung for rung, _ in rungs(events)] == ["reconnect", "restart_adb", "reboot"]
        assert [event.failed.kind for event in events if isinstance(event, Away)] == ["unresponsive"]
        assert measured(sweep, journal) == [False, False]
        assert book.quarantine("fake-steady") is None, "once is not repeatedly"


def test_repeated_faults_quarantine_a_phone_and_its_canary_lets_it_in_again(
    sweep: BuiltSweep, journal: Journal, book: QuarantineBook
) -> None:
    events = run(sweep, journal, Phones(sweep.workspace.root, {1: "offline", 3: "offline", 5: "offline"}), book)
    [begun] = of(Quarantined, events)
    assert isinstance(begun, Quarantined)
    assert begun.quarantine == book.quarantine("fake-steady")
    [away] = of(Away, events)
    assert isinstance(away, Away)
    assert (away.failed.kind, away.pending) == ("quarantined", 2)
    measured_blocks = sum(blocks(sweep, journal))
    assert 0 < measured_blocks < 6

    phones = Phones(sweep.workspace.root)
    events = run(sweep, journal, phones, book)
    assert [event.device for event in events if isinstance(event, Readmitted)] == ["fake:steady"]
    assert book.quarantine("fake-steady") is None
    assert measured(sweep, journal) == [True, True]
    assert blocks(sweep, journal) == [3, 3]
    assert phones.links[0].blocks == BLOCKS + 6 - measured_blocks, "the canary's blocks are not kept"


def test_a_phone_on_probation_is_back_in_quarantine_after_one_fault(
    sweep: BuiltSweep, journal: Journal, book: QuarantineBook
) -> None:
    run(sweep, journal, Phones(sweep.workspace.root, {1: "offline", 3: "offline", 5: "offline"}), book)
    events = run(sweep, journal, Phones(sweep.workspace.root, {BLOCKS + 1: "offline"}), book)
    assert [type(event) for event in events if isinstance(event, Readmitted | Quarantined | Away)] == [
        Readmitted,
        Quarantined,
        Away,
    ]


@pytest.mark.parametrize("kind", ["offline", "rebooted", "not_ready"])
def test_a_canary_that_the_phone_fails_keeps_it_out(
    sweep: BuiltSweep, journal: Journal, book: QuarantineBook, kind: str
) -> None:
    run(sweep, journal, Phones(sweep.workspace.root, {1: "offline", 3: "offline", 5: "offline"}), book)
    before, quarantine = blocks(sweep, journal), book.quarantine("fake-steady")

    class Fails(Phones):
        def lane(self, facts: DeviceFacts) -> DeviceLane:
            link = super().lane(facts)
            ask = link.ask

            def ask_in_vain(request: Request[AnswerT]) -> AnswerT | Failed:
                if isinstance(request, BlockRequest):
                    return Failed(stage="run", kind=kind, message="as before")
                return ask(request)

            link.ask = ask_in_vain  # type: ignore[method-assign]
            return link

    events = run(sweep, journal, Fails(sweep.workspace.root), book)
    assert of(Readmitted, events) == []
    assert of(AttemptFailed, events) == []
    [away] = of(Away, events)
    assert isinstance(away, Away)
    assert away.pending == 2
    assert book.quarantine("fake-steady") == quarantine
    assert blocks(sweep, journal) == before
    assert not any(journal.attempts.failures(job.key) for job in sweep.plan.jobs)


def test_a_job_that_crashes_by_itself_makes_no_bad_canary(
    sweep: BuiltSweep, journal: Journal, book: QuarantineBook
) -> None:
    run(sweep, journal, Phones(sweep.workspace.root, {1: "offline", 3: "offline", 5: "offline"}), book)
    events = run(sweep, journal, Phones(sweep.workspace.root, {1: "crashed"}), book)
    assert len(of(Readmitted, events)) == 1
    assert measured(sweep, journal) == [True, True]


def test_a_host_s_faults_quarantine_no_phone(sweep: BuiltSweep, journal: Journal, book: QuarantineBook) -> None:
    faults = dict.fromkeys((1, 3, 5, 7), "adb_server")
    events = run(sweep, journal, Phones(sweep.workspace.root, faults), book)
    assert measured(sweep, journal) == [True, True]
    assert of(Quarantined, events) == []
    assert rungs(events) == []
    assert book.records() == []


def test_what_a_person_quarantined_is_not_even_built_for(
    sweep: BuiltSweep, journal: Journal, book: QuarantineBook
) -> None:
    book.put("fake-steady", "fake:steady", "battery swells")
    phones = Phones(sweep.workspace.root)
    events = run(sweep, journal, phones, book)
    [away] = events
    assert isinstance(away, Away)
    assert (away.failed.kind, away.pending) == ("quarantined", 2)
    assert "battery swells" in away.failed.message
    assert "readmit" in away.failed.message
    assert phones.links == []
    book.readmit("fake-steady")
    run(sweep, journal, phones, book)
    assert measured(sweep, journal) == [True, True]


def test_a_host_that_goes_and_comes_back_is_told_once_for_all_of_its_devices(
    tmp_path: Path, book: QuarantineBook
) -> None:
    sweep = sweep_of(tmp_path, devices=("fake:steady", "fake:hot"))
    with Journal.open(sweep.workspace.journal) as journal:
        events = run(sweep, journal, Phones(sweep.workspace.root, {2: "host_away", 3: "host_away"}), book)
        messages = [event for event in events if isinstance(event, Waiting | Back)]
        assert [type(event) for event in messages] == [Waiting, Back] * (len(messages) // 2)
        assert {event.device for event in messages if isinstance(event, Waiting)} == {"the host lab-2"}
        assert {event.host for event in messages if isinstance(event, Back)} == {"the host lab-2"}
        assert measured(sweep, journal) == [True] * 4


def test_a_host_that_stays_away_is_told_of_once_a_minute_and_given_up_once() -> None:
    host, lost = "the host lab-2", Failed(stage="run", kind="host_away", message="its connection is lost")
    events: list[Event] = [Waiting("fake:hot", ("it is hot",), 0.0)]
    for seconds in range(0, 130, 10):
        events += [Waiting(host, ("its connection is lost",), seconds + late, is_host=True) for late in (0.0, 0.5)]
    events += [Back("fake:one", host, 131.0), Back("fake:two", host, 131.5)]
    events += [Waiting(host, ("its connection is lost",), 0.0, is_host=True)]
    events += [Away(host, lost, 2, is_host=True), Away(host, lost, 3, is_host=True)]
    messages = list(merge_host_events(iter(events)))
    assert [event.waited_seconds for event in messages if isinstance(event, Waiting)] == [0.0, 0.0, 60.0, 120.0, 0.0]
    assert of(Back, messages) == [Back("fake:one", host, 131.0)]
    assert messages[-1] == Away(host, lost, 5, is_host=True)
    assert len(of(Away, messages)) == 1


def test_a_host_that_is_given_up_is_named_with_what_is_wrong_with_it(
    sweep: BuiltSweep, journal: Journal, book: QuarantineBook
) -> None:
    events = run(sweep, journal, Phones(sweep.workspace.root, {2: "host_away"}, "reboot"), book)
    [away] = of(Away, events)
    assert isinstance(away, Away)
    assert (away.device, away.failed.message, away.pending) == ("the host lab-2", "it is host_away", 2)
