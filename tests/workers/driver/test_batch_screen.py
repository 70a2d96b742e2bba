"""The screen of a race on simulated phones: batches, what leaves in them, and what cannot be measured in one."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.batches import NotReached
from sweeps.device_facts import DeviceFacts
from sweeps.errors import RunnerError
from sweeps.journal.journal import Journal
from sweeps.journal.sweep_progress import read_status
from sweeps.operations.remeasure import disqualified_jobs
from sweeps.protocol.presets import PRESETS
from sweeps.protocol.stopping import shuffled_order
from sweeps.ranking.rank import rank, rank_rows
from sweeps.records import Failed, Measured
from sweeps.results import read_rows
from sweeps.spec.grid import GridSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import MinutesBudget, ProtocolSpec
from sweeps.store.mlflow import Store
from tests.mlflow_rows import load
from tests.store_double import doubled, make
from tests.workers.driver.known_phone import KnownPhone, know_latencies
from tests.workers.tiny_sweep import BuiltSweep
from workers.driver.driver_events import Left, MeasuredAlone
from workers.executors.inline import InlineExecutor
from workers.executors.interface import DeviceLane
from workers.measure.batch_request import BatchRequest
from workers.measure.device_runner import AnswerT, DeviceRunner, Request

# Four builds of one group.
GRID = GridSpec(precision=("fp32",), layout=("nchw", "nhwc"), fuse=(True, False), optimize=(False,))
ANY = ObjectiveSpec(constraints=())


Change = Callable[[BatchRequest, object], object]


class ChangedLane:
    """A lane whose answers to batches are changed on the way."""

    def __init__(self, bench: DeviceRunner, change: Change) -> None:
        self._bench = bench
        self._change = change

    def ask(self, request: Request[AnswerT]) -> AnswerT | Failed:
        answer = self._bench.ask(request)
        return self._change(request, answer) if isinstance(request, BatchRequest) else answer

    def rest(self, seconds: float) -> None:
        self._bench.rest(seconds)

    def close(self) -> None:
        self._bench.close()


class Phones(InlineExecutor):
    def __init__(self, folder: Path, change: Change = lambda _, answer: answer) -> None:
        super().__init__(folder)
        self._at = folder
        self._change = change

    def lane(self, facts: DeviceFacts) -> DeviceLane:
        return ChangedLane(DeviceRunner(KnownPhone(self._at, facts.name.partition(":")[2]), self._at), self._change)


@pytest.fixture(autouse=True)
def _known_latencies(monkeypatch: pytest.MonkeyPatch) -> None:
    know_latencies(monkeypatch, step=1.5)


@pytest.fixture
def race(tmp_path: Path) -> BuiltSweep:
    return BuiltSweep(tmp_path, GRID, devices=("fake:steady",), objective=ANY, budget="race", protocol=ProtocolSpec())


@pytest.fixture
def journal(race: BuiltSweep) -> Iterator[Journal]:
    with Journal.open(race.workspace.journal) as journal:
        yield journal


@pytest.mark.system
def test_who_is_far_behind_leaves_in_batches_and_the_winner_is_measured_again(
    race: BuiltSweep, journal: Journal
) -> None:
    events = race.run(journal)
    keys = [job.key for job in race.plan.jobs]
    batches = journal.batches.of_jobs(keys)
    assert [len(batch.items) for batch in batches] == [4, 4]
    assert all(batch.device_seconds > 0 for batch in batches)
    best, next_best, *_ = sorted(keys, key=lambda key: min(batches[0].items[key].samples_ns))
    timed_s = [[sum(batch.items[key].samples_ns) / 1e9 for key in (best, next_best)] for batch in batches]
    assert timed_s == [pytest.approx([0.1, 0.1], rel=0.2), pytest.approx([0.2, 0.1], rel=0.2)], "50 % behind: brief"
    settled = {key: journal.attempts.settled(key) for key in keys}
    [winner] = [key for key in keys if settled[key].reason == "best"]
    assert settled[winner].leads
    for key in keys:
        outcome = journal.outcomes.in_sweep("tiny", next(job for job in race.plan.jobs if job.key == key))
        assert isinstance(outcome, Measured)
        blocks = journal.attempts.blocks(key)
        if key == winner:
            assert [block.confirms for block in blocks] == [True] * PRESETS["race"].confirmations
            assert outcome.timing is not None
        else:
            assert (settled[key].reason, settled[key].batches, settled[key].by_key) == ("slower", 2, winner)
            assert settled[key].ratio_low > 1.0
            assert (blocks, outcome.timing) == ((), None), "a batch is no timing"
    left = [event.settled.job_key for event in events if isinstance(event, Left)]
    assert sorted(left) == sorted(keys)
    assert race.run(journal) == [], "what is decided costs nothing"


def test_the_ranking_s_device_time_is_that_of_status(race: BuiltSweep, journal: Journal, tmp_path: Path) -> None:
    race.run(journal)
    database = tmp_path / "double.sqlite"
    with doubled():
        make(database)
        Store(f"sqlite:///{database}", tmp_path / "mlflow").publish(journal, "tiny")
        results = load(f"sqlite:///{database}", "tiny")
    [ranked] = rank(results.frame, ANY, "tiny").devices
    # Both ways to the results lead to one ranking, as far as the device's states go.
    by_own_time = rank_rows(journal.results.rows("tiny"), ANY, "tiny").devices[0]
    assert ranked.winner is not None
    assert by_own_time.winner is not None
    assert (by_own_time.winner.figures, by_own_time.winner.interval_of) == (
        ranked.winner.figures,
        ranked.winner.interval_of,
    )
    assert ranked.winner.interval_of == "one_state"
    rows = {row.job_key: row.batch_medians_ms for row in read_rows(results.frame, "tiny")}
    assert rows == {row.job_key: row.batch_medians_ms for row in journal.results.rows("tiny")}
    assert all(len(medians_ms) >= 2 for medians_ms in rows.values())
    spent = read_status(journal, "tiny").spent
    spent_s = ranked.device_seconds + ranked.push_seconds + ranked.accuracy_seconds
    assert spent_s == pytest.approx(spent.measuring_s, abs=0.02)
    assert ranked.timed_seconds == pytest.approx(spent.timed_s, abs=0.02)
    assert ranked.waited_seconds == pytest.approx(spent.waiting_s, abs=0.02)
    batches = journal.batches.of_jobs(job.key for job in race.plan.jobs)
    assert ranked.batch_seconds == pytest.approx(sum(batch.device_seconds for batch in batches), abs=0.02)
    assert 0.0 < ranked.batch_seconds < ranked.device_seconds


def test_an_interrupted_screen_goes_on_with_the_batches_that_it_has(race: BuiltSweep, journal: Journal) -> None:
    keys = [job.key for job in race.plan.jobs]
    race.run(journal, stop=lambda: bool(journal.batches.of_jobs(keys)))
    first = journal.batches.of_jobs(keys)
    assert len(first) == 1
    assert not any(journal.attempts.blocks(key) for key in keys)
    race.run(journal)
    after = journal.batches.of_jobs(keys)
    assert after[:1] == first
    assert len(after) == 2
    assert after[1].session > first[0].session
    assert sum(len(journal.attempts.blocks(key)) for key in keys) == PRESETS["race"].confirmations


@pytest.mark.system
def test_an_interrupted_confirmation_is_completed(race: BuiltSweep, journal: Journal) -> None:
    keys = [job.key for job in race.plan.jobs]
    race.run(journal, stop=lambda: any(journal.attempts.block_marks(key).confirmations for key in keys))
    assert sum(journal.attempts.block_marks(key).confirmations for key in keys) == 1
    race.run(journal)
    assert sum(journal.attempts.block_marks(key).confirmations for key in keys) == PRESETS["race"].confirmations
    assert race.run(journal) == []


def test_rounds_that_settle_a_tie_enter_the_figure_of_a_confirmed_winner(tmp_path: Path) -> None:
    def no_batches(request: BatchRequest, _: object) -> Failed:
        return Failed(stage=request.stage, kind="no_batches", message="it times one artifact a process")

    race = BuiltSweep(
        tmp_path, GRID, devices=("fake:steady",), objective=ANY, budget="race", protocol=ProtocolSpec(rounds=2)
    )
    with Journal.open(race.workspace.journal) as journal:
        race.run(journal, executor=Phones(race.workspace.root, no_batches))
        [winner] = [job for job in race.plan.jobs if journal.attempts.settled(job.key).leads]
        other = next(job for job in race.plan.jobs if job is not winner)
        before = {job: journal.outcomes.in_sweep("tiny", job).timing for job in (winner, other)}
        race.run(journal, more={winner.key: 4, other.key: 4})
        after = {job: journal.outcomes.in_sweep("tiny", job).timing for job in (winner, other)}
        added = {block.visit for block in journal.attempts.blocks(winner.key) if block.added}
    confirming = PRESETS["race"].confirmations
    assert len(before[winner].confirmed_medians_ms) == confirming
    assert len(after[winner].confirmed_medians_ms) == confirming + 4
    figures = sorted(ms for _, ms in after[winner].confirmed_medians_ms)
    assert after[winner].figures["latency_p50_ms"] == pytest.approx(figures[len(figures) // 2]), (
        "those that made it win are not in it"
    )
    assert len(after[other].block_medians_ms) == len(before[other].block_medians_ms) + 4
    assert after[other].confirmed_medians_ms == ()
    for job in (winner, other):
        assert added <= {visit for visit, _ in after[job].block_medians_ms}, "they are compared by these rounds"


def test_a_runner_without_batches_is_said_once_and_has_processes_of_its_own_only(
    race: BuiltSweep, journal: Journal
) -> None:
    def none(request: BatchRequest, _: object) -> Failed:
        return Failed(stage=request.stage, kind="no_batches", message="it times one artifact a process")

    events = race.run(journal, executor=Phones(race.workspace.root, none))
    keys = [job.key for job in race.plan.jobs]
    events_alone = [event for event in events if isinstance(event, MeasuredAlone)]
    assert [(len(event.names), event.failed.kind) for event in events_alone] == [(4, "no_batches")]
    assert journal.batches.of_jobs(keys) == []
    assert all(len([block for block in journal.attempts.blocks(key) if not block.confirms]) >= 2 for key in keys)
    assert sum(journal.attempts.settled(key).leads for key in keys) == 1


def test_whatever_ends_a_batch_is_measured_alone_and_the_rest_is_asked_for_again(
    race: BuiltSweep, journal: Journal
) -> None:
    culprit = race.plan.jobs[0]
    batches: list[tuple[str, ...]] = []

    def crash(request: BatchRequest, answer: object) -> object:
        keys = tuple(job.key for job in request.jobs)
        batches.append(keys)
        if culprit.key not in keys:
            return answer
        place = keys.index(culprit.key)
        died = Failed(stage=request.stage, kind="crashed", message="signal 11")
        outcomes = (*answer.outcomes[:place], died, *(NotReached() for _ in keys[place + 1 :]))
        return type(answer)(outcomes=outcomes, device_seconds=answer.device_seconds)

    events = race.run(journal, executor=Phones(race.workspace.root, crash))
    events_alone = [event for event in events if isinstance(event, MeasuredAlone)]
    assert [(event.names, event.failed.kind) for event in events_alone] == [((culprit.name,), "crashed")]
    assert sum(culprit.key in keys for keys in batches) == 1, "it is not asked for again in a batch"
    assert journal.attempts.blocks(culprit.key), "it has its chance alone"
    assert isinstance(journal.outcomes.in_sweep("tiny", culprit), Measured)
    assert sum(journal.attempts.settled(job.key).leads for job in race.plan.jobs) == 1


@pytest.mark.parametrize("place", [0, 1])
def test_whatever_ended_a_batch_is_not_asked_for_in_one_after_a_restart(
    race: BuiltSweep, journal: Journal, place: int
) -> None:
    keys = [job.key for job in race.plan.jobs]
    culprit = shuffled_order(keys, 0, 0)[place]
    batches: list[tuple[str, ...]] = []

    def crash(request: BatchRequest, answer: object) -> object:
        batches.append(tuple(job.key for job in request.jobs))
        if culprit not in batches[-1]:
            return answer
        at = batches[-1].index(culprit)
        died = Failed(stage=request.stage, kind="crashed", message="signal 11")
        outcomes = (*answer.outcomes[:at], died, *(NotReached() for _ in batches[-1][at + 1 :]))
        return type(answer)(outcomes=outcomes, device_seconds=answer.device_seconds)

    race.run(journal, executor=Phones(race.workspace.root, crash), stop=lambda: bool(journal.batches.of_jobs(keys)))
    [first] = journal.batches.of_jobs(keys)
    assert (len(first.items), [*first.failed]) == (place, [culprit])
    assert first.device_seconds > 0
    assert read_status(journal, "tiny").spent.measuring_s >= first.device_seconds
    race.run(journal, executor=Phones(race.workspace.root, crash))
    assert [culprit in keys for keys in batches] == [True, *[False] * (len(batches) - 1)]
    assert len(batches) > 1, "the others are screened on"
    assert journal.attempts.blocks(culprit), "it has its chance alone"
    assert sum(journal.attempts.settled(key).leads for key in keys) == 1


def test_a_batch_that_was_continued_is_one_batch_of_two_processes(race: BuiltSweep, journal: Journal) -> None:
    keys = [job.key for job in race.plan.jobs]
    culprit = shuffled_order(keys, 0, 0)[2]
    sizes: list[int] = []

    def crash(request: BatchRequest, answer: object) -> object:
        sizes.append(len(request.jobs))
        if len(sizes) > 1:
            return answer
        died = Failed(stage=request.stage, kind="crashed", message="signal 11")
        outcomes = (*answer.outcomes[:2], died, NotReached())
        return type(answer)(outcomes=outcomes, device_seconds=answer.device_seconds)

    race.run(journal, executor=Phones(race.workspace.root, crash))
    stored = journal.batches.of_jobs(keys)
    assert [(batch.number, len(batch.items), [*batch.failed]) for batch in stored[:2]] == [
        (0, 2, [culprit]),
        (0, 1, []),
    ]
    assert stored[2].number == 1
    last = shuffled_order(keys, 0, 0)[3]
    assert sum(last in batch.items for batch in stored) == 2
    assert journal.attempts.blocks(last), "alone in its first process it said nothing: one look does not make it leave"


@pytest.mark.parametrize(("kind", "asked_after"), [("timeout", 1), ("no_batches", 2)])
def test_what_was_of_the_moment_is_asked_again_after_a_restart(
    race: BuiltSweep, journal: Journal, kind: str, asked_after: int
) -> None:
    keys = [job.key for job in race.plan.jobs]
    requests = []

    def fail(request: BatchRequest, _: object) -> Failed:
        requests.append(request)
        return Failed(stage=request.stage, kind=kind, message="nothing of any item")

    phones = [Phones(race.workspace.root, fail) for _ in range(2)]
    race.run(journal, executor=phones[0], stop=lambda: any(journal.attempts.blocks(key) for key in keys))
    race.run(journal, executor=phones[1])
    assert len(requests) == asked_after
    assert sum(journal.attempts.settled(key).leads for key in keys) == 1


@pytest.mark.parametrize(("kind", "tries"), [("no_report", 3), ("timeout", 1)])
def test_batches_that_fail_as_a_whole_are_given_up(race: BuiltSweep, journal: Journal, kind: str, tries: int) -> None:
    requests = []

    def fail(request: BatchRequest, _: object) -> Failed:
        requests.append(request)
        return Failed(stage=request.stage, kind=kind, message=str(RunnerError(kind, "nothing of any item")))

    events = race.run(journal, executor=Phones(race.workspace.root, fail))
    assert len(requests) == tries
    assert [len(event.names) for event in events if isinstance(event, MeasuredAlone)] == [4]
    assert sum(journal.attempts.settled(job.key).leads for job in race.plan.jobs) == 1


def test_an_artifact_that_cannot_be_pushed_does_not_cost_the_others_their_batch(
    race: BuiltSweep, journal: Journal
) -> None:
    sizes: list[int] = []

    def no_space(request: BatchRequest, answer: object) -> object:
        sizes.append(len(request.jobs))
        return Failed(stage="push", kind="no_space", message="full") if len(sizes) == 1 else answer

    events = race.run(journal, executor=Phones(race.workspace.root, no_space))
    assert sizes[:2] == [4, 3]
    assert [len(event.names) for event in events if isinstance(event, MeasuredAlone)] == [1]
    assert sum(journal.attempts.settled(job.key).leads for job in race.plan.jobs) == 1


def test_time_that_is_used_up_ends_the_batches_too(tmp_path: Path) -> None:
    short = BuiltSweep(
        tmp_path,
        GRID,
        devices=("fake:steady",),
        objective=ANY,
        budget=MinutesBudget(device_minutes=0.001),
        protocol=ProtocolSpec(),
    )
    with Journal.open(short.workspace.journal) as journal:
        short.run(journal)
        keys = [job.key for job in short.plan.jobs]
        assert len(journal.batches.of_jobs(keys)) == 1
        assert {journal.attempts.settled(key).reason for key in keys} == {"out_of_time"}
        assert not any(journal.attempts.block_marks(key).confirmations for key in keys)


@pytest.fixture
def near(race: BuiltSweep) -> dict[str, float]:
    """Builds that are 2 % apart, on a device where batches may decide."""
    KnownPhone.latencies.step = 1.02
    return {facts.device_id: 0.02 for facts in race.plan.devices}


def solo_blocks(race: BuiltSweep, journal: Journal) -> list[tuple[int, int, int]]:
    """Count for each job the blocks that race or settle, those that confirm, and those that check."""
    blocks = [journal.attempts.blocks(job.key) for job in race.plan.jobs]
    return [
        (
            sum(block.races or block.added for block in blocks_of_job),
            sum(block.confirms for block in blocks_of_job),
            sum(block.checks for block in blocks_of_job),
        )
        for blocks_of_job in blocks
    ]


def test_where_the_device_was_shown_to_allow_it_batches_decide(
    race: BuiltSweep, journal: Journal, near: dict[str, float]
) -> None:
    race.run(journal, batches_decide=near)
    settled = [journal.attempts.settled(job.key) for job in race.plan.jobs]
    assert all(end.batches_decide and end.reason == "best" for end in settled)
    [winner] = [end for end in settled if end.leads]
    losers = sorted((end for end in settled if not end.leads), key=lambda end: end.ratio)
    assert [end.by_key for end in losers] == [winner.job_key] * 3
    assert [end.checks for end in losers] == [1, 0, 0]
    assert (losers[0].noise, losers[1].noise) == (0.02, None)
    assert sorted(solo_blocks(race, journal)) == [(0, 0, 0), (0, 0, 0), (0, 0, 1), (0, 3, 0)]
    outcomes = [journal.outcomes.in_sweep("tiny", job) for job in race.plan.jobs]
    assert all(isinstance(outcome, Measured) for outcome in outcomes)
    assert sum(outcome.timing is None for outcome in outcomes) == 3, "a ratio is no time, nor is a block that checks it"
    assert race.run(journal) == [], "what is decided costs nothing, whatever is known of the device now"


def test_who_has_no_time_of_its_own_can_be_measured_afterwards(
    race: BuiltSweep, journal: Journal, near: dict[str, float]
) -> None:
    race.run(journal, batches_decide=near)
    race.run(journal, more={job.key: 2 for job in race.plan.jobs})
    assert sorted(solo_blocks(race, journal)) == [(2, 0, 0), (2, 0, 0), (2, 0, 1), (2, 3, 0)]
    timings = [journal.outcomes.in_sweep("tiny", job).timing for job in race.plan.jobs]
    assert len({tuple(visit for visit, _ in timing.block_medians_ms) for timing in timings}) == 1, "they are paired"
    assert race.run(journal) == []


def test_how_a_race_ends_is_decided_when_it_begins(race: BuiltSweep, journal: Journal, near: dict[str, float]) -> None:
    keys = [job.key for job in race.plan.jobs]
    race.run(journal)
    finals = solo_blocks(race, journal)
    assert sum(deciding for deciding, _, _ in finals) > 0, "builds that are 2 % apart go to the finals"
    batches = journal.batches.of_jobs(keys)
    assert not any(journal.attempts.settled(key).batches_decide for key in keys)
    assert race.run(journal, batches_decide=near) == []
    assert (solo_blocks(race, journal), journal.batches.of_jobs(keys)) == (finals, batches)


def test_an_interrupted_race_goes_on_as_it_began(race: BuiltSweep, journal: Journal) -> None:
    devices = {facts.device_id: 0.02 for facts in race.plan.devices}
    race.run(
        journal, stop=lambda: any(journal.attempts.settled(job.key) for job in race.plan.jobs), batches_decide=devices
    )
    assert sum(journal.attempts.settled(job.key) is not None for job in race.plan.jobs) > 0
    race.run(journal)
    assert all(journal.attempts.settled(job.key).batches_decide for job in race.plan.jobs)
    assert sorted(solo_blocks(race, journal)) == [(0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 3, 0)]


def test_the_others_race_again_if_the_winner_of_batches_fails_alone(
    race: BuiltSweep, journal: Journal, near: dict[str, float]
) -> None:
    race.run(
        journal, stop=lambda: any(journal.attempts.settled(job.key) for job in race.plan.jobs), batches_decide=near
    )
    [first] = [job for job in race.plan.jobs if journal.attempts.settled(job.key).leads]
    journal.attempts.add_failure(first.key, Failed(stage="run", kind="timeout", message="it hangs when it is alone"))
    for _ in range(2):
        journal.attempts.add_failure(first.key, Failed(stage="run", kind="timeout", message="again"))
    race.run(journal)
    assert isinstance(journal.outcomes.in_sweep("tiny", first), Failed)
    [winner] = [job for job in race.plan.jobs if job != first and journal.attempts.settled(job.key).leads]
    assert journal.attempts.block_marks(winner.key).confirmations == PRESETS["race"].confirmations
    assert race.run(journal) == []


def test_one_that_ends_a_batch_makes_finals_necessary(
    race: BuiltSweep, journal: Journal, near: dict[str, float]
) -> None:
    culprit = race.plan.jobs[0]

    def crash(request: BatchRequest, answer: object) -> object:
        keys = [job.key for job in request.jobs]
        if culprit.key not in keys:
            return answer
        place = keys.index(culprit.key)
        died = Failed(stage=request.stage, kind="crashed", message="signal 11")
        outcomes = (*answer.outcomes[:place], died, *(NotReached() for _ in keys[place + 1 :]))
        return type(answer)(outcomes=outcomes, device_seconds=answer.device_seconds)

    race.run(journal, executor=Phones(race.workspace.root, crash), batches_decide=near)
    assert not any(journal.attempts.settled(job.key).batches_decide for job in race.plan.jobs)
    assert journal.attempts.block_count(culprit.key) > 0
    assert sum(journal.attempts.settled(job.key).leads for job in race.plan.jobs) == 1


@pytest.mark.parametrize("decide", [True, False])
def test_rounds_that_settled_are_no_rounds_of_the_race_when_a_variant_joins(
    tmp_path: Path, race: BuiltSweep, journal: Journal, near: dict[str, float], decide: bool
) -> None:
    race.run(journal, batches_decide=near if decide else {})
    race.run(journal, more={job.key: 4 for job in race.plan.jobs})
    joined = GridSpec(precision=("fp32",), layout=("nchw",), fuse=(True,), capture=("script",), name="joined")
    grown = BuiltSweep(
        tmp_path,
        GRID,
        joined,
        devices=("fake:steady",),
        objective=ANY,
        budget="race",
        protocol=ProtocolSpec(),
    )
    [new] = [job for job in grown.plan.jobs if job.key not in {job.key for job in race.plan.jobs}]
    grown.run(journal)
    settled = [journal.attempts.settled(job.key) for job in grown.plan.jobs]
    assert journal.attempts.settled(new.key).batches > 0
    assert all(end.batches_decide for end in settled) is decide, "they do not turn one kind of race into the other"
    rounds = [sum(block.races for block in journal.attempts.blocks(job.key)) for job in grown.plan.jobs]
    assert [end.rounds for end in settled] == rounds


def test_a_build_whose_blocks_never_count_is_put_aside_and_holds_no_race_open(
    race: BuiltSweep, journal: Journal, near: dict[str, float]
) -> None:
    culprit = race.plan.jobs[0]

    def elsewhere(request: BatchRequest, answer: object) -> object:
        outcomes = [
            replace(outcome, labels=("backend_fell_back",)) if job.key == culprit.key else outcome
            for job, outcome in zip(request.jobs, answer.outcomes, strict=True)
        ]
        return type(answer)(outcomes=tuple(outcomes), device_seconds=answer.device_seconds)

    race.run(journal, executor=Phones(race.workspace.root, elsewhere), batches_decide=near)
    ends = {job.key: journal.attempts.settled(job.key) for job in race.plan.jobs}
    assert ends[culprit.key].reason == "disqualified"
    assert {end.reason for key, end in ends.items() if key != culprit.key} == {"best"}
    assert len(journal.batches.of_jobs(ends)) < 10
    assert race.run(journal) == [], "it is asked for only by --retry-failed"
    assert disqualified_jobs(journal, race.plan) == {culprit.key: 2}
    race.run(journal, more={culprit.key: 2})
    assert disqualified_jobs(journal, race.plan) == {}, "alone, its backend ran"


def test_time_that_is_used_up_before_batches_can_name_a_leader_says_what_it_takes(tmp_path: Path) -> None:
    KnownPhone.latencies.step = 1.02
    short = BuiltSweep(
        tmp_path,
        GRID,
        devices=("fake:steady",),
        objective=ANY,
        budget=MinutesBudget(device_minutes=0.001),
        protocol=ProtocolSpec(),
    )
    decide = {facts.device_id: 0.02 for facts in short.plan.devices}
    with Journal.open(short.workspace.journal) as journal:
        short.run(journal, batches_decide=decide)
        ends = [journal.attempts.settled(job.key) for job in short.plan.jobs]
    assert {end.reason for end in ends} == {"out_of_time"}
    assert all("; 1 batch had been measured, which give no time: raise device_minutes" in end.message for end in ends)


def test_a_sweep_that_raced_and_is_measured_in_full_has_all_its_rounds(tmp_path: Path) -> None:
    """A block that confirmed the winner is no round, though the keys are the same."""

    def sweep(budget: str) -> BuiltSweep:
        protocol = ProtocolSpec(preset="quick", rounds=3)
        return BuiltSweep(tmp_path, GRID, devices=("fake:steady",), objective=ANY, budget=budget, protocol=protocol)

    race, full = sweep("race"), sweep("full")
    assert [job.key for job in race.plan.jobs] == [job.key for job in full.plan.jobs]
    with Journal.open(race.workspace.journal) as journal:
        race.run(journal)
        [winner] = [job for job in race.plan.jobs if journal.attempts.settled(job.key).leads]
        assert journal.attempts.block_marks(winner.key).rounds(added=True) < 3
        full.run(journal)
        counts = [journal.attempts.block_marks(job.key).rounds(added=True) for job in full.plan.jobs]
        assert counts == [3, 3, 3, 3]
        assert journal.attempts.block_marks(winner.key).confirmations == 3
        assert full.run(journal) == []
