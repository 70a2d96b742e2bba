"""The values that travel between the parts of EdgeSweep. Frozen; units in the names; unknown is `None`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from sweeps.variant import RunAxes, Variant

SCHEMA_VERSION = 1
"""Version of the records as the journal stores them; part of every job key."""

GateState = Literal["none", "ready", "busy", "timed_out"]
"""Of one block: no gate was asked for; it was passed; only other programs were in the way; the wait was in vain."""

SettledReason = Literal[
    "stable", "unstable", "slower", "constraint", "disqualified", "best", "undecided", "out_of_time", "reopened"
]

Stage = Literal["load", "build", "verify", "push", "run", "evaluate"]

LEFT_OUT_WHEN_EMPTY = {"left_out_when_empty": True}
"""Metadata of a field that came later: where it is empty, the record is stored as it was without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One variant of one model on one device with run axes under one measurement protocol."""

    key: str
    build_key: str
    name: str
    """Unique within the sweep, for people: model, variant, threads and, where given, the grid's name."""
    model: str
    """The model's name in the sweep file."""
    grid: str
    """The grid's name in the sweep file, or empty."""
    variant: Variant
    run: RunAxes
    device_id: str
    reference: str = ""
    """`reference:<backend>@<version>` where the device can only check this job, not time it; else empty."""
    sentinel: str = ""
    """Key of the job that shows whether its device changed; empty where there is none."""

    @property
    def emulated(self) -> bool:
        return bool(self.reference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A combination that the plan knows to be impossible or pointless."""

    name: str
    model: str
    grid: str
    variant: Variant
    run: RunAxes
    device_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """What was found while building or running. `kind` is snake_case and stable; `message` is for people."""

    stage: Stage
    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The state of the device around one block. `None` where the device has no such sensor."""

    temp_start_c: float | None = None
    temp_end_c: float | None = None
    cpu_mhz_start: float | None = None
    cpu_mhz_end: float | None = None
    load_start: float | None = None
    """Share of the device's CPU time (0 to 1) that was taken by others just before the block."""
    cpus: str = "all"
    """The CPUs that it ran on, by number; as it was asked for where the runner does not tell."""
    throttled: bool | None = None
    fixed_performance: bool | None = None
    """Whether the mode was on; `None` where the device has none, or it was left alone."""
    exec_context: str = "shell"
    gate: GateState = "none"
    lacking: tuple[str, ...] = ()
    """What the device was not ready for as the block started, in words."""
    waited_seconds: float = 0.0
    """For the gate, on the device's clock."""
    started_hot: bool = False
    """Without a gate, warmer than the usual one allows."""
    thermal_status_start: int | None = None
    thermal_status_end: int | None = None
    battery_percent: float | None = None
    steal_share: float | None = None
    """Share of the host's CPU time that the hypervisor gave away during the block."""

    @property
    def knows_heat(self) -> bool:
        return self.temp_start_c is not None or self.thermal_status_start is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One process of the runner on the device: one sample of what differs between processes."""

    job_key: str
    round: int
    samples_ns: tuple[int, ...]
    warmup_ns: tuple[int, ...]
    """All warm-up iterations after the first inference."""
    first_inference_ns: int | None
    load_ns: int | None
    """These two are `None` where the runner, a stock tool, does not tell them; so is its memory."""
    rss_before_load_bytes: int | None
    rss_peak_bytes: int | None
    backend_ran: str
    engine_ran: str
    threads_ran: int
    runner: str
    """Name and version of the program that measured, e.g. `python-torchscript 1`."""
    runtime_version: str
    artifact_sha256: str
    exit_code: int
    conditions: Conditions
    labels: tuple[str, ...] = ()
    """Trust labels found in this block (see `sweeps.trust.TRUST`)."""
    session: int = 0
    """Which run of the driver it was: rounds of two runs saw two states of the device. The second since 1970 that it
    started in, or the number after the last run's where that is larger; two runs of old journals may share one."""
    device_seconds: float = 0.0
    """What it cost on the device's clock: start, load and warm-up included, the wait before it not."""
    extra_metrics: Mapping[str, float] = field(default_factory=dict, hash=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """What the runner told besides, by names of its own (`RuntimeEntry.metrics`)."""

    @property
    def visit(self) -> int:
        """The same for all jobs that one round of one run visited: only these are compared pair by pair."""
        return self.session * 1000 + self.round


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Why the rounds of one job ended, with what that was decided on."""

    job_key: str
    budget: Literal["full", "race"]
    rounds: int
    """Blocks that it has by then."""
    reason: SettledReason
    """`best`: it is not told apart from the best of the decided race. `reopened`: it goes on, because the job that
    eliminated it has left the race itself. The others: as they say."""
    message: str
    """For people."""
    by: str = ""
    """Name of the job that it lost to; empty where it lost to none."""
    by_key: str = ""
    """That job's key."""
    ratio: float | None = None
    """Its latency as a multiple of that one's, paired by rounds ..."""
    ratio_low: float | None = None
    """... and at least so much, but with probability `error` in a whole race."""
    error: float | None = None
    device_minutes: float | None = None
    """The limit that was reached, where time ran out."""
    leads: bool = False
    """Of a decided race: the one that it calls best."""
    question: str = ""
    """Of a race: what it was about (`Protocol.question`)."""

    @property
    def eliminated(self) -> bool:
        return self.reason in ("slower", "constraint")

    def told(self, blocks: int) -> str:
        """The message for people, of a job that has so many blocks now."""
        past = f" (so it was after {self.rounds} rounds)" if blocks != self.rounds and not self.eliminated else ""
        return self.message + past

    def reopened(self) -> "Settled":
        """The same job after whoever beat it left the race."""
        return replace(
            self,
            reason="reopened",
            message=f"back in the race: {self.by}, which it lost to, is out of it",
            by="",
            by_key="",
            ratio=None,
            ratio_low=None,
            error=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All accepted blocks of one job on a device that ran the backend, summarised by `sweeps.protocol.blocks`."""

    job_key: str
    rounds: int
    samples: int
    latency_p50_ms: float
    """Median of the block medians."""
    latency_ci_low_ms: float | None
    latency_ci_high_ms: float | None
    """95 % interval from the block medians; `None` for a single block."""
    latency_p90_ms: float | None
    """From 64 samples on, else `None`."""
    latency_p99_ms: float | None
    """From 662 samples on, else `None`."""
    spread_within: float
    """Median over blocks of MAD / median inside a block (a share, 0.01 = 1 %)."""
    spread_between: float | None
    """(max - min) / median of the block medians; `None` for a single block."""
    first_inference_ms: float | None
    load_ms: float | None
    model_rss_mb: float | None
    block_medians_ms: tuple[tuple[int, float], ...]
    """(`Block.visit`, median) in order of rounds: the ranking pairs jobs by visit."""
    temp_start_c: float | None
    temp_end_c: float | None
    labels: tuple[str, ...]
    extra_metrics: Mapping[str, float] = field(default_factory=dict, hash=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Medians over those blocks that have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """What one build answers on one evaluation set, computed on the host from the logits that the runner wrote.

    Shares are in percent, differences in percentage points; labelled figures are `None` without labels.
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
    """Signal to quantization-noise ratio against the eager logits; `None` where both are equal to the bit."""
    accuracy_drop_points: float | None
    """Eager top-1 minus this build's top-1, paired over the same images; positive is worse."""
    accuracy_drop_low_points: float | None
    accuracy_drop_high_points: float | None
    labels: tuple[str, ...] = ()
    """`invalid_output` where a logit is not finite."""

    @property
    def emulated(self) -> bool:
        return self.executor.startswith("reference:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A finished job. `timing` is `None` where the backend only ran emulated."""

    timing: Timing | None
    accuracy: Accuracy | None


Outcome = Measured | Skipped | Failed
