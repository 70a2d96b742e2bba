"""The rows of the page Compare, computed from results and blocks. Pure."""

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
"""Names, as in sweep files, of the axes in which two results may differ."""
_BASES = {"A": 1.2, "B": 0.0}


def histograms(a: Sequence[Block], b: Sequence[Block]) -> tuple[list[dict[str, Any]], int]:
    """Return histograms of both sides' samples, scaled so that each side's highest bin has the height 1; and the number
    of samples beyond the chart's end."""
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
    """Return the end of the chart's axis: the maximum, but at most far beyond the 90th percentile, so that a few
    outliers do not compress all other samples."""
    tenth, nine_tenths = np.quantile(values, [0.1, 0.9])
    return min(float(values.max()), float(nine_tenths + 2 * (nine_tenths - tenth)))


def block_points(a: Sequence[Block], b: Sequence[Block]) -> list[dict[str, Any]]:
    """Return the figure of each block (ms), placed beneath its side's samples."""
    return [
        {"side": side, "block": number, "ms": figure_ns(block.samples_ns) / 1e6, "base": _BASES[side] - 0.14}
        for side, blocks in (("A", a), ("B", b))
        for number, block in enumerate(blocks, 1)
    ]


def paired(a: ResultRow, b: ResultRow) -> list[dict[str, Any]]:
    """Return the rounds in which one device measured both results, each with both figures (ms) and their ratio B / A;
    empty for two devices."""
    if a.device_id != b.device_id:
        return []
    a_ms, b_ms = a.medians_ms, b.medians_ms
    return [
        {"number": number, "a_ms": a_ms[visit], "b_ms": b_ms[visit], "ratio": b_ms[visit] / a_ms[visit]}
        for number, visit in enumerate(sorted(a_ms.keys() & b_ms.keys()), 1)
    ]


def paired_ratio(a: ResultRow, b: ResultRow) -> Estimate | None:
    """Return the ratio B / A over the `paired` rounds, computed as in rankings; `None` without such rounds."""
    return ratio_by_rounds(b.medians_ms, a.medians_ms) if paired(a, b) else None


def ratio_text(ratio: Estimate) -> str:
    """Format a ratio as `1.91× (1.7 to 2.1)`, with three decimals for a ratio near 1."""
    digits = 3 if abs(ratio.value - 1) < 0.1 else 2
    ends = "" if ratio.low is None else f" ({ratio.low:.{digits}f} to {ratio.high:.{digits}f})"
    return f"{ratio.value:.{digits}f}×{ends}"


def differences(a: ResultRow, b: ResultRow) -> list[tuple[str, str, str, str]]:
    """Return the axes in which two results differ, and then all their figures except those that the verdict shows:
    title, value of A, value of B, and B relative to A. The texts are for elements without Markdown."""
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
"""Metrics that are left out here: the verdict shows the p50 of the compared sessions, and the charts show the
spreads."""
_TITLES = {
    "accuracy_drop_points": "Accuracy drop",
    "agreement_percent": "Agreement",
    "artifact_mb": "Size",
    "model_rss_mb": "Memory",
    "sqnr_db": "SQNR",
}
"""Titles that are shorter than the metrics' own, because four columns have to fit a phone's screen."""
_DIFFERENCES = {"%": "points", "points": "points", "dB": "dB", "°C": "°C"}
"""Units for which a difference is shown instead of a ratio, each with the unit of the difference."""


def _against(a: float | None, b: float | None, unit: str) -> str:
    """Return the change from A to B, such as `0.49×` or `+0.45 points`; `–` if a value is unknown."""
    if a is None or b is None:
        return NOTHING
    if unit in _DIFFERENCES:
        return f"{b - a:+.2f} {_DIFFERENCES[unit]}"
    return f"{b / a:.2f}×" if a > 0 and b > 0 else NOTHING


def sessions(row: ResultRow) -> dict[int, int]:
    """Return the sessions of a result's blocks by their starts (seconds since 1970; 0: unknown), each with its number
    of blocks."""
    runs = [run_of(visit) for visit in row.published_medians_ms]
    return dict(sorted(Counter(sessions_of(runs, sorted(row.sessions))).items()))


def in_session(row: ResultRow, run: int, session: int) -> bool:
    """Tell whether a run of the driver belongs to this session of `row`; always true if `session` is 0."""
    return not session or sessions_of([run], sorted(row.sessions)) == (session,)


def only(row: ResultRow, session: int) -> ResultRow:
    """Return a result with only the blocks of one session; with all blocks if `session` is 0. The metrics stay those of
    all blocks."""

    def of_session(medians: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
        return tuple((visit, ms) for visit, ms in medians if in_session(row, run_of(visit), session))

    return replace(
        row,
        block_medians_ms=of_session(row.block_medians_ms),
        confirmed_medians_ms=of_session(row.confirmed_medians_ms),
    )


def session_text(start: int) -> str:
    """Format the start of a session (seconds since 1970) as `2026-11-20 14:03 UTC`."""
    return f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d %H:%M} UTC" if start else "at an unknown time"


def dates_text(row: ResultRow) -> str:
    """Return the dates of a result's measurement as `on 2026-11-20` or `from 2026-11-20 to 2026-11-22`; empty if they
    are unknown."""
    days = [session_text(start)[:10] for start in sessions(row) if start]
    if not days:
        return ""
    return f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"


def side_text(sweep: str, job_key: str, session: int = 0) -> str:
    """Return a side of a comparison as text for a URL, separated by colons, which no sweep's name has. `session`: its
    start; 0 means all sessions."""
    return f"{sweep}:{job_key}{f':{session}' if session else ''}"


def side_of(text: str) -> tuple[str, str, str]:
    """Parse a side of a comparison in a URL into sweep, job key and session; each may be empty or unknown."""
    sweep, _, rest = text.partition(":")
    job_key, _, session = rest.partition(":")
    return sweep, job_key, session
