"""A race of builds of which several are the same program: one of them is timed for all."""

from pathlib import Path

import pytest

from sweeps.journal.journal import Journal
from sweeps.records import Failed, Measured
from sweeps.spec.grid import GridSpec
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import ProtocolSpec
from tests.workers.tiny_sweep import BuiltSweep
from workers.driver.driver_events import Left


def race(home: Path, *layouts: str, front: str | None = None) -> BuiltSweep:
    """Fused and then optimised, or only optimised: the same but for rounding."""
    grid = GridSpec(precision=("fp32",), layout=layouts, fuse=(True, False), optimize=(True,))
    objective = ObjectiveSpec(constraints=(), front=front)
    return BuiltSweep(
        home, grid, devices=("fake:steady",), objective=objective, budget="race", protocol=ProtocolSpec(rounds=2)
    )


@pytest.mark.system
def test_one_of_each_program_is_timed_and_the_others_say_which(tmp_path: Path) -> None:
    sweep = race(tmp_path, "nchw", "nhwc")
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        settled = {job.key: journal.attempts.settled(job.key) for job in sweep.plan.jobs}
        outcomes = [journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs]
        raced = {job.key: journal.outcomes.was_raced(job.key) for job in sweep.plan.jobs}
        second = sweep.run(journal)
    same_program = {key: end for key, end in settled.items() if end.reason == "same_program"}
    assert len(same_program) == 2
    layouts = {job.key: job.variant.layout for job in sweep.plan.jobs}
    assert {layouts[key] for key in same_program} == {"nchw", "nhwc"}, "layouts are different programs"
    for key, end in same_program.items():
        assert layouts[end.by_key] == layouts[key]
        assert not raced[key]
        assert raced[end.by_key]
    assert all(isinstance(outcome, Measured) for outcome in outcomes), "nobody is pending"
    assert sum(end.leads for end in settled.values()) == 1
    left_keys = [event.settled.job_key for event in events if isinstance(event, Left)]
    assert sorted(left_keys) == sorted(settled)
    assert second == [], "what is decided costs nothing"


@pytest.mark.system
def test_of_one_program_the_smaller_file_is_timed_and_wins(tmp_path: Path) -> None:
    sweep = race(tmp_path, "nhwc")
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        [winner] = [job for job in sweep.plan.jobs if journal.attempts.settled(job.key).leads]
        rounds = journal.outcomes.in_sweep("tiny", winner).timing.rounds
        sizes = {job.key: journal.artifacts.latest(job.build_key).file_bytes for job in sweep.plan.jobs}
    assert rounds == 2, "of one alone nothing was selected, so there is nothing to confirm"
    assert sizes[winner.key] == min(sizes.values())


def test_the_other_build_races_once_the_timed_one_has_failed(tmp_path: Path) -> None:
    sweep = race(tmp_path, "nhwc")
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        [winner] = [job for job in sweep.plan.jobs if journal.attempts.settled(job.key).leads]
        [other] = [job for job in sweep.plan.jobs if job is not winner]
        assert journal.attempts.settled(other.key).by_key == winner.key
        # The job's rounds were settled: a failure counts only for what is asked for anew.
        journal.attempts.add_settled(journal.attempts.settled(winner.key).reopened())
        journal.attempts.add_failure(
            winner.key, Failed(stage="load", kind="not_possible", message="it cannot be timed here")
        )
        journal.save_plan(sweep.plan)
        sweep.run(journal)
        assert journal.attempts.settled(other.key).leads
        assert journal.outcomes.in_sweep("tiny", other).timing is not None


def test_on_a_front_both_are_timed(tmp_path: Path) -> None:
    sweep = race(tmp_path, "nhwc", front="sqnr_db")
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        assert all(journal.outcomes.was_raced(job.key) for job in sweep.plan.jobs)


def test_without_a_race_both_are_timed(tmp_path: Path) -> None:
    grid = GridSpec(precision=("fp32",), layout=("nhwc",), fuse=(True, False), optimize=(True,))
    sweep = BuiltSweep(tmp_path, grid, devices=("fake:steady",), objective=ObjectiveSpec(constraints=()), budget="full")
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        assert all(journal.attempts.block_count(job.key) == 2 for job in sweep.plan.jobs)
