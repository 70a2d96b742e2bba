"""The results of a sweep: one row per job or skipped combination, for the store and for the ranking.

`to_frame` and `read_rows` convert rows to and from a DataFrame, which always has the same columns (`FRAME_COLUMNS`).
"""

import difflib
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sweeps.errors import EdgeSweepError
from sweeps.metrics import METRICS
from sweeps.settled import Settled
from sweeps.spec.sweep import SweepSpec

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ComparisonConditions:
    """The conditions under which a result was measured, apart from the device. Only results with equal conditions are
    compared."""

    preset: str
    runtime_version: str
    exec_context: str
    gate: str
    """`gated` if every block waited for a ready device (see `sweeps.records.Conditions.gate`), otherwise `none`."""
    fixed_performance: str
    """`on`, `off`, or empty if the device has no such mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One finished job, or one skipped combination. Text that does not apply is empty."""

    sweep: str
    job_key: str
    """The key of the job; a skipped combination has a separate key that starts with `skipped-`."""
    build_key: str
    name: str
    model: str
    grid: str
    device_id: str
    device_word: str = ""
    """As `sweeps.records.Job.device_word`."""
    device: str
    """The maker, model and SoC, for people."""
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
    opset: int = 0
    graph_optimization: str = "none"
    toolchain: str = "installed"
    runner_toolchain: str = "installed"
    threads: int
    cpus: str
    reuse_input: bool
    outcome: str
    """`measured`, `skipped` or `failed`; `waiting` for a job without a result, which is never stored."""
    stage: str = ""
    kind: str = ""
    """The kind of a failure (`sweeps.failure_kinds.FAILURES`) or of a skip (`sweeps.skip_kinds.SKIPS`)."""
    reason: str = ""
    """The reason why the combination was skipped, or what failed; for a measured job, the conditions that its device
    still lacked after waiting."""
    lacking: str = ""
    """JSON of the conditions that the job's device lacked (`sweeps.protocol.not_ready.figures_text`)."""
    preset: str
    exec_context: str
    runtime_version: str
    gate: str = "none"
    """`gate` and `fixed_performance` are as in `ComparisonConditions`."""
    fixed_performance: str = ""
    protocol: str = ""
    """The JSON of the protocol of one block (`Protocol.comparable`); empty in old runs."""
    runner: str = ""
    """The name and version of the program that timed the job; empty if it was not timed."""
    engine_ran: str = ""
    backend_ran: str = ""
    executor: str = ""
    """The executor that computed the accuracy: a device's fingerprint or `reference:<backend>@<version>`."""
    emulated: bool = False
    """Whether a reference implementation, and not the device, computed the answers."""
    coverage: str = ""
    """The JSON of the manifest's `Coverage`; empty without an accelerator."""
    trust: tuple[str, ...] = ()
    """The labels of the timing and of the accuracy."""
    block_medians_ms: tuple[tuple[int, float], ...] = ()
    """The pairs (round, median) in order of rounds, without the blocks that confirm a race's winner."""
    confirmed_medians_ms: tuple[tuple[int, float], ...] = ()
    """The pairs (round, median) of the confirming blocks; the row's latency is from these blocks."""
    batch_medians_ms: tuple[tuple[int, float], ...] = ()
    """The pairs (process, median) of the job's blocks in batches that count, in order. They enter no figure; empty in
    old runs."""
    check_medians_ms: tuple[tuple[int, float], ...] = ()
    """The pairs (round, median) of the blocks that check batches, and count. They enter no figure, and the row may have
    none."""
    sessions: tuple[int, ...] = ()
    """The starts (seconds since 1970) of the sessions of the row's blocks; empty in old runs."""
    rounds: int = 0
    samples: int = 0
    device_seconds: float = 0.0
    """The device time of the row's blocks, with starts and warm-ups, but without waiting."""
    batch_seconds: float = 0.0
    """The row's share of the time of processes that also timed other jobs of a race; 0 in old runs."""
    timed_seconds: float = 0.0
    """The part of `device_seconds` and `batch_seconds` in timed iterations; 0 in old runs."""
    full_seconds: float = 0.0
    """A lower bound of the row's device time with the preset `full`, estimated from its blocks."""
    waited_seconds: float = 0.0
    """The time spent waiting for the gate, before the row's blocks, and the row's share of the waits of its batches."""
    push_seconds: float = 0.0
    """The time spent sending the row's files for blocks; 0 in old runs, and if another job of the same build needed
    them first."""
    accuracy_seconds: float = 0.0
    """The time of the accuracy pass of the row's build, with the files sent for it; 0 in old runs, and if the pass was
    emulated."""
    settled: Settled | None = None
    """The reason why the row's rounds ended; `None` if the number of rounds was fixed."""
    images: int = 0
    link: str = ""
    """As `sweeps.records.Job.link`, if units share the work."""
    stale: bool = False
    """Whether the row's job is no longer in the sweep file."""
    run_id: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The metrics by their names in `sweeps.metrics.METRICS`, with the extra metrics of runners; unknown metrics are
    left out."""

    @property
    def place(self) -> tuple[str, str]:
        """The device and model. Rows of one place are shown in one table, including failed rows."""
        return self.device_id, self.model

    @property
    def conditions(self) -> ComparisonConditions:
        return ComparisonConditions(
            preset=self.preset,
            runtime_version=self.runtime_version,
            exec_context=self.exec_context,
            gate=self.gate,
            fixed_performance=self.fixed_performance,
        )

    @property
    def comparable(self) -> tuple[tuple[str, str], ComparisonConditions, str]:
        """The device and model, the conditions and the fingerprint: only rows with equal values are ranked together.
        See `sweeps.ranking.same_conditions`."""
        return self.place, replace(self.conditions, runtime_version=""), self.fingerprint

    @property
    def setup(self) -> tuple[str, ...]:
        """The variant, grid, threads, CPUs and reuse of the input: equal for the same build, run in the same way, on
        other units or in other sweeps."""
        return self.variant, self.grid, str(self.threads), self.cpus, str(self.reuse_input)

    @property
    def name_here(self) -> str:
        """The row's name within one device's table: without the device, which a plan of several devices adds."""
        return self.name.removesuffix(self.name_suffix)

    @property
    def name_suffix(self) -> str:
        """The part of the row's name that identifies its device; empty in a plan of one device."""
        return f" · {self.device_word}" if self.device_word else ""

    @property
    def reason_in_full(self) -> str:
        """The reason why the row has no figures, with the stage and the kind of a failure."""
        failure = ", ".join(filter(None, (self.stage, self.kind))) if self.outcome == "failed" else ""
        return ": ".join(filter(None, (failure, self.reason))) or "no reason recorded"

    @property
    def medians_ms(self) -> dict[int, float]:
        """The median of each block by its round."""
        return dict(self.block_medians_ms)

    @property
    def published_medians_ms(self) -> dict[int, float]:
        """The block medians behind the row's latency, as `medians_ms`."""
        return dict(self.confirmed_medians_ms or self.block_medians_ms)

    @property
    def figures(self) -> dict[str, float | None]:
        """The figures of all names in `METRICS` (`None` is unknown), and the extra metrics of the row."""
        return {name: self.metrics.get(name) for name in METRICS} | dict(self.metrics)

    @property
    def timed(self) -> bool:
        """Tell whether the device timed the row; a row that was only checked has no latency."""
        return "latency_p50_ms" in self.metrics

    def figure(self, metric: str) -> float | None:
        """Return the value of a metric for objectives and constraints: the SQNR of outputs that are bit-identical to
        eager's is infinite."""
        value = self.metrics.get(metric)
        if value is None and metric == "sqnr_db" and "agreement_percent" in self.metrics:
            return math.inf
        return value


