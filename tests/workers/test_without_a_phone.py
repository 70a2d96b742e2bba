"""A sweep of all backends on this machine alone: what is timed, what is only checked, and what is skipped."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from sweeps.journal.journal import Journal
from sweeps.planning.plan import Plan
from sweeps.ranking.rank import rank
from sweeps.ranking.values import DeviceRanking
from sweeps.records import Failed, Measured, Skipped
from sweeps.spec.grid import GridSpec
from sweeps.spec.model_inputs import DataSpec, SyntheticData
from sweeps.spec.objective import ObjectiveSpec
from sweeps.store import mlflow as store
from tests import gallery, mlflow_rows, runtimes
from tests.fresh_mlflow import fresh_mlflow
from tests.workers.tiny_sweep import Sweep
from workers.native.compiler import INSTALL
from workers.runtimes.executorch.runtime import ExecuTorch
from workers.runtimes.torchscript import references

pytestmark = pytest.mark.system

# Calibrated with 8 images, the per-tensor int8 of this network misses the 10 dB that a build must reach.
DATA = DataSpec(
    calibration=SyntheticData(source="synthetic", images=64),
    evaluation=SyntheticData(source="synthetic", images=8, seed=1),
)
GRID = GridSpec(precision=("fp32", "int8"), layout=("nchw", "nhwc"), backend=("cpu", "nnapi", "metal"))
Combination = tuple[str, str, str]
"""Backend, precision and layout."""
CPU: set[Combination] = {("cpu", precision, layout) for precision in GRID.precision for layout in GRID.layout}
NNAPI: set[Combination] = {("nnapi", precision, layout) for _, precision, layout in CPU}
METAL: set[Combination] = {("metal", "fp32", "nchw")}
# Of ExecuTorch, where the extra is installed: its layout has no choice.
VULKAN: set[Combination] = set() if runtimes.lack("executorch") else {("vulkan", "fp32", "nchw")}
CHECKED = NNAPI | METAL | VULKAN
IMPOSSIBLE: dict[Combination, str] = {
    ("metal", "fp32", "nhwc"): "no effect: Metal keeps a layout of its own",
    ("metal", "int8", "nchw"): "PyTorch's Metal backend has no quantized operators",
    ("metal", "int8", "nhwc"): "PyTorch's Metal backend has no quantized operators",
}


@dataclass(frozen=True)
class Ended:
    """A sweep after its run: by combination what the journal has, all that MLflow has, and the ranking of it."""

    plan: Plan
    outcomes: dict[Combination, Measured | Skipped | Failed | None]
    rows: pd.DataFrame
    ranking: DeviceRanking
    names: dict[str, Combination]

    def measured(self, combinations: set[Combination]) -> dict[Combination, Measured]:
        found = {combination: self.outcomes[combination] for combination in combinations}
        assert {key: outcome for key, outcome in found.items() if not isinstance(outcome, Measured)} == {}
        return {key: outcome for key, outcome in found.items() if isinstance(outcome, Measured)}


def ended(folder: Path, *grids: GridSpec) -> Ended:
    sweep = Sweep(folder, *grids, data=DATA, objective=ObjectiveSpec(constraints=()))
    workspace, name = sweep.workspace, sweep.spec.name
    fresh_mlflow(workspace.root)
    with Journal.open(workspace.journal) as journal:
        publisher = store.Store(workspace.tracking_uri, workspace.mlflow_artifacts)
        with gallery.forking():
            sweep.run(journal, publish=lambda: publisher.publish(journal, name))
        jobs = {(job.variant.backend, job.variant.precision, job.variant.layout): job for job in sweep.plan.jobs}
        assert len(jobs) == len(sweep.plan.jobs)
        outcomes = {key: journal.outcomes.in_sweep(name, job) for key, job in jobs.items()}
    results = mlflow_rows.load(workspace.tracking_uri, name)
    (device,) = rank(results.frame, results.spec.objective, results.name).devices
    rows = results.frame.set_index(["backend", "precision", "layout"])
    return Ended(sweep.plan, outcomes, rows, device, {job.name: key for key, job in jobs.items()})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The sweep of all combinations; module-wide, since it builds ten artifacts."""
    vulkan = [GridSpec(runtime=("executorch",), backend=(backend,), precision=("fp32",)) for backend, *_ in VULKAN]
    return ended(tmp_path_factory.mktemp("whole"), GRID, *vulkan)


