"""The runtimes beside PyTorch Mobile: what is built of one small network for their tests, and runs of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sweeps.device_facts import VIRTUAL_PHONE
from sweeps.errors import RunnerError
from sweeps.manifest import Manifest
from sweeps.planning.axes import resolve_variant
from sweeps.variant import Variant
from tests.workers.runtimes.forked_runs import FORKS
from tests.workers.runtimes.runs import asking_for
from workers.devices.local import local_facts
from workers.models.package import BuildInputs
from workers.runtimes import registry, stages
from workers.runtimes.interface import BatchRuntime, RunReport, RunRequest

AVX2, VNNI = ("avx2",), ("avx2", "avx512_vnni")

CHOICES: dict[str, dict[str, tuple[dict[str, Any], tuple[str, ...]]]] = {
    "executorch": {
        "fp32": ({}, AVX2),
        "fp32 nhwc": ({"layout": "nhwc"}, AVX2),
        "portable": ({"backend": "portable"}, AVX2),
        "static per channel": ({"precision": "int8"}, AVX2),
        "static per tensor": ({"precision": "int8", "granularity": "per_tensor"}, AVX2),
        "static nhwc": ({"precision": "int8", "layout": "nhwc"}, AVX2),
        "dynamic": ({"precision": "int8", "quantization": "dynamic"}, AVX2),
    },
    "onnxruntime": {
        "fp32": ({}, AVX2),
        "fp16": ({"precision": "fp16"}, AVX2),
        "blocked": ({"layout": "nchw16c"}, AVX2),
        "blocked fp16": ({"layout": "nchw16c", "precision": "fp16"}, AVX2),
        "static per channel": ({"precision": "int8"}, AVX2),
        "static per tensor": ({"precision": "int8", "granularity": "per_tensor"}, AVX2),
        "static for a CPU with VNNI": ({"precision": "int8"}, VNNI),
        "dynamic": ({"precision": "int8", "quantization": "dynamic"}, AVX2),
        "an older opset": ({"opset": 18}, AVX2),
    },
}
"""The builds of each runtime, by name: axes of a sweep file, and features of an x86 CPU."""

NAMES = tuple(pytest.param(name, marks=[pytest.mark.runtime(name), pytest.mark.xdist_group(name)]) for name in CHOICES)
"""For tests of each of them: builds are made on one worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A runtime with all its choices built."""

    runtime: BatchRuntime
    form: str
    built: Mapping[str, tuple[Path, Manifest]]
    stages: Mapping[str, int]
    """The number of runs of each stage."""

    def asking_for(self, name: str) -> RunRequest:
        folder, manifest = self.built[name]
        return asking_for(manifest, folder)

    def native(self) -> str:
        """The C++ runner."""
        facts = replace(local_facts(), exec_context=VIRTUAL_PHONE, abi="x86_64")
        return self.runtime.programs(facts)[self.form].path

    def ran(self, request: RunRequest, program: str | None = None) -> RunReport:
        # In a fork, where it is the Python runner: its reports are the same, and importing torch takes seconds.
        return self.runtime.parse(FORKS.run(self.runtime.command(request, program), 120.0).stdout)

    def refused(self, request: RunRequest, program: str | None = None) -> RunnerError:
        ended = FORKS.run(self.runtime.command(request, program), 120.0)
        assert ended.returncode != 0
        with pytest.raises(RunnerError) as caught:
            self.runtime.parse(ended.stdout)
        return caught.value


def variant_of(runtime: str, axes: Mapping[str, Any], features: tuple[str, ...] = AVX2) -> Variant:
    chosen = {"quantization": "static", "granularity": "auto", "graph_optimization": "all"} | dict(axes)
    return resolve_variant(Variant(runtime=runtime, **chosen), "x86_64", features)


def build_all(name: str, inputs: BuildInputs, folder: Path) -> Exported:
    """Every choice, in one process with one folder for what they share."""
    runtime = registry.get(name)
    assert isinstance(runtime, BatchRuntime)
    shared = folder / "shared"
    shared.mkdir()
    built = {}
    for choice, (axes, features) in CHOICES[name].items():
        out = folder / f"it's {choice}"
        out.mkdir()
        built[choice] = out, runtime.build(variant_of(name, axes, features), "k" * 64, inputs, out, shared)
    form = Path(built["fp32"][1].file).suffix.removeprefix(".")
    return Exported(runtime=runtime, form=form, built=built, stages=dict(stages.stages_of(shared).ran))
