"""PyTorch eager in Python: the cost of a model before any optimisation. Torch-free except for `build`."""

from importlib import metadata
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import BuildError, EdgeSweepError
from sweeps.extras import install_line
from sweeps.manifest import Manifest
from sweeps.skip_kinds import Skip
from sweeps.spec import catalog
from sweeps.variant import Variant
from workers.forks.contained import contained
from workers.models.package import BuildInputs
from workers.runtimes.contract import KeepsContract
from workers.runtimes.eager import package_file
from workers.runtimes.eager.runner import NAME, VERSION
from workers.runtimes.interface import Program, RunnerIdentity, RunRequest

BUILDER_VERSION = "1"
"""The version, increased with every change that gives another artifact for the same variant."""


class Eager(KeepsContract):
    """The runtime `eager`: a baseline, never shipped."""

    name = "eager"
    module = "workers.runtimes.eager.runner"

    def command(self, request: RunRequest, program: str | None = None) -> list[str]:
        """See `Runtime.command`. The runner runs the model's own code, so all processes that it starts end with the
        runner."""
        return contained(super().command(request, program))

    def supports(self, variant: Variant, facts: DeviceFacts) -> Skip | None:
        """See `Runtime.supports`."""
        if variant.backend != "cpu":
            return Skip("not_of_runtime", f"eager runs on the cpu, not on {variant.backend}")
        if variant.precision != "fp32":
            return Skip(
                "not_of_runtime", f"eager is the model before anything is done to it: fp32, not {variant.precision}"
            )
        if variant.layout != "nchw":
            return Skip(
                "not_of_runtime", f"eager is the model before anything is done to it: nchw, not {variant.layout}"
            )
        if not catalog.is_host(facts.name):
            return Skip("needs_python", f"eager needs Python and torch, which {facts.name} does not have")
        return None

    def versions(self) -> dict[str, str]:
        """See `Runtime.versions`. Raises `EdgeSweepError` if torch is not installed."""
        try:
            libraries = {name: metadata.version(name) for name in ("torch", "torchvision")}
        except metadata.PackageNotFoundError as error:
            raise EdgeSweepError(f"{error.name} is not installed", install_line("workers")) from error
        return {**libraries, "builder": f"eager {BUILDER_VERSION}"}

    def runner(self) -> str:
        return f"{NAME} {VERSION}"

    def references(self) -> dict[str, str]:
        return {}

    def reference(self, backend: str, artifact: Path) -> str:
        raise BuildError("no_reference", f"eager has nothing that stands in for {backend}")

    def build(
        self, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None = None
    ) -> Manifest:
        """See `Runtime.build`."""
        from workers.runtimes.finishing import Saved, finish, request_of

        file = out / "model.zip"
        package_file.write(inputs.package, file)
        saved = Saved(file=file, operators=(), file_version=package_file.FILE_VERSION, bytecode_version=None)
        return finish(self, variant, build_key, inputs, saved, request_of(saved, variant, inputs))

    def programs(self, facts: DeviceFacts) -> dict[str, Program]:
        raise BuildError("no_runner", "eager needs Python and torch")

    def introduction(self, program: str) -> list[str]:
        raise NotImplementedError("there is no program of eager")

    def identity(self, stdout: bytes) -> RunnerIdentity:
        raise NotImplementedError("there is no program of eager")
