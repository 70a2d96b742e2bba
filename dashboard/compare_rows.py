"""What the page of a comparison shows, made from results and blocks. Pure."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeps.protocol.clock import figure_ns
from sweeps.records import Block
from sweeps.results import ResultRow
from sweeps.stats import Estimate, ratio_by_rounds

BINS = 120
_BASES = {"A": 1.2, "B": 0.0}


def histograms(a: Sequence[Block], b: Sequence[Block]) -> tuple[list[dict[str, Any]], int]:
    """How the samples of both sides are distributed, each side's highest bin 1 high; and how many lie beyond."""
    sides = {
        side: np.concatenate([np.asarray(block.samples_ns, dtype=np.float64) for block in blocks]) / 1e6
        for side, blocks in (("A", a), ("B", b))
        if blocks
    }
    if not sides:
        return [], 0
    low = min(float(one.min()) for one in sides.values())
    high = max(_end_of(one) for one in sides.values())
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
    """Where a chart ends, so that a few outliers do not make the rest a line: far beyond most samples."""
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
    ours, theirs = a.medians_ms, b.medians_ms
    return [
        {"number": number, "a_ms": ours[visit], "b_ms": theirs[visit], "ratio": theirs[visit] / ours[visit]}
        for number, visit in enumerate(sorted(ours.keys() & theirs.keys()), 1)
    ]


def paired_ratio(a: ResultRow, b: ResultRow) -> Estimate | None:
    """The ratio of `paired` rounds, as rankings have it; `None` without such rounds."""
    return ratio_by_rounds(b.medians_ms, a.medians_ms) if paired(a, b) else None


def ratio_text(ratio: Estimate) -> str:
    """`1.91× (1.7 to 2.1)`: as many digits as tell the ratio from 1."""
    digits = 3 if abs(ratio.value - 1) < 0.1 else 2
    ends = "" if ratio.low is None else f" ({ratio.low:.{digits}f} to {ratio.high:.{digits}f})"
    return f"{ratio.value:.{digits}f}×{ends}"


def side_text(sweep: str, job_key: str) -> str:
    """A side as a URL has it. A sweep's name has no colon."""
    return f"{sweep}:{job_key}"


def side_of(text: str) -> tuple[str, str]:
    """Sweep and job key of a side in a URL; either may be empty or unknown."""
    sweep, _, job_key = text.partition(":")
    return sweep, job_key
