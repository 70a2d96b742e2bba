"""Arm's commands as a sweep, run on a virtual phone and a simulated one: an accuracy on NNAPI, and no time."""

from pathlib import Path

import pytest

import sweeps
from sweeps.journal.journal import Journal
from sweeps.protocol.presets import protocol_of
from sweeps.ranking.nnapi_gain import NOT_MEASURED
from sweeps.ranking.rank import rank
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.sweep import SweepSpec, load
from sweeps.store import mlflow as store
from tests import mlflow_rows
from tests.faulty_phone import FaultyPhone
from tests.workers.tiny_sweep import PROTOCOL, Sweep

pytestmark = pytest.mark.system

ARTICLE = Path(sweeps.__file__).parent / "specs" / "nnapi-article.yaml"


@pytest.fixture(scope="module")
def article() -> SweepSpec:
    return load(ARTICLE)


@pytest.mark.smoke
def test_the_sweep_is_what_the_article_s_commands_say(article: SweepSpec) -> None:
    protocol = protocol_of(article)
    assert (protocol.warmup_iterations, protocol.warmup_seconds) == (5, 0.0)
    assert (protocol.iterations, protocol.min_seconds) == (200, 0.0)
    # One process has no interval: the figures need one.
    assert protocol.rounds >= 3
    (model,), (grid,) = article.models, article.grids
    assert (model.source, model.input_shape) == ("mobilenet_v2", (1, 3, 224, 224))
    assert (grid.backend, grid.precision, grid.threads) == (("cpu", "nnapi"), ("fp32", "int8"), (1,))
    assert (grid.interface, grid.layout) == (("core", "full"), ("nhwc",))
    assert article.devices == ("adb:*",)


@pytest.mark.compiler
def test_where_no_phone_has_nnapi_its_figure_is_an_accuracy_and_says_so(
    article: SweepSpec, phone: FaultyPhone, tmp_path: Path
) -> None:
    (grid,) = article.grids
    grid = grid.model_copy(update={"precision": ("fp32",)})
    sweep = Sweep(
        tmp_path,
        grid,
        devices=(f"adb:{phone.serial}", "fake:steady"),
        objective=ObjectiveSpec(constraints=()),
        protocol=PROTOCOL,
    )
    workspace = sweep.workspace
    with Journal.open(workspace.journal) as journal:
        publisher = store.Store(workspace.tracking_uri, workspace.mlflow_artifacts)
        sweep.run(journal, publish=lambda: publisher.publish(journal, sweep.spec.name))
    results = mlflow_rows.load(workspace.tracking_uri, sweep.spec.name)
    nnapi = results.frame[results.frame["backend"] == "nnapi"]
    assert sorted(nnapi["outcome"]) == ["measured", "skipped"]
    assert nnapi["latency_p50_ms"].isna().all()
    figure = rank(results.frame, results.spec.objective, results.name).backends
    assert figure is not None
    assert figure.headline == NOT_MEASURED
    pairs = {pair.device_id: pair for pair in figure.pairs}
    simulated = pairs.pop("fake-steady")
    (virtual,) = pairs.values()
    assert virtual.cpu is not None
    assert virtual.cpu.p50_ms > 0
    assert virtual.nnapi is None
    assert virtual.note.startswith("NNAPI: only checked, not timed: Agreement ")
    assert virtual.note.endswith("NNAPI reference")
    assert simulated.cpu is not None
    assert simulated.note == "NNAPI: skipped: fake:steady has no NNAPI"
