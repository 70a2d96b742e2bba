"""The table that rankings and pages are made from: one row per job, the same columns always."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import datetime

import pandas as pd

from sweeps.metrics import METRICS
from sweeps.records import Settled
from sweeps.spec import SweepSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One finished job, or one skipped combination, as it is in the store. Text that does not apply is empty."""

    sweep: str
    job_key: str
    """A skipped combination has a key of its own that starts with `skipped-`."""
    build_key: str
    name: str
    model: str
    grid: str
    device_id: str
    device: str
    """Maker, model and SoC, for people."""
    fingerprint: str
    variant: str
    """The variant's label, for people."""
    runtime: str
    backend: str
    precision: str
    quantization: str
    qengine: str
    interface: str
    layout: str
    capture: str
    format: str
    fuse: bool
    optimize: bool
    granularity: str = "none"
    calibration_images: int = 0
    preference: str = "none"
    relaxed_fp16: bool = False
    flexible_batch: bool = False
    reduced_range: bool = False
    threads: int
    cpus: str
    reuse_input: bool
    outcome: str
    """`measured`, `skipped` or `failed`."""
    stage: str = ""
    kind: str = ""
    reason: str = ""
    """Why it was skipped, or what went wrong."""
    preset: str
    exec_context: str
    runtime_version: str
    gate: str = "none"
    """`gated` where every block waited for a ready device (see `Conditions.gate`), else `none`."""
    fixed_performance: str = ""
    """`on`, `off`, or empty where the device has no such mode."""
    protocol: str = ""
    """JSON of what one block is (`Protocol.comparable`)."""
    runner: str = ""
    engine_ran: str = ""
    backend_ran: str = ""
    executor: str = ""
    """What computed the accuracy: a device's fingerprint or `reference:<backend>@<version>`."""
    emulated: bool = False
    coverage: str = ""
    """JSON of the manifest's `Coverage`, where an accelerator takes the model over."""
    trust: tuple[str, ...] = ()
    """The labels of the timing and of the accuracy."""
    block_medians_ms: tuple[tuple[int, float], ...] = ()
    """(round, median) in order of rounds."""
    rounds: int = 0
    samples: int = 0
    device_seconds: float = 0.0
    """What its blocks cost on the device's clock, starts and warm-ups included, waits not."""
    full_seconds: float = 0.0
    """What the preset `full` would have taken for it at least, from what its blocks show."""
    waited_seconds: float = 0.0
    """For the gate, over all of its blocks."""
    settled: Settled | None = None
    """Why its rounds ended, where that was decided by more than their number."""
    images: int = 0
    stale: bool = False
    """Not in the sweep file any more."""
    run_id: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    """Of `sweeps.metrics.METRICS`; what is unknown is not in it."""


_FIELDS = tuple(entry.name for entry in fields(ResultRow) if entry.name != "metrics")

FRAME_COLUMNS = (*_FIELDS, *METRICS)
"""Every column of the frame, in order: the fields of `ResultRow`, then every metric as a float (NaN is unknown)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResults:
    """One sweep as it is in the store. `frame` has `FRAME_COLUMNS`."""

    name: str
    spec: SweepSpec
    frame: pd.DataFrame
    updated: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepInfo:
    """One line in a list of sweeps. `updated` changes whenever a row does; `runs` counts jobs and skipped ones."""

    name: str
    updated: datetime
    runs: int


def to_frame(rows: Iterable[ResultRow]) -> pd.DataFrame:
    """A data frame with `FRAME_COLUMNS`, one line per row in the order given; also without any row."""
    records = [[getattr(row, name) for name in _FIELDS] + [row.metrics.get(name) for name in METRICS] for row in rows]
    frame = pd.DataFrame.from_records(records, columns=list(FRAME_COLUMNS))
    return frame.astype(dict.fromkeys(METRICS, "float64"))
