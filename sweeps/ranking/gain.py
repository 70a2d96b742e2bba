"""The gain of one build over another: latency, size and accuracy. Pure.

Latency: the ratio paired by rounds, compared as in the ranking. Builds that were measured in separate runs have no
round in common; their ratio is that of all their blocks, and its interval includes the changes of the device from one
session to the next (`sweeps.ranking.session_ratio`). Size: the ratio of the file sizes. Accuracy: top-1, or for images
without labels, agreement with the fp32 eager model.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sweeps.ranking.accuracy_change import change
from sweeps.ranking.comparison_input import Result
from sweeps.ranking.same_conditions import alike
from sweeps.ranking.session_ratio import Series, Spread, mean_ms, ratio, session_spread
from sweeps.ranking.ties import MadeOf, latency_ratio, made_of, told_apart
from sweeps.results import ResultRow
from sweeps.stats import Estimate, drop_of

Resolved = Literal["faster", "slower", "more accurate", "less accurate", "no difference shown"]
_LATENCY: dict[Literal["slower", "faster"] | None, Resolved] = {
    "slower": "faster",
    "faster": "slower",
    None: "no difference shown",
}
"""The finding about a build's latency, from the finding about the earlier build's latency relative to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """The changes of a build compared with an earlier one. `None`: unknown."""

    over: str
    speedup: Estimate | None
    """The latency of the earlier build divided by this one's."""
    made_of: MadeOf | None
    """The source of `speedup`; its `ms` is the earlier build's."""
    latency: Resolved | None
    size_ratio: float | None
    """The file size of this build divided by the earlier one's."""
    accuracy_change: Estimate | None
    """The change in percentage points; positive is more accurate."""
    accuracy: Resolved | None


def spread_of(rows: Iterable[ResultRow]) -> Spread:
    """Return the spread between sessions of the device that has these rows."""
    results = map(Result.of_row, rows)
    return session_spread(
        Series(result.medians_ms, tuple(origin.session for origin in result.of_blocks))
        for result in results
        if result.medians_ms
    )


def gain(over: str, earlier: ResultRow, now: ResultRow, spread: Spread) -> Gain:
    """Return the gain of `now` over `earlier`, whose name for people is `over`. `spread`: between sessions of their
    device."""
    speedup, source = _speedup(earlier, now, spread) if len(alike([earlier, now])) == 1 else (None, None)
    changed = _accuracy_change(earlier, now)
    sizes = earlier.figures["artifact_mb"], now.figures["artifact_mb"]
    return Gain(
        over=over,
        speedup=speedup,
        made_of=source,
        latency=None if speedup is None else _LATENCY[told_apart(speedup)],
        size_ratio=sizes[1] / sizes[0] if sizes[0] and sizes[1] else None,
        accuracy_change=changed,
        accuracy=None if changed is None else _more_or_less(changed),
    )


def drop(row: ResultRow) -> Estimate | None:
    """Return the drop in percentage points against the fp32 eager model, in the row's `accuracy_metric`."""
    figures, metric = row.figures, accuracy_metric(row)
    if metric == "top1_percent":
        ends = figures["accuracy_drop_low_points"], figures["accuracy_drop_high_points"]
        value = figures["accuracy_drop_points"]
        return None if value is None else Estimate(value, *ends)
    agreement = figures["agreement_percent"]
    if agreement is None or not row.images:
        return None
    # An image on which the build disagrees with eager counts as lost.
    return drop_of(round((100.0 - agreement) * row.images / 100), 0, row.images)


def accuracy_metric(row: ResultRow) -> str:
    """Return `top1_percent`, or without labels `agreement_percent`; empty if neither is known."""
    for metric in ("top1_percent", "agreement_percent"):
        if row.figures[metric] is not None:
            return metric
    return ""


def _speedup(earlier: ResultRow, now: ResultRow, spread: Spread) -> tuple[Estimate | None, MadeOf | None]:
    paired = latency_ratio(earlier, now)
    if paired is None or paired.low is not None:
        return paired, made_of(earlier, now)
    before, later = Result.of_row(earlier), Result.of_row(now)
    unpaired = ratio(before, later, spread)
    if unpaired is None:
        return paired, made_of(earlier, now)
    return unpaired, MadeOf(source="blocks", ms=mean_ms(before), other_ms=mean_ms(later))


def _more_or_less(changed: Estimate) -> Resolved:
    if changed.low is not None and changed.low > 0.0:
        return "more accurate"
    if changed.high is not None and changed.high < 0.0:
        return "less accurate"
    return "no difference shown"


def _accuracy_change(earlier: ResultRow, now: ResultRow) -> Estimate | None:
    before, after = drop(earlier), drop(now)
    if before is None or after is None or accuracy_metric(earlier) != accuracy_metric(now):
        return None
    if earlier.build_key == now.build_key:
        return Estimate(0.0, 0.0, 0.0)  # Both builds have the same file.
    return change(before, after, now.images) if earlier.images == now.images else None
