"""The intervals of latencies in a ranking: from the spread of all variants on the device, or of a mixture if the device
went back and forth between two speeds. Pure.

At one speed the interval is that of `sweeps.ranking.moderated_intervals`. With two speeds, the latency around which
processes lie is near the speed that the device has more often. If the rounds show which one that is, the interval is at
that speed, extended by how far the median of the mixture lies beyond it. If they do not, it reaches from the fast speed
to the slow one. The speeds are those of all variants together; each variant has its own levels.

The winner was selected by the same blocks that determine its interval, unless a race measured it again. Of several
equally fast variants the luckiest wins, so its true latency lies above its interval too often. The chance of that is at
most 5 % if each of the k variants that share the first place lies above its own interval with a chance of 5 % / k
(Bonferroni). The true latency then hardly ever lies below the interval, as all k would have to be unlucky.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sweeps.distributions import normal_quantile
from sweeps.label_kinds import disqualified, stored_in_order
from sweeps.ranking.amounts import INTERVALS, interval
from sweeps.ranking.moderated_intervals import FEWEST_VARIANTS, moderated
from sweeps.ranking.race_speeds import RaceBlocks, race_speeds
from sweeps.ranking.ties import LATENCY
from sweeps.ranking.two_speeds import TwoSpeeds, two_speeds
from sweeps.results import ResultRow
from sweeps.stats import CONFIDENCE, TAIL, Estimate, p50_estimate

_NOBODY: Mapping[int, int] = MappingProxyType({})


def speeds_of(group: Sequence[ResultRow]) -> TwoSpeeds | None:
    """Return the two speeds of the device from comparable rows, using only rows that can be trusted; `None` if it had
    one speed.

    If a race confirmed its winner, all blocks of the race are used, including those in batches.
    """
    published = _medians_ms(group)
    if not any(row.confirmed_medians_ms for row in group):
        return two_speeds(list(published.values()))
    raced = {
        row.job_key: RaceBlocks(
            in_batches=dict(row.batch_medians_ms),
            alone=dict(sorted((*row.block_medians_ms, *row.confirmed_medians_ms, *row.check_medians_ms))),
        )
        for row in group
        if not disqualified(row.trust)
    }
    return race_speeds(
        {key: blocks for key, blocks in raced.items() if blocks.in_batches or blocks.alone}, list(published)
    )


def with_intervals(group: Sequence[ResultRow], speeds: TwoSpeeds | None) -> list[ResultRow]:
    """Return comparable rows, with intervals of their latencies from the spread of all of them, and with the label
    `two_speeds` if the device had two speeds. `speeds`: the result of `speeds_of(group)`.

    Rows that cannot be trusted neither contribute to the spread nor change. With a coarse clock the interval is never
    narrower than the stored one. With one speed and too few variants to share their spread, all rows keep their
    intervals.
    """
    medians = _medians_ms(group)
    if speeds is None and sum(len(by_visit) > 1 for by_visit in medians.values()) < FEWEST_VARIANTS:
        return list(group)
    intervals = dict(zip(medians, latency_intervals(list(medians.values()), speeds), strict=True))
    rows = [_with_interval(row, intervals[row.job_key]) if row.job_key in intervals else row for row in group]
    if speeds is None:
        return rows
    return [
        replace(row, trust=stored_in_order((*row.trust, "two_speeds"))) if row.job_key in intervals else row
        for row in rows
    ]


def with_interval_of_winner(
    row: ResultRow, group: Sequence[ResultRow], candidates: int, speeds: TwoSpeeds | None
) -> ResultRow:
    """Return `row` of `with_intervals(group, speeds)`, which was selected as the winner among `candidates`: the upper
    end of its interval allows for that selection. A row that was measured again after it had won stays unchanged."""
    medians = _medians_ms(group)
    stored = interval(row.metrics, LATENCY)
    if row.confirmed_medians_ms or row.job_key not in medians or stored is None:
        return row
    place = list(medians).index(row.job_key)
    estimate = latency_intervals(list(medians.values()), speeds, {place: candidates})[place]
    high = max(stored[1], estimate.high or 0.0)
    return replace(row, metrics={**row.metrics, INTERVALS[LATENCY][1]: high})


def latency_intervals(
    block_medians: Sequence[Mapping[int, float]],
    speeds: TwoSpeeds | None,
    candidates: Mapping[int, int] = _NOBODY,
) -> list[Estimate]:
    """Return the p50 of each variant, in the unit of `block_medians`, which are by visit; `speeds` as computed from
    `block_medians`.

    `candidates`: by index of a variant, the number of variants among which these blocks selected it, itself included.
    """
    tails = {place: min(TAIL, (1 - CONFIDENCE) / count) for place, count in candidates.items()}
    if speeds is None:
        return moderated([list(medians.values()) for medians in block_medians], tails)
    at_fast = [
        [median / speeds.slower if visit in slow else median for visit, median in medians.items()]
        for medians, slow in zip(block_medians, speeds.slow, strict=True)
    ]
    below, above = _ends(speeds)
    estimates = []
    for medians, fast, sure in zip(block_medians, moderated(at_fast, tails), speeds.sure, strict=True):
        value = p50_estimate(list(medians.values())).value
        if fast.low is None or fast.high is None:
            estimates.append(Estimate(value, None, None))
            continue
        unsure = 1.0 if sure else speeds.slower
        estimates.append(Estimate(value, min(value, fast.low * below / unsure), max(value, fast.high * above * unsure)))
    return estimates


def _ends(speeds: TwoSpeeds) -> tuple[float, float]:
    """Return the lower and the upper bound of the mixture's median, as factors on the level of the fast speed."""
    below, above = 1.0, speeds.slower
    if speeds.share_high < 0.5:
        above = min(above, math.exp(speeds.spread * normal_quantile(0.5 / (1 - speeds.share_high))))
    if speeds.share_low > 0.5:
        below = max(below, speeds.slower * math.exp(-speeds.spread * normal_quantile(0.5 / speeds.share_low)))
    return below, above


def _medians_ms(group: Sequence[ResultRow]) -> dict[str, dict[int, float]]:
    """Return the block medians (ms) by job key, of the rows that can be trusted."""
    return {
        row.job_key: row.published_medians_ms
        for row in group
        if row.published_medians_ms and not disqualified(row.trust)
    }


def _with_interval(row: ResultRow, estimate: Estimate) -> ResultRow:
    stored = interval(row.metrics, LATENCY)
    value = row.figure(LATENCY)
    if stored is None or value is None or estimate.low is None or estimate.high is None:
        return row
    ends = [estimate.low, value, estimate.high, *(stored if "coarse_clock" in row.trust else ())]
    low, high = INTERVALS[LATENCY]
    return replace(row, metrics={**row.metrics, low: min(ends), high: max(ends)})
