"""Units of one class under like conditions, pooled."""

import math
from dataclasses import replace

import pytest

from sweeps.ranking.device_classes import ClassRanking
from sweeps.ranking.document import ranking_document
from sweeps.ranking.rank import rank
from sweeps.results import to_frame
from sweeps.settled import Settled
from sweeps.spec.objective import ObjectiveSpec

FREE = ObjectiveSpec(constraints=())
QUICK, SLOW = 0, 1  # jobs of two variants: fp32, int8


@pytest.fixture
def on_unit(records):
    """A variant on a unit, with its time."""

    def make(variant: int, unit: str, ms: float | None, **changes):
        job = records.job(2 * variant + variant % 2, device_id=unit, key=f"{unit} {variant} {changes}")
        row = records.row(job, ms)
        return replace(row, **{"name": f"{row.name} · {unit}", "threads": 1} | changes)

    return make


def classes(rows, objective=FREE) -> tuple[ClassRanking, ...]:
    return rank(to_frame(rows), objective, "s").classes


def test_a_unit_that_is_slow_as_a_whole_does_not_change_what_is_best_on_its_class(on_unit):
    rows = [on_unit(0, "a", 10.0), on_unit(1, "a", 12.0), on_unit(0, "b", 30.0), on_unit(1, "b", 37.5)]
    rows += [on_unit(0, "c", 5.0), on_unit(1, "c", 6.5)]
    (pooled,) = classes(rows)
    assert (pooled.units, pooled.device) == (("a", "b", "c"), "Maker Phone (SoC)")
    first, second = pooled.entries
    assert pooled.winner == first.variant == rows[0].variant
    assert (first.ratio, first.ratio_least, first.ratio_most, first.tied) == (1.0, 1.0, 1.0, True)
    assert (second.ratio, second.ratio_least, second.ratio_most) == pytest.approx((1.25, 1.2, 1.3))
    assert second.ratio_low < 1.25 < second.ratio_high
    assert not second.tied


def test_units_that_disagree_leave_a_tie(on_unit):
    rows = [on_unit(0, "a", 10.0), on_unit(1, "a", 12.0), on_unit(0, "b", 10.0), on_unit(1, "b", 9.5)]
    (pooled,) = classes(rows)
    assert [entry.tied for entry in pooled.entries] == [True, True]
    assert (pooled.entries[1].ratio_least, pooled.entries[1].ratio_most) == pytest.approx((0.95, 1.2))


def test_what_may_not_win_on_one_unit_does_not_win_on_the_class_and_is_shown(on_unit):
    rows = [on_unit(0, "a", 10.0), on_unit(1, "a", 12.0), on_unit(1, "b", 12.0)]
    rows += [on_unit(0, "b", 10.0, trust=("throttled",))]
    (pooled,) = classes(rows)
    assert pooled.winner == rows[1].variant
    assert [(entry.units, entry.passes_on, entry.tied) for entry in pooled.entries] == [(2, 2, True), (2, 1, False)]


def test_without_a_variant_that_may_win_on_every_unit_there_is_no_winner(on_unit):
    (pooled,) = classes([on_unit(0, "a", 10.0), on_unit(1, "b", 12.0)])
    assert (pooled.winner, pooled.entries) == ("", ())


@pytest.mark.parametrize(
    "changes",
    [
        {"fingerprint": "another"},
        {"device": "Maker Tablet (SoC)"},
        {"gate": "gated"},
        {"fixed_performance": "on"},
        {"runtime_version": "2.13.0"},
        {"preset": "full"},
    ],
)
def test_units_of_unlike_conditions_are_not_pooled(on_unit, changes):
    assert len(classes([on_unit(0, "a", 10.0), on_unit(0, "b", 10.0)])) == 1
    assert classes([on_unit(0, "a", 10.0), on_unit(0, "b", 10.0, **changes)]) == ()


def test_run_axes_tell_entries_of_one_variant_apart(on_unit):
    rows = [on_unit(0, unit, ms, threads=threads) for unit in "ab" for threads, ms in ((1, 10.0), (2, 7.0))]
    (pooled,) = classes(rows)
    assert [entry.variant.split(" · ")[1] for entry in pooled.entries] == ["threads 2", "threads 1"]


def test_only_latency_is_pooled(on_unit):
    rows = [on_unit(0, "a", 10.0), on_unit(0, "b", 10.0)]
    assert classes(rows, ObjectiveSpec(minimize="artifact_mb", constraints=())) == ()


def test_the_json_has_the_classes(on_unit):
    document = ranking_document(rank(to_frame([on_unit(0, "a", 10.0), on_unit(0, "b", 10.0)]), FREE, "s"))
    (pooled,) = document["classes"]
    assert pooled["units"] == ("a", "b")
    assert pooled["entries"][0]["ratio"] == 1.0


def ended(**changes) -> Settled:
    default = Settled(job_key="", budget="race", rounds=0, reason="best", message="", batches=6, batches_decide=True)
    return replace(default, **changes)


def untimed(row, **changes):
    metrics = {name: value for name, value in row.metrics.items() if not name.startswith("latency")}
    return replace(row, metrics=metrics, block_medians_ms=(), settled=ended(**changes))


@pytest.fixture
def beside(on_unit):
    """The variant 1 on a unit where batches decided: its ratio to the variant 0."""

    def make(unit: str, ratio: float, first=0):
        leader = replace(on_unit(first, unit, 10.0), settled=ended(leads=True))
        other = on_unit(1 - first, unit, 10.0)
        interval = {"ratio": ratio, "ratio_low": ratio / 1.01, "ratio_high": ratio * 1.01}
        return leader, untimed(other, by="whatever it was called", by_key=leader.job_key, **interval)

    return make


def test_what_batches_judged_is_pooled_by_its_ratio_and_said_to_have_no_time(beside):
    rows = [*beside("a", 1.10), *beside("b", 1.20)]
    (pooled,) = classes(rows)
    assert pooled.winner == rows[0].variant
    first, second = pooled.entries
    assert (second.units, second.in_batches, first.in_batches) == (2, 2, 0)
    assert (second.ratio_least, second.ratio_most) == pytest.approx((1.1, 1.2))
    assert pooled.in_batches == [f"{second.variant}: on 2 of its units only batches gave its ratio, and it has no time"]


def test_units_whose_batches_had_different_winners_still_have_one_for_all(beside):
    rows = [*beside("a", 1.10), *beside("b", 1.02, first=1)]
    (pooled,) = classes(rows)
    assert pooled.winner == rows[0].variant
    assert [(entry.units, entry.in_batches) for entry in pooled.entries] == [(2, 1), (2, 1)]
    assert pooled.entries[1].ratio == pytest.approx(math.sqrt(1.10 / 1.02), rel=0.01)


def test_what_left_in_batches_has_only_a_bound_and_is_named(on_unit, beside):
    slower = [untimed(on_unit(1, unit, 20.0), reason="slower", by_key=f"{unit} 0 {{}}", ratio=2.0) for unit in "ab"]
    (pooled,) = classes([on_unit(0, "a", 10.0), on_unit(0, "b", 11.0), *slower])
    assert [entry.variant for entry in pooled.entries] == [pooled.winner]
    assert pooled.left_in_batches == (slower[0].variant,)
    assert pooled.in_batches == [f"left in batches on a unit, without a time: {slower[0].variant}"]
