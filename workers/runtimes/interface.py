"""The seam between EdgeSweep and a toolchain. A runtime touches no device.

`supports`, `command` and `parse` are pure and quick (no torch import): plans and device hosts use them too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sweeps.device_facts import DeviceFacts
from sweeps.errors import RunnerError
from sweeps.manifest import EvalSibling, Manifest
from sweeps.metrics import checked_extra
from sweeps.variant import Variant
from workers.models.package import BuildInputs, Images


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One process of the runner. With `eval_inputs` it evaluates instead of timing."""

    model: str
    """Path of the model on the device."""
    backend: str
    engine: str
    threads: int
    cpus: str
    input_shape: tuple[int, ...]
    memory_format: str
    input_dtype: str = "float"
    input_scale: float | None = None
    input_zero_point: int | None = None
    reuse_input: bool = True
    warmup_iterations: int = 0
    warmup_seconds: float = 0.0
    iterations: int = 1
    min_seconds: float = 0.0
    max_seconds: float = 60.0
    eval_inputs: str | None = None
    """Path on the device: float32 little-endian, (N, C, H, W), N from the file's size."""
    eval_outputs: str | None = None
    """Path on the device that the logits are written to: float32 little-endian, (N, classes)."""
    reference: str | None = None
    """Path of a library that stands in for the backend; only an evaluation may have one."""
    exact_int8: bool = False
    """Static int8 in exact arithmetic in place of the engine's; only an evaluation on the host may ask for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """A runner's whole output, parsed. There is none without its `end` line."""

    runner: str
    runtime_version: str
    file_version_max: int | None
    bytecode_version_max: int | None
    load_ns: int | None
    first_inference_ns: int | None
    warmup_ns: tuple[int, ...]
    samples_ns: tuple[int, ...]
    rss_before_load_bytes: int | None
    rss_peak_bytes: int | None
    backend_ran: str
    engine_ran: str
    threads_ran: int
    eval_images: int | None = None
    eval_classes: int | None = None
    reference: bool = False
    """A library stood in for the backend: the answers count, and there are no samples."""
    cpus_ran: tuple[int, ...] = ()
    """Empty where the system does not tell."""
    extra_metrics: Mapping[str, float] = field(default_factory=dict)
    """Figures of the runner's own, by names that no metric of EdgeSweep has (`sweeps.metrics.checked_extra`)."""

    def __post_init__(self) -> None:
        """Raises `RunnerError`: whichever runtime parsed it, no store has to refuse it later."""
        try:
            object.__setattr__(self, "extra_metrics", checked_extra(self.extra_metrics))
        except ValueError as error:
            raise RunnerError("garbled", f"the runner's report makes no sense: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerIdentity:
    """What a program on a device is, in its own words: name, version, and what it can use there."""

    runner: str
    """Name and version: part of the device's job keys."""
    runtime_version: str
    qengines: tuple[str, ...]
    accelerators: tuple[str, ...]
    """Names of NNAPI's; none where there is no NNAPI."""


class StockTool(Protocol):
    """A benchmark program of the toolchain's own makers: how it is driven where it keeps no runner contract.

    It counts iterations, not seconds; it answers one input that lies in the model's own file; it cannot be asked who
    it is.
    """

    def identity(self) -> RunnerIdentity:
        """What is known of it without asking."""
        ...

    def reason_against(self, request: RunRequest) -> str | None:
        """Why it cannot run this request as it is meant, or `None`."""
        ...

    def trial(self, request: RunRequest) -> RunRequest:
        """A few iterations of a timing: what `enough` counts by."""
        ...

    def enough(self, request: RunRequest, seen: RunReport) -> RunRequest:
        """The timing with as many iterations as its seconds ask for, at the pace that a trial saw."""
        ...

    def command(self, request: RunRequest, program: str, evaluation_image: int | None = None) -> list[str]:
        """The argument list on the device: a timing, or the answer to one of the inputs in the model's file."""
        ...

    def parse(self, stdout: bytes, request: RunRequest) -> RunReport:
        """The report of a timing. Raises `RunnerError`."""
        ...

    def parse_answer(self, stdout: bytes) -> list[float]:
        """The logits of one batch, row by row. Raises `RunnerError`."""
        ...

    def refusal(self, stderr: bytes) -> RunnerError | None:
        """Why it ended without a report, as far as it says so."""
        ...

    def sibling(self, manifest: Manifest, model: Path, images: Images, folder: Path) -> EvalSibling:
        """Write the model with the first of these images in its file into `folder`. Raises `BuildError`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What runs artifacts on a device without Python."""

    path: str
    """On this host; once it was brought to a device, there."""
    tool: StockTool | None = None
    """`None` where it keeps the runner contract."""


class Runtime(Protocol):
    """A toolchain that builds and a program that runs."""

    name: str

    def supports(self, variant: Variant, facts: DeviceFacts) -> str | None:
        """Why this variant makes no sense on this device, or `None`. The engine is resolved."""
        ...

    def versions(self) -> dict[str, str]:
        """Of the libraries and of the builder: part of every build key."""
        ...

    def runner(self) -> str:
        """Name and version of the runner: part of every job key."""
        ...

    def references(self) -> dict[str, str]:
        """Backends that a host with a compiler can check without their silicon, and what an accuracy is signed with."""
        ...

    def reference(self, backend: str) -> str:
        """The path on this host of what stands in for the backend. Raises `BuildError` where it cannot be made."""
        ...

    def build(
        self, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None = None
    ) -> Manifest:
        """Write `manifest.json` and the model into the empty folder `out`, verified in a fresh process.

        `shared` is a folder for what the builds of this machine have in common. Raises `BuildError` with the figures
        where the artifact is not good enough.
        """
        ...

    def programs(self, facts: DeviceFacts) -> Mapping[str, Program]:
        """By format, the program of this host that runs artifacts on a device of that ABI without Python.

        Raises `BuildError` where there is none, with what to do about it.
        """
        ...

    def introduction(self, program: str) -> list[str]:
        """The argument list with which such a program, no stock tool, tells there on the device what it is."""
        ...

    def identity(self, stdout: bytes) -> RunnerIdentity:
        """What it told. Raises `RunnerError`."""
        ...

    def command(self, request: RunRequest, program: str | None = None) -> list[str]:
        """The argument list on the device: of `program`, which was brought there, else of this host's Python."""
        ...

    def parse(self, stdout: bytes) -> RunReport:
        """Raises `RunnerError` for anything that is not a whole, sane report."""
        ...
