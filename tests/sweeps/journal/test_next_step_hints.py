"""A sweep file tells a ranking what its next steps need."""

import math

from sweeps.journal.next_step_hints import hints_of
from sweeps.planning.size import estimate
from sweeps.protocol.presets import protocol_of


def test_jobs_without_figures_take_as_long_as_a_plan_of_them_says(records):
    plan = records.plan(records.job(0), records.job(1))
    rows = [records.row(job, outcome="failed") for job in plan.jobs]
    planned = estimate(plan, protocol_of(plan.sweep), (), ())
    hints = hints_of(plan.sweep)
    assert math.isclose(hints.seconds(rows), planned.builds_s + sum(planned.devices_s.values()))
    assert hints.seconds([]) == 0
