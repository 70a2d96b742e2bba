"""Rounds, gates, races and the sentinel on simulated phones: real builds, real answers, simulated time."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch

from sweeps.device_facts import DeviceFacts
from sweeps.errors import ClusterError
from sweeps.journal.journal import Journal
from sweeps.journal.sweep_progress import read_status
from sweeps.label_kinds import disqualified
from sweeps.protocol.presets import protocol_of
from sweeps.records import Failed, Job, Measured, Timing
from sweeps.results import ResultRow
from sweeps.spec.grid import GridSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import GateSpec, MinutesBudget, ProtocolSpec
from sweeps.spec.sweep import SweepSpec
from tests.faulty_device import Faults, FaultyDevice
from tests.transports import stand_in
from tests.workers.driver.known_phone import KnownPhone, know_latencies
from tests.workers.tiny_sweep import BuiltSweep
from workers.driver import contests
from workers.driver.driver_events import AttemptFailed, Away, DeviceChanged, Left, Waiting
from workers.executors.inline import InlineExecutor
from workers.executors.interface import DeviceLane
from workers.measure.device_runner import AnswerT, DeviceRunner, Request
from workers.measure.timed_block import BlockRequest, ReadyRequest

# Eight jobs of two builds: threads make them differ.
GRID = GridSpec(precision=("fp32",), layout=("nchw", "nhwc"), threads=(1, 2, 3, 4))
TWO = GridSpec(precision=("fp32",), layout=("nchw", "nhwc"))
ANY = ObjectiveSpec(constraints=())


@pytest.fixture(autouse=True)
def _known_latencies(monkeypatch: pytest.MonkeyPatch) -> None:
    know_latencies(monkeypatch, step=1.12)


class SimulatedPhones(InlineExecutor):
    """An executor whose simulated phones have faults, and can be looked at."""

    def __init__(self, folder: Path, faults: Faults | dict[str, Faults] | None = None) -> None:
        """The faults are those of all phones, or of each by its name."""
        super().__init__(folder)
        self._at = folder
        self._faults = faults
        self.phones: list[FaultyDevice] = []

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        faults = self._faults.get(facts.name) if isinstance(self._faults, dict) else self._faults
        phone = KnownPhone(self._at, facts.name.partition(":")[2], faults)
        self.phones.append(phone)
        return DeviceRunner(phone, self._at)


def sweep_of(tmp_path: Path, phone: str, grid: GridSpec = TWO, **changes: object) -> BuiltSweep:
    return BuiltSweep(tmp_path, grid, devices=(f"fake:{phone}",), **{"objective": ANY} | changes)


def timing(journal: Journal, job: Job) -> Timing:
    outcome = journal.outcomes.in_sweep("tiny", job)
    assert isinstance(outcome, Measured)
    assert outcome.timing is not None
    return outcome.timing


def test_a_race_ends_with_a_reason_for_every_job_and_less_work_than_measuring_all(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, "steady", GRID, budget="race", protocol=ProtocolSpec())
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        settled = {job.key: journal.attempts.settled(job.key) for job in sweep.plan.jobs}
        reasons = Counter(end.reason for end in settled.values() if end)
        assert sum(reasons.values()) == 8
        assert reasons["slower"] >= 4, "1 and 4 threads differ by a factor"
        assert reasons["best"] >= 1
        left_keys = {event.settled.job_key for event in events if isinstance(event, Left)}
        assert left_keys == set(settled), "everyone who leaves is told of"
        rounds = [timing(journal, job).rounds for job in sweep.plan.jobs]
        assert min(rounds) < max(rounds) or max(rounds) <= 3
        assert sweep.run(journal) == [], "what is decided costs nothing"


def test_an_interrupted_race_goes_on_and_nothing_is_measured_twice(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, "steady", GRID, budget="race", protocol=ProtocolSpec())
    keys = [job.key for job in sweep.plan.jobs]
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, stop=lambda: sum(len(journal.attempts.blocks(key)) for key in keys) >= 11)
        kept_blocks = {key: journal.attempts.blocks(key) for key in keys}
        assert sum(map(len, kept_blocks.values())) == 11
        sweep.run(journal)
        for key, blocks in kept_blocks.items():
            assert journal.attempts.blocks(key)[: len(blocks)] == blocks
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)


def test_a_newcomer_races_against_whoever_was_undefeated(tmp_path: Path) -> None:
    first = sweep_of(tmp_path, "steady", budget="race", protocol=ProtocolSpec())
    with Journal.open(first.workspace.journal) as journal:
        first.run(journal)
        best = [job for job in first.plan.jobs if (end := journal.attempts.settled(job.key)) and end.reason == "best"]
        before = len(journal.attempts.blocks(best[0].key))
        wider = sweep_of(tmp_path, "steady", GRID, budget="race", protocol=ProtocolSpec())
        wider.run(journal)
        assert len(journal.attempts.blocks(best[0].key)) > before
        visits = {block.visit for block in journal.attempts.blocks(best[0].key)[before:]}
        newcomers = [job for job in wider.plan.jobs if job.key not in {job.key for job in first.plan.jobs}]
        assert visits & {block.visit for block in journal.attempts.blocks(newcomers[0].key)}, "rounds that both were in"


def test_who_lost_to_a_job_that_left_the_sweep_file_races_again(tmp_path: Path) -> None:
    first = sweep_of(tmp_path, "steady", GRID, budget="race", protocol=ProtocolSpec())
    with Journal.open(first.workspace.journal) as journal:
        first.run(journal)
        settled = {job.key: journal.attempts.settled(job.key) for job in first.plan.jobs}
        winner = next(key for key, end in settled.items() if end and end.leads)
        [threads_gone] = [job.run.threads for job in first.plan.jobs if job.key == winner]
        lost = {key for key, end in settled.items() if end and end.by_key == winner}
        assert lost
        fewer = GRID.model_copy(update={"threads": tuple(n for n in (1, 2, 3, 4) if n != threads_gone)})
        second = sweep_of(tmp_path, "steady", fewer, budget="race", protocol=ProtocolSpec())
        keys_now = {job.key for job in second.plan.jobs}
        journal.save_plan(second.plan)
        for key in lost & keys_now:
            assert journal.outcomes.in_sweep("tiny", next(job for job in second.plan.jobs if job.key == key)) is None
        second.run(journal)
        after = {key: journal.attempts.settled(key) for key in keys_now}
        assert sum(bool(end and end.leads) for end in after.values()) == 1, "it has a winner of its own"
        assert all(end and (not end.eliminated or end.by_key in keys_now) for end in after.values())


def test_another_sweep_of_the_same_jobs_has_a_race_of_its_own(tmp_path: Path) -> None:
    grid = GRID.model_copy(update={"threads": (1,)})
    first = sweep_of(tmp_path, "steady", grid, budget="race", protocol=ProtocolSpec())
    wider = sweep_of(tmp_path, "steady", GRID, budget="race", protocol=ProtocolSpec(), name="wider")
    with Journal.open(first.workspace.journal) as journal:
        first.run(journal)
        before = {job.key: journal.attempts.settled(job.key) for job in first.plan.jobs}
        wider.run(journal)
        lost = [key for key in before if (grid := journal.attempts.settled(key)) and grid.eliminated]
        assert set(lost) == set(before), "one thread is slowest"
        protocol = protocol_of(first.spec)
        assert {key: journal.attempts.settled(key, protocol) for key in before} == before
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in first.plan.jobs)


def test_who_lost_to_a_job_that_is_worth_less_now_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = GRID.model_copy(update={"threads": (1, 4)})
    first = sweep_of(tmp_path, "steady", few, budget="race", protocol=ProtocolSpec())
    wider = sweep_of(tmp_path, "steady", GRID, budget="race", protocol=ProtocolSpec())
    with Journal.open(first.workspace.journal) as journal:
        first.run(journal)
        lost = {
            job.key: end for job in first.plan.jobs if (end := journal.attempts.settled(job.key)) and end.eliminated
        }
        assert lost
        beaters = {end.by_key for end in lost.values()}

        def judged_anew(rows: Iterable[ResultRow], sweep: SweepSpec) -> dict[str, float]:
            return {row.job_key: 0.0 if row.job_key in beaters else 2.0 for row in rows}

        monkeypatch.setattr(contests, "precedence", judged_anew)
        wider.run(journal)
        for key in lost:
            after = journal.attempts.settled(key)
            assert after is not None
            assert after.by_key not in beaters


@pytest.mark.parametrize("rounds", [3, 5])
def test_who_leaves_a_race_before_its_first_rounds_are_over_has_ended(tmp_path: Path, rounds: int) -> None:
    sweep = sweep_of(tmp_path, "steady", GRID, budget="race", protocol=ProtocolSpec(rounds=rounds))
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        ends = [end for job in sweep.plan.jobs if (end := journal.attempts.settled(job.key))]
        assert any(end.eliminated and end.rounds < rounds for end in ends), "this shows nothing"
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)
        assert sweep.run(journal) == []


def test_who_lost_to_a_job_that_fails_later_races_again(tmp_path: Path) -> None:
    class Crashing(DeviceRunner):
        def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
            if isinstance(request, BlockRequest) and request.job.run.threads == 4 and request.round >= 2:
                return Failed(stage="run", kind="crashed", message="signal 11")
            return super().ask(request)

    class Phones(InlineExecutor):
        def lane(self, facts: DeviceFacts) -> DeviceLane:
            return Crashing(KnownPhone(sweep.workspace.root, "steady"), sweep.workspace.root)

    sweep = sweep_of(tmp_path, "steady", GRID, budget="race", protocol=ProtocolSpec(rounds=3))
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, executor=Phones(sweep.workspace.root))
        outcomes = {job.key: journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs}
        failed = {key for key, outcome in outcomes.items() if isinstance(outcome, Failed)}
        assert failed
        assert None in outcomes.values(), "who lost to these is pending again"
        sweep.run(journal)
        for job in sweep.plan.jobs:
            if job.key not in failed:
                settled = journal.attempts.settled(job.key)
                assert settled is not None
                assert settled.by_key not in failed
                assert isinstance(journal.outcomes.in_sweep("tiny", job), Measured)
        assert sweep.run(journal) == []


@pytest.mark.system
def test_models_do_not_race_against_each_other(tmp_path: Path) -> None:
    first = sweep_of(tmp_path, "steady").spec.models[0]
    models = (first, first.model_copy(update={"name": "other", "input_shape": (1, 3, 32, 32)}))
    sweep = sweep_of(tmp_path, "steady", GRID, budget="race", protocol=ProtocolSpec(), models=models)
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        for model in ("tiny", "other"):
            jobs = [job for job in sweep.plan.jobs if job.model == model]
            ends = [end for job in jobs if (end := journal.attempts.settled(job.key))]
            assert len(ends) == 8
            assert any(end.reason == "best" for end in ends), "each model has its winner"
            assert all(end.by.startswith(f"{model} ·") for end in ends if end.eliminated)


def test_another_objective_is_another_race_on_the_same_blocks(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, "steady", GRID, budget="race", protocol=ProtocolSpec())
    front = ObjectiveSpec(constraints=(), front="agreement_percent")
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        before = {job.key: journal.attempts.settled(job.key) for job in sweep.plan.jobs}
        other = BuiltSweep(
            tmp_path, GRID, devices=("fake:steady",), objective=front, budget="race", protocol=ProtocolSpec()
        )
        assert [job.key for job in other.plan.jobs] == list(before)
        journal.save_plan(other.plan)
        assert not any(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in other.plan.jobs)
        other.run(journal)
        after = {job.key: journal.attempts.settled(job.key) for job in other.plan.jobs}
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in other.plan.jobs)
        assert all(
            earlier and later and earlier.question != later.question
            for earlier, later in zip(before.values(), after.values(), strict=True)
        )


def test_full_measures_until_three_rounds_agree_and_marks_who_never_does(tmp_path: Path) -> None:
    protocol = ProtocolSpec(preset="full", iterations=5, min_seconds=0.1)
    sweep = sweep_of(tmp_path, "noisy", protocol=protocol)
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        for job in sweep.plan.jobs:
            figures = timing(journal, job)
            settled = journal.attempts.settled(job.key)
            assert settled is not None
            assert settled.reason == ("unstable" if "unstable" in figures.labels else "stable")
            assert 3 <= figures.rounds <= 10


@pytest.mark.parametrize("preset", ["quick", "full"])
def test_a_device_that_needs_more_rounds_gets_them_also_where_three_were_measured(tmp_path: Path, preset: str) -> None:
    protocol = ProtocolSpec(preset=preset, iterations=5, min_seconds=0.1, sentinel_every=0)
    sweep = BuiltSweep(tmp_path, TWO, devices=("fake:steady", "fake:cool"), objective=ANY, protocol=protocol)

    def counts(journal: Journal) -> dict[str, set[int]]:
        counts_of_device: dict[str, set[int]] = {}
        for job in sweep.plan.jobs:
            counts_of_device.setdefault(job.device_id, set()).add(len(journal.attempts.blocks(job.key)))
        return counts_of_device

    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        assert counts(journal) == {"fake-steady": {3}, "fake-cool": {3}}
        sweep.plan = replace(sweep.plan, rounds_on=(("fake-steady", 5),))
        sweep.run(journal, stop=lambda: min(counts(journal)["fake-steady"]) > 3)
        status = read_status(journal, "tiny")
        texts = {status.rounds_text(job) for job in status.jobs if job.state == "pending"}
        assert texts == {"4 of 5" if preset == "quick" else "4 of 5 to 10"}
        sweep.run(journal)
        assert counts(journal) == {"fake-steady": {5}, "fake-cool": {3}}
        assert {timing(journal, job).rounds for job in sweep.plan.jobs} == {3, 5}
        assert sweep.run(journal) == [], "nothing is left"


def test_a_hot_phone_is_waited_for_before_every_block(tmp_path: Path) -> None:
    protocol = ProtocolSpec(
        preset="quick", gate=GateSpec(max_battery_temp_c=29.0, wait_seconds=1200.0), min_seconds=20.0
    )
    sweep = sweep_of(tmp_path, "hot", protocol=protocol)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        blocks = [block for job in sweep.plan.jobs for block in journal.attempts.blocks(job.key)]
    assert any(isinstance(event, Waiting) and "above 29 °C" in event.lacking[0] for event in events)
    assert all(block.conditions.gate == "ready" for block in blocks)
    assert all((block.conditions.temp_start_c or 99) <= 29.0 for block in blocks)
    assert sum(block.conditions.waited_seconds for block in blocks) > 60
    assert not any("ungated" in block.labels or "hot_start" in block.labels for block in blocks)


@pytest.mark.parametrize("budget", ["full", "race"])
def test_every_second_of_the_phone_is_in_a_record(tmp_path: Path, budget: str) -> None:
    protocol = ProtocolSpec(sentinel_every=0, gate=GateSpec(max_battery_temp_c=29.0, wait_seconds=1200.0))
    sweep = sweep_of(tmp_path, "hot", budget=budget, protocol=protocol)
    executor = SimulatedPhones(sweep.workspace.root)
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, executor=executor)
        spent = read_status(journal, "tiny").spent
    assert min(spent.pushing_s, spent.evaluating_s, spent.timed_s) > 0
    assert spent.measuring_s + spent.waiting_s == pytest.approx(executor.phones[0].now_s(), abs=0.05)


@pytest.mark.parametrize("on_not_ready", ["fail", "mark"])
def test_a_phone_that_never_cools_ends_within_its_limit_and_the_sweep_goes_on(
    tmp_path: Path, on_not_ready: str
) -> None:
    protocol = ProtocolSpec(preset="quick", gate=GateSpec(wait_seconds=300.0), on_not_ready=on_not_ready)
    sweep = sweep_of(tmp_path, "cool", protocol=protocol)
    executor = SimulatedPhones(sweep.workspace.root, Faults(never_cools=True))
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, executor=executor)
        outcomes = [journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs]
        if on_not_ready == "fail":
            assert {(outcome.stage, outcome.kind) for outcome in outcomes if isinstance(outcome, Failed)} == {
                ("run", "not_ready")
            }
            assert all(isinstance(outcome, Failed) for outcome in outcomes)
            assert "above 37 °C" in str(outcomes[0])
            assert journal.attempts.retry_failures("tiny", kind="crashed") == 0
            assert journal.attempts.retry_failures("tiny", kind="not_ready") == len(outcomes)
            assert journal.outcomes.in_sweep("tiny", sweep.plan.jobs[0]) is None, "another day, another state"
        else:
            assert all("gate_timeout" in timing(journal, job).labels for job in sweep.plan.jobs)
    assert executor.phones[0].now_s() < 1200, "waited for once, not before every block"


def test_other_programs_are_waited_for_once_in_a_run_and_then_only_marked(tmp_path: Path) -> None:
    protocol = ProtocolSpec(preset="quick", gate=GateSpec(load_wait_seconds=30.0), on_not_ready="fail")
    sweep = sweep_of(tmp_path, "cool", protocol=protocol)
    busy = Faults(sensors=lambda _, sensors: replace(sensors, load=0.9))
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, executor=SimulatedPhones(sweep.workspace.root, busy))
        blocks = [block for job in sweep.plan.jobs for block in journal.attempts.blocks(job.key)]
    assert len(blocks) == 6
    assert {block.conditions.gate for block in blocks} == {"busy"}
    assert all("busy_host" in block.labels and "gate_timeout" not in block.labels for block in blocks)
    assert sum(block.conditions.waited_seconds for block in blocks) == pytest.approx(30.0, abs=0.1)


def test_an_unreadable_battery_is_not_ready(tmp_path: Path) -> None:
    protocol = ProtocolSpec(preset="quick", gate=GateSpec(wait_seconds=10.0), on_not_ready="fail")
    sweep = sweep_of(tmp_path, "cool", protocol=protocol)
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, executor=SimulatedPhones(sweep.workspace.root, Faults(unreadable_battery=True)))
        [first, *_] = [journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs]
    assert isinstance(first, Failed)
    assert "cannot be read" in first.message


def test_without_a_gate_nothing_is_waited_for_and_every_block_says_so(tmp_path: Path) -> None:
    protocol = ProtocolSpec(preset="quick", gate="none")
    sweep = sweep_of(tmp_path, "cool", protocol=protocol)
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, executor=SimulatedPhones(sweep.workspace.root, Faults(never_cools=True)))
        labels = {label for job in sweep.plan.jobs for label in timing(journal, job).labels}
    assert {"ungated", "hot_start"} <= labels
    assert "gate_timeout" not in labels


@pytest.mark.parametrize("times", ["zero", "negative", "nan"])
def test_times_that_cannot_be_fail_the_attempt(tmp_path: Path, times: str) -> None:
    sweep = sweep_of(tmp_path, "cool", protocol=ProtocolSpec(preset="quick"))
    faults = Faults(times=times)  # type: ignore[arg-type]  # one of the parameters
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, executor=SimulatedPhones(sweep.workspace.root, faults))
        outcomes = [journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs]
        assert not any(journal.attempts.blocks(job.key) for job in sweep.plan.jobs)
    assert all(isinstance(outcome, Failed) and outcome.stage == "run" for outcome in outcomes)


@pytest.mark.parametrize("budget", ["full", "race"])
def test_times_that_do_not_fit_their_block_win_nothing(tmp_path: Path, budget: Literal["full", "race"]) -> None:
    protocol = ProtocolSpec(preset="quick" if budget == "full" else "race")
    sweep = sweep_of(tmp_path, "cool", GRID, budget=budget, protocol=protocol)
    faults = Faults(times="nanoseconds")
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, executor=SimulatedPhones(sweep.workspace.root, faults))
        labels = [timing(journal, job).labels for job in sweep.plan.jobs if journal.attempts.blocks(job.key)]
    assert labels
    assert all("invalid_timing" in disqualified(timing_labels) for timing_labels in labels)


def test_a_clock_that_goes_back_fails_the_attempt(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, "cool", protocol=ProtocolSpec(preset="quick"))
    faults = Faults(clock_jumps_back_s=999.0)
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, executor=SimulatedPhones(sweep.workspace.root, faults))
        outcome = journal.outcomes.in_sweep("tiny", sweep.plan.jobs[0])
    assert isinstance(outcome, Failed)
    assert outcome.kind == "clock_went_back"


def test_minutes_end_a_sweep_with_what_it_has(tmp_path: Path) -> None:
    budget = MinutesBudget(device_minutes=0.2)
    sweep = sweep_of(tmp_path, "noisy", GRID, budget=budget, protocol=ProtocolSpec(min_seconds=1.0))
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        settled = [journal.attempts.settled(job.key) for job in sweep.plan.jobs]
        assert {end.reason for end in settled if end} & {"out_of_time"}
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)
        assert sweep.run(journal) == []


def test_the_sentinel_marks_what_was_measured_after_the_phone_changed(tmp_path: Path) -> None:
    protocol = ProtocolSpec(preset="quick", rounds=10, sentinel_every=4, gate="none", min_seconds=15.0)
    sweep = sweep_of(tmp_path, "hot", protocol=protocol)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        assert any(isinstance(event, DeviceChanged) for event in events)
        assert all(job.sentinel == sweep.plan.sentinels[0].key for job in sweep.plan.jobs)
        blocks = [block for job in sweep.plan.jobs for block in journal.attempts.blocks(job.key, job.sentinel)]
        changed = [block.round for block in blocks if "device_changed" in block.labels]
        assert changed
        assert min(changed) > 0, "the first round was measured on a good device"


def test_more_rounds_of_some_jobs_are_added_to_what_is_there(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, "steady", GRID, protocol=ProtocolSpec(preset="quick"))
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        chosen = [job.key for job in sweep.plan.jobs[:2]]
        sweep.run(journal, more=dict.fromkeys(chosen, 4))
        counts = [len(journal.attempts.blocks(job.key)) for job in sweep.plan.jobs]
        assert counts == [7, 7, *[3] * 6]
        visits = [{block.visit for block in journal.attempts.blocks(key)} for key in chosen]
        assert len(visits[0] & visits[1]) == 7


class Estimates(InlineExecutor):
    """Notes for how long the driver expects to need the device, before each block."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.left_s: list[float] = []
        self.at_least: set[bool] = set()

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        lane, left_s, at_least = super().lane(facts), self.left_s, self.at_least

        class Noted:
            rest, close = staticmethod(lane.rest), staticmethod(lane.close)

            def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
                if isinstance(request, BlockRequest):
                    left_s.append(request.left_s)
                    at_least.add(request.left_at_least)
                return lane.ask(request)

        return Noted()


