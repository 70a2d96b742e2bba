"""The page of a comparison shows these rows, made from results and blocks. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dashboard.markdown_escape import NOTHING, line
from sweeps.metrics import METRICS
from sweeps.protocol.clock import figure_ns
from sweeps.protocol.sessions import run_of, sessions_of
from sweeps.records import Block
from sweeps.results import ResultRow
from sweeps.stats import Estimate, ratio_by_rounds
from sweeps.variant import RunAxes, Variant

BINS = 120
_AXES = ("model", *(axis.name for axis in (*fields(Variant), *fields(RunAxes))), "device", "runtime_version", "sweep")
"""Two results may differ in these axes, by the names that sweep files have."""
_BASES = {"A": 1.2, "B": 0.0}


def histograms(a: Sequence[Block], b: Sequence[Block]) -> tuple[list[dict[str, Any]], int]:
    """The distributions of the samples of both sides, each side's highest bin 1 high; and the number of samples
    beyond."""
    sides = {
        side: np.concatenate([np.asarray(block.samples_ns, dtype=np.float64) for block in blocks]) / 1e6
        for side, blocks in (("A", a), ("B", b))
        if blocks
    }
    if not sides:
        return [], 0
    low = min(float(samples.min()) for samples in sides.values())
    high = max(_end_of(samples) for samples in sides.values())
    high = high if high > low else low * 1.01
    rows: list[dict[str, Any]] = []
    for side, values in sides.items():
        counts, edges = np.histogram(values, bins=BINS, range=(low, high))
        most = max(1, int(counts.max()))
        rows += [
            {
                "side": side,
                "low_ms": float(left),
                "high_ms": float(right),
                "base": _BASES[side],
                "top": _BASES[side] + int(count) / most,
                "samples": int(count),
            }
            for count, left, right in zip(counts, edges, edges[1:], strict=False)
            if count
        ]
    return rows, sum(int((values > high).sum()) for values in sides.values())


def _end_of(values: NDArray[np.float64]) -> float:
    """The end of a chart, which keeps a few outliers from making the rest a line: far beyond most samples."""
    tenth, nine_tenths = np.quantile(values, [0.1, 0.9])
    return min(float(values.max()), float(nine_tenths + 2 * (nine_tenths - tenth)))


def block_points(a: Sequence[Block], b: Sequence[Block]) -> list[dict[str, Any]]:
    """The figure of each block, beneath its side's samples."""
    return [
        {"side": side, "block": number, "ms": figure_ns(block.samples_ns) / 1e6, "base": _BASES[side] - 0.14}
        for side, blocks in (("A", a), ("B", b))
        for number, block in enumerate(blocks, 1)
    ]


def paired(a: ResultRow, b: ResultRow) -> list[dict[str, Any]]:
    """The rounds in which one device measured both, each with both figures and their ratio; none for two devices."""
    if a.device_id != b.device_id:
        return []
    a_ms, b_ms = a.medians_ms, b.medians_ms
    return [
        {"number": number, "a_ms": a_ms[visit], "b_ms": b_ms[visit], "ratio": b_ms[visit] / a_ms[visit]}
        for number, visit in enumerate(sorted(a_ms.keys() & b_ms.keys()), 1)
    ]


def paired_ratio(a: ResultRow, b: ResultRow) -> Estimate | None:
    """The ratio of `paired` rounds, as rankings have it; `None` without such rounds."""
    return ratio_by_rounds(b.medians_ms, a.medians_ms) if paired(a, b) else None


def ratio_text(ratio: Estimate) -> str:
    """`1.91× (1.7 to 2.1)`: as many digits as tell the ratio from 1."""
    digits = 3 if abs(ratio.value - 1) < 0.1 else 2
    ends = "" if ratio.low is None else f" ({ratio.low:.{digits}f} to {ratio.high:.{digits}f})"
    return f"{ratio.value:.{digits}f}×{ends}"


