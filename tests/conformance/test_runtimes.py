"""Every registered runtime keeps the same promises, whatever its toolchain: one small model, built, run and refused."""

import io
import pickle
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sweeps.errors import BuildError, RunnerError
from sweeps.manifest import Manifest
from sweeps.planning.axes import resolve_variant
from sweeps.spec import catalog
from sweeps.variant import Variant
from tests import runtimes
from tests.builders import computer_facts
from tests.workers.runtimes.runs import asking_for
from workers.models.package import BuildInputs, ModelPackage
from workers.runtimes import registry
from workers.runtimes.interface import RunRequest

SOURCE = b"""
from torch import nn

def net():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
"""
FACTS = computer_facts(runtime_versions=(), qengines=("qnnpack", "x86", "onednn"))
SHAPE = (1, 3, 16, 16)


@pytest.fixture(scope="module")
def inputs() -> BuildInputs:
    torch.manual_seed(0)
    space: dict[str, object] = {}
    exec(SOURCE, space)
    model = space["net"]()
    images = torch.randn(24, *SHAPE[1:]) + torch.randn(24, 3, 1, 1)
    state = io.BytesIO()
    torch.save(model.state_dict(), state)
    with torch.inference_mode():
        logits = model.eval()(images[:8]).numpy()
    return BuildInputs(
        package=ModelPackage(
            name="net",
            source="small:net",
            arguments={},
            files={"small.py": SOURCE},
            state=state.getvalue(),
            weights_id="random:0",
            model_source="small:net",
            input_shape=SHAPE,
        ),
        calibration=images[8:].numpy(),
        calibration_id="c" * 64,
        verification=images[:8].numpy(),
        verification_labels=None,
        verification_logits=logits,
        versions={"torch": "2"},
    )


@pytest.fixture(scope="module", params=runtimes.every())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def built(name: str, inputs: BuildInputs, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    out = tmp_path_factory.mktemp("it's built")
    return out, registry.get(name).build(variant_of(name), "k" * 64, inputs, out)


def variant_of(name: str) -> Variant:
    """The variant that is fp32 in its first backend, fused and optimized where the runtime leaves a choice."""
    backend = catalog.runtimes()[name].backends[0].name
    return resolve_variant(Variant(runtime=name, backend=backend, fuse=True, optimize=True), FACTS.abi)


def request_of(folder: Path, manifest: Manifest) -> RunRequest:
    return replace(asking_for(manifest, folder), iterations=4, warmup_iterations=2)


def test_a_runtime_names_itself_its_runner_and_its_versions(name: str) -> None:
    runtime = registry.get(name)
    assert runtime.name == name
    assert runtime.runner()
    assert runtime.versions()["builder"]
    assert runtime.versions() == registry.get(name).versions()


def test_fp32_is_supported_and_nonsense_has_a_reason(name: str) -> None:
    runtime = registry.get(name)
    assert runtime.supports(variant_of(name), FACTS) is None
    assert runtime.supports(replace(variant_of(name), backend="quill"), FACTS)
    assert runtime.supports(replace(variant_of(name), precision="int3"), FACTS)


def test_a_build_writes_its_manifest_and_nothing_that_it_does_not_name(built: tuple[Path, Manifest]) -> None:
    folder, manifest = built
    assert Manifest.read(folder) == manifest
    assert {path.name for path in folder.iterdir()} == {"manifest.json", manifest.file}
    assert (folder / manifest.file).stat().st_size == manifest.file_bytes
    assert manifest.build_key == "k" * 64
    assert manifest.verification.images == 8


def test_an_artifact_is_timed_in_a_process_of_its_own(name: str, built: tuple[Path, Manifest]) -> None:
    runtime = registry.get(name)
    ended = subprocess.run(runtime.command(request_of(*built)), capture_output=True, check=True)
    report = runtime.parse(ended.stdout)
    assert report.runner == runtime.runner()
    assert (len(report.warmup_ns), len(report.samples_ns)) == (2, 4)
    assert (report.backend_ran, report.threads_ran) == (variant_of(name).backend, 1)


def test_an_artifact_moved_elsewhere_answers_as_the_eager_model(
    name: str, built: tuple[Path, Manifest], inputs: BuildInputs, tmp_path: Path
) -> None:
    runtime, (folder, manifest) = registry.get(name), built
    moved = tmp_path / 'a "new" place'
    folder.rename(moved)
    try:
        (tmp_path / "in.bin").write_bytes(inputs.verification.tobytes())
        files = {"eval_inputs": str(tmp_path / "in.bin"), "eval_outputs": str(tmp_path / "out.bin")}
        argv = runtime.command(replace(request_of(moved, manifest), **files))
        report = runtime.parse(subprocess.run(argv, capture_output=True, check=True, cwd=Path.cwd()).stdout)
    finally:
        moved.rename(folder)
    logits = np.fromfile(tmp_path / "out.bin", "<f4").reshape(report.eval_images or 0, report.eval_classes or 0)
    np.testing.assert_allclose(logits, inputs.verification_logits, atol=1e-4)


def test_a_cut_report_is_a_runner_error(name: str, built: tuple[Path, Manifest]) -> None:
    runtime = registry.get(name)
    whole = subprocess.run(runtime.command(request_of(*built)), capture_output=True, check=True).stdout
    for length in range(0, len(whole), 7):
        with pytest.raises(RunnerError):
            runtime.parse(whole[:length])


def test_a_model_that_is_not_there_is_a_runner_error_with_a_kind(name: str, built: tuple[Path, Manifest]) -> None:
    runtime = registry.get(name)
    argv = runtime.command(replace(request_of(*built), model="/nowhere/model"))
    ended = subprocess.run(argv, capture_output=True, check=False)
    assert ended.returncode != 0
    with pytest.raises(RunnerError) as caught:
        runtime.parse(ended.stdout)
    assert caught.value.kind == "no_model"


def test_a_build_that_lost_its_answers_is_a_build_error_that_survives_pickling(
    name: str, inputs: BuildInputs, tmp_path: Path
) -> None:
    other = replace(inputs, verification_logits=-inputs.verification_logits)
    with pytest.raises(BuildError) as caught:
        registry.get(name).build(variant_of(name), "k" * 64, other, tmp_path)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.kind, again.message) == ("low_sqnr", caught.value.message)
