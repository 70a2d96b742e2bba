"""The Pareto front of two metrics. Pure."""

import math
from collections.abc import Sequence

from sweeps.ranking.eligibility import direction
from sweeps.ranking.multiplicity import Family
from sweeps.ranking.ties import LATENCY, worse
from sweeps.results import ResultRow
from sweeps.spec import catalog
from sweeps.spec.objective import ObjectiveSpec


def front_of(
    rows: Sequence[ResultRow], contending: Sequence[ResultRow], objective: ObjectiveSpec, other: str
) -> dict[str, bool]:
    """Return for each row whether it is on the Pareto front, by job key. A row is on it if it may win and no other row
    dominates it. A row dominates another if its estimates of both metrics are as good or better, and one metric is
    better beyond doubt: of latencies, for all rows together (`sweeps.ranking.multiplicity`). Eliminated candidates are
    not on the front. Rows with an unknown figure are left out of the result."""
    metric, smaller = direction(objective)
    directions = {metric: smaller, other: catalog.metric(other).better == "lower"}
    known = [row for row in rows if all(row.figure(name) is not None for name in directions)]
    may_win = {row.job_key for row in contending}
    rivals = [row for row in known if row.job_key in may_win]

    family = Family(known)

    def is_worse(row: ResultRow, rival: ResultRow, name: str, less: bool) -> bool:
        return family.is_slower(row, rival, len(rivals)) if name == LATENCY else worse(row, rival, name, less)

    def dominates(rival: ResultRow, row: ResultRow) -> bool:
        as_good = all(signed(rival, name, less) <= signed(row, name, less) for name, less in directions.items())
        return as_good and any(is_worse(row, rival, name, less) for name, less in directions.items())

    return {row.job_key: row.job_key in may_win and not any(dominates(rival, row) for rival in rivals) for row in known}


def signed(row: ResultRow, metric: str, smaller: bool) -> float:
    """Return the metric with its sign chosen so that smaller is better."""
    value = row.figure(metric)
    return math.inf if value is None else value if smaller else -value