def test_what_is_left_is_told_also_of_added_rounds_and_in_a_run_that_goes_on(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, "steady", GRID, protocol=ProtocolSpec(preset="quick"))
    with Journal.open(sweep.workspace.journal) as journal:
        first = Estimates(sweep.workspace.root)
        sweep.run(journal, stop=lambda: len(first.left_s) == 16, executor=first)
        resumed = Estimates(sweep.workspace.root)
        sweep.run(journal, executor=resumed)
        assert len(resumed.left_s) == 8
        assert first.left_s[-1] > resumed.left_s[0] == max(resumed.left_s)
        added = Estimates(sweep.workspace.root)
        sweep.run(journal, more={job.key: 4 for job in sweep.plan.jobs[:2]}, executor=added)
        assert len(added.left_s) == 8
        assert added.left_s == sorted(added.left_s, reverse=True)
        assert added.left_s[0] == pytest.approx(8 * added.left_s[-1], rel=0.2)
        assert first.at_least | resumed.at_least | added.at_least == {False}


def test_of_a_race_others_are_told_the_rounds_of_its_first_decision_as_the_least(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, "steady", GRID, budget="race", protocol=ProtocolSpec(preset="quick"))
    with Journal.open(sweep.workspace.journal) as journal:
        race = Estimates(sweep.workspace.root)
        sweep.run(journal, executor=race)
    assert race.at_least == {True}
    assert race.left_s[0] > 0


