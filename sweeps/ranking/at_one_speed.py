"""Latencies at one speed of a device that shifted for good while it measured, or between two runs. Pure.

Without a race, builds have different rounds: one may have most of its blocks before the shift, another one after it,
and the p50 of each is at the speed during its blocks. The common part of a round cancels within the round. So the
logarithm of a block is modelled as build + round, and a build's latency is that of the build's part, at the speed at
which most blocks were measured. A round's part is the median over its builds, and a build's part the median over its
rounds: bursts in single blocks do not move these medians.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sweeps.label_kinds import disqualified, stored_in_order
from sweeps.protocol.sentinel_rules import MOVED
from sweeps.protocol.sessions import run_of
from sweeps.ranking.amounts import INTERVALS
from sweeps.ranking.round_effects import fit_rounds
from sweeps.ranking.ties import LATENCY
from sweeps.results import ResultRow
from sweeps.stats import NEGLIGIBLE

_PASSES = 200
"""The number of passes of the fit by least squares, which gives the starting point of the fit by medians."""
_MEDIAN_PASSES = 20


def at_one_speed(group: Sequence[ResultRow]) -> list[ResultRow]:
    """Return rows with the same conditions, with all latencies at one speed; the same rows, if the device did not
    shift, or if a race compared them by rounds.

    The device shifted if the sentinel found that, or if the rounds of two runs of the driver lie over 5 % apart. Rows
    whose p50 changes by 2 % or more get the label `device_moved`.
    """
    if any(row.settled is not None and row.settled.budget == "race" for row in group):
        return list(group)
    shifted = any({"device_moved", "device_changed"} & {*row.trust} for row in group)
    sound = {row.job_key: row.medians_ms for row in group if row.medians_ms and not disqualified(row.trust)}
    runs = {run_of(visit) for medians_ms in sound.values() for visit in medians_ms}
    if not shifted and len(runs) < 2:
        return list(group)
    latencies_ms, factors, levels = _fitted(sound)
    if not shifted and (not levels or max(levels) - min(levels) <= math.log1p(MOVED)):
        return list(group)
    return [_at(row, latencies_ms[row.job_key], factors) if row.job_key in latencies_ms else row for row in group]


def _at(row: ResultRow, ms: float, factors: Mapping[int, float]) -> ResultRow:
    # The medians of every build are scaled by the same factors: the common part of a round still cancels, and the
    # interval comes from blocks at this speed.
    medians_ms = tuple((visit, median_ms * factors.get(visit, 1.0)) for visit, median_ms in row.block_medians_ms)
    row, before_ms = replace(row, block_medians_ms=medians_ms), row.figure(LATENCY)
    if before_ms is None or abs(math.log(ms / before_ms)) < math.log1p(NEGLIGIBLE):
        return row
    ends = {name: row.metrics[name] * ms / before_ms for name in INTERVALS[LATENCY] if name in row.metrics}
    trust = stored_in_order((*row.trust, "device_moved"))
    return replace(row, metrics={**row.metrics, LATENCY: ms, **ends}, trust=trust)


def _fitted(
    medians_ms: Mapping[str, Mapping[int, float]],
) -> tuple[dict[str, float], dict[int, float], list[float]]:
    """Return the latencies (ms) of the builds that are linked by common rounds, directly or through other builds (the
    linked set with most blocks); by round, the factor that converts its blocks to that speed; and the levels of the
    runs that have these rounds, as logarithms."""
    logs = {key: {visit: math.log(ms) for visit, ms in medians_ms[key].items()} for key in _linked(medians_ms)}
    _, visits = fit_rounds(logs, statistics.fmean, _PASSES)
    _, visits = fit_rounds(logs, statistics.median, _MEDIAN_PASSES, visits)
    usual = statistics.median(visits[visit] for build_logs in logs.values() for visit in build_logs) if logs else 0.0
    builds = {
        key: statistics.median(log - visits[visit] for visit, log in build_logs.items())
        for key, build_logs in logs.items()
    }
    by_run: dict[int, list[float]] = defaultdict(list)
    for visit, effect in visits.items():
        by_run[run_of(visit)] += [effect] * sum(visit in build_logs for build_logs in logs.values())
    latencies_ms = {key: math.exp(effect + usual) for key, effect in builds.items()}
    factors = {visit: math.exp(usual - effect) for visit, effect in visits.items()}
    return latencies_ms, factors, [statistics.median(effects) for effects in by_run.values()]


def _linked(medians_ms: Mapping[str, Mapping[int, float]]) -> set[str]:
    """Return the largest set of builds, by number of blocks, that are linked by common rounds."""
    left, largest = set(medians_ms), set[str]()
    while left:
        builds, visits = {left.pop()}, set[int]()
        while True:
            visits |= {visit for key in builds for visit in medians_ms[key]}
            more = {key for key in left if visits & medians_ms[key].keys()}
            if not more:
                break
            builds |= more
            left -= more
        largest = max(largest, builds, key=lambda keys: (sum(len(medians_ms[key]) for key in keys), sorted(keys)))
    return largest
