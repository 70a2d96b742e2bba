"""PyTorch Mobile: builds TorchScript for phones, and runs it with the Python runner. Torch-free except for `build`."""

import json
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import EdgeSweepError
from sweeps.manifest import Manifest
from sweeps.variant import Variant
from workers.models.package import BuildInputs
from workers.runtimes.interface import BatchOutcome, Program, RunnerIdentity, RunReport, RunRequest
from workers.runtimes.torchscript import batch_report, programs, references, report
from workers.runtimes.torchscript.runner.main import NAME, VERSION
from workers.runtimes.torchscript.supports import reason_against

_MODULE = "workers.runtimes.torchscript.runner"
BUILDER_VERSION = "2"
"""Increased with every change that gives another artifact for the same variant."""


class TorchScript:
    """The runtime `torchscript`."""

    name = "torchscript"

    def supports(self, variant: Variant, facts: DeviceFacts) -> str | None:
        """See `Runtime.supports`."""
        return reason_against(variant, facts)

    def versions(self) -> dict[str, str]:
        """See `Runtime.versions`. Raises `EdgeSweepError` if torch is not installed."""
        try:
            libraries = {name: metadata.version(name) for name in ("torch", "torchvision")}
        except metadata.PackageNotFoundError as error:
            raise EdgeSweepError(f"{error.name} is not installed", "pip install 'edgesweep[workers]'") from error
        return {**libraries, "builder": f"torchscript {BUILDER_VERSION}"}

    def runner(self) -> str:
        return f"{NAME} {VERSION}"

    def references(self) -> dict[str, str]:
        return references.names()

    def reference(self, backend: str) -> str:
        return references.library(backend)

    def build(
        self, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None = None
    ) -> Manifest:
        """See `Runtime.build`."""
        from workers.runtimes.torchscript.building import build

        return build(self, variant, build_key, inputs, out, shared)

    def programs(self, facts: DeviceFacts) -> dict[str, Program]:
        return programs.programs(facts)

    def introduction(self, program: str) -> list[str]:
        return [program, "--nnapi-devices"]

    def identity(self, stdout: bytes) -> RunnerIdentity:
        return report.identity(stdout)

    def command(self, request: RunRequest, program: str | None = None) -> list[str]:
        """Of the C++ runner `program`, else of the Python runner in this interpreter. Both take the same arguments."""
        return python_module(_MODULE, program) + arguments(request)

    def parse(self, stdout: bytes) -> RunReport:
        return report.parse(stdout)

    def batch_file(self, requests: Sequence[RunRequest]) -> bytes:
        return batch_of(requests, arguments)

    def batch_command(self, file: str, item_seconds: float, program: str | None = None) -> list[str]:
        return [*python_module(_MODULE, program), "--batch", file, "--item-seconds", repr(item_seconds)]

    def parse_batch(self, stdout: bytes, artifacts: Sequence[str]) -> list[BatchOutcome]:
        return batch_report.parse(stdout, artifacts)


def python_module(module: str, program: str | None) -> list[str]:
    """The start of a runner's argument list: of a program on the device, else of a module in this interpreter."""
    return [sys.executable, "-m", module] if program is None else [program]


def batch_of(requests: Sequence[RunRequest], arguments: Callable[[RunRequest], list[str]]) -> bytes:
    """A JSON array of strings on each line: the arguments of one request. See `BatchRuntime.batch_file`."""
    if not requests:
        raise ValueError("a batch has at least one request")
    if any(one.eval_inputs is not None for one in requests):
        raise ValueError("a batch only times")
    if len({(one.threads, one.cpus) for one in requests}) > 1:
        raise ValueError("threads and CPUs are those of the process: all requests of a batch ask for the same")
    lines = (json.dumps(arguments(one), ensure_ascii=False) for one in requests)
    # Names of files need not be UTF-8.
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def arguments(request: RunRequest) -> list[str]:
    """What every runner takes."""
    argv = ["--model", request.model, "--backend", request.backend, "--engine", request.engine]
    argv += ["--warmup", str(request.warmup_iterations), "--warmup-seconds", repr(request.warmup_seconds)]
    argv += ["--iter", str(request.iterations)]
    argv += ["--min-seconds", repr(request.min_seconds), "--max-seconds", repr(request.max_seconds)]
    argv += ["--threads", str(request.threads), "--cpus", request.cpus]
    argv += ["--input-dims", ",".join(map(str, request.input_shape)), "--input-type", request.input_dtype]
    if request.input_scale is not None and request.input_zero_point is not None:
        argv += ["--input-scale", repr(request.input_scale), "--input-zero-point", str(request.input_zero_point)]
    argv += ["--memory-format", request.memory_format, "--reuse-input", str(int(request.reuse_input))]
    if request.eval_inputs is not None and request.eval_outputs is not None:
        argv += ["--eval-inputs", request.eval_inputs, "--eval-outputs", request.eval_outputs]
    if request.reference is not None:
        argv += ["--reference", request.reference]
    argv += ["--exact-int8"] * request.exact_int8
    return argv
