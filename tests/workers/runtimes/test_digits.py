"""The demo's model on the 597 held-out digits, in the runtimes beside PyTorch Mobile, and all of them in one sweep."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from sweeps.cli.main import main
from sweeps.planning.axes import resolve_variant
from sweeps.spec import sweep as spec
from sweeps.spec.model_inputs import ModelSpec
from sweeps.variant import Variant
from sweeps.workspace import Workspace
from tests.demo_weights import demo_weights
from tests.faulty_phone import FaultyPhone
from tests.fresh_mlflow import fresh_mlflow
from tests.workers.measure.test_device_capture import GATORD
from tests.workers.runtimes import stock_stand_ins
from tests.workers.runtimes.forked_runs import FORKS
from tests.workers.runtimes.runs import answers, asking_for, evaluating
from workers.devices.adb.adb_host import AdbHost
from workers.devices.local import local_facts
from workers.models import prepare as models
from workers.models.accuracy import sqnr_db
from workers.models.package import BuildInputs, Images, Labels, Logits
from workers.runtimes import registry
from workers.runtimes.executorch import executor_runner
from workers.runtimes.executorch import native_runner as executorch_runner
from workers.runtimes.onnxruntime import native_runner as onnxruntime_runner

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("digits"), pytest.mark.usefixtures("forked_runners")]

SPEC = Path(__file__).parents[3] / "sweeps" / "specs" / "runtimes.yaml"
IMAGES = 597
ONE_POINT = IMAGES // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Digits:
    folder: Path
    inputs: BuildInputs
    images: Images
    labels: Labels
    eager: Logits

    def right(self, logits: Logits) -> int:
        return int((logits.argmax(axis=1) == self.labels).sum())


def trained(model: ModelSpec, folder: Path) -> Digits:
    data = spec.load(SPEC).data
    prepared = models.prepare(model, data, Workspace.open(folder), {"torch": "2"}, lambda *_: None)
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


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    """The demo's model."""
    folder = tmp_path_factory.mktemp("digits")
    demo_weights(folder)
    fresh_mlflow(folder)
    return trained(spec.load(SPEC).models[0], folder)


def answered(name: str, precision: str, asked: Digits, folder: Path, **axes: str) -> Logits:
    """What a build of this model answers to all digits."""
    runtime, facts = registry.get(name), local_facts()
    chosen = {"quantization": "static", "granularity": "auto", "graph_optimization": "all"} | axes
    variant = resolve_variant(Variant(runtime=name, precision=precision, **chosen), facts.abi, facts.cpu_features)
    manifest = runtime.build(variant, "k" * 64, asked.inputs, folder, asked.folder)
    request = replace(
        asking_for(manifest, folder),
        sha256=manifest.file_sha256,
        graph_optimization=variant.graph_optimization,
        **evaluating(folder, torch.from_numpy(asked.images)),
    )
    return answers(folder, runtime.parse(FORKS.run(runtime.command(request), 120.0).stdout))


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    """The small ViT, trained here."""
    model = ModelSpec(source="workers.small_vit:small_vit", weights="demo", input_shape=(1, 3, 64, 64))
    return trained(model, tmp_path_factory.mktemp("vit"))


def test_the_small_vit_learns_the_digits(vit: Digits) -> None:
    assert vit.right(vit.eager) >= 0.95 * IMAGES


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.runtime(name)) for name in ("executorch", "onnxruntime")]
)
@pytest.mark.parametrize(("quantization", "least_db"), [("dynamic", 40.0), ("static", 25.0)])
def test_int8_of_the_small_vit_keeps_its_answers(
    vit: Digits, name: str, quantization: str, least_db: float, tmp_path: Path
) -> None:
    logits = answered(name, "int8", vit, tmp_path, quantization=quantization)
    found = sqnr_db(vit.eager, logits)
    assert found is not None
    assert found >= least_db
    assert vit.right(vit.eager) - vit.right(logits) <= ONE_POINT


