"""Who may beat whom in a race, from what is known of the jobs before it: their accuracy. Pure, but for the journal."""

from collections.abc import Sequence
from dataclasses import replace

from sweeps.frame import ResultRow, to_frame
from sweeps.journal import Journal
from sweeps.metrics import METRICS
from sweeps.plan import Plan
from sweeps.records import Job, Measured
from sweeps.result_rows import read_rows
from sweeps.run_content import of_job
from sweeps.verdict import TIMED, judge

_LEAST, _UNKNOWN, _MOST = -1e302, -1e301, 1e300
_CLASSES = {"pass": 2.0, "unresolved": 1.0, "fail": 0.0, "disqualified": 0.0}


def merits(journal: Journal, plan: Plan, jobs: Sequence[Job]) -> dict[str, float]:
    """By job key, as `sweeps.racing.Race` takes them.

    Towards one winner: 2 for what passes the objective's constraints as far as they can be told without a time, 1 for
    what may pass, 0 for what does not. Towards a front: its other metric, larger is better; the least for what can not
    win, so that it beats nobody else.
    """
    timeless = tuple(one for one in plan.sweep.objective.constraints if one.metric not in TIMED)
    objective = plan.sweep.objective.model_copy(update={"constraints": timeless})
    rows = [_row(journal, plan.sweep.name, job) for job in jobs]
    found: dict[str, float] = {}
    for row in read_rows(to_frame(rows), plan.sweep.name):
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


def _row(journal: Journal, sweep: str, job: Job) -> ResultRow:
    planned = journal.circumstances(sweep, job.key)
    executor = job.reference or planned.facts.fingerprint
    accuracy = journal.accuracy(job.build_key, planned.evaluation_id or "", job.variant.qengine, executor)
    outcome = Measured(timing=None, accuracy=accuracy)
    return replace(of_job(sweep, job, planned, outcome, (), journal.artifact(job.build_key)).row, stale=False)
