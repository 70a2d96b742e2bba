"""PyTorch eager in Python: the cost of a model before any optimisation. Torch-free except for `build`."""

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import BuildError, EdgeSweepError
from sweeps.manifest import Manifest
from sweeps.spec import catalog
from sweeps.variant import Variant
from workers.models.package import BuildInputs
from workers.runtimes.eager import package_file
from workers.runtimes.eager.runner import NAME, VERSION
from workers.runtimes.interface import BatchOutcome, Program, RunnerIdentity, RunReport, RunRequest
from workers.runtimes.torchscript.runtime import TorchScript

BUILDER_VERSION = "1"
"""Increased with every change that gives another artifact for the same variant."""


class Eager:
    """The runtime `eager`: a baseline, never shipped."""

    name = "eager"

    def supports(self, variant: Variant, facts: DeviceFacts) -> str | None:
        """See `Runtime.supports`."""
        if variant.backend != "cpu":
            return f"eager runs on the cpu, not on {variant.backend}"
        if variant.precision != "fp32":
            return f"eager is the model before anything is done to it: fp32, not {variant.precision}"
        if variant.layout != "nchw":
            return f"eager is the model before anything is done to it: nchw, not {variant.layout}"
        if not catalog.is_host(facts.name):
            return f"eager needs Python and torch, which {facts.name} does not have"
        return None

    def versions(self) -> dict[str, str]:
        """See `Runtime.versions`. Raises `EdgeSweepError` if torch is not installed."""
        try:
            libraries = {name: metadata.version(name) for name in ("torch", "torchvision")}
        except metadata.PackageNotFoundError as error:
            raise EdgeSweepError(f"{error.name} is not installed", "pip install 'edgesweep[workers]'") from error
        return {**libraries, "builder": f"eager {BUILDER_VERSION}"}

    def runner(self) -> str:
        return f"{NAME} {VERSION}"

    def references(self) -> dict[str, str]:
        return {}

    def reference(self, backend: str) -> str:
        raise BuildError("no_reference", f"eager has nothing that stands in for {backend}")

    def build(
        self, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None = None
    ) -> Manifest:
        """See `Runtime.build`."""
        from workers.runtimes.torchscript.building import Built, write_manifest
        from workers.runtimes.torchscript.pipeline import tensor_spec
        from workers.runtimes.torchscript.save import Saved
        from workers.runtimes.torchscript.verify import Standard, least_sqnr_db, verify

        package = inputs.package
        file = out / "model.zip"
        package_file.write(package, file)
        request = RunRequest(
            model=str(file),
            backend=variant.backend,
            engine="none",
            threads=1,
            cpus="all",
            input_shape=package.input_shape,
            memory_format="contiguous_format",
        )
        standard = Standard(
            logits=inputs.verification_logits,
            against="fp32 eager",
            least_sqnr_db=least_sqnr_db(variant, settled=package.weights_id.startswith("random:")),
        )
        verification, classes = verify(variant, request, self.command, self.parse, inputs, standard)
        return write_manifest(
            self,
            variant,
            build_key,
            inputs,
            Built(
                saved=Saved(file=file, operators=(), file_version=package_file.FILE_VERSION, bytecode_version=None),
                memory_format=request.memory_format,
                input=tensor_spec(package.input_shape, None),
                output=tensor_spec((package.input_shape[0], classes), None),
                verification=verification,
            ),
        )

    def programs(self, facts: DeviceFacts) -> dict[str, Program]:
        raise BuildError("no_runner", "eager needs Python and torch")

    def introduction(self, program: str) -> list[str]:
        raise NotImplementedError("there is no program of eager")

    def identity(self, stdout: bytes) -> RunnerIdentity:
        raise NotImplementedError("there is no program of eager")

    def command(self, request: RunRequest, program: str | None = None) -> list[str]:
        """The argument list of PyTorch Mobile's runner, but with the module `workers.runtimes.eager.runner`."""
        return _own_module(TorchScript().command(request))

    def parse(self, stdout: bytes) -> RunReport:
        return TorchScript().parse(stdout)

    def batch_file(self, requests: Sequence[RunRequest]) -> bytes:
        return TorchScript().batch_file(requests)

    def batch_command(self, file: str, item_seconds: float, program: str | None = None) -> list[str]:
        return _own_module(TorchScript().batch_command(file, item_seconds))

    def parse_batch(self, stdout: bytes, artifacts: Sequence[str]) -> list[BatchOutcome]:
        return TorchScript().parse_batch(stdout, artifacts)


def _own_module(argv: list[str]) -> list[str]:
    interpreter, run, _, *arguments = argv
    return [interpreter, run, "workers.runtimes.eager.runner", *arguments]
