"""PyTorch Mobile: builds TorchScript for phones, and runs it with the Python runner. Torch-free except for `build`."""

from importlib import metadata
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import EdgeSweepError
from sweeps.extras import install_line
from sweeps.manifest import Manifest
from sweeps.skip_kinds import Skip
from sweeps.variant import Variant
from workers.models.package import BuildInputs
from workers.runtimes.contract import Profiles
from workers.runtimes.interface import Program
from workers.runtimes.torchscript import programs, references
from workers.runtimes.torchscript.runner.main import NAME, VERSION
from workers.runtimes.torchscript.supports import reason_against

BUILDER_VERSION = "2"
"""The version, increased with every change that gives another artifact for the same variant."""


class TorchScript(Profiles):
    """The runtime `torchscript`."""

    name = "torchscript"
    module = "workers.runtimes.torchscript.runner"

    def supports(self, variant: Variant, facts: DeviceFacts) -> Skip | None:
        """See `Runtime.supports`."""
        return reason_against(variant, facts)

    def versions(self) -> dict[str, str]:
        """See `Runtime.versions`. Raises `EdgeSweepError` if torch is not installed."""
        try:
            libraries = {name: metadata.version(name) for name in ("torch", "torchvision")}
        except metadata.PackageNotFoundError as error:
            raise EdgeSweepError(f"{error.name} is not installed", install_line("workers")) from error
        return {**libraries, "builder": f"torchscript {BUILDER_VERSION}"}

    def runner(self) -> str:
        return f"{NAME} {VERSION}"

    def references(self) -> dict[str, str]:
        return references.names()

    def reference(self, backend: str, artifact: Path) -> str:
        return references.library(backend)

    def build(
        self, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None = None
    ) -> Manifest:
        """See `Runtime.build`."""
        from workers.runtimes.torchscript.building import build

        return build(self, variant, build_key, inputs, out, shared)

    def programs(self, facts: DeviceFacts) -> dict[str, Program]:
        return programs.programs(facts)

    def profilers(self, facts: DeviceFacts) -> dict[str, Program]:
        return programs.profilers(facts)
