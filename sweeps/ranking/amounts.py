"""Figures for people: a value with its unit, and its interval."""

import math
from collections.abc import Mapping

from sweeps.ranking.interval_scope import IntervalOf, with_scope
from sweeps.spec import catalog
from sweeps.stats import Estimate

DROP = "accuracy_drop_points"

INTERVALS = {
    "latency_p50_ms": ("latency_ci_low_ms", "latency_ci_high_ms"),
    DROP: ("accuracy_drop_low_points", "accuracy_drop_high_points"),
}
"""Metrics that have a 95 % interval, and the names of its bounds."""
_DELEGATED = {"multiply-adds": "delegated_percent", "operators": "delegated_operators_percent"}
_WHOLE_PERCENT = 99.95
"""A share below this percentage is printed as less than 100.0 %."""


def interval(figures: Mapping[str, float | None], metric: str) -> tuple[float, float] | None:
    """Return the lower and upper bound of the metric's 95 % interval; `None` if it has no interval."""
    if metric not in INTERVALS:
        return None
    low, high = (figures.get(name) for name in INTERVALS[metric])
    return None if low is None or high is None else (low, high)


def amount(figures: Mapping[str, float | None], metric: str) -> str:
    """Return a figure as text like `7.81 ms`, with three significant digits."""
    value = figures.get(metric)
    if value is None:
        return "infinite" if metric == "sqnr_db" else "not known"
    shown, unit = catalog.metric(metric).scaled(value)
    return f"{_short(shown)} {unit}".rstrip()


ONLY_IN_BATCHES = (
    "measured in batches only, which give its ratio to the winner and no time; if it is tied, "
    "edgesweep run SWEEP.yaml --settle 3 measures it in processes of its own"
)


def in_words(figures: Mapping[str, float | None], metric: str, of: IntervalOf = "") -> str:
    """Return a figure as text like `7.81 ms (7.50–8.10)`: as `amount`, with the interval if there is one, and the
    states of the device that the interval covers (`of`)."""
    ends = None if figures.get(metric) is None else interval(figures, metric)
    if ends is None:
        return amount(figures, metric)
    return f"{amount(figures, metric)} ({with_scope(f'{_short(ends[0])}–{_short(ends[1])}', of)})"


def paired(ratio: Estimate | None, source: str) -> str:
    """Return a ratio as text like `1.91× (1.70 to 2.10)`: paired by round, or of batches, according to
    `sweeps.ranking.ties.MadeOf.source`; `–` if there is none. The winner's ratio to itself has no interval."""
    if ratio is None or source not in ("rounds", "batches"):
        return "–"
    ends = "" if ratio.low is None or ratio.value == 1.0 == ratio.low else f" ({ratio.low:.2f} to {ratio.high:.2f})"
    return f"{ratio.value:.2f}×{ends}{' in batches' if source == 'batches' else ''}"


def delegated_in_words(figures: Mapping[str, float | None]) -> str:
    """Return a text about the parts of a model that are delegated, if not all are: the usual reason of a slow model.
    Otherwise empty."""
    shares = {part: figures.get(metric) for part, metric in _DELEGATED.items()}
    known = {part: share for part, share in shares.items() if share is not None}
    if not known or min(known.values()) >= _WHOLE_PERCENT:
        return ""
    text = " and ".join(f"{share:.1f} % of its {part}" for part, share in known.items())
    return f"{text} are delegated; the rest runs in slow kernels"


def _short(value: float) -> str:
    digits = 2 if value == 0 else min(6, max(0, 2 - math.floor(math.log10(abs(value)))))
    return f"{value:.{digits}f}"
