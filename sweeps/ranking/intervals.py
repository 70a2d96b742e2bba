"""The intervals of latencies in a ranking: from the spread of all variants on the device, and of a mixture where the
device went back and forth between two speeds. Pure.

At one speed the interval is that of `sweeps.ranking.moderated_intervals`. With two speeds, the latency around which
processes lie is near the speed that the device has more often. Where the rounds show which one that is, the interval is
at that speed, extended by how far the median of the mixture lies beyond it. Where they do not, it reaches from the fast
speed to the slow one. The speeds are those of all variants together; each variant's levels are its own.

The winner was selected by the blocks that make its interval, unless a race measured it again. Of several that are
equally fast the luckiest wins, so the truth lies above its interval too often. The chance of that is at most 5 % if
each of the k variants that share the first place lies above its own interval with a chance of 5 % / k (Bonferroni).
Then the truth hardly ever lies below the interval, as all k would have to be unlucky.
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
    """Return the two speeds of the device in comparable rows, as far as these can be trusted; `None` where there was
    one.

    A race whose winner was confirmed shows them with all blocks, also those in batches.
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
    `two_speeds` where the device had two. `speeds`: as of `speeds_of(group)`.

    Rows that cannot be trusted neither give nor take. With a coarse clock the stored interval is the least. With too
    few variants to lend, and one speed, all keep theirs.
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
    """Return `row` of `with_intervals(group, speeds)`, which won among so many: the upper end of its interval allows
    for that. A row that was measured again after it had won stays as it is."""
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
    them.

    `candidates`: by place, among how many a variant was selected by these blocks, itself included.
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
    """Return where the median of the mixture lies at least and at most, as factors on the level of the fast speed."""
    below, above = 1.0, speeds.slower
    if speeds.share_high < 0.5:
        above = min(above, math.exp(speeds.spread * normal_quantile(0.5 / (1 - speeds.share_high))))
    if speeds.share_low > 0.5:
        below = max(below, speeds.slower * math.exp(-speeds.spread * normal_quantile(0.5 / speeds.share_low)))
    return below, above


def _medians_ms(group: Sequence[ResultRow]) -> dict[str, dict[int, float]]:
    """Return the medians (ms) by job key, of the rows that can be trusted."""
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
