"""The cost of each build of a model on each device of a sweep. Pure, from stored rows.

The cost of a build is its p50 latency divided by that of the device's best build that may ship there. Intervals are not
taken into account: only a ranking tells builds apart.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from sweeps.ranking.eligibility import judge_all
from sweeps.ranking.same_conditions import alike
from sweeps.ranking.ties import LATENCY
from sweeps.results import ResultRow
from sweeps.spec.objective import ObjectiveSpec

Setup = tuple[str, ...]
"""Identifies one build and how it is run, like `ResultRow.setup`."""
CellState = Literal["ships", "unresolved", "may_not", "failed", "skipped", "untimed"]


class Cell(NamedTuple):
    """One build on one device: whether it may ship there, and its cost."""

    job_key: str
    state: CellState
    ratio: float | None
    """The build's p50 latency divided by that of the device's best build that may ship; `None` if one of them is
    unknown."""


Cells = Mapping[str, Mapping[Setup, Cell]]
"""The cells by device (or pool) and build."""


def costs_of(rows: Sequence[ResultRow], objective: ObjectiveSpec) -> dict[Setup, Cell]:
    """Return the cell of each build on one device. `rows`: of one model. If there are results under several conditions,
    only the conditions with most rows count, since results under different conditions cannot be compared."""
    group = max(alike([row for row in rows if row.outcome == "measured" and row.timed]), key=len, default=[])
    verdicts = judge_all(group, objective)
    times = {row.job_key: row.metrics[LATENCY] for row in group}
    best = min((times[row.job_key] for row in group if verdicts[row.job_key].verdict == "pass"), default=None)
    costs: dict[Setup, Cell] = {}
    for row in rows:
        state: CellState = "untimed"
        if row.job_key in times:
            verdict = verdicts[row.job_key].verdict
            state = "ships" if verdict == "pass" else "unresolved" if verdict == "unresolved" else "may_not"
        elif row.outcome == "failed":
            state = "failed"
        elif row.outcome == "skipped":
            state = "skipped"
        ratio = times[row.job_key] / best if row.job_key in times and best else None
        known = costs.get(row.setup)
        # Units of a pool may have measured the same build twice.
        if known is None or (known.ratio or math.inf) > (ratio or math.inf):
            costs[row.setup] = Cell(job_key=row.job_key, state=state, ratio=ratio)
    return costs
