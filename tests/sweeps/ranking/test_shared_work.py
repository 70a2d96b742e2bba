"""Results of units that share the work, ranked together."""

from dataclasses import replace

import pytest

from dashboard.report.sections import sections
from sweeps.ranking.rank import rank
from sweeps.results import to_frame
from sweeps.spec.objective import ObjectiveSpec

FREE = ObjectiveSpec(constraints=())
COMMON, SECOND, THIRD = 0, 1, 2


@pytest.fixture
def on_unit(records):
    """A variant on a unit, with its time by visit."""

    def make(variant: int, unit: str, medians: dict[int, float], **changes):
        job = records.job(variant, device_id=unit, key=f"{unit} {variant}")
        ms = sorted(medians.values())[len(medians) // 2]
        row = replace(records.row(job, ms), block_medians_ms=tuple(medians.items()), link=f"{unit} {COMMON}")
        return replace(row, **{"name": f"variant {variant} on {unit}", "variant": f"variant {variant}"} | changes)

    return make


@pytest.fixture
def two_units(on_unit):
    """The unit b takes twice as long for everything, and the third variant is as fast as the common one."""
    return [
        on_unit(COMMON, "a", {10: 10.0, 11: 10.2, 12: 9.8, 20: 10.0, 21: 10.1, 22: 9.9}),
        on_unit(SECOND, "a", {20: 15.0, 21: 15.1, 22: 14.9}),
        on_unit(COMMON, "b", {50: 20.0, 51: 20.4, 52: 19.6, 60: 20.0, 61: 20.2, 62: 19.8}),
        on_unit(THIRD, "b", {60: 20.0, 61: 20.2, 62: 19.8}),
    ]


def ranked(rows):
    return rank(to_frame(rows), FREE, "s")


def test_units_that_share_are_ranked_as_one_by_ratios_to_their_common_variant(two_units):
    ranking = ranked(two_units)
    [entry] = ranking.devices
    assert entry.device_id == f"class:{two_units[0].fingerprint}"
    assert ranking.classes == (), "what is ranked together is not pooled once more"
    figures = {candidate.variant: candidate.figures["latency_p50_ms"] for candidate in entry.ranking}
    assert figures == {
        "variant 0": pytest.approx(10.0),
        "variant 1": pytest.approx(15.0),
        "variant 2": pytest.approx(10.0),
    }
    ratios = {candidate.variant: candidate.ratio_to_winner for candidate in entry.ranking}
    slow = ratios["variant 1"]
    assert slow.low < 1.5 < slow.high


def test_the_spread_of_the_common_variant_is_in_the_interval(on_unit, two_units):
    def width(rows) -> float:
        [entry] = ranked(rows).devices
        [third] = [candidate for candidate in entry.ranking if candidate.variant == "variant 2"]
        return third.figures["latency_ci_high_ms"] - third.figures["latency_ci_low_ms"]

    shaken = on_unit(COMMON, "b", {50: 20.0, 51: 20.4, 52: 19.6, 60: 18.0, 61: 20.2, 62: 22.0})
    assert width([*two_units[:2], shaken, two_units[3]]) > 5 * width(two_units)


def test_two_variants_of_one_unit_keep_their_own_ratio(on_unit, two_units):
    other = on_unit(3, "b", {60: 22.0, 61: 22.22, 62: 21.78}, threads=9)
    [entry] = ranked([*two_units, other]).devices
    by_variant = {candidate.variant: candidate for candidate in entry.ranking}
    assert by_variant["variant 3"].figures["latency_p50_ms"] == pytest.approx(11.0)


def test_the_common_variant_is_listed_once_with_the_spread_of_its_unit(two_units):
    [entry] = ranked(two_units).devices
    [common] = [candidate for candidate in entry.ranking if candidate.variant == "variant 0"]
    assert common.job_key == "a 0"
    assert common.figures["latency_ci_low_ms"] < 10.0 < common.figures["latency_ci_high_ms"]


def test_what_has_no_round_with_the_common_variant_is_named_and_not_ranked(on_unit, two_units):
    alone = on_unit(THIRD, "b", {70: 20.0, 71: 20.2})
    [entry] = ranked([*two_units[:3], alone]).devices
    assert [candidate.variant for candidate in entry.ranking] == ["variant 0", "variant 1"]
    [left] = entry.not_ranked
    assert (left.name, "cannot be compared with other units" in left.reason) == ("variant 2 on b", True)


def test_a_common_variant_that_cannot_be_trusted_disqualifies_what_is_compared_by_it(two_units):
    rows = [*two_units[:2], replace(two_units[2], trust=("throttled",)), two_units[3]]
    [entry] = ranked(rows).devices
    verdicts = {candidate.variant: candidate.verdict for candidate in entry.ranking}
    assert verdicts == {"variant 0": "pass", "variant 1": "pass", "variant 2": "disqualified"}


def test_rows_of_a_unit_that_was_taken_out_are_not_ranked(two_units):
    [entry] = ranked([*two_units[:2], *(replace(row, stale=True) for row in two_units[2:])]).devices
    assert [candidate.variant for candidate in entry.ranking] == ["variant 0", "variant 1"]


def test_units_that_share_have_one_section_of_a_report(two_units):
    ranking = ranked(two_units)
    [section] = sections(two_units, ranking, FREE)
    [entry] = ranking.devices
    assert section.device_id == entry.device_id
    [ranks, *_] = section.tables
    assert len(ranks.rows) == len(entry.ranking) == 3
