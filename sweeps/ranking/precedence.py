"""The precedence of jobs: which jobs may beat which in a race, from their accuracy, which is known before they are
timed. Pure."""

from collections.abc import Iterable

from sweeps.ranking.eligibility import judge
from sweeps.results import ResultRow
from sweeps.spec import catalog
from sweeps.spec.sweep import SweepSpec

_LEAST, _UNKNOWN, _MOST = -1e302, -1e301, 1e300
_CLASSES = {"pass": 2.0, "unresolved": 1.0, "fail": 0.0, "disqualified": 0.0}


def precedence(rows: Iterable[ResultRow], sweep: SweepSpec) -> dict[str, float]:
    """Return the precedence of each job key for `sweeps.protocol.racing.Race`; the rows need no timing.

    For one winner, the precedence comes from the constraints that need no latency: 2 if the job passes them, 1 if it
    may pass, 0 if it fails one. For a Pareto front, it is the front's other metric, larger is better. A job that cannot
    win gets the smallest value, so it cannot eliminate another.
    """
    timeless = tuple(
        constraint for constraint in sweep.objective.constraints if not catalog.is_timed(constraint.metric)
    )
    objective = sweep.objective.model_copy(update={"constraints": timeless})
    classes: dict[str, float] = {}
    for row in rows:
        classes[row.job_key] = _CLASSES[judge(row, objective).verdict]
        if objective.front is not None:
            classes[row.job_key] = _on_front(row, objective.front) if classes[row.job_key] > 0 else _LEAST
    return classes


def _on_front(row: ResultRow, metric: str) -> float:
    value = row.figure(metric)
    if value is None:
        return _UNKNOWN
    # A race accepts only finite values; the SQNR of a bit-identical build is infinite.
    return max(-_MOST, min(_MOST, value if catalog.metric(metric).better == "higher" else -value))
