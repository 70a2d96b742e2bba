"""ExecuTorch: builds pte files, and runs them with the Python runner. Torch-free except for `build`."""

from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import BuildError
from sweeps.manifest import Manifest
from sweeps.skip_kinds import Skip
from sweeps.variant import Variant
from workers.models.package import BuildInputs
from workers.runtimes import registry
from workers.runtimes.contract import Profiles, arguments, with_sha256
from workers.runtimes.executorch import native_runner, programs, vulkan_reference
from workers.runtimes.executorch.runner import NAME, VERSION
from workers.runtimes.executorch.supports import reason_against
from workers.runtimes.interface import Program, RunRequest

BUILDER_VERSION = "2"
"""The version, increased with every change that gives another artifact for the same variant."""


class ExecuTorch(Profiles):
    """The runtime `executorch`."""

    name = "executorch"
    module = "workers.runtimes.executorch.runner"

    def supports(self, variant: Variant, facts: DeviceFacts) -> Skip | None:
        """See `Runtime.supports`."""
        return reason_against(variant, facts)

    def versions(self) -> dict[str, str]:
        """See `Runtime.versions`. Raises `EdgeSweepError` if a library is not installed."""
        libraries = registry.versions(self.name, "torch", "torchvision", "executorch", "torchao")
        return {**libraries, "builder": f"{self.name} {BUILDER_VERSION}"}

    def runner(self) -> str:
        return f"{NAME} {VERSION}"

    def references(self) -> dict[str, str]:
        return {"vulkan": f"reference:vulkan@{vulkan_reference.version()}"}

    def reference(self, backend: str, artifact: Path) -> str:
        """Return the path of the exported model, from which the Python runner lowers the graph that Vulkan gets. Raises
        `BuildError`."""
        file = artifact / vulkan_reference.FILE
        if backend != "vulkan" or not file.is_file():
            raise BuildError(
                "no_reference",
                f"there is no {file.name} of this build that stands in for {backend}",
                f"delete {artifact}, and run the sweep again: it is built anew",
            )
        return str(file)

    def build(
        self, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None = None
    ) -> Manifest:
        """See `Runtime.build`."""
        from workers.runtimes.executorch.building import build

        return build(self, variant, build_key, inputs, out, shared)

    def programs(self, facts: DeviceFacts) -> dict[str, Program]:
        return programs.programs(facts)

    def arguments(self, request: RunRequest) -> list[str]:
        return [*arguments(request), *with_sha256(request)]

    def profile_command(
        self, request: RunRequest, iterations: int, warmup: int, program: str | None = None
    ) -> list[str]:
        """Return the command of the C++ runner, on this host too: the library for Python was compiled without its event
        tracer. Raises `BuildError`."""
        return super().profile_command(request, iterations, warmup, program or str(native_runner.program()))
