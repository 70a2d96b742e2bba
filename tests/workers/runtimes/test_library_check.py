"""Libraries that do not work together are found before the first model of a user's is built with them."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeps.errors import BuildError, EdgeSweepError
from sweeps.manifest import Manifest
from sweeps.planning.axes import resolve_variant
from sweeps.records import Failed
from sweeps.spec import catalog
from sweeps.spec.grid import GridSpec
from sweeps.spec.toolchains import toolchain
from sweeps.variant import Variant
from tests.workers.tiny_model import tiny_inputs
from tests.workers.tiny_sweep import Sweep
from tests.workers.toolchains.releases import RUNS_NOTHING
from workers.artifacts import TRANSIENT_KINDS, PackedArtifact
from workers.executors.inline import InlineExecutor
from workers.executors.interface import BuildRequest
from workers.models.package import BuildInputs
from workers.native.compiler import cache_folder
from workers.runtimes import library_check, registry
from workers.runtimes.onnxruntime.runtime import OnnxRuntime
from workers.toolchains import environments, run_with_packages

RELEASE = "onnxruntime==1.30.9"
INFO = {"onnxruntime-1.30.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: onnxruntime\nVersion: 1.30.9\n"}


def request_for(key: str, release: str) -> BuildRequest:
    variant = Variant(runtime="onnxruntime", toolchain=release, runner_toolchain=release)
    return BuildRequest(key * 64, resolve_variant(variant, "x86_64"), tiny_inputs())


@pytest.mark.system
@pytest.mark.runtime("onnxruntime")
def test_a_release_that_exports_and_cannot_run_is_one_error_with_its_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESWEEP_CACHE", str(tmp_path / "it's a cache"))
    folder = environments.folder_of(toolchain(RELEASE))
    files = RUNS_NOTHING | INFO
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    sizes = {name: len(text) for name, text in files.items()}
    (folder / run_with_packages.MARKER).write_text(json.dumps({"toolchain": RELEASE, "files": sizes}))
    torch = registry.get("onnxruntime").versions()["torch"]
    executor = InlineExecutor(tmp_path / "results")
    try:
        requests = [request_for("a", RELEASE), request_for("b", RELEASE), request_for("c", "installed")]
        outcomes = {
            request.build_key[0]: outcome for request, outcome in executor.build(requests, lambda: False) if outcome
        }
    finally:
        executor.close()
    for key in ("a", "b"):
        failed = outcomes[key]
        assert isinstance(failed, Failed)
        assert failed.kind == "runtime_broken"
        assert failed.kind in TRANSIENT_KINDS
        for words in (f"torch {torch}", "onnxruntime 1.30.9", "tensor does not have a device"):
            assert words in failed.message
    assert isinstance(outcomes["c"], PackedArtifact), outcomes["c"]
    # The only mark is of the installed release: it worked, and is not tried again.
    (trial,) = [file.name for file in (cache_folder() / "tried").iterdir() if file.suffix != ".lock"]
    assert trial.startswith("onnxruntime-")
    # The user's model was exported with the installed one only.
    assert len([*(tmp_path / "results" / "stages").glob("*.pt")]) == 1


class NoInt8(OnnxRuntime):
    """Libraries of which the part that makes int8 does not fit."""

    def build(
        self, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None = None
    ) -> Manifest:
        if variant.precision == "int8":
            assert len(inputs.calibration)
            raise ImportError("cannot import name 'quantize_pt2e'")
        return super().build(variant, build_key, inputs, out, shared)


@pytest.mark.system
@pytest.mark.runtime("onnxruntime")
def test_each_precision_is_tried_where_it_is_first_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESWEEP_CACHE", str(tmp_path))
    monkeypatch.setattr(library_check, "_broken", {})
    runtime = NoInt8()
    library_check.check(runtime, "installed", "fp32")
    with pytest.raises(BuildError, match=r"a tiny model in int8: ImportError: cannot import name") as caught:
        library_check.check(runtime, "installed", "int8")
    assert caught.value.kind == "runtime_broken"
    library_check.check(runtime, "installed", "fp32")
    monkeypatch.setattr(library_check, "_broken", {})  # another process would begin so
    library_check.check(OnnxRuntime(), "installed", "int8")


class Recorded(OnnxRuntime):
    """Builds nothing, and remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.trials: list[tuple[str, str, str]] = []

    def build(
        self, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None = None
    ) -> Any:  # the trial does not look at it
        self.trials.append((variant.backend, variant.precision, variant.quantization))


@pytest.mark.runtime("onnxruntime")
def test_what_is_tried_is_a_variant_that_the_runtime_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESWEEP_CACHE", str(tmp_path))
    whole = catalog.runtimes()["onnxruntime"]
    runtime = Recorded()
    library_check.check(runtime, "installed", "int8")
    assert runtime.trials == [("cpu", "int8", "static")]
    # Another package's, of the same libraries: what was tried above says nothing of its method.
    npu = replace(whole.backends[0], name="npu")
    other = replace(whole, backends=(npu,), values={**whole.values, "quantization": ("dynamic",)})
    monkeypatch.setitem(catalog.runtimes(), "onnxruntime", other)
    library_check.check(runtime, "installed", "int8")
    library_check.check(runtime, "installed", "int8")
    assert runtime.trials[1:] == [("npu", "int8", "dynamic")]


def test_an_installed_release_that_pairs_with_another_torch_is_refused_by_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "executorch-1.5.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: executorch\nVersion: 1.5.1\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(EdgeSweepError, match=r"executorch 1\.5\.1 pairs with torch 2\.14, and torch 2\.12") as caught:
        Sweep(tmp_path, GridSpec(runtime=("torchscript", "executorch"), precision=("fp32",)))
    assert caught.value.next_step == "pip install 'executorch==1.3.*'"