_COLUMNS = {entry.name: entry.type for entry in fields(ResultRow) if entry.name != "metrics"}

FRAME_COLUMNS = (*_COLUMNS, "extra_metrics", *METRICS)
"""The columns of the frame, in order: the fields of `ResultRow`, a dict of the extra metrics by name, then every metric
as a float (NaN is unknown)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResults:
    """The results of one sweep from the store. `frame` has `FRAME_COLUMNS`; `names`: the name of each device in the
    sweep file, by its id."""

    name: str
    spec: SweepSpec
    frame: "pd.DataFrame"
    updated: datetime
    names: Mapping[str, str] = field(default_factory=dict)


def to_frame(rows: Iterable[ResultRow]) -> "pd.DataFrame":
    """Return a data frame with `FRAME_COLUMNS`, one line per row in the given order; `rows` may be empty."""
    import pandas as pd

    records = [
        [*(getattr(row, name) for name in _COLUMNS), _extra(row), *(row.metrics.get(name) for name in METRICS)]
        for row in rows
    ]
    frame = pd.DataFrame.from_records(records, columns=list(FRAME_COLUMNS))
    return frame.astype(dict.fromkeys(METRICS, "float64"))


def read_rows(frame: "pd.DataFrame", sweep: str) -> list[ResultRow]:
    """Return the rows of one sweep that are not `stale`, in order of their names.

    Columns may be missing. Unknown values become empty, false or 0. Numbers that are not finite are unknown.
    """
    records = frame.astype(object).where(frame.notna(), None).to_dict("records")
    rows = [_row({str(column): value for column, value in record.items()}) for record in records]
    rows.sort(key=lambda row: (row.name, row.job_key))
    return [row for row in rows if row.sweep == sweep and not row.stale]


def of_device(rows: list[ResultRow], device: str) -> list[ResultRow]:
    """Return the rows of one device, given by its id, its text for people, or a part of either. Raises `EdgeSweepError`
    if there is none."""
    called = devices_called({(row.device_id, row.device) for row in rows}, device)
    return [row for row in rows if (row.device_id, row.device) in called]


def devices_called(known: Collection[tuple[str, str]], device: str) -> set[tuple[str, str]]:
    """Return those of the `known` devices (id, text for people) that match `device`, as in `of_device`. Raises
    `EdgeSweepError` if there is none."""
    ids = {device, device.rpartition(":")[2], device.replace(":", "-")}  # A sweep file names a device like adb:SERIAL.
    exact = {pair for pair in known if device in pair or pair[0] in ids}
    part = device.casefold()
    matches = exact or {pair for pair in known if any(part in name.casefold() for name in pair)}
    if not matches:
        names = sorted({name for pair in known for name in pair})
        close = difflib.get_close_matches(device, names, n=1)
        raise EdgeSweepError(
            f"there are no results for a device {device!r}",
            f"did you mean {close[0]!r}?" if close else f"there are results for: {', '.join(names) or 'no device yet'}",
        )
    return matches


def _extra(row: ResultRow) -> dict[str, float]:
    return {name: value for name, value in row.metrics.items() if name not in METRICS}


def _row(record: Mapping[str, Any]) -> ResultRow:
    metrics = dict(record.get("extra_metrics") or {})
    metrics |= {name: float(value) for name in METRICS if (value := record.get(name)) is not None}
    values = {name: _cell(name, kind, record.get(name)) for name, kind in _COLUMNS.items()}
    return ResultRow(**values, metrics={name: value for name, value in metrics.items() if math.isfinite(value)})


def _cell(name: str, kind: Any, value: Any) -> Any:
    """Return the value of one column, converted to the type of the row's field; `None` is unknown."""
    match name:
        case "settled":
            return value if isinstance(value, Settled) else None
        case "trust" | "sessions":
            return tuple(value or ())
        case _ if name.endswith("_medians_ms"):
            return tuple((int(round_), float(ms)) for round_, ms in value or () if 0.0 < float(ms) < math.inf)
        case _:
            unknown = value is None or (isinstance(value, float) and not math.isfinite(value))
            return kind() if unknown else kind(value)
