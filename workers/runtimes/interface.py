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
    """Path of the backend's reference (`Runtime.reference`); allowed only in an evaluation."""
    exact_int8: bool = False
    """Compute static int8 in exact arithmetic instead of with the engine; allowed only in an evaluation on the host."""
    sha256: str = ""
    """The sha256 of the model's file, in lower-case hex: a runner that gets it refuses a file with another one."""
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
    """`False` if `threads_ran` is the requested number, because the program does not report how many ran."""
    mean_only: bool = False
    """`True` if the only sample is the mean of all iterations, the first ones included: the program reports no other
    time."""
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
    """The identity that a program on a device reports: name, version, available engines and accelerators."""

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
    """The metric `runtime_mb` of a program that does not report it: the size of the program and its libraries."""


class Runtime(Protocol):
    """A toolchain that builds artifacts, and a program that runs them."""

    name: str

    def supports(self, variant: Variant, facts: DeviceFacts) -> Skip | None:
        """Return the reason why this variant is impossible or pointless on this device, or `None`. The variant's engine
        is resolved."""
        ...

    def versions(self) -> dict[str, str]:
        """Return the versions of the libraries and of the builder, which are part of every build key."""
        ...

    def runner(self) -> str:
        """Return name and version of the runner, which are part of every job key."""
        ...

    def references(self) -> dict[str, str]:
        """Return the executor of accuracies by backend, for the backends that a host with a compiler can check without
        the hardware."""
        ...

    def reference(self, backend: str, artifact: Path) -> str:
        """Return the path on this host of the backend's reference: a library, or a file in the folder `artifact`.

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
        """Return the programs on this host, by format, that run artifacts on such a device without Python.

        Raises `BuildError` with the next step if there is none.
        """
        ...

    def introduction(self, program: str) -> list[str]:
        """Return the argument list with which a program (not a stock tool) on the device reports its identity."""
        ...

    def identity(self, stdout: bytes) -> RunnerIdentity:
        """Parse the output of `introduction`. Raises `RunnerError`."""
        ...

    def command(self, request: RunRequest, program: str | None = None) -> list[str]:
        """Return the argument list on the device: that of `program`, which was copied there; if `program` is `None`,
        that of this host's Python runner."""
        ...

    def parse(self, stdout: bytes) -> RunReport:
        """Return the report of a run. Raises `RunnerError` if the output is not a complete and valid report."""
        ...


BatchOutcome = RunReport | RunnerError | NotReached
"""The outcome of one item of a batch: its report, the error that it has instead, or `NotReached` because the process
ended before it."""


@runtime_checkable
class BatchRuntime(Runtime, Protocol):
    """A runtime whose programs also time several artifacts in one process, one at a time.

    `isinstance` tells whether a runtime has batches: a runtime without them lacks these methods. A stock tool has no
    batches, whatever its runtime. A program that was compiled before there were batches is found by `parse_batch`.
    """

    def batch_file(self, requests: Sequence[RunRequest]) -> bytes:
        """Return the content of the file that the program reads: the requests in the order in which they are run.

        Raises `ValueError` if there is no request, if one evaluates images, or if their threads or CPUs differ: a
        process has one number of threads and one set of CPUs.
        """
        ...

    def batch_command(self, file: str, item_seconds: float, program: str | None = None) -> list[str]:
        """Return the argument list on the device, where `file` has the content of `batch_file`; `program` as in
        `command`.

        An item that takes longer than `item_seconds` ends the process by SIGALRM.
        """
        ...

    def parse_batch(self, stdout: bytes, artifacts: Sequence[str]) -> list[BatchOutcome]:
        """Return the outcomes, one per item of the batch. `artifacts`: the sha256 of each item's file, in lower-case
        hex.

        If the process ended before the last item, the item at which it ended has the error `no_report` or `truncated`,
        and those after it are `NotReached`. An artifact with another hash has the error `wrong_artifact`. Raises
        `RunnerError` if no item was begun: with `no_batches` if the program has no batches.
        """
        ...


@runtime_checkable
class ReleaseRuntime(Runtime, Protocol):
    """A runtime that has programs for other releases of its library than the device's. `isinstance` tells whether a
    runtime is one."""

    def programs_of(self, facts: DeviceFacts, toolchain: str) -> Mapping[str, Program]:
        """Return the programs of that release (`sweeps.spec.toolchains`), as in `Runtime.programs`."""
        ...

    def releases(self, facts: DeviceFacts) -> tuple[str, ...]:
        """Return the releases for which `programs_of` has a program, as sweep files write them."""
        ...


@runtime_checkable
class InstalledRuntime(Runtime, Protocol):
    """A runtime whose installed library may have backends that other builds of the same version lack. `isinstance`
    tells whether a runtime is one."""

    def backends_here(self) -> tuple[str, ...]:
        """Return the backends of the library on this machine; empty if they cannot be found out. A separate process
        lists them, in a second."""
        ...


@runtime_checkable
class ProfilingRuntime(Runtime, Protocol):
    """A runtime whose programs also report the time of each operator, in the form that
    `workers.runtimes.operator_profile` reads. `isinstance` tells whether a runtime is one."""

    def profilers(self, facts: DeviceFacts) -> Mapping[str, Program]:
        """Return the programs that profile, as in `Runtime.programs`."""
        ...

    def profile_command(
        self, request: RunRequest, iterations: int, warmup: int, program: str | None = None
    ) -> list[str]:
        """Return the argument list that profiles on the device; `program` as in `command`."""
        ...

    def parse_profile(self, stdout: bytes) -> Profile:
        """Return the profile of a run. Raises `RunnerError`."""
        ...


@runtime_checkable
class PartitioningRuntime(ProfilingRuntime, Protocol):
    """A runtime whose backends leave to the CPU the operators that they do not support, and whose profiles tell which
    of them ran a node. `isinstance` tells whether a runtime is one."""

    def profiled_as(self, backend: str) -> str:
        """Return the name of `backend` in the runtime's profiles (`OperatorRun.where`); empty for a backend that leaves
        nothing to the CPU."""
        ...
