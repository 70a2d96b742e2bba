"""ONNX Runtime: builds ONNX files, and runs them with the Python runner. Torch-free except for `build`."""

import subprocess
import sys
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import BuildError
from sweeps.manifest import Manifest
from sweeps.skip_kinds import Skip
from sweeps.variant import Variant
from workers.models.package import BuildInputs
from workers.runtimes import operator_profile, registry
from workers.runtimes.contract import Profiles, arguments, with_sha256
from workers.runtimes.interface import Program, RunRequest
from workers.runtimes.onnxruntime import profile, programs
from workers.runtimes.onnxruntime.runner import NAME, PROVIDERS, VERSION
from workers.runtimes.onnxruntime.supports import reason_against

BUILDER_VERSION = "1"
"""The version, increased with every change that gives another artifact for the same variant."""

_ASK = [sys.executable, "-P", "-c", "import onnxruntime; print(*onnxruntime.get_available_providers())"]
_ASK_S = 60.0


class OnnxRuntime(Profiles):
    """The runtime `onnxruntime`."""

    name = "onnxruntime"
    module = "workers.runtimes.onnxruntime.runner"

    def supports(self, variant: Variant, facts: DeviceFacts) -> Skip | None:
        """See `Runtime.supports`."""
        return reason_against(variant, facts)

    def versions(self) -> dict[str, str]:
        """See `Runtime.versions`. Raises `EdgeSweepError` if a library is not installed."""
        libraries = registry.versions(self.name, "torch", "torchvision", "onnx", "onnxscript", "onnxruntime")
        return {**libraries, "builder": f"{self.name} {BUILDER_VERSION}"}

    def runner(self) -> str:
        return f"{NAME} {VERSION}"

    def references(self) -> dict[str, str]:
        return {}

    def reference(self, backend: str, artifact: Path) -> str:
        raise BuildError("no_reference", f"onnxruntime has nothing that stands in for {backend}")

    def build(
        self, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None = None
    ) -> Manifest:
        """See `Runtime.build`."""
        from workers.runtimes.onnxruntime.building import build

        return build(self, variant, build_key, inputs, out, shared)

    def parse_profile(self, stdout: bytes) -> operator_profile.Profile:
        return operator_profile.parse(stdout, profile.operators)

    def profiled_as(self, backend: str) -> str:
        """See `PartitioningRuntime.profiled_as`."""
        return "" if backend == "cpu" else PROVIDERS.get(backend, "")

    def backends_here(self) -> tuple[str, ...]:
        """See `InstalledRuntime.backends_here`: the wheels of macOS have Core ML, `onnxruntime-qnn` has QNN."""
        try:
            ended = subprocess.run(_ASK, capture_output=True, timeout=_ASK_S, check=True, text=True)  # noqa: S603  # our own words
        except (OSError, subprocess.SubprocessError):
            return ()  # Another check reports what is not installed.
        available = ended.stdout.split()
        return tuple(backend for backend, provider in PROVIDERS.items() if provider in available)

    def programs(self, facts: DeviceFacts) -> dict[str, Program]:
        return programs.programs(facts)

    def programs_of(self, facts: DeviceFacts, toolchain: str) -> dict[str, Program]:
        """See `ReleaseRuntime.programs_of`."""
        return programs.programs(facts, toolchain)

    def releases(self, facts: DeviceFacts) -> tuple[str, ...]:
        """See `ReleaseRuntime.releases`."""
        return programs.releases(facts)

    def arguments(self, request: RunRequest) -> list[str]:
        own = ["--graph-optimization", request.graph_optimization]
        return [*arguments(request), *own, *with_sha256(request)]
