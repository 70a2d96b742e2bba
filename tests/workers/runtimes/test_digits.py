"""The demo's model on the 597 held-out digits, in the runtimes beside PyTorch Mobile, and all of them in one sweep."""

import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.planning.axes import resolve_variant
from sweeps.spec import sweep as spec
from sweeps.variant import Variant
from sweeps.workspace import Workspace
from tests import runtimes
from tests.workers.runtimes.runs import answers, asking_for, evaluating
from workers.devices.local import local_facts
from workers.models import prepare as models
from workers.models.accuracy import sqnr_db
from workers.models.package import BuildInputs, Images, Labels, Logits
from workers.runtimes import registry

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("digits")]

SPEC = Path(__file__).parents[3] / "sweeps" / "specs" / "runtimes.yaml"
IMAGES = 597


@dataclass(frozen=True, slots=True, kw_only=True)
class Digits:
    folder: Path
    inputs: BuildInputs
    images: Images
    labels: Labels
    eager: Logits

    def right(self, logits: Logits) -> int:
        return int((logits.argmax(axis=1) == self.labels).sum())


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    """The demo's model, trained here."""
    folder = tmp_path_factory.mktemp("digits")
    sweep = spec.load(SPEC)
    prepared = models.prepare(sweep.models[0], sweep.data, Workspace.open(folder), {"torch": "2"}, lambda *_: None)
    evaluation = prepared.evaluation
    assert evaluation.labels is not None
    assert len(evaluation) == IMAGES
    return Digits(
        folder=folder,
        inputs=prepared.build_inputs,
        images=evaluation.images,
        labels=evaluation.labels,
        eager=prepared.evaluation_logits,
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.runtime(name)) for name in ("executorch", "onnxruntime")]
)
@pytest.mark.parametrize(("precision", "least_db"), [("fp32", 60.0), ("int8", 25.0)])
def test_the_answers_on_all_digits_are_those_of_the_eager_model(
    digits: Digits, name: str, precision: str, least_db: float, tmp_path: Path
) -> None:
    runtime, facts = registry.get(name), local_facts()
    chosen = Variant(
        runtime=name, precision=precision, quantization="static", granularity="auto", graph_optimization="all"
    )
    variant = resolve_variant(chosen, facts.abi, facts.cpu_features)
    manifest = runtime.build(variant, "k" * 64, digits.inputs, tmp_path, digits.folder)
    request = replace(
        asking_for(manifest, tmp_path),
        sha256=manifest.file_sha256,
        graph_optimization=variant.graph_optimization,
        **evaluating(tmp_path, torch.from_numpy(digits.images)),
    )
    ended = subprocess.run(runtime.command(request), capture_output=True, check=True)
    logits = answers(tmp_path, runtime.parse(ended.stdout))
    found = sqnr_db(digits.eager, logits)
    assert found is None or found >= least_db
    if precision == "fp32":
        np.testing.assert_array_equal(logits.argmax(axis=1), digits.eager.argmax(axis=1))
    else:
        # One point.
        assert digits.right(digits.eager) - digits.right(logits) <= IMAGES // 100


@pytest.mark.skipif(bool(runtimes.lack("executorch") or runtimes.lack("onnxruntime")), reason="needs all runtimes")
def test_one_sweep_ranks_the_three_runtimes(digits: Digits) -> None:
    text = SPEC.read_text(encoding="utf-8")
    head, _, rest = text.partition("grids:\n")
    grid = (
        "  - {runtime: [torchscript, executorch, onnxruntime], precision: [fp32], layout: [nhwc], capture: [trace]}\n"
    )
    portable = "  - {runtime: [executorch], backend: [portable], precision: [fp32]}\n"
    file = digits.folder / "three.yaml"
    file.write_text(f"{head}grids:\n{grid}{portable}\nprotocol:{rest.partition('protocol:')[2]}")
    for command in (["run", str(file), "--executor", "inline"], ["rank", "--json"]):
        done = CliRunner().invoke(main, [*command, "--workspace", str(digits.folder)])
        assert done.exit_code == 0, done.output
    (device,) = json.loads(done.stdout)["devices"]
    ranked: list[dict[str, Any]] = device["ranking"]
    assert len(ranked) == 4
    assert device["not_ranked"] == []
    assert {one["top1_percent"] for one in ranked} == {100 * digits.right(digits.eager) / IMAGES}
    usual = [one for one in ranked if "portable" not in one["name"]]
    extra = {one["runner"].partition(" ")[0]: one.get("extra_metrics", {}) for one in usual}
    assert extra["python-executorch"]["delegated_percent"] == 100.0
    assert extra["python-executorch"]["runtime_mb"] > 5
    assert extra["python-onnxruntime"]["runtime_mb"] > 5
    # Portable kernels are there to fall back to, and slow.
    (slow,) = (one for one in ranked if "portable" in one["name"])
    assert slow["latency_p50_ms"] > 5 * min(one["latency_p50_ms"] for one in usual)
