"""What the benchmarks of the runtimes measure: builds of one model in each, run by either runner in fresh processes."""

import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from recipe_case import say

from sweeps.device_facts import VIRTUAL_PHONE
from sweeps.planning.axes import resolve_variant
from sweeps.spec import sweep as spec
from sweeps.variant import Variant
from sweeps.workspace import Workspace
from workers.devices.local import local_facts
from workers.models import prepare as models
from workers.models.package import BuildInputs
from workers.runtimes import registry
from workers.runtimes.interface import RunRequest, Runtime

SPEC = Path(__file__).resolve().parents[2] / "sweeps" / "specs" / "runtimes.yaml"
MOBILE = "torchscript"
BUILDS: Mapping[str, Sequence[Mapping[str, object]]] = {
    MOBILE: [
        {"layout": "nhwc", "capture": "trace", "fuse": True, "optimize": True},
        {"layout": "nhwc", "capture": "trace", "fuse": True, "optimize": True, "format": "ptl"},
        {"layout": "nhwc", "capture": "script", "fuse": True, "optimize": True},
        {"layout": "nhwc", "capture": "script", "fuse": True, "optimize": True, "format": "ptl"},
        {"layout": "nchw", "capture": "trace", "fuse": True, "optimize": True},
    ],
    "executorch": [{"layout": "nchw"}, {"layout": "nhwc"}],
    "onnxruntime": [{"layout": "nchw"}, {"layout": "nchw16c"}],
}
"""By runtime, its fp32 builds that may be the fastest."""


IN_A_ROW = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A build, and how to time it."""

    runtime: Runtime
    request: RunRequest
    program: str
    """The C++ runner."""

    def native_ms(self) -> list[float]:
        """What each iteration of one block of the C++ runner took, in a fresh process."""
        return self._samples_ms(self.program)

    def python_ms(self) -> list[float]:
        """As `native_ms`, of the Python runner."""
        return self._samples_ms(None)

    def _samples_ms(self, program: str | None) -> list[float]:
        ended = subprocess.run(self.runtime.command(self.request, program), capture_output=True, check=False)
        return [ns / 1e6 for ns in self.runtime.parse(ended.stdout).samples_ns]


def digits(folder: Path) -> BuildInputs:
    """The demo's model at 64x64, trained here."""
    say("training the model")
    sweep = spec.load(SPEC)
    workspace = Workspace.open(folder)
    return models.prepare(sweep.models[0], sweep.data, workspace, {"torch": "2"}, lambda *_: None).build_inputs


def possible(runtime: str, choices: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Without those that a plan would skip on this machine."""
    facts = local_facts()
    variants = (resolve_variant(_variant(runtime, axes), facts.abi, facts.cpu_features) for axes in choices)
    refused = [registry.get(runtime).supports(variant, facts) for variant in variants]
    return [axes for axes, reason in zip(choices, refused, strict=True) if reason is None]


def build(runtime: str, axes: Mapping[str, object], inputs: BuildInputs, folder: Path, block: tuple[int, int]) -> Case:
    """An fp32 build in a folder of its own. `block`: iterations that warm up, and that are timed."""
    say(f"building {runtime} {' '.join(map(str, axes.values()))}")
    facts = local_facts()
    phone = replace(facts, exec_context=VIRTUAL_PHONE, python="")
    one = registry.get(runtime)
    out = folder / f"{runtime}-{len(list(folder.iterdir()))}"
    out.mkdir()
    variant = resolve_variant(_variant(runtime, axes), facts.abi, facts.cpu_features)
    manifest = one.build(variant, "0" * 64, inputs, out, folder)
    request = RunRequest(
        model=str(out / manifest.file),
        backend="cpu",
        engine="none",
        threads=1,
        cpus="all",
        input_shape=manifest.input.shape,
        memory_format=manifest.memory_format,
        warmup_iterations=block[0],
        iterations=block[1],
        sha256=manifest.file_sha256,
        graph_optimization=variant.graph_optimization,
    )
    return Case(runtime=one, request=request, program=one.programs(phone)[variant.format].path)


def _variant(runtime: str, axes: Mapping[str, object]) -> Variant:
    return Variant(runtime=runtime, **axes)  # type: ignore[arg-type]


def fastest_ms(blocks: Sequence[Sequence[float]]) -> float:
    """The lowest median of 40 iterations in a row: those in which a shared machine took least. What an arm does more
    rarely than in every second of 40 iterations is not in it, but in the medians of whole blocks."""
    return min(
        statistics.median(block[start : start + IN_A_ROW])
        for block in blocks
        for start in range(0, len(block) - IN_A_ROW + 1, IN_A_ROW // 2)
    )