def test_a_measured_job_whose_new_rounds_fail_is_given_up_and_keeps_its_figures(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, "steady", protocol=ProtocolSpec(preset="quick"))
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        keys = [job.key for job in sweep.plan.jobs]
        broken = SimulatedPhones(sweep.workspace.root, Faults(times="zero"))
        events = sweep.run(journal, more=dict.fromkeys(keys, 5), executor=broken)
        assert sum(isinstance(event, AttemptFailed) for event in events) == 3 * len(keys)
        assert all(timing(journal, job).rounds == 3 for job in sweep.plan.jobs)


def test_a_phone_that_does_not_leave_the_mode_keeps_its_round_and_its_jobs_wait(tmp_path: Path) -> None:
    class Stubborn(FaultyDevice):
        def set_fixed_performance(self, on: bool) -> bool:
            return (on or not self.fixed_performance) and super().set_fixed_performance(on)

    class Phones(InlineExecutor):
        def lane(self, facts: DeviceFacts) -> DeviceLane:
            return DeviceRunner(Stubborn(sweep.workspace.root, "steady"), sweep.workspace.root)

    sweep = sweep_of(tmp_path, "steady", protocol=ProtocolSpec(preset="quick", fixed_performance=True))
    keys = [job.key for job in sweep.plan.jobs]
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal, executor=Phones(sweep.workspace.root))
        [away] = [event for event in events if isinstance(event, Away)]
        assert away.failed.kind == "mode_stays"
        blocks = [block for key in keys for block in journal.attempts.blocks(key)]
        assert [(block.round, block.conditions.fixed_performance) for block in blocks] == [(0, True)] * len(keys)
        assert not any(journal.attempts.failures(key) for key in keys)
        sweep.run(journal)
        assert all(timing(journal, job).rounds == 3 for job in sweep.plan.jobs)


