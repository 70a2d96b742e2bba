"""The interface between EdgeSweep and a toolchain. A runtime accesses no device.

`supports`, `command` and `parse` are pure and fast (no torch import): plans and device hosts use them too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from sweeps.batches import NotReached
from sweeps.device_facts import DeviceFacts
from sweeps.errors import RunnerError
from sweeps.manifest import Manifest
from sweeps.metrics import checked_extra
from sweeps.skip_kinds import Skip
from sweeps.variant import Variant
from workers.models.package import BuildInputs
from workers.runtimes.operator_profile import Profile
from workers.runtimes.stock_tool import StockTool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Arguments of one runner process. With `eval_inputs` it evaluates images instead of measuring time."""

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
    """Path of the inputs on the device: float32 little-endian, (N, C, H, W); N follows from the file's size."""
    eval_outputs: str | None = None
    """Output path on the device for the logits: float32 little-endian, (N, classes)."""
    reference: str | None = None
    """Path of the backend's stand-in (`Runtime.reference`); allowed only in an evaluation."""
    exact_int8: bool = False
    """Compute static int8 in exact arithmetic instead of with the engine; allowed only in an evaluation on the host."""
    sha256: str = ""
    """The hash of the model's file, in lower-case hex: a runner that knows it refuses another file."""
    graph_optimization: str = "none"
    """The level of `Variant.graph_optimization`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """A runner's complete output, parsed. Output without an `end` line gives no report."""

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
    """A reference library replaced the backend: there are logits and no samples."""
    threads_known: bool = True
    """`False` if `threads_ran` is the number that was asked for, because the program does not report what ran."""
    mean_only: bool = False
    """`True` if the only sample is the mean of all iterations, the first ones included: the program tells no other."""
    cpus_ran: tuple[int, ...] = ()
    """The CPUs that ran; empty if the system does not report them."""
    extra_metrics: Mapping[str, float] = field(default_factory=dict)
    """The runner's additional figures; no metric of EdgeSweep has the same name (`sweeps.metrics.checked_extra`)."""

    def __post_init__(self) -> None:
        """Checks extra metrics of all runtimes here, before a store would refuse them. Raises `RunnerError`."""
        try:
            object.__setattr__(self, "extra_metrics", checked_extra(self.extra_metrics))
        except ValueError as error:
            raise RunnerError("garbled", f"the runner's report is invalid: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerIdentity:
    """The report of a program on a device about itself: name, version, available engines and accelerators."""

    runner: str
    """Name and version, part of the device's job keys."""
    runtime_version: str
    qengines: tuple[str, ...]
    accelerators: tuple[str, ...]
    """Names of NNAPI accelerators; empty without NNAPI."""
    backends: tuple[str, ...] = ()
    """The backends on which the program can run operators, if it was compiled with a choice of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that runs artifacts on a device that is not this host."""

    path: str
    """Path on this host; after it was copied to a device, the path there."""
    tool: StockTool | None = None
    """The stock tool; `None` if the program follows the runner contract."""
    libraries: tuple[str, ...] = ()
    """Paths on this host of shared libraries that lie beside the program on a device, under their own names."""
    library_mb: float | None = None
    """The `runtime_mb` of a program that does not tell it: its own size, with that of its libraries."""


class Runtime(Protocol):
    """A toolchain that builds and a program that runs."""

    name: str

    def supports(self, variant: Variant, facts: DeviceFacts) -> Skip | None:
        """The reason why this variant is impossible or pointless on this device, or `None`. The variant's engine
        is resolved."""
        ...

    def versions(self) -> dict[str, str]:
        """Versions of the libraries and of the builder, part of every build key."""
        ...

    def runner(self) -> str:
        """Name and version of the runner, part of every job key."""
        ...

    def references(self) -> dict[str, str]:
        """The executor of accuracies, by backend that a host with a compiler can check without the hardware."""
        ...

    def reference(self, backend: str, artifact: Path) -> str:
        """The path on this host of the backend's stand-in: a library, or a file in the folder `artifact`.

        Raises `BuildError` if it cannot be compiled.
        """
        ...

    def build(
        self, variant: Variant, build_key: str, inputs: BuildInputs, out: Path, shared: Path | None = None
    ) -> Manifest:
        """Write `manifest.json` and the model into the empty folder `out`, verified in a fresh process.

        `shared` is a folder for stages that builds of this machine share. Raises `BuildError` with the figures if the
        artifact is not accurate enough.
        """
        ...

    def programs(self, facts: DeviceFacts) -> Mapping[str, Program]:
        """The program of this host, by format, that runs artifacts on such a device without Python.

        Raises `BuildError` with the next step if there is none.
        """
        ...

    def introduction(self, program: str) -> list[str]:
        """The argument list with which a program (not a stock tool) on the device reports its identity."""
        ...

    def identity(self, stdout: bytes) -> RunnerIdentity:
        """Parse the output of `introduction`. Raises `RunnerError`."""
        ...

    def command(self, request: RunRequest, program: str | None = None) -> list[str]:
        """The argument list on the device: of `program`, which was copied there, else of this host's Python runner."""
        ...

    def parse(self, stdout: bytes) -> RunReport:
        """The report of a run. Raises `RunnerError` if the output is not a complete and valid report."""
        ...


BatchOutcome = RunReport | RunnerError | NotReached
"""The outcome of one item of a batch: its report, the reason why it has none, or nothing because the process ended
before it."""


@runtime_checkable
class BatchRuntime(Runtime, Protocol):
    """A runtime whose programs also time several artifacts in one process, one after the other.

    Whether a runtime has batches is asked with `isinstance`: one without them lacks these methods. A stock tool has
    none, whatever its runtime. A program that was compiled before there were batches is found out by `parse_batch`.
    """

    def batch_file(self, requests: Sequence[RunRequest]) -> bytes:
        """The content of the file that the program reads: the requests in the order in which they are run.

        Raises `ValueError` if there is none, if one does not time, or if their threads or CPUs differ: those are the
        process's.
        """
        ...

    def batch_command(self, file: str, item_seconds: float, program: str | None = None) -> list[str]:
        """The argument list on the device, where `file` has the content of `batch_file`; `program` as in `command`.

        An item that takes longer than `item_seconds` ends the process by SIGALRM.
        """
        ...

    def parse_batch(self, stdout: bytes, artifacts: Sequence[str]) -> list[BatchOutcome]:
        """The outcomes, one per item. `artifacts`: the sha256 of each item's file, in lower-case hex.

        If the process ended before the last item, the item at which it ended has the error `no_report` or `truncated`,
        and those after it are `NotReached`. An artifact with another hash has the error `wrong_artifact`. Raises
        `RunnerError` if no item was begun: with `no_batches` if the program has none.
        """
        ...


@runtime_checkable
class ReleaseRuntime(Runtime, Protocol):
    """A runtime with programs for other releases of its library than the one that a device has. Whether a runtime has
    that is asked with `isinstance`."""

    def programs_of(self, facts: DeviceFacts, toolchain: str) -> Mapping[str, Program]:
        """The programs of that release (`sweeps.spec.toolchains`), as in `Runtime.programs`."""
        ...

    def releases(self, facts: DeviceFacts) -> tuple[str, ...]:
        """The releases of which `programs_of` has one, as sweep files write them."""
        ...


@runtime_checkable
class InstalledRuntime(Runtime, Protocol):
    """A runtime whose installed library may have backends that others of the same version lack. Whether a runtime is
    one is asked with `isinstance`."""

    def backends_here(self) -> tuple[str, ...]:
        """The backends of the library on this machine; empty if that cannot be told. A process of its
        own tells them, in a second."""
        ...


@runtime_checkable
class ProfilingRuntime(Runtime, Protocol):
    """A runtime whose programs also tell the time of each operator, as `workers.runtimes.operator_profile` reads it.
    Whether a runtime has that is asked with `isinstance`."""

    def profilers(self, facts: DeviceFacts) -> Mapping[str, Program]:
        """The programs that profile, as in `Runtime.programs`."""
        ...

    def profile_command(
        self, request: RunRequest, iterations: int, warmup: int, program: str | None = None
    ) -> list[str]:
        """The argument list on the device; `program` as in `command`."""
        ...

    def parse_profile(self, stdout: bytes) -> Profile:
        """The profile of a run. Raises `RunnerError`."""
        ...


@runtime_checkable
class PartitioningRuntime(ProfilingRuntime, Protocol):
    """A runtime with backends that leave to the CPU what they do not take, and whose profiles tell which has a node.
    Whether a runtime has that is asked with `isinstance`."""

    def profiled_as(self, backend: str) -> str:
        """The name of `backend` in the runtime's profiles (`OperatorRun.where`); empty for a backend that leaves
        nothing to the CPU."""
        ...
