"""The values that the parts of EdgeSweep exchange. They are frozen, with units in the names; an unknown value is
`None`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sweeps.variant import RunAxes, Variant

SCHEMA_VERSION = 1
"""The version of the records as the journal stores them; part of every job key."""

GateState = Literal["none", "ready", "busy", "timed_out"]
"""The gate of one block: not requested; passed; passed except for load by other programs; timed out."""

Stage = Literal["load", "build", "verify", "push", "run", "evaluate"]

LEFT_OUT_WHEN_EMPTY = {"left_out_when_empty": True}
"""This metadata marks a field that was added later: if the field is empty, the stored record does not contain it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One variant of one model on one device, with run axes, under one measurement protocol."""

    key: str
    build_key: str
    name: str
    """The name is unique within the sweep, for people: model, variant, threads and, if given, the grid's name."""
    model: str
    """The model's name in the sweep file."""
    grid: str
    """The grid's name in the sweep file, or empty."""
    variant: Variant
    run: RunAxes
    device_id: str
    reference: str = ""
    """The reference is `reference:<backend>@<version>` if the device can only check this job, not time it; otherwise
    empty."""
    sentinel: str = ""
    """The key of the sentinel job of the job's device; empty if there is none."""
    device_word: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The last part of the name, which tells the device; empty in a plan of one device."""
    link: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The key of the job of the common variant on the same unit, where units share the work; empty elsewhere."""

    @property
    def emulated(self) -> bool:
        return bool(self.reference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A combination that the plan leaves out because it is impossible or useless."""

    name: str
    model: str
    grid: str
    variant: Variant
    run: RunAxes
    device_id: str
    kind: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The kind is one of `sweeps.skip_kinds.SKIPS`, or of another package's runtime; empty in old journals."""
    reason: str
    """The particulars for people."""
    device_word: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The word is as `Job.device_word`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The failure of building or running a job. `kind` is snake_case and stable; `message` is for people, and one line:
    a model's exception or a device cannot add a line of its own to what is printed."""

    stage: Stage
    kind: str
    message: str
    next_step: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The advice what to do about this failure; empty where only its kind tells (`sweeps.failure_kinds.remedy`), and in
    old journals, as the fields below."""
    operator: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The operator that caused the failure, such as `aten::pad`."""
    file: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The file of the user's own, relative to the user's folder, with the line that asks for the operator."""
    line: int = field(default=0, metadata=LEFT_OUT_WHEN_EMPTY)
    host: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The host of the device, in words, if the host failed (`sweeps.errors.HostError`)."""
    condition: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The reason why that host failed: the message without the host's name."""

    @property
    def text(self) -> str:
        """The message with the operator and the line, as far as it does not name them itself."""
        named = [self.operator] if self.operator and self.operator not in self.message else []
        place = f"{self.file}:{self.line}" if self.file else ""
        named += [f"at {place}"] if place and place not in self.message else []
        return f"{self.message} ({' '.join(named)})" if named else self.message

    def __post_init__(self) -> None:
        for name in ("message", "next_step", "condition"):
            object.__setattr__(self, name, " ".join(getattr(self, name).split()))


@dataclass(frozen=True, slots=True)
class Lack:
    """A condition of the gate that a device does not meet."""

    text: str
    """The text in words: `battery at 41.2 °C, above 37 °C`."""
    limit: str = ""
    """The field of `protocol.gate` that the figure is beyond; empty if no limit of a sweep file would allow it."""
    figure: float = 0.0
    """The figure that was read, as the text has it; 0 without a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The state of the device before and after one block. `None` if the device has no such sensor."""

    temp_start_c: float | None = None
    temp_end_c: float | None = None
    cpu_mhz_start: float | None = None
    cpu_mhz_end: float | None = None
    load_start: float | None = None
    """The share of the device's CPU time (0 to 1) that other programs used just before the block."""
    cpus: str = "all"
    """The CPUs that the block ran on, by number; the requested ones if the runner does not report them."""
    throttled: bool | None = None
    fixed_performance: bool | None = None
    """The mode was on; `None` if the device has no such mode, or it was not changed."""
    exec_context: str = "shell"
    gate: GateState = "none"
    lacking: tuple[Lack, ...] = ()
    """The gate conditions that were not met when the block started."""
    waited_seconds: float = 0.0
    """The time spent waiting for the gate, on the device's clock."""
    started_hot: bool = False
    """The block without a gate started warmer than the default gate allows."""
    thermal_status_start: int | None = None
    thermal_status_end: int | None = None
    battery_percent: float | None = None
    steal_share: float | None = None
    """The share of the host's CPU time that the hypervisor gave to other machines during the block."""

    @property
    def heat_known(self) -> bool:
        return self.temp_start_c is not None or self.thermal_status_start is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One process of the runner on the device: one sample of the differences between processes."""

    job_key: str
    round: int
    samples_ns: tuple[int, ...]
    warmup_ns: tuple[int, ...]
    """The times of all warm-up iterations after the first inference."""
    first_inference_ns: int | None
    load_ns: int | None
    """The times `load_ns` and `first_inference_ns` and the memory figures are `None` if the runner is a stock tool,
    which does not report them."""
    rss_before_load_bytes: int | None
    rss_peak_bytes: int | None
    backend_ran: str
    engine_ran: str
    threads_ran: int
    """The number of threads as the runner reports it; in a block with the label `threads_unknown`, the number that was
    asked for."""
    runner: str
    """The name and version of the program that measured, e.g. `python-torchscript 1`."""
    runtime_version: str
    artifact_sha256: str
    exit_code: int
    conditions: Conditions
    labels: tuple[str, ...] = ()
    """The trust labels of this block (see `sweeps.label_kinds.TRUST`)."""
    session: int = 0
    """The session identifies the run of the driver: two runs may have seen two states of the device. The number is the
    start time in seconds since 1970, or one more than the last run's if that is larger. In old journals two runs may
    share one number."""
    device_seconds: float = 0.0
    """The time of the block on the device's clock, with start, load and warm-up, but without the wait before it."""
    push_seconds: float = field(default=0.0, metadata=LEFT_OUT_WHEN_EMPTY)
    """The time on the device's clock for sending the files that the block needed; not in `device_seconds`. The time is
    0 where the files were on the device already, and in old journals."""
    extra_metrics: Mapping[str, float] = field(default_factory=dict, hash=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """The further figures of the runner, by its own names (`RuntimeEntry.metrics`)."""
    confirms: bool = field(default=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """The block was measured of a race's winner after it had won: the block decides nothing, and makes the figure that
    is published."""
    checks: bool = field(default=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """The block was measured of the nearest rival of a winner that batches chose. The block makes no figure: it can
    only contradict the batches."""
    added: bool = field(default=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """The block was measured after the job's rounds had ended, together with others (`edgesweep run --settle`). It is
    compared with theirs; it did not make the job win a race. Old journals do not have the mark."""
    host: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The host of a lab where the block was measured: a device may move while a sweep runs. The name is empty without a
    lab, and in old journals."""

    @property
    def races(self) -> bool:
        """Tell whether a race may decide by the block, or have decided."""
        return not (self.confirms or self.checks or self.added)

    @property
    def visit(self) -> int:
        """The visit is equal for all blocks of one round in one run. Only blocks with the same visit are paired."""
        return self.session * 1000 + self.round


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All accepted blocks of one job on a device that ran the backend, summarised by `sweeps.protocol.blocks`."""

    job_key: str
    rounds: int
    samples: int
    figures: Mapping[str, float] = field(hash=False)
    """The timed figures of `sweeps.metrics.METRICS` that are known, by name."""
    block_medians_ms: tuple[tuple[int, float], ...]
    """The pairs (`Block.visit`, median) in order of rounds: the ranking pairs jobs by visit. Confirming blocks are left
    out."""
    confirmed_medians_ms: tuple[tuple[int, float], ...] = ()
    """The pairs of a confirmed winner: of the blocks that confirm and of those that were added, as `block_medians_ms`,
    which has the added blocks too."""
    labels: tuple[str, ...]
    extra_metrics: Mapping[str, float] = field(default_factory=dict, hash=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Each metric is the median over the blocks that have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The accuracy of one build on one evaluation set, computed on the host from the logits that the runner wrote.

    Shares are in percent, differences in percentage points. Figures that need labels are `None` without labels.
    """

    build_key: str
    evaluation_id: str
    """The sha256 of the evaluation manifest."""
    engine: str
    executor: str
    """The fingerprint of the device that ran the pass, or `reference:<backend>@<version>`."""
    images: int
    top1_percent: float | None
    top5_percent: float | None
    reference_top1_percent: float | None
    agreement_percent: float
    """The percentage of images with the same top-1 answer as the fp32 eager model."""
    sqnr_db: float | None
    """The signal to quantization-noise ratio against the eager logits; `None` if both are bit-identical."""
    accuracy_drop_points: float | None
    """The eager top-1 minus this build's top-1, paired over the same images; positive is worse."""
    accuracy_drop_low_points: float | None
    accuracy_drop_high_points: float | None
    labels: tuple[str, ...] = ()
    """The label `invalid_output` says that a logit is not finite."""
    device_seconds: float = field(default=0.0, metadata=LEFT_OUT_WHEN_EMPTY)
    """The time of the pass on the clock of the device that ran it, without `push_seconds`; 0 in old journals. A
    reference implementation runs on the host: then the time is the host's."""
    push_seconds: float = field(default=0.0, metadata=LEFT_OUT_WHEN_EMPTY)
    """The time for sending the images, and the artifact if no block had needed it before; 0 in old journals."""
    extra_metrics: Mapping[str, float] = field(default_factory=dict, hash=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """The figures that were counted in the pass besides (`RuntimeEntry.metrics`)."""

    @property
    def emulated(self) -> bool:
        return self.executor.startswith("reference:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A finished job. `timing` is `None` if the backend was only emulated, or if the job left a race in batches."""

    timing: Timing | None
    accuracy: Accuracy | None
