"""What one build gains over another: latency, size and accuracy. Pure.

Latency: the ratio paired by rounds, compared as in the ranking. Builds that were measured in separate runs have no
round in common; theirs is the ratio of all their blocks, whose interval holds what the device does from one session to
the next (`sweeps.ranking.sessions`). Size: the ratio of the file sizes. Accuracy: top-1, or for images without labels,
agreement with the fp32 eager model.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sweeps.ranking.accuracy_change import change
from sweeps.ranking.alike import alike
from sweeps.ranking.comparable import Result
from sweeps.ranking.sessions import Series, Spread, mean_ms, ratio, session_spread
from sweeps.ranking.ties import MadeOf, latency_ratio, made_of, told_apart
from sweeps.results import ResultRow
from sweeps.stats import Estimate, drop_of

Resolved = Literal["faster", "slower", "more accurate", "less accurate", "no difference shown"]
_LATENCY: dict[Literal["slower", "faster"] | None, Resolved] = {
    "slower": "faster",
    "faster": "slower",
    None: "no difference shown",
}
"""The finding for a build, by the finding for the earlier one compared with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a build changed compared with an earlier one. `None`: unknown."""

    over: str
    speedup: Estimate | None
    """Latency of the earlier one divided by this one's."""
    made_of: MadeOf | None
    """What `speedup` is made of; its `ms` is the earlier one's."""
    latency: Resolved | None
    size_ratio: float | None
    """File size of this one divided by the earlier one's."""
    accuracy_change: Estimate | None
    """Percentage points; positive is more accurate."""
    accuracy: Resolved | None


def spread_of(rows: Iterable[ResultRow]) -> Spread:
    """The spread between sessions of the device that has these rows."""
    results = map(Result.of_row, rows)
    return session_spread(
        Series(one.medians_ms, tuple(origin.session for origin in one.of_blocks)) for one in results if one.medians_ms
    )


def gain(over: str, earlier: ResultRow, now: ResultRow, spread: Spread) -> Gain:
    """Of `now` over `earlier`, which is called `over`. `spread`: between sessions of their device."""
    speedup, made = _speedup(earlier, now, spread) if len(alike([earlier, now])) == 1 else (None, None)
    changed = _accuracy_change(earlier, now)
    sizes = earlier.figures["artifact_mb"], now.figures["artifact_mb"]
    return Gain(
        over=over,
        speedup=speedup,
        made_of=made,
        latency=None if speedup is None else _LATENCY[told_apart(speedup)],
        size_ratio=sizes[1] / sizes[0] if sizes[0] and sizes[1] else None,
        accuracy_change=changed,
        accuracy=None if changed is None else _more_or_less(changed),
    )


def drop(row: ResultRow) -> Estimate | None:
    """Percentage points against the fp32 eager model, in its `accuracy_metric`."""
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
    """`top1_percent`, or without labels `agreement_percent`; empty if neither is known."""
    for metric in ("top1_percent", "agreement_percent"):
        if row.figures[metric] is not None:
            return metric
    return ""


def _speedup(earlier: ResultRow, now: ResultRow, spread: Spread) -> tuple[Estimate | None, MadeOf | None]:
    paired = latency_ratio(earlier, now)
    if paired is None or paired.low is not None:
        return paired, made_of(earlier, now)
    then, here = Result.of_row(earlier), Result.of_row(now)
    unpaired = ratio(then, here, spread)
    if unpaired is None:
        return paired, made_of(earlier, now)
    return unpaired, MadeOf(source="blocks", ms=mean_ms(then), other_ms=mean_ms(here))


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
        return Estimate(0.0, 0.0, 0.0)  # the same file
    return change(before, after, now.images) if earlier.images == now.images else None