@pytest.mark.compiler
@pytest.mark.runtime("executorch")
@pytest.mark.runtime("onnxruntime")
def test_one_sweep_ranks_the_three_runtimes_here_and_on_two_phones(
    digits: Digits, port: int, phones: list[FaultyPhone]
) -> None:
    """With the answers of the eager model to all digits on each, by runners in Python and C++."""
    text = SPEC.read_text(encoding="utf-8")
    head, _, _ = text.partition("grids:\n")
    file = digits.folder / "three.yaml"
    file.write_text(
        f"{head}grids:\n"
        "  - {runtime: [torchscript, executorch, onnxruntime], precision: [fp32], layout: [nhwc], capture: [trace]}\n"
        "  - {runtime: [executorch, onnxruntime], precision: [int8], layout: [nhwc]}\n"
        f"devices: [local, {', '.join(json.dumps(f'adb:{phone.serial}') for phone in phones)}]\n"
        "protocol: {preset: quick, rounds: 2, warmup_seconds: 0.05, min_seconds: 0.1, iterations: 5, gate: none}\n"
    )
    host = AdbHost(port)
    assert all(host.connect(phone.serial) for phone in phones)
    for command in (["run", str(file), "--executor", "inline"], ["rank", "--json"]):
        done = CliRunner().invoke(main, [*command, "--workspace", str(digits.folder)])
        assert done.exit_code == 0, done.output
    devices = json.loads(done.stdout)["devices"]
    kinds = []
    for device in devices:
        ranked: list[dict[str, Any]] = device["ranking"]
        assert (len(ranked), device["not_ranked"]) == (5, [])
        for one in ranked:
            least_db = 25.0 if "int8" in one["name"] else 60.0
            assert one["sqnr_db"] is None or one["sqnr_db"] >= least_db, one["name"]
            right = round(one["top1_percent"] * IMAGES / 100)
            lost = digits.right(digits.eager) - right
            assert lost <= ONE_POINT if "int8" in one["name"] else (lost, one["agreement_percent"]) == (0, 100.0)
        assert all(one["latency_p50_ms"] > 0 and one["artifact_mb"] > 0 for one in ranked)
        kind = ranked[0]["runner"].partition("-")[0]
        kinds.append(kind)
        extra = {one["runner"].partition(" ")[0]: one.get("extra_metrics", {}) for one in ranked}
        assert {*extra} == {f"{kind}-{name}" for name in ("torchscript", "executorch", "onnxruntime")}
        assert extra[f"{kind}-executorch"]["delegated_percent"] == 100.0
        assert all(one["runtime_mb"] > 5 for one in extra.values())
    assert sorted(kinds) == ["native", "native", "python"]
    # The builds of that sweep, operator by operator, here and on a phone.
    kept = []
    for device in ("local", f"adb:{phones[0].serial}"):
        for name in [one["name"] for one in devices[0]["ranking"] if "fp32" in one["name"]]:
            argv = ["profile", name, "--device", device, "--iterations", "3", "--json"]
            done = CliRunner().invoke(main, [*argv, "--workspace", str(digits.folder)])
            assert done.exit_code == 0, done.output
            told = json.loads(done.stdout)
            assert (told["label"], told["iterations"]) == ("profiled", 3)
            assert any("conv" in one["name"].lower() for one in told["operators"]), name
            kept.append(Path(told["trace"]))
            assert json.loads(kept[-1].read_text())["traceEvents"]
    # What stands in for the programs of a phone, and for one that the user names, says that it recorded nothing.
    gatord = digits.folder / "gatord"
    gatord.write_text(GATORD)
    gatord.chmod(0o755)
    for named in (f"gatord={gatord}", "perfetto", "simpleperf"):
        name = named.partition("=")[0]
        argv = ["profile", devices[0]["ranking"][0]["name"], "--device", f"adb:{phones[0].serial}", "--capture", named]
        done = CliRunner().invoke(main, [*argv, "--json", "--workspace", str(digits.folder)])
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout)
        assert (told["label"], told["capture"], told["operators"]) == ("profiled", name, [])
        assert told["iterations"] >= 20
        kept.append(Path(told["trace"]))
        assert f"stand-in for {name}".encode() in kept[-1].read_bytes()
    # Each lies with the run of its job too.
    logged = {file.read_bytes() for file in Workspace(digits.folder).mlflow_artifacts.glob("**/profiles/*")}
    assert {file.read_bytes() for file in kept} < logged
    refused = CliRunner().invoke(main, [*argv[:3], "local", *argv[4:], "--workspace", str(digits.folder)])
    assert refused.exit_code == 1
    assert "captures are taken on phones and boards" in refused.output
    # Python stands in for Vulkan, which no phone has.
    file.write_text(
        file.read_text().replace(
            "[executorch, onnxruntime], precision: [int8]", "[executorch], backend: [vulkan], precision: [fp32]"
        )
    )
    planned = CliRunner().invoke(main, ["plan", str(file), "--json", "--workspace", str(digits.folder)])
    assert planned.exit_code == 0, planned.output
    document = json.loads(planned.stdout)
    assert [job["emulated"] for job in document["jobs"] if "vulkan" in job["name"]] == [True]
    assert len(document["skipped"]) == len(phones)
    assert all("was compiled without Vulkan" in one["reason"] for one in document["skipped"])


