"""The store's DataFrame, one row per job, as typed values: what the ranking reads."""

import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from sweeps.errors import EdgeSweepError
from sweeps.metrics import METRICS
from sweeps.records import Settled


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One job's result: unknown text is empty, unknown numbers are `None`."""

    name: str
    variant: str
    job_key: str
    build_key: str
    runtime: str
    backend: str
    precision: str
    device: str
    device_id: str
    fingerprint: str
    model: str
    preset: str
    runtime_version: str
    exec_context: str
    gate: str
    """`gated` or `none`."""
    fixed_performance: str
    """`on`, `off`, or empty where the device has no such mode."""
    protocol: str
    """JSON of what one block is; empty in old runs."""
    setup: tuple[str, ...]
    """Variant, grid, threads, CPUs, reuse of the input: the same on another unit, or in another sweep."""
    outcome: str
    stage: str
    kind: str
    reason: str
    runner: str
    """Name and version of the program that timed it; empty where none did."""
    executor: str
    """What computed the accuracy: a device's fingerprint or `reference:<backend>@<version>`."""
    emulated: bool
    """Its answers are a reference implementation's, not the device's."""
    trust: tuple[str, ...]
    medians_ms: dict[int, float]
    """The median of each block by its round."""
    device_seconds: float
    full_seconds: float
    """What the preset `full` would have taken at least."""
    waited_seconds: float
    settled: Settled | None
    """Why its rounds ended, where that was decided by more than their number."""
    figures: dict[str, float | None]
    """Every name in `METRICS`, and the extra metrics that it has."""

    @property
    def place(self) -> tuple[str, str]:
        """What stands in one table, with all that failed there."""
        return self.device_id, self.model

    @property
    def conditions(self) -> tuple[str, ...]:
        """Only rows that have all of these in common are compared."""
        return *self.place, *self.like

    @property
    def like(self) -> tuple[str, ...]:
        """Of its conditions those that another unit of its class may have too."""
        measured = self.preset, self.runtime_version, self.exec_context, self.gate, self.fixed_performance
        return *measured, self.fingerprint

    @property
    def timed(self) -> bool:
        """Whether the device ran it; what was only checked has no time."""
        return self.figures["latency_p50_ms"] is not None

    def figure(self, metric: str) -> float | None:
        """As an objective or a bound sees it: outputs that equal the eager model's to the bit have endless SQNR."""
        value = self.figures[metric]
        if value is None and metric == "sqnr_db" and self.figures["agreement_percent"] is not None:
            return math.inf
        return value


_TEXT = (
    *("name", "variant", "job_key", "build_key", "runtime", "device", "device_id", "fingerprint", "model"),
    *("preset", "runtime_version", "exec_context", "outcome", "stage", "kind", "reason"),
    *("gate", "fixed_performance", "protocol", "backend", "precision", "runner", "executor"),
)
_SETUP = ("variant", "grid", "threads", "cpus", "reuse_input")


def read_rows(frame: pd.DataFrame, sweep: str) -> list[ResultRow]:
    """The rows of one sweep that count (those that are `stale` do not), in order of their names."""
    rows = [
        ResultRow(
            **{column: _text(record.get(column)) for column in _TEXT},
            emulated=_flag(record.get("emulated")),
            trust=tuple(_items(record.get("trust"))),
            medians_ms={int(round_): float(ms) for round_, ms in _items(record.get("block_medians_ms"))},
            setup=tuple(_text(record.get(column)) for column in _SETUP),
            device_seconds=_number(record.get("device_seconds")) or 0.0,
            full_seconds=_number(record.get("full_seconds")) or 0.0,
            waited_seconds=_number(record.get("waited_seconds")) or 0.0,
            settled=settled if isinstance(settled := record.get("settled"), Settled) else None,
            figures={metric: _number(record.get(metric)) for metric in METRICS} | _extra(record.get("extra_metrics")),
        )
        for record in frame.to_dict("records")
        if _text(record.get("sweep")) == sweep and not _flag(record.get("stale"))
    ]
    return sorted(rows, key=lambda row: (row.name, row.job_key))


def of_device(rows: list[ResultRow], device: str) -> list[ResultRow]:
    """Those of one device by its id, its text for people, or a part of either. Raises `EdgeSweepError` for none."""
    exact = [row for row in rows if device in (row.device_id, row.device)]
    part = device.casefold()
    found = exact or [row for row in rows if part in row.device.casefold() or part in row.device_id.casefold()]
    if not found:
        known = sorted({name for row in rows for name in (row.device, row.device_id)})
        close = difflib.get_close_matches(device, known, n=1)
        raise EdgeSweepError(
            f"there are no results of a device {device!r}",
            f"did you mean {close[0]!r}?" if close else f"there are results of: {', '.join(known) or 'no device yet'}",
        )
    return found


def _extra(value: object) -> dict[str, float | None]:
    return dict(value) if isinstance(value, dict) else {}


def _items(value: object) -> Iterable[Any]:
    return value if isinstance(value, (tuple, list)) else ()


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)


def _flag(value: Any) -> bool:
    return not pd.isna(value) and bool(value)


def _number(value: Any) -> float | None:
    return None if pd.isna(value) or not math.isfinite(value) else float(value)