def test_what_a_decided_race_calls_best_is_one_of_its_undefeated(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, "steady", GRID, budget="race", protocol=ProtocolSpec())
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        ends = [end for job in sweep.plan.jobs if (end := journal.attempts.settled(job.key))]
        [leader] = [end for end in ends if end.leads]
        assert leader.reason == "best"
        fastest = min(sweep.plan.jobs, key=lambda job: timing(journal, job).figures["latency_p50_ms"])
        best = timing(journal, next(job for job in sweep.plan.jobs if job.key == leader.job_key))
        assert best.figures["latency_p50_ms"] <= 1.02 * timing(journal, fastest).figures["latency_p50_ms"]


@pytest.fixture(autouse=True)
def _quick_torch() -> Callable[[], None]:
    torch.set_num_threads(1)
    return lambda: None


def test_a_phone_that_slips_off_its_cable_is_waited_for_and_nothing_is_lost(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, "steady", protocol=ProtocolSpec(preset="quick"))
    slipped = SimulatedPhones(sweep.workspace.root, Faults(gone_from_s=1.0, gone_until_s=40.0))
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal, executor=slipped)
        assert any(isinstance(event, Waiting) for event in events)
        assert not any(isinstance(event, Away | AttemptFailed) for event in events)
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)


def test_what_was_known_of_a_phone_before_it_went_away_is_looked_at_again(tmp_path: Path) -> None:
    marks: list[str] = []

    class Noting(DeviceRunner):
        def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
            answer = super().ask(request)
            if isinstance(request, ReadyRequest):
                marks.append("ready")
            elif isinstance(request, BlockRequest):
                marks.append("away" if isinstance(answer, Failed) else "block")
            return answer

    class NotingPhones(SimulatedPhones):
        def lane(self, facts: DeviceFacts) -> DeviceLane:
            bench = super().lane(facts)
            bench.__class__ = Noting
            return bench

    sweep = sweep_of(tmp_path, "steady", protocol=ProtocolSpec(preset="quick"))
    slipped = NotingPhones(sweep.workspace.root, Faults(gone_from_s=1.0, gone_until_s=40.0))
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, executor=slipped)
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)
    assert marks.count("block") == 6
    assert "away" in marks
    blocks = [place for place, mark in enumerate(marks) if mark != "ready"]
    assert all(marks[place - 1] == "ready" for place in blocks), "no block starts on what was seen before an absence"


