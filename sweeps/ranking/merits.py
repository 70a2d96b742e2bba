"""Who may beat whom in a race, from what is known of the jobs before it: their accuracy. Pure."""

from collections.abc import Iterable

from sweeps.metrics import METRICS
from sweeps.ranking.verdict import TIMED, judge
from sweeps.results import ResultRow
from sweeps.spec.sweep import SweepSpec

_LEAST, _UNKNOWN, _MOST = -1e302, -1e301, 1e300
_CLASSES = {"pass": 2.0, "unresolved": 1.0, "fail": 0.0, "disqualified": 0.0}


def merits(rows: Iterable[ResultRow], sweep: SweepSpec) -> dict[str, float]:
    """By job key of rows that have no timing yet, as `sweeps.protocol.racing.Race` takes them.

    Towards one winner: 2 for what passes the objective's constraints as far as they can be told without a time, 1 for
    what may pass, 0 for what does not. Towards a front: its other metric, larger is better; the least for what can not
    win, so that it beats nobody else.
    """
    timeless = tuple(one for one in sweep.objective.constraints if one.metric not in TIMED)
    objective = sweep.objective.model_copy(update={"constraints": timeless})
    found: dict[str, float] = {}
    for row in rows:
        merit = _CLASSES[judge(row, objective).verdict]
        if objective.front is not None and merit > 0:
            value = row.figure(objective.front)
            sign = 1.0 if METRICS[objective.front].better == "higher" else -1.0
            # A race takes finite merits only; a build that is equal to the bit has endless SQNR.
            merit = _UNKNOWN if value is None else max(-_MOST, min(_MOST, sign * value))
        elif objective.front is not None:
            merit = _LEAST
        found[row.job_key] = merit
    return found
