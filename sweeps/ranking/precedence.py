"""Who may beat whom in a race, from what is known of the jobs before they are timed: their accuracy. Pure."""

from collections.abc import Iterable

from sweeps.metrics import METRICS
from sweeps.ranking.verdict import TIMED, judge
from sweeps.results import ResultRow
from sweeps.spec.sweep import SweepSpec

_LEAST, _UNKNOWN, _MOST = -1e302, -1e301, 1e300
_CLASSES = {"pass": 2.0, "unresolved": 1.0, "fail": 0.0, "disqualified": 0.0}


def precedence(rows: Iterable[ResultRow], sweep: SweepSpec) -> dict[str, float]:
    """By job key, for rows that have no timing yet: the precedence as `sweeps.protocol.racing.Race` takes it.

    Towards one winner: 2 for a job that passes the objective's constraints as far as they can be told without a time, 1
    for one that may pass, 0 for one that does not. Towards a front: its other metric, larger is better; the least value
    for a job that cannot win, so that it beats no other.
    """
    timeless = tuple(one for one in sweep.objective.constraints if one.metric not in TIMED)
    objective = sweep.objective.model_copy(update={"constraints": timeless})
    found: dict[str, float] = {}
    for row in rows:
        found[row.job_key] = _CLASSES[judge(row, objective).verdict]
        if objective.front is not None:
            found[row.job_key] = _on_front(row, objective.front) if found[row.job_key] > 0 else _LEAST
    return found


def _on_front(row: ResultRow, metric: str) -> float:
    value = row.figure(metric)
    if value is None:
        return _UNKNOWN
    # A race takes finite values only; a build that is equal to the bit has endless SQNR.
    return max(-_MOST, min(_MOST, value if METRICS[metric].better == "higher" else -value))
