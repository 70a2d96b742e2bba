"""The values that the parts of EdgeSweep exchange. They are frozen, with units in the names; an unknown value is
`None`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sweeps.variant import RunAxes, Variant

SCHEMA_VERSION = 1
"""The version of the records as the journal stores them; it is part of every job key."""

GateState = Literal["none", "ready", "busy", "timed_out"]
"""The gate before one block: not requested; passed; passed except for load by other programs; timed out."""

Stage = Literal["load", "build", "verify", "push", "run", "evaluate"]

LEFT_OUT_WHEN_EMPTY = {"left_out_when_empty": True}
"""Metadata of a field that was added later: if the field is empty, the stored record does not contain it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One variant of one model on one device, with run axes, under one measurement protocol."""

    key: str
    build_key: str
    name: str
    """A name for people, unique within the sweep: model, variant, threads and, if given, the grid's name."""
    model: str
    """The model's name in the sweep file."""
    grid: str
    """The grid's name in the sweep file, or empty."""
    variant: Variant
    run: RunAxes
    device_id: str
    reference: str = ""
    """`reference:<backend>@<version>` if the device can only check this job, not time it; otherwise empty."""
    sentinel: str = ""
    """The key of the sentinel job of the job's device; empty if there is none."""
    device_word: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The last part of the name, which identifies the device; empty in a plan of one device."""
    link: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The key of the common variant's job on the same unit, if units share the work; otherwise empty."""

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
    """One of `sweeps.skip_kinds.SKIPS`, or a kind of another package's runtime; empty in old journals."""
    reason: str
    """The details for people."""
    device_word: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """As `Job.device_word`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The failure of building or running a job. `kind` is snake_case and stable; `message` is for people, and one line:
    line breaks in the text of a model's exception or of a device are removed."""

    stage: Stage
    kind: str
    message: str
    next_step: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """What to do about this failure; empty if only its kind determines that (`sweeps.failure_kinds.remedy`), and in old
    journals, as are the fields below."""
    operator: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The operator that caused the failure, such as `aten::pad`."""
    file: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The user's own file, relative to the user's folder, whose `line` uses the operator."""
    line: int = field(default=0, metadata=LEFT_OUT_WHEN_EMPTY)
    host: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The host of the device, for people, if the host failed (`sweeps.errors.HostError`)."""
    condition: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The reason why that host failed: the message without the host's name."""

    @property
    def text(self) -> str:
        """The message, followed by the operator and the line if the message does not contain them."""
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
    """The condition as text: `battery at 41.2 °C, above 37 °C`."""
    limit: str = ""
    """The field of `protocol.gate` whose limit the figure violates; empty if no limit of a sweep file would allow
    it."""
    figure: float = 0.0
    """The figure that was read, as in `text`; 0 without a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The state of the device before and after one block. Fields are `None` if the device has no such sensor."""

    temp_start_c: float | None = None
    temp_end_c: float | None = None
    cpu_mhz_start: float | None = None
    cpu_mhz_end: float | None = None
    load_start: float | None = None
    """The share of the device's CPU time (0 to 1) that other programs used just before the block."""
    cpus: str = "all"
    """The numbers of the CPUs on which the block ran; the requested ones if the runner does not report them."""
    throttled: bool | None = None
    fixed_performance: bool | None = None
    """Whether the mode was on; `None` if the device has no such mode, or it was not changed."""
    exec_context: str = "shell"
    gate: GateState = "none"
    lacking: tuple[Lack, ...] = ()
    """The gate conditions that were not met when the block started."""
    waited_seconds: float = 0.0
    """The time spent waiting for the gate, on the device's clock."""
    started_hot: bool = False
    """Whether the block, without a gate, started warmer than the default gate allows."""
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
    """`load_ns`, `first_inference_ns` and the memory figures are `None` if the runner is a stock tool, which does not
    report them."""
    rss_before_load_bytes: int | None
    rss_peak_bytes: int | None
    backend_ran: str
    engine_ran: str
    threads_ran: int
    """The number of threads as the runner reports it; in a block with the label `threads_unknown`, the requested
    number."""
    runner: str
    """The name and version of the runner, e.g. `python-torchscript 1`."""
    runtime_version: str
    artifact_sha256: str
    exit_code: int
    conditions: Conditions
    labels: tuple[str, ...] = ()
    """The trust labels of this block (see `sweeps.label_kinds.TRUST`)."""
    session: int = 0
    """A number that identifies the run of the driver: two runs may have seen two states of the device. It is the start
    time in seconds since 1970, or one more than the last run's number if that is larger. In old journals two runs may
    share one number."""
    device_seconds: float = 0.0
    """The time of the block on the device's clock (seconds), with start, load and warm-up, but without the wait before
    it."""
    push_seconds: float = field(default=0.0, metadata=LEFT_OUT_WHEN_EMPTY)
    """The time on the device's clock (seconds) for sending the files that the block needed; not in `device_seconds`. It
    is 0 if the files were on the device already, and in old journals."""
    extra_metrics: Mapping[str, float] = field(default_factory=dict, hash=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Further figures of the runner, by the runner's names for them (`RuntimeEntry.metrics`)."""
    confirms: bool = field(default=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Whether the block confirms a race's winner, i.e. was measured after the race: it decides nothing, but determines
    the published figure."""
    checks: bool = field(default=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Whether the block checks batches, i.e. is of the nearest rival of a winner that batches chose. It enters no
    figure: it can only contradict the batches."""
    added: bool = field(default=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Whether the block was measured after the job's rounds had ended, together with blocks of other jobs
    (`edgesweep run --settle`). It is compared with those blocks; it did not contribute to winning a race. Old journals
    do not have this mark."""
    host: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The host of a lab on which the block was measured: a device may move while a sweep runs. Empty without a lab, and
    in old journals."""

    @property
    def races(self) -> bool:
        """Tell whether the block may decide a race, or may have decided one."""
        return not (self.confirms or self.checks or self.added)

    @property
    def visit(self) -> int:
        """A number that is equal for all blocks of one round in one run. Only blocks with the same visit are paired."""
        return self.session * 1000 + self.round


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All accepted blocks of one job on a device that ran the backend, summarized by `sweeps.protocol.blocks`."""

    job_key: str
    rounds: int
    samples: int
    figures: Mapping[str, float] = field(hash=False)
    """The known timed figures of `sweeps.metrics.METRICS`, by name."""
    block_medians_ms: tuple[tuple[int, float], ...]
    """The pairs (`Block.visit`, median) in order of rounds: the ranking pairs jobs by visit. Confirming blocks are left
    out."""
    confirmed_medians_ms: tuple[tuple[int, float], ...] = ()
    """The pairs (`Block.visit`, median) of a confirmed winner's confirming and added blocks. `block_medians_ms` has the
    added blocks, too."""
    labels: tuple[str, ...]
    extra_metrics: Mapping[str, float] = field(default_factory=dict, hash=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Each metric's median over the blocks that have it."""


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
    """The percentage of images whose top-1 answer equals that of the fp32 eager model."""
    sqnr_db: float | None
    """The signal to quantization-noise ratio (dB) against the eager logits; `None` if both are bit-identical."""
    accuracy_drop_points: float | None
    """The eager top-1 minus this build's top-1, paired over the same images; positive is worse."""
    accuracy_drop_low_points: float | None
    accuracy_drop_high_points: float | None
    labels: tuple[str, ...] = ()
    """`invalid_output` if a logit is not finite."""
    device_seconds: float = field(default=0.0, metadata=LEFT_OUT_WHEN_EMPTY)
    """The time of the pass on the clock of the device that ran it (seconds), without `push_seconds`; 0 in old journals.
    For a reference implementation, which runs on the host, it is the host's time."""
    push_seconds: float = field(default=0.0, metadata=LEFT_OUT_WHEN_EMPTY)
    """The time for sending the images (seconds), and the artifact if no block had needed it before; 0 in old
    journals."""
    extra_metrics: Mapping[str, float] = field(default_factory=dict, hash=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Further figures that the pass counted (`RuntimeEntry.metrics`)."""

    @property
    def emulated(self) -> bool:
        return self.executor.startswith("reference:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A finished job. `timing` is `None` if the backend was only emulated, or if the job left a race in batches."""

    timing: Timing | None
    accuracy: Accuracy | None