def test_a_phone_that_no_host_has_today_leaves_its_jobs_pending_and_the_others_go_on(tmp_path: Path) -> None:
    class WithoutOne(SimulatedPhones):
        def lane(self, facts: DeviceFacts) -> DeviceLane:
            if facts.name == "fake:steady":
                raise ClusterError("no node of the Ray cluster has the device", "start its host")
            return super().lane(facts)

    sweep = BuiltSweep(tmp_path, TWO, devices=("fake:steady", "fake:cool"), objective=ANY)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal, executor=WithoutOne(sweep.workspace.root))
        [away] = [event for event in events if isinstance(event, Away)]
        assert events[0] is away, "known before anything is built"
        assert (away.device, away.failed.kind, away.pending) == ("fake:steady", "offline", 2)
        assert "start its host" in away.failed.message
        outcomes = [(job.device_id, journal.outcomes.in_sweep("tiny", job)) for job in sweep.plan.jobs]
        assert [outcome for device, outcome in outcomes if device == "fake-steady"] == [None, None]
        assert all(isinstance(outcome, Measured) for device, outcome in outcomes if device == "fake-cool")
        # Only the one that is away has something to do: it is told of, and nothing else happens.
        second = sweep.run(journal, executor=WithoutOne(sweep.workspace.root))
        assert second == [away]
        sweep.run(journal)
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)