def differences(a: ResultRow, b: ResultRow) -> list[tuple[str, str, str, str]]:
    """The differences of two results, and then every figure that either has, but for the verdict's: title, A's, B's,
    and B against A. Text for elements without Markdown."""
    rows = [
        (name, line(str(getattr(a, name))), line(str(getattr(b, name))), NOTHING)
        for name in _AXES
        if getattr(a, name) != getattr(b, name)
    ]
    for name, metric in METRICS.items():
        a_value, b_value = a.metrics.get(name), b.metrics.get(name)
        if metric.better != "neither" and name not in _ELSEWHERE and (a_value is not None or b_value is not None):
            a_s, b_s = (NOTHING if value is None else metric.format(value) for value in (a_value, b_value))
            rows.append((_TITLES.get(name, metric.title), a_s, b_s, _against(a_value, b_value, metric.unit)))
    return rows


_ELSEWHERE = {"latency_p50_ms", "spread_within", "spread_between"}
"""The verdict has it, of the sessions that are compared; and the charts show how figures are spread."""
_TITLES = {
    "accuracy_drop_points": "Accuracy drop",
    "agreement_percent": "Agreement",
    "artifact_mb": "Size",
    "model_rss_mb": "Memory",
    "sqnr_db": "SQNR",
}
"""The titles are shorter than those of all figures: four columns have to fit a phone's screen."""
_DIFFERENCES = {"%": "points", "points": "points", "dB": "dB", "°C": "°C"}
"""Units of which a difference means more than a ratio, and its own unit."""


def _against(a: float | None, b: float | None, unit: str) -> str:
    """The change from A to B, `0.49×` or `+0.45 points`; empty where a value is unknown."""
    if a is None or b is None:
        return NOTHING
    if unit in _DIFFERENCES:
        return f"{b - a:+.2f} {_DIFFERENCES[unit]}"
    return f"{b / a:.2f}×" if a > 0 and b > 0 else NOTHING


def sessions(row: ResultRow) -> dict[int, int]:
    """The sessions that its blocks are from, by their start (seconds since 1970; 0: unknown), each with its blocks."""
    runs = [run_of(visit) for visit in row.published_medians_ms]
    return dict(sorted(Counter(sessions_of(runs, sorted(row.sessions))).items()))


def in_session(row: ResultRow, run: int, session: int) -> bool:
    """Tell whether a run of the driver belongs to a session of `row`; every run does, if `session` is 0."""
    return not session or sessions_of([run], sorted(row.sessions)) == (session,)


def only(row: ResultRow, session: int) -> ResultRow:
    """The same result with the blocks of one session alone; all of them, if it is 0. Its metrics stay those of all."""

    def of_session(medians: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
        return tuple((visit, ms) for visit, ms in medians if in_session(row, run_of(visit), session))

    return replace(
        row,
        block_medians_ms=of_session(row.block_medians_ms),
        confirmed_medians_ms=of_session(row.confirmed_medians_ms),
    )


def session_text(start: int) -> str:
    """`2026-11-20 14:03 UTC`."""
    return f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d %H:%M} UTC" if start else "at an unknown time"


def dates_text(row: ResultRow) -> str:
    """The dates of the measurement: `on 2026-11-20`, or `from 2026-11-20 to 2026-11-22`; empty if that is unknown."""
    days = [session_text(start)[:10] for start in sessions(row) if start]
    if not days:
        return ""
    return f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"


def side_text(sweep: str, job_key: str, session: int = 0) -> str:
    """A side as a URL has it. A sweep's name has no colon. `session`: its start; 0 is all of them."""
    return f"{sweep}:{job_key}{f':{session}' if session else ''}"


def side_of(text: str) -> tuple[str, str, str]:
    """Sweep, job key and session of a side in a URL; each may be empty or unknown."""
    sweep, _, rest = text.partition(":")
    job_key, _, session = rest.partition(":")
    return sweep, job_key, session