@pytest.mark.compiler
def test_every_possible_combination_has_an_accuracy_that_says_who_computed_it(whole: Ended) -> None:
    assert set(whole.outcomes) == CPU | CHECKED
    (facts,) = whole.plan.devices
    signed = references.names() | ExecuTorch().references() | {"cpu": facts.fingerprint}
    assert signed["nnapi"].startswith("reference:nnapi@")
    assert signed["metal"].startswith("reference:metal@")
    assert signed["vulkan"].startswith("reference:vulkan@")
    for (backend, precision, layout), outcome in whole.measured(CPU | CHECKED).items():
        accuracy = outcome.accuracy
        assert accuracy is not None
        assert accuracy.executor == signed[backend]
        assert accuracy.emulated == (backend != "cpu")
        assert accuracy.images == 8
        assert accuracy.labels == ()
        least_db = {"int8": 10.0, "fp32": 30.0 if backend == "metal" else 60.0}[precision]
        # `None` is equality to the bit.
        assert accuracy.sqnr_db is None or accuracy.sqnr_db >= least_db, (backend, precision, layout)
        assert whole.rows.loc[(backend, precision, layout), "executor"] == signed[backend]


@pytest.mark.compiler
def test_only_what_ran_on_the_cpu_has_a_time(whole: Ended) -> None:
    for outcome in whole.measured(CPU).values():
        assert outcome.timing is not None
        assert outcome.timing.rounds == 2
    assert {outcome.timing for outcome in whole.measured(CHECKED).values()} == {None}
    timed = whole.rows[whole.rows["latency_p50_ms"].notna()]
    assert set(timed.index) == CPU
    assert set(whole.rows[whole.rows["emulated"]].index) >= CHECKED
    assert not whole.rows.loc[sorted(CPU), "emulated"].any()


@pytest.mark.compiler
def test_impossible_combinations_are_rows_that_say_why(whole: Ended) -> None:
    skipped = whole.rows[whole.rows["outcome"] == "skipped"]
    assert skipped["reason"].to_dict() == IMPOSSIBLE
    assert set(whole.rows[whole.rows["outcome"] == "measured"].index) == CPU | CHECKED
    assert len(whole.rows) == len(CPU | CHECKED) + len(IMPOSSIBLE), "and there is no other row"


@pytest.mark.compiler
def test_the_ranking_holds_what_was_timed_and_beside_it_stands_what_was_only_checked(whole: Ended) -> None:
    device = whole.ranking
    assert {whole.names[candidate.name] for candidate in device.ranking} == CPU
    assert {whole.names[candidate.name] for candidate in device.checked} == CHECKED
    assert device.winner is not None
    assert whole.names[device.winner.name] in CPU
    assert {row.reason for row in device.not_ranked} == set(IMPOSSIBLE.values())
    assert len(device.not_ranked) == len(IMPOSSIBLE)


def test_without_a_compiler_nnapi_and_metal_are_skipped_and_the_cpu_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    # Nor is there anything that was compiled before.
    monkeypatch.setenv("EDGESWEEP_CACHE", str(tmp_path / "cache"))
    found = ended(tmp_path, GRID.model_copy(update={"layout": ("nchw",)}))
    cpu: set[Combination] = {("cpu", "fp32", "nchw"), ("cpu", "int8", "nchw")}
    assert set(found.outcomes) == cpu
    for outcome in found.measured(cpu).values():
        assert outcome.timing is not None
        assert outcome.accuracy is not None
    skipped = found.rows[found.rows["outcome"] == "skipped"]["reason"].to_dict()
    line = "models are checked here with a library that is compiled on first use"
    assert skipped == {
        ("nnapi", "fp32", "nchw"): f"NNAPI {line}: {INSTALL}",
        ("nnapi", "int8", "nchw"): f"NNAPI {line}: {INSTALL}",
        ("metal", "fp32", "nchw"): f"Metal {line}: {INSTALL}",
        ("metal", "int8", "nchw"): IMPOSSIBLE["metal", "int8", "nchw"],
    }
    assert "apt-get install g++" in INSTALL
    assert {found.names[candidate.name] for candidate in found.ranking.ranking} == cpu
    assert found.ranking.checked == ()
    assert not (tmp_path / "cache" / "native").exists()
