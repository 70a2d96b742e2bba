"""A plan driven to its end with real builds and real runner processes, and what happens when parts go wrong."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sweeps.errors import StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import MAX_ATTEMPTS
from sweeps.records import Failed, Measured
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import DataSpec, FolderData, ModelSpec, SyntheticData
from tests.workers.tiny_sweep import BuiltSweep, Sweep
from workers.driver.driver_events import AttemptFailed, Building, Measuring, Preparing, TrackingDown
from workers.models import prepare as models
from workers.plan_inputs import plan_sweep

TWO = GridSpec(precision=("fp32", "int8"), layout=("nhwc",))


def test_everything_is_built_before_the_first_block_and_ends_measured(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, TWO)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        outcomes = [journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs]
        first_block = min(index for index, event in enumerate(events) if isinstance(event, Measuring))
        assert all(not isinstance(event, Building) for event in events[first_block:])
        assert isinstance(events[0], Preparing)
        assert all(isinstance(outcome, Measured) and outcome.timing and outcome.accuracy for outcome in outcomes)
        last = [event for event in events if isinstance(event, Measuring)][-1]
        assert (last.done, last.total) == (6, 6), "two rounds and one accuracy pass each"
        assert len(journal.artifacts.data("tiny")) == 2

        second = sweep.run(journal)
        assert second == [], "what is done costs nothing"


@pytest.mark.system
def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    sweep = BuiltSweep(tmp_path, TWO)
    with Journal.open(sweep.workspace.journal) as journal:
        keys = [job.key for job in sweep.plan.jobs]
        sweep.run(journal, stop=lambda: sum(len(journal.attempts.blocks(key)) for key in keys) >= 3)
        kept_blocks = {key: journal.attempts.blocks(key) for key in keys}
        assert sum(map(len, kept_blocks.values())) == 3
        sweep.run(journal)
        for key, blocks in kept_blocks.items():
            assert journal.attempts.blocks(key)[: len(blocks)] == blocks
            assert len(journal.attempts.blocks(key)) == 2


@pytest.mark.parametrize("later_s", [0, -3600])
def test_runs_that_start_in_the_same_second_or_before_the_last_one_are_two_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later_s: int
) -> None:
    sweep = BuiltSweep(tmp_path, GridSpec(precision=("fp32",), layout=("nhwc",)))
    [job] = sweep.plan.jobs
    now_s = 1_800_000_000
    monkeypatch.setattr(
        "workers.driver.sweep_driver.time", SimpleNamespace(time=lambda: now_s, monotonic=time.monotonic)
    )
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, stop=lambda: journal.attempts.block_count(job.key) == 1)
        now_s += later_s
        sweep.run(journal)
        assert [block.session for block in journal.attempts.blocks(job.key)] == [1_800_000_000, 1_800_000_001]


@pytest.mark.fault(42, "an artifact cut off", "built again")
@pytest.mark.system
def test_a_damaged_artifact_is_built_again(tmp_path: Path) -> None:
    sweep = BuiltSweep(tmp_path, GridSpec(precision=("fp32",), layout=("nchw",)))
    [job] = sweep.plan.jobs
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, stop=lambda: journal.artifacts.latest(job.build_key) is not None)
        model = sweep.workspace.artifact(job.build_key) / "model.pt"
        model.write_bytes(model.read_bytes()[:-7])
        events = sweep.run(journal)
        assert any(isinstance(event, Building) for event in events)
        assert isinstance(journal.outcomes.in_sweep("tiny", job), Measured)


def test_a_job_whose_runner_fails_is_tried_again_and_then_failed_while_others_go_on(tmp_path: Path) -> None:
    # Two CPUs that no machine has: the runner ends with an error, every time.
    sweep = BuiltSweep(
        tmp_path, GridSpec(precision=("fp32",), layout=("nhwc",), fuse=(True,), cpus=("all", "4000,4001"))
    )
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        attempts = [event for event in events if isinstance(event, AttemptFailed)]
        assert [attempt.final for attempt in attempts] == [False] * (MAX_ATTEMPTS - 1) + [True]
        outcomes = {job.run.cpus: journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs}
        assert isinstance(outcomes["all"], Measured)
        failed = outcomes["4000,4001"]
        assert isinstance(failed, Failed)
        assert failed.stage == "run"
        assert sweep.run(journal) == [], "a failed job is not tried for ever"
        assert journal.attempts.retry_failures("tiny") == 1
        assert any(isinstance(event, AttemptFailed) for event in sweep.run(journal))


def test_a_tracking_server_that_goes_down_stops_nothing(tmp_path: Path) -> None:
    sweep = BuiltSweep(tmp_path, GridSpec(precision=("fp32",), layout=("nhwc",)))
    calls: list[str] = []

    def publish() -> None:
        calls.append("publish")
        raise StoreError("MLflow is down")

    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal, publish=publish)
        assert isinstance(journal.outcomes.in_sweep("tiny", sweep.plan.jobs[0]), Measured)
    assert events[-1] == TrackingDown("MLflow is down")
    assert calls, "it was tried"


@pytest.mark.system
def test_logits_of_another_shape_are_one_failed_job(tmp_path: Path) -> None:
    sweep = BuiltSweep(tmp_path, GridSpec(precision=("fp32",), layout=("nhwc",)))

    def prepare(model: ModelSpec) -> models.PreparedModel:

        prepared = sweep.prepare(model)
        return replace(prepared, evaluation_logits=np.zeros((8, 7), np.float32))

    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, prepare=prepare)
        outcome = journal.outcomes.in_sweep("tiny", sweep.plan.jobs[0])
    assert isinstance(outcome, Failed)
    assert (outcome.stage, outcome.kind) == ("evaluate", "output_shape")


def dict_maker(home: Path) -> ModelSpec:
    (home / "odd_net.py").write_text(
        "import torch\n\n\nclass Odd(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.line = torch.nn.Linear(16, 4)\n\n    def forward(self, x):\n"
        "        return {'logits': self.line(x).mean((1, 2))}\n"
    )
    return ModelSpec(source="odd_net:Odd", weights="random", input_shape=(1, 3, 16, 16), name="odd")


def test_a_model_that_cannot_be_used_fails_its_own_jobs_and_no_others(tmp_path: Path) -> None:
    tiny = Sweep(tmp_path, TWO).spec.models
    sweep = BuiltSweep(tmp_path, TWO, models=(dict_maker(tmp_path), *tiny))
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        outcomes = {job.name: journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs}
        odd = [outcome for name, outcome in outcomes.items() if name.startswith("odd")]
        rest = [outcome for name, outcome in outcomes.items() if not name.startswith("odd")]
        assert len(odd) == len(rest) == 2
        for outcome in odd:
            assert isinstance(outcome, Failed)
            assert (outcome.stage, outcome.kind) == ("load", "bad_model")
            assert "dict" in outcome.message
        assert all(isinstance(outcome, Measured) for outcome in rest)
        assert [(event.name, event.final) for event in events if isinstance(event, AttemptFailed)] == [("odd", True)]
        assert sweep.run(journal) == []


@pytest.mark.system
def test_an_unusable_calibration_set_fails_what_is_calibrated_and_nothing_else(tmp_path: Path) -> None:
    messages: list[str] = []
    synthetic = SyntheticData(source="synthetic", images=8)
    data = DataSpec(calibration=FolderData(source="folder", path=tmp_path / "nowhere"), evaluation=synthetic)
    sweep = BuiltSweep(tmp_path, TWO, data=data)
    plan_sweep(sweep.spec, sweep.workspace.root, (tmp_path,), tell=messages.append)
    assert [line for line in messages if "nowhere" in line and "calibrated will fail" in line] == messages != []
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal)
        outcomes = {job.variant.precision: journal.outcomes.in_sweep("tiny", job) for job in sweep.plan.jobs}
        assert isinstance(outcomes["fp32"], Measured)
        assert isinstance(outcomes["int8"], Failed)
        assert (outcomes["int8"].stage, outcomes["int8"].kind) == ("build", "bad_calibration")
        assert "nowhere" in outcomes["int8"].message


def test_a_crash_while_building_inline_is_one_failed_build(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, GridSpec(precision=("fp32",), layout=("nhwc",)))

    def prepare(model: ModelSpec) -> models.PreparedModel:
        prepared = sweep.prepare(model)
        package = replace(prepared.build_inputs.package, files={"tiny_net.py": b"import os\nos._exit(9)\n"})
        return replace(prepared, build_inputs=replace(prepared.build_inputs, package=package))

    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, prepare=prepare)
        outcome = journal.outcomes.in_sweep("tiny", sweep.plan.jobs[0])
    assert isinstance(outcome, Failed)
    assert (outcome.stage, outcome.kind) == ("build", "crashed")


@pytest.fixture(autouse=True)
def _quick_torch() -> None:
    torch.set_num_threads(1)
