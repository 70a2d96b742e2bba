"""ONNX Runtime: builds ONNX files, and runs them with the Python runner. Torch-free except for `build`."""

from collections.abc import Sequence
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import BuildError
from sweeps.manifest import Manifest
from sweeps.variant import Variant
from workers.models.package import BuildInputs
from workers.runtimes import registry
from workers.runtimes.interface import BatchOutcome, Program, RunnerIdentity, RunReport, RunRequest
from workers.runtimes.onnxruntime import programs
from workers.runtimes.onnxruntime.runner import NAME, VERSION
from workers.runtimes.onnxruntime.supports import reason_against
from workers.runtimes.torchscript.runtime import TorchScript, arguments, batch_of, python_module

BUILDER_VERSION = "1"
"""Increased with every change that gives another artifact for the same variant."""
_MODULE = "workers.runtimes.onnxruntime.runner"


class OnnxRuntime:
    """The runtime `onnxruntime`."""

    name = "onnxruntime"

    def supports(self, variant: Variant, facts: DeviceFacts) -> str | None:
        """See `Runtime.supports`."""
        return reason_against(variant, facts)

    def versions(self) -> dict[str, str]:
        """See `Runtime.versions`. Raises `EdgeSweepError` if a library is not installed."""
        found = registry.versions(self.name, "torch", "torchvision", "onnx", "onnxscript", "onnxruntime")
        return {**found, "builder": f"{self.name} {BUILDER_VERSION}"}

    def runner(self) -> str:
        return f"{NAME} {VERSION}"

    def references(self) -> dict[str, str]:
        return {}

    def reference(self, backend: str) -> str:
        raise BuildError("no_reference", f"onnxruntime has nothing that stands in for {backend}")

    def build(
        self, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None = None
    ) -> Manifest:
        """See `Runtime.build`."""
        from workers.runtimes.onnxruntime.building import build

        return build(self, variant, build_key, inputs, out, shared)

    def programs(self, facts: DeviceFacts) -> dict[str, Program]:
        return programs.programs(facts)

    def introduction(self, program: str) -> list[str]:
        return TorchScript().introduction(program)

    def identity(self, stdout: bytes) -> RunnerIdentity:
        return TorchScript().identity(stdout)

    def command(self, request: RunRequest, program: str | None = None) -> list[str]:
        """Of `program`, else of the Python runner in this interpreter. Both take the same arguments."""
        return python_module(_MODULE, program) + _arguments(request)

    def parse(self, stdout: bytes) -> RunReport:
        return TorchScript().parse(stdout)

    def batch_file(self, requests: Sequence[RunRequest]) -> bytes:
        return batch_of(requests, _arguments)

    def batch_command(self, file: str, item_seconds: float, program: str | None = None) -> list[str]:
        return [*python_module(_MODULE, program), "--batch", file, "--item-seconds", repr(item_seconds)]

    def parse_batch(self, stdout: bytes, artifacts: Sequence[str]) -> list[BatchOutcome]:
        return TorchScript().parse_batch(stdout, artifacts)


def _arguments(request: RunRequest) -> list[str]:
    argv = [*arguments(request), "--graph-optimization", request.graph_optimization]
    return argv + (["--sha256", request.sha256] if request.sha256 else [])
