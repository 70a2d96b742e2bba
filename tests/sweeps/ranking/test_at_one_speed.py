"""Latencies of builds that a device measured on both sides of a shift, and what their rounds can tell apart."""

from dataclasses import replace

import numpy as np
import pytest

from sweeps.protocol.resolvable_difference import told_apart
from sweeps.ranking.at_one_speed import at_one_speed
from sweeps.ranking.intervals import with_intervals
from sweeps.ranking.resolution import resolution
from sweeps.settled import Settled

SLOWER = 1.5


def rows(records, medians_ms, trust=()):
    """One row per build, by visit; its p50 is the median of its own blocks."""
    timed = []
    for number, medians in enumerate(medians_ms):
        ordered = sorted(medians.values())
        row = records.row(records.job(number), ms=ordered[len(ordered) // 2], trust=trust if number == 0 else ())
        timed.append(replace(row, block_medians_ms=tuple(medians.items())))
    return timed


def on_both_sides(run=0):
    """The best build has most of its rounds after the shift, the others before it."""
    before = {1000 * run + visit: 1.0 for visit in range(3)}
    after = {1000 * (run + 1) + visit: SLOWER for visit in range(4)}
    return [
        {visit: 5.0 * factor for visit, factor in (before | after).items()},
        {visit: 6.0 * factor for visit, factor in before.items()},
        {visit: 7.0 * factor for visit, factor in (before | {1000 * (run + 1): SLOWER}).items()},
    ]


def test_builds_with_rounds_on_both_sides_of_a_shift_are_compared_at_one_speed(records):
    before = rows(records, on_both_sides(), trust=("device_moved",))
    adjusted = at_one_speed(before)
    assert [row.figure("latency_p50_ms") for row in before] == [7.5, 6.0, 7.0]
    assert [row.figure("latency_p50_ms") for row in adjusted] == pytest.approx([5.0, 6.0, 7.0])
    assert adjusted[0].metrics["latency_ci_low_ms"] == pytest.approx(5.0)
    assert [row.trust for row in adjusted] == [("device_moved",), (), ()], "the others are as they were"


def test_an_interval_is_of_the_speed_that_its_p50_is_of(records):
    medians = [*on_both_sides(), {visit: 8.0 + visit / 100 for visit in range(3)}]
    medians = [
        {visit: ms * (1 + 0.004 * ((visit * 7 + number) % 3 - 1)) for visit, ms in of.items()}
        for number, of in enumerate(medians)
    ]
    adjusted = at_one_speed(rows(records, medians, trust=("device_moved",)))
    ranked = with_intervals(adjusted, None)[0].metrics
    assert 4.8 < ranked["latency_ci_low_ms"] < ranked["latency_p50_ms"] < ranked["latency_ci_high_ms"] < 5.3


def test_two_runs_at_two_speeds_need_no_label(records):
    adjusted = at_one_speed(rows(records, on_both_sides(run=7)))
    assert [row.figure("latency_p50_ms") for row in adjusted] == pytest.approx([5.0, 6.0, 7.0])
    assert adjusted[0].trust == ("device_moved",)


def test_a_burst_in_one_block_does_not_move_what_a_build_is_compared_by(records):
    medians = on_both_sides()
    medians[1][1] *= 2.0
    adjusted = at_one_speed(rows(records, medians, trust=("device_moved",)))
    assert [row.figure("latency_p50_ms") for row in adjusted] == pytest.approx([5.0, 6.0, 7.0])


@pytest.mark.parametrize("runs", [1, 2])
def test_without_a_shift_all_stays_as_it_was(records, runs):
    medians = [{1000 * (visit % runs) + visit: ms for visit in range(3)} for ms in (5.0, 6.0)]
    before = rows(records, medians)
    assert at_one_speed(before) == before


def test_a_race_compares_by_rounds_already(records):
    ended = Settled(job_key="a", budget="race", rounds=3, reason="best", message="")
    before = [replace(row, settled=ended) for row in rows(records, on_both_sides(), trust=("device_moved",))]
    assert at_one_speed(before) == before


def test_builds_that_share_no_round_with_the_others_stay_as_they_were(records):
    medians = [*on_both_sides(), {9000: 9.0, 9001: 9.0}]
    adjusted = at_one_speed(rows(records, medians, trust=("device_moved",)))
    assert [row.figure("latency_p50_ms") for row in adjusted] == pytest.approx([5.0, 6.0, 7.0, 9.0])


NOISE = ((0.98, 1.02, 1.0), (1.03, 0.99, 0.98), (1.0, 1.01, 1.02), (0.97, 1.0, 1.03))


def noisy(factor=1.0):
    drift = (1.0, 1.3, 1.1)
    return [
        {visit: (5 + number) * drift[visit] * factor_of_visit**factor for visit, factor_of_visit in enumerate(noise)}
        for number, noise in enumerate(NOISE)
    ]


def test_what_the_rounds_tell_apart_comes_from_the_spread_within_rounds(records):
    resolved = resolution(rows(records, noisy()))
    assert resolved.rounds == 3
    logs = np.log(NOISE)
    left = logs - logs.mean(axis=0) - logs.mean(axis=1, keepdims=True) + logs.mean()
    assert resolved.spread == pytest.approx(float(np.sqrt((left**2).sum() / 6))), "builds and rounds are taken away"
    assert resolved.difference == pytest.approx(told_apart(resolved.spread, 3)), (
        "as edgesweep noise says of that spread"
    )
    assert resolved.text.startswith("3 rounds tell builds apart that differ by 12 % or more on this device")


def test_twice_the_noise_tells_less_apart(records):
    assert resolution(rows(records, noisy(2.0))).difference > 2 * resolution(rows(records, noisy())).difference


@pytest.mark.parametrize("medians_ms", [noisy()[:2], [{0: 5.0}, {0: 6.0}], [{0: 5.0, 1: 5.1}] * 2, []])
def test_too_few_blocks_say_nothing_of_it(records, medians_ms):
    assert resolution(rows(records, medians_ms)) is None


def test_in_a_race_the_race_decides(records):
    ended = Settled(job_key="a", budget="race", rounds=3, reason="best", message="")
    assert resolution([replace(row, settled=ended) for row in rows(records, noisy())]) is None
