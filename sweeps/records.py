"""The values that the parts of EdgeSweep exchange. Frozen; units in the names; unknown is `None`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sweeps.variant import RunAxes, Variant

SCHEMA_VERSION = 1
"""Version of the records as the journal stores them; part of every job key."""

GateState = Literal["none", "ready", "busy", "timed_out"]
"""The gate of one block: not requested; passed; passed except for load by other programs; timed out."""

Stage = Literal["load", "build", "verify", "push", "run", "evaluate"]

LEFT_OUT_WHEN_EMPTY = {"left_out_when_empty": True}
"""Metadata of a field that was added later: if it is empty, the stored record does not contain it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One variant of one model on one device, with run axes, under one measurement protocol."""

    key: str
    build_key: str
    name: str
    """Unique within the sweep, for people: model, variant, threads and, if given, the grid's name."""
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
    """Key of the sentinel job of its device; empty if there is none."""
    device_word: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The last part of its name, which tells its device; empty in a plan of one device."""
    link: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """Where units share the work: key of the job of the common variant on the same unit; empty elsewhere."""

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
    """Of `sweeps.skip_kinds.SKIPS`, or of another package's runtime; empty in old journals."""
    reason: str
    """For people: the particulars."""
    device_word: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """As `Job.device_word`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Why building or running failed. `kind` is snake_case and stable; `message` is for people, and one line: a model's
    exception or a device cannot add a line of its own to what is printed."""

    stage: Stage
    kind: str
    message: str
    next_step: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """What to do about this one; empty where only its kind tells (`sweeps.failure_kinds.remedy`), and in old journals,
    as the fields below."""
    operator: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """What it failed for, such as `aten::pad`."""
    file: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """Of the user's own, relative to their folder, with the line that asks for it."""
    line: int = field(default=0, metadata=LEFT_OUT_WHEN_EMPTY)
    host: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The host of the device, in words, if it is the host that failed (`sweeps.errors.HostError`)."""
    condition: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """Why that host failed: the message without the host's name."""

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
    """In words: `battery at 41.2 °C, above 37 °C`."""
    limit: str = ""
    """The field of `protocol.gate` that it is beyond; empty if no limit of a sweep file would allow it."""
    figure: float = 0.0
    """What was read, as the text has it; 0 without a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The state of the device before and after one block. `None` if the device has no such sensor."""

    temp_start_c: float | None = None
    temp_end_c: float | None = None
    cpu_mhz_start: float | None = None
    cpu_mhz_end: float | None = None
    load_start: float | None = None
    """Share of the device's CPU time (0 to 1) that other programs used just before the block."""
    cpus: str = "all"
    """The CPUs that it ran on, by number; the requested ones if the runner does not report them."""
    throttled: bool | None = None
    fixed_performance: bool | None = None
    """Whether the mode was on; `None` if the device has no such mode, or it was not changed."""
    exec_context: str = "shell"
    gate: GateState = "none"
    lacking: tuple[Lack, ...] = ()
    """The gate conditions that were not met when the block started."""
    waited_seconds: float = 0.0
    """Time spent waiting for the gate, on the device's clock."""
    started_hot: bool = False
    """Whether a block without a gate started warmer than the default gate allows."""
    thermal_status_start: int | None = None
    thermal_status_end: int | None = None
    battery_percent: float | None = None
    steal_share: float | None = None
    """Share of the host's CPU time that the hypervisor gave to other machines during the block."""

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
    """All warm-up iterations after the first inference."""
    first_inference_ns: int | None
    load_ns: int | None
    """These two and the memory figures are `None` if the runner is a stock tool, which does not report them."""
    rss_before_load_bytes: int | None
    rss_peak_bytes: int | None
    backend_ran: str
    engine_ran: str
    threads_ran: int
    """As the runner reports it; in a block with the label `threads_unknown`, the number that was asked for."""
    runner: str
    """Name and version of the program that measured, e.g. `python-torchscript 1`."""
    runtime_version: str
    artifact_sha256: str
    exit_code: int
    conditions: Conditions
    labels: tuple[str, ...] = ()
    """Trust labels found in this block (see `sweeps.trust.TRUST`)."""
    session: int = 0
    """Identifies the run of the driver: two runs may have seen two states of the device. It is the start time in
    seconds since 1970, or one more than the last run's if that is larger. In old journals two runs may share one."""
    device_seconds: float = 0.0
    """Its time on the device's clock, with start, load and warm-up, but without the wait before it."""
    push_seconds: float = field(default=0.0, metadata=LEFT_OUT_WHEN_EMPTY)
    """Time on the device's clock for sending the files that it needed; not in `device_seconds`. 0 where they were on
    the device already, and in old journals."""
    extra_metrics: Mapping[str, float] = field(default_factory=dict, hash=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Further figures of the runner, by its own names (`RuntimeEntry.metrics`)."""
    confirms: bool = field(default=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Measured of a race's winner after it had won: it decides nothing, and makes the figure that is published."""
    checks: bool = field(default=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Measured of the nearest rival of a winner that batches chose. It makes no figure: it can only contradict them."""
    added: bool = field(default=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Measured after the job's rounds had ended, together with others (`edgesweep run --settle`). It is compared with
    theirs; it did not make the job win a race. Not told in old journals."""
    host: str = field(default="", metadata=LEFT_OUT_WHEN_EMPTY)
    """The host of a lab where it was measured: a device may move while a sweep runs. Empty without a lab, and in old
    journals."""

    @property
    def races(self) -> bool:
        """Whether a race may decide by it, or have decided."""
        return not (self.confirms or self.checks or self.added)

    @property
    def visit(self) -> int:
        """Equal for all blocks of one round in one run. Only blocks with the same visit are paired."""
        return self.session * 1000 + self.round


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All accepted blocks of one job on a device that ran the backend, summarised by `sweeps.protocol.blocks`."""

    job_key: str
    rounds: int
    samples: int
    figures: Mapping[str, float] = field(hash=False)
    """Those of the timed figures of `sweeps.metrics.METRICS` that are known, by name."""
    block_medians_ms: tuple[tuple[int, float], ...]
    """(`Block.visit`, median) in order of rounds: the ranking pairs jobs by visit. Without confirming blocks."""
    confirmed_medians_ms: tuple[tuple[int, float], ...] = ()
    """Of a winner that was confirmed: of the blocks that confirm and of those that were added, as `block_medians_ms`,
    which has the added ones too."""
    labels: tuple[str, ...]
    extra_metrics: Mapping[str, float] = field(default_factory=dict, hash=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Each the median over the blocks that have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The accuracy of one build on one evaluation set, computed on the host from the logits that the runner wrote.

    Shares are in percent, differences in percentage points. Figures that need labels are `None` without labels.
    """

    build_key: str
    evaluation_id: str
    """sha256 of the evaluation manifest."""
    engine: str
    executor: str
    """Fingerprint of the device that ran it, or `reference:<backend>@<version>`."""
    images: int
    top1_percent: float | None
    top5_percent: float | None
    reference_top1_percent: float | None
    agreement_percent: float
    """Images with the same top-1 answer as the fp32 eager model."""
    sqnr_db: float | None
    """Signal to quantization-noise ratio against the eager logits; `None` if both are bit-identical."""
    accuracy_drop_points: float | None
    """Eager top-1 minus this build's top-1, paired over the same images; positive is worse."""
    accuracy_drop_low_points: float | None
    accuracy_drop_high_points: float | None
    labels: tuple[str, ...] = ()
    """`invalid_output` if a logit is not finite."""
    device_seconds: float = field(default=0.0, metadata=LEFT_OUT_WHEN_EMPTY)
    """Time of the pass on the clock of the device that ran it, without `push_seconds`; 0 in old journals. A reference
    implementation runs on the host: then it is the host's time."""
    push_seconds: float = field(default=0.0, metadata=LEFT_OUT_WHEN_EMPTY)
    """For sending the images, and the artifact if no block had needed it before; 0 in old journals."""
    extra_metrics: Mapping[str, float] = field(default_factory=dict, hash=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """What was counted in the pass besides (`RuntimeEntry.metrics`)."""

    @property
    def emulated(self) -> bool:
        return self.executor.startswith("reference:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A finished job. `timing` is `None` if the backend was only emulated, or if the job left a race in batches."""

    timing: Timing | None
    accuracy: Accuracy | None