@pytest.mark.compiler
@pytest.mark.runtime("executorch")
@pytest.mark.runtime("onnxruntime")
def test_the_runtimes_own_tools_are_ranked_and_say_what_they_do_not_tell(
    digits: Digits, port: int, phones: list[FaultyPhone], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "runners" / local_facts().abi
    folder.mkdir(parents=True)
    shape = digits.inputs.package.input_shape
    stock_stand_ins.executor_runner(
        folder / "executor_runner", str(executorch_runner.program()), shape, "channels_last"
    )
    stock_stand_ins.perf_test(folder / "onnxruntime_perf_test", str(onnxruntime_runner.program()), shape)
    monkeypatch.setenv("EDGESWEEP_RUNNERS", str(folder.parent))
    monkeypatch.setattr(executor_runner, "MAX_IMAGES", 5)
    head, _, _ = SPEC.read_text(encoding="utf-8").partition("grids:\n")
    # Other images than those on which EdgeSweep's runner evaluated the same builds.
    head = head.replace("evaluation: {source: digits}", "evaluation: {source: digits, images: 50}")
    file = digits.folder / "tools.yaml"
    file.write_text(
        f"{head}grids:\n  - {{runtime: [executorch, onnxruntime], precision: [fp32], layout: [nhwc]}}\n"
        f"devices: [{json.dumps(f'adb:{phones[1].serial}')}]\n"
        "protocol: {preset: quick, rounds: 2, warmup_seconds: 0.02, min_seconds: 0.05, iterations: 5, gate: none}\n"
    )
    assert AdbHost(port).connect(phones[1].serial)
    for command in (["run", str(file), "--executor", "inline"], ["rank", "--json"]):
        done = CliRunner().invoke(main, [*command, "--workspace", str(digits.folder)])
        assert done.exit_code == 0, done.output
    [device] = json.loads(done.stdout)["devices"]
    assert device["not_ranked"] == []
    found = {one["runner"].partition(" ")[0]: one for one in device["ranking"]}
    assert found.keys() == {"executor_runner", "onnxruntime_perf_test"}
    executorch, onnxruntime = found["executor_runner"], found["onnxruntime_perf_test"]
    assert {"mean_only", "part_of_images"} <= {*executorch["trust"]}
    assert not {"threads_unknown", "host_answers"} & {*executorch["trust"]}
    assert (executorch["latency_p90_ms"], executorch["load_ms"], executorch["agreement_percent"]) == (None, None, 100.0)
    assert "host_answers" in onnxruntime["trust"]
    assert not {"threads_unknown", "mean_only", "part_of_images"} & {*onnxruntime["trust"]}
    assert onnxruntime["load_ms"] > 0
    assert onnxruntime["agreement_percent"] == 100.0
