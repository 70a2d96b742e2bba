"""`edgesweep export` takes the build that is asked for."""

from dataclasses import replace

import pytest

from sweeps.errors import EdgeSweepError
from sweeps.ranking.export_choice import choose
from sweeps.ranking.provisional import NextStepHints
from sweeps.ranking.rank import rank_rows
from sweeps.spec.objective import ObjectiveSpec
from sweeps.stats import drop_of


def test_without_a_winner_the_provisional_choice_can_be_taken_or_settled(records):
    drop = drop_of(2, 1, 200)
    row = records.row(records.job(0), name="net · fp32 nchw", images=200, accuracy_seconds=10.0)
    names = ("accuracy_drop_points", "accuracy_drop_low_points", "accuracy_drop_high_points")
    row.metrics.update(zip(names, (drop.value, drop.low, drop.high), strict=True))
    ranking = rank_rows([row], ObjectiveSpec(), "s 1")
    with pytest.raises(EdgeSweepError) as refused:
        choose(ranking, None, None)
    assert "there is no winner to export: of 1 measured none may win" in refused.value.message
    step = refused.value.next_step
    assert step.startswith("take the provisional choice: edgesweep export 's 1' --variant 'fp32 nchw'; or settle it: ")
    assert "write data.evaluation.images: " in step
    assert choose(ranking, None, "fp32 nchw")[1].job_key == row.job_key
    with pytest.raises(EdgeSweepError) as unknown:
        choose(ranking, None, "int9")
    assert unknown.value.next_step == "find the names with: edgesweep rank 's 1' --all"


def test_where_nothing_has_a_figure_the_next_step_is_that_of_the_ranking(records):
    failed = replace(records.row(records.job(0)), outcome="failed", reason="why")
    ranking = rank_rows([failed], ObjectiveSpec(), "s", hints=NextStepHints(seconds=lambda _: 120.0))
    with pytest.raises(EdgeSweepError) as refused:
        choose(ranking, None, None)
    assert refused.value.next_step.endswith("edgesweep run SWEEP.yaml --retry-failed (about 2 min)")