class Unmade(FaultyDevice):
    """A phone of a package that does not work."""

    def __init__(self, folder: Path, name: str) -> None:
        raise KeyError("COLOUR")


def test_jobs_on_a_transport_that_no_longer_works_wait_until_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_of(tmp_path, "steady")
    with Journal.open(sweep.workspace.journal) as journal:
        with monkeypatch.context() as patch:
            stand_in(patch, "fake", f"{__name__}:{Unmade.__name__}")
            [away] = [event for event in sweep.run(journal) if isinstance(event, Away)]
        assert (away.device, away.failed.kind, away.pending) == ("fake:steady", "broken_transport", 2)
        assert [journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs] == [None, None]
        sweep.run(journal)
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)


def test_a_phone_that_stays_away_leaves_its_jobs_pending_and_the_others_go_on(tmp_path: Path) -> None:
    sweep = BuiltSweep(tmp_path, TWO, devices=("fake:steady", "fake:cool"), objective=ANY)
    only_one = SimulatedPhones(sweep.workspace.root, {"fake:steady": Faults(gone_from_s=1.0)})
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal, executor=only_one)
        [away] = [event for event in events if isinstance(event, Away)]
        assert (away.device, away.failed.kind, away.pending) == ("fake:steady", "offline", 2)
        outcomes = {job.key: journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs}
        assert [outcomes[job.key] for job in sweep.plan.jobs if job.device_id == "fake-steady"] == [None, None]
        other_outcomes = [outcomes[job.key] for job in sweep.plan.jobs if job.device_id == "fake-cool"]
        assert len(other_outcomes) == 2
        assert all(isinstance(outcome, Measured) for outcome in other_outcomes)
        kept_blocks = {job.key: journal.attempts.blocks(job.key) for job in sweep.plan.jobs}
        sweep.run(journal)
        assert all(isinstance(journal.outcomes.in_sweep("tiny", job), Measured) for job in sweep.plan.jobs)
        for key, blocks in kept_blocks.items():
            assert journal.attempts.blocks(key)[: len(blocks)] == blocks, "only what was in flight is measured again"
