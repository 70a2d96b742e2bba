"""The results of units that share the work, converted to one of these units. Pure.

Each unit measured the common variant in the rounds of its other variants. A block of another unit is divided by the
common variant's block of the same round on that unit, and multiplied by one on the first unit. So the ranking compares
ratios to each unit's own measurement of the common variant, and the spread of the common variant on both units is in
every interval. Two variants of one unit keep their ratio, because the common variant cancels. If one variant, but not
the common one, is slower on one unit than on the others, that is not detected.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sweeps.device_facts import pool_id
from sweeps.label_kinds import disqualified, stored_in_order
from sweeps.metrics import METRICS
from sweeps.ranking.amounts import INTERVALS
from sweeps.ranking.ties import LATENCY
from sweeps.results import ResultRow
from sweeps.stats import p50_estimate

_SCALED = [name for name, metric in METRICS.items() if metric.in_pool == "scaled"]
_ONE_UNITS_OWN = [name for name, metric in METRICS.items() if metric.in_pool == "own"]


def as_of_one_unit(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Return `rows` of one sweep; rows of units that share the work are converted to one unit, and have the id of their
    pool in place of the device's."""
    shown = [row for row in rows if not row.link]
    pools: dict[tuple[str, str], list[ResultRow]] = defaultdict(list)
    for row in rows:
        if row.link:
            pools[row.model, row.fingerprint].append(row)
    for pool in pools.values():
        shown += _pool(pool)
    return shown


def _pool(rows: Sequence[ResultRow]) -> list[ResultRow]:
    links = {row.job_key: row for row in rows if row.job_key == row.link and row.block_medians_ms}
    # The first unit has the most rounds: each round of another unit is matched with one of these rounds.
    first = min(links.values(), key=lambda row: (-len(row.block_medians_ms), row.device_id), default=None)
    pooled = []
    for row in rows:
        if row.job_key == row.link and first is not None and row is not first and row.timed:
            continue  # The row is of the same variant on another unit.
        if row.timed and row.outcome == "measured":
            link = links.get(row.link)
            row = _unlinked(row) if first is None or link is None else _in_terms_of(first, link, row)
        pooled.append(replace(row, device_id=pool_id(row.fingerprint)))
    return pooled


def _in_terms_of(first: ResultRow, link: ResultRow, row: ResultRow) -> ResultRow:
    """Return `row` as if the first unit had measured it. `link`: the common variant on the row's unit; `first`: the
    common variant on the first unit."""
    levels = sorted(first.medians_ms.items())
    medians: list[tuple[int, float]] = []
    for number, (visit, own) in enumerate(sorted(link.medians_ms.items())):
        if visit in row.medians_ms:
            first_visit, level = levels[number]
            medians.append(
                (first_visit, row.medians_ms[visit] if link is first else row.medians_ms[visit] / own * level)
            )
    if not medians:
        return _unlinked(row)
    doubts = disqualified(link.trust)
    return replace(
        row,
        block_medians_ms=tuple(medians),
        metrics=_metrics(row, [value for _, value in medians], own_unit=link is first),
        trust=stored_in_order((*row.trust, *doubts)) if doubts else row.trust,
    )


def _metrics(row: ResultRow, medians: Sequence[float], *, own_unit: bool) -> Mapping[str, float]:
    estimate = p50_estimate(medians)
    low, high = INTERVALS[LATENCY]
    metrics = {name: value for name, value in row.metrics.items() if name not in (low, high)}
    scale = estimate.value / metrics[LATENCY]
    metrics |= {name: metrics[name] * scale for name in _SCALED if name in metrics}
    if not own_unit:
        metrics = {name: value for name, value in metrics.items() if name not in _ONE_UNITS_OWN}
    metrics[LATENCY] = estimate.value
    if estimate.low is not None and estimate.high is not None:
        metrics |= {low: estimate.low, high: estimate.high}
    return metrics


def _unlinked(row: ResultRow) -> ResultRow:
    reason = "no round in which the common variant was measured on its unit: it cannot be compared with other units"
    return replace(row, outcome="failed", reason=reason, metrics={}, block_medians_ms=())
