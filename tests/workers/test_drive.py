"""A plan driven to its end with real builds and real runner processes, and what happens when parts go wrong."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sweeps.errors import StoreError
from sweeps.journal import MAX_ATTEMPTS, Journal
from sweeps.plan import Plan
from sweeps.protocol import resolve
from sweeps.records import Failed, Measured
from sweeps.spec import DataSpec, GridSpec, ModelSpec, ProtocolSpec, SweepSpec, SyntheticData
from sweeps.workspace import Workspace
from tests.workers.tiny_model import SOURCE
from workers import models
from workers.build import ArtifactStore
from workers.drive import Attempt, Building, Driver, Event, Measuring, Preparing, TrackingDown
from workers.executor import InlineExecutor
from workers.planner import plan_sweep

PROTOCOL = ProtocolSpec(preset="quick", rounds=2, warmup_seconds=0.01, min_seconds=0.02, iterations=3)
Prepare = Callable[[ModelSpec], models.PreparedModel]


def _nothing() -> None:
    """Publish to nowhere."""


class Sweep:
    """A sweep of the tiny network in a folder of its own."""

    def __init__(self, home: Path, *grids: GridSpec) -> None:
        self.home = home
        (home / "tiny_net.py").write_bytes(SOURCE)
        scope: dict[str, Callable[[], torch.nn.Module]] = {}
        exec(SOURCE, scope)
        torch.manual_seed(0)
        state = io.BytesIO()
        torch.save(scope["make"]().state_dict(), state)
        (home / "tiny.pt").write_bytes(state.getvalue())
        synthetic = SyntheticData(source="synthetic", images=8)
        self.spec = SweepSpec(
            name="tiny",
            models=(
                ModelSpec(
                    source="tiny_net:make", weights=str(home / "tiny.pt"), input_shape=(1, 3, 16, 16), name="tiny"
                ),
            ),
            data=DataSpec(calibration=synthetic, evaluation=synthetic.model_copy(update={"seed": 1})),
            grids=grids,
            protocol=PROTOCOL,
        )
        self.workspace = Workspace.open(home / "workspace")
        self.plan: Plan = plan_sweep(self.spec, self.workspace.root, (home,))

    def prepare(self, model: ModelSpec) -> models.PreparedModel:
        versions = self.plan.identities.versions
        return models.prepare(model, self.spec.data, self.workspace, versions, lambda *_: None, (self.home,))

    def run(
        self,
        journal: Journal,
        stop: Callable[[], bool] = lambda: False,
        publish: Callable[[], object] = _nothing,
        prepare: Prepare | None = None,
    ) -> list[Event]:
        executor = InlineExecutor(self.workspace.root)
        store = ArtifactStore(self.workspace.artifacts)
        try:
            driver = Driver(
                self.plan, resolve(PROTOCOL), journal, store, executor, prepare or self.prepare, publish, stop
            )
            return list(driver.run())
        finally:
            executor.close()


TWO = GridSpec(precision=("fp32", "int8"), layout=("nhwc",))


def test_everything_is_built_before_the_first_block_and_ends_measured(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, TWO)
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        outcomes = [journal.sweep_outcome("tiny", job) for job in sweep.plan.jobs]
        first_block = min(index for index, event in enumerate(events) if isinstance(event, Measuring))
        assert all(not isinstance(event, Building) for event in events[first_block:])
        assert isinstance(events[0], Preparing)
        assert all(isinstance(outcome, Measured) and outcome.timing and outcome.accuracy for outcome in outcomes)
        last = [event for event in events if isinstance(event, Measuring)][-1]
        assert (last.done, last.total) == (6, 6), "two rounds and one accuracy pass each"
        assert len(journal.data_manifests("tiny")) == 2

        again = sweep.run(journal)
        assert again == [], "what is done costs nothing"


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, TWO)
    with Journal.open(sweep.workspace.journal) as journal:
        keys = [job.key for job in sweep.plan.jobs]
        sweep.run(journal, stop=lambda: sum(len(journal.blocks(key)) for key in keys) >= 3)
        kept = {key: journal.blocks(key) for key in keys}
        assert sum(map(len, kept.values())) == 3
        sweep.run(journal)
        for key, blocks in kept.items():
            assert journal.blocks(key)[: len(blocks)] == blocks
            assert len(journal.blocks(key)) == 2


def test_a_damaged_artifact_is_built_again(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, GridSpec(precision=("fp32",), layout=("nchw",)))
    [job] = sweep.plan.jobs
    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, stop=lambda: journal.artifact(job.build_key) is not None)
        model = sweep.workspace.artifact(job.build_key) / "model.pt"
        model.write_bytes(model.read_bytes()[:-7])
        events = sweep.run(journal)
        assert any(isinstance(event, Building) for event in events)
        assert isinstance(journal.sweep_outcome("tiny", job), Measured)


def test_a_job_whose_runner_fails_is_tried_again_and_then_failed_while_others_go_on(tmp_path: Path) -> None:
    # Two CPUs that no machine has: the runner ends with an error, every time.
    sweep = Sweep(tmp_path, GridSpec(precision=("fp32",), layout=("nhwc",), fuse=(True,), cpus=("all", "4000,4001")))
    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal)
        attempts = [event for event in events if isinstance(event, Attempt)]
        assert [attempt.final for attempt in attempts] == [False] * (MAX_ATTEMPTS - 1) + [True]
        outcomes = {job.run.cpus: journal.sweep_outcome("tiny", job) for job in sweep.plan.jobs}
        assert isinstance(outcomes["all"], Measured)
        failed = outcomes["4000,4001"]
        assert isinstance(failed, Failed)
        assert failed.stage == "run"
        assert sweep.run(journal) == [], "a failed job is not tried for ever"
        assert journal.retry_failures("tiny") == 1
        assert any(isinstance(event, Attempt) for event in sweep.run(journal))


def test_a_tracking_server_that_goes_down_stops_nothing(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, GridSpec(precision=("fp32",), layout=("nhwc",)))
    calls: list[str] = []

    def publish() -> None:
        calls.append("publish")
        raise StoreError("MLflow is down")

    with Journal.open(sweep.workspace.journal) as journal:
        events = sweep.run(journal, publish=publish)
        assert isinstance(journal.sweep_outcome("tiny", sweep.plan.jobs[0]), Measured)
    assert events[-1] == TrackingDown("MLflow is down")
    assert calls, "it was tried"


def test_logits_of_another_shape_are_one_failed_job(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, GridSpec(precision=("fp32",), layout=("nhwc",)))

    def prepare(model: ModelSpec) -> models.PreparedModel:

        prepared = sweep.prepare(model)
        return replace(prepared, evaluation_logits=np.zeros((8, 7), np.float32))

    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, prepare=prepare)
        outcome = journal.sweep_outcome("tiny", sweep.plan.jobs[0])
    assert isinstance(outcome, Failed)
    assert (outcome.stage, outcome.kind) == ("evaluate", "output_shape")


def test_a_crash_while_building_inline_is_one_failed_build(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, GridSpec(precision=("fp32",), layout=("nhwc",)))

    def prepare(model: ModelSpec) -> models.PreparedModel:
        prepared = sweep.prepare(model)
        package = replace(prepared.build_inputs.package, files={"tiny_net.py": b"import os\nos._exit(9)\n"})
        return replace(prepared, build_inputs=replace(prepared.build_inputs, package=package))

    with Journal.open(sweep.workspace.journal) as journal:
        sweep.run(journal, prepare=prepare)
        outcome = journal.sweep_outcome("tiny", sweep.plan.jobs[0])
    assert isinstance(outcome, Failed)
    assert (outcome.stage, outcome.kind) == ("build", "crashed")


@pytest.fixture(autouse=True)
def _quick_torch() -> None:
    torch.set_num_threads(1)
