"""Intervals of a ranking where a device has two speeds."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sweeps.ranking.intervals import latency_intervals, speeds_of, with_intervals
from sweeps.ranking.moderated_intervals import moderated
from sweeps.ranking.rank import rank
from sweeps.ranking.two_speeds import TwoSpeeds, two_speeds
from sweeps.results import ResultRow, to_frame
from sweeps.spec.objective import ObjectiveSpec
from sweeps.stats import Estimate

STEP = math.log(1.12)
CV = 0.01


def drawn(seed: int, rounds: int, share: float, variants: int = 24) -> list[dict[int, float]]:
    """Block medians around 10 ms at the fast speed."""
    random = np.random.default_rng(seed)
    logs = STEP * (random.random((variants, rounds)) < share) + CV * random.standard_normal((variants, rounds))
    return [{visit: 10.0 * math.exp(log) for visit, log in enumerate(row)} for row in logs]


def holds(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


def test_the_interval_of_two_speeds_not_of_one_holds_the_median_of_their_mixture() -> None:
    share = 0.35
    # Above the fast speed: (1 - share) of the processes lie around it.
    truth = 10.0 * math.exp(CV * 0.736)
    of_two_speeds, of_one_speed = [], []
    for seed in range(25):
        medians = drawn(seed, 10, share)
        of_two_speeds += [holds(interval, truth) for interval in latency_intervals(medians, two_speeds(medians))]
        of_one_speed += [holds(row, truth) for row in moderated([list(row.values()) for row in medians])]
    assert np.mean(of_two_speeds) >= 0.93
    assert np.mean(of_one_speed) < 0.9


def test_the_interval_is_at_the_speed_that_the_rounds_show_to_be_more_common() -> None:
    for share, level in ((0.2, 10.0), (0.8, 10.0 * math.exp(STEP))):
        medians = drawn(1, 30, share)
        speeds = two_speeds(medians)
        assert speeds is not None
        for interval in latency_intervals(medians, speeds):
            assert interval.low is not None
            assert interval.high is not None
            assert interval.high / interval.low < 1.06
            assert abs(math.log(interval.value / level)) < 0.03


def test_where_they_do_not_it_reaches_from_the_fast_speed_to_the_slow_one() -> None:
    medians = drawn(2, 4, 0.5)
    speeds = two_speeds(medians)
    assert speeds is not None
    for interval, sure in zip(latency_intervals(medians, speeds), speeds.sure, strict=True):
        assert interval.low is not None
        assert interval.high is not None
        assert interval.low < 10.1
        assert interval.high > 9.9 * math.exp(STEP)
        assert (math.log(interval.high / interval.low) > 1.9 * STEP) == (not sure), (
            "all blocks at one speed: which one?"
        )


def test_a_single_block_has_no_interval_and_one_speed_is_as_before() -> None:
    medians = [*drawn(3, 6, 0.5), {2: 7.0}]
    speeds = two_speeds(medians)
    assert speeds is not None
    assert latency_intervals(medians, speeds)[-1] == Estimate(7.0, None, None)
    steady = drawn(4, 5, 0.0)
    assert two_speeds(steady) is None
    assert latency_intervals(steady, None) == moderated([list(row.values()) for row in steady])


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_the_interval_of_one_that_was_selected_reaches_higher_and_no_lower(share: float) -> None:
    medians = drawn(7, 6, share)
    speeds = two_speeds(medians)
    assert (speeds is None) == (share == 0.0)
    plain = latency_intervals(medians, speeds)
    for candidates in (1, 2, 3, 24):
        selected = latency_intervals(medians, speeds, {4: candidates})
        assert selected[:4] + selected[5:] == plain[:4] + plain[5:]
        assert (selected[4].value, selected[4].low) == (plain[4].value, plain[4].low)
        assert selected[4].high is not None
        assert plain[4].high is not None
        assert (selected[4].high > plain[4].high) == (candidates > 2), "of two, one is unlucky as often as one is lucky"


@pytest.mark.parametrize("equal", [1, 2, 6])
def test_the_best_of_several_equal_variants_has_an_interval_that_holds_the_truth(equal: int) -> None:
    held, naive = [], []
    for seed in range(300):
        medians = drawn(seed, 3, 0.0, 12)
        for slower in medians[equal:]:
            slower |= {visit: 1.5 * ms for visit, ms in slower.items()}
        best = min(range(equal), key=lambda place: sorted(medians[place].values())[1])
        held.append(holds(latency_intervals(medians, None, {best: equal})[best], 10.0))
        naive.append(holds(latency_intervals(medians, None)[best], 10.0))
    assert 0.92 <= np.mean(held) <= 0.98
    assert equal < 6 or np.mean(naive) < 0.9


def test_the_label_is_on_every_row_that_was_timed_and_can_be_trusted(records) -> None:
    medians = drawn(5, 6, 0.5)
    rows = [
        records.row(
            records.job(2 * number, key=f"{number}"),
            float(np.median(list(row.values()))),
            block_medians_ms=tuple(row.items()),
            trust=("throttled",) if number == 0 else ("ungated",),
        )
        for number, row in enumerate(medians)
    ]
    only_checked = records.row(records.job(1), None)
    labelled = with_intervals(group := [*rows, only_checked], speeds_of(group))
    assert [row.trust for row in (labelled[0], labelled[-1])] == [rows[0].trust, only_checked.trust]
    assert {row.trust for row in labelled[1:-1]} == {("ungated", "two_speeds")}
    assert all(row.metrics["latency_ci_high_ms"] > 11.0 for row in labelled[1:-1])
    steady = [
        records.row(records.job(2 * number), 10.0, block_medians_ms=tuple(row.items()))
        for number, row in enumerate(drawn(6, 6, 0.0))
    ]
    assert not any("two_speeds" in row.trust for row in with_intervals(steady, speeds_of(steady)))


def test_batches_of_all_builds_say_that_a_winner_was_confirmed_in_one_of_two_states(records) -> None:
    def rows(trust: tuple[str, ...] = ()) -> list[ResultRow]:
        """The second batch and the confirmation met a device that was a fifth slower."""
        noise = np.exp(0.01 * np.random.default_rng(3).standard_normal((12, 2)))
        in_batches = []
        for number, (first, second) in enumerate(10.0 * noise * (1.0 + 0.1 * np.arange(12))[:, None]):
            confirmed = {"confirmed_medians_ms": ((70, 12.0), (71, 12.1), (72, 11.9))} if number == 0 else {}
            batches = ((4, first), (5, 1.2 * second))
            row = records.row(records.job(number, key=f"{number}"), 12.0 if confirmed else None, **confirmed)
            trusted = trust if number else ()
            in_batches.append(replace(row, block_medians_ms=(), batch_medians_ms=batches, trust=trusted))
        return in_batches

    group = rows()
    speeds = speeds_of(group)
    assert speeds is not None
    assert (len(speeds.slow), speeds.slow[0]) == (1, {70, 71, 72})
    winner = with_intervals(group, speeds)[0]
    assert "two_speeds" in winner.trust
    assert winner.metrics["latency_ci_low_ms"] < 10.1 < 12.0 < winner.metrics["latency_ci_high_ms"]
    assert speeds_of([replace(row, batch_medians_ms=()) for row in group]) is None, "an early version stored none"
    assert speeds_of(rows(("backend_fell_back",))) is None, "what cannot be trusted says nothing"


def test_an_interval_at_the_share_where_both_are_equally_common_is_finite() -> None:
    half = TwoSpeeds(slower=1.1, spread=0.01, slow=(frozenset(),) * 4, sure=(True,) * 4, share_low=0.5, share_high=0.5)
    for interval in latency_intervals([{0: 10.0, 1: 10.1, 2: 9.9}] * 4, half):
        assert interval.low is not None
        assert interval.high is not None
        assert 9.5 < interval.low < interval.high < 11.5


def test_a_ranking_looks_for_two_speeds_once(records, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def look(medians: list[dict[int, float]]) -> TwoSpeeds | None:
        looks.append(medians)
        return two_speeds(medians)

    monkeypatch.setattr("sweeps.ranking.intervals.two_speeds", look)
    rows = [
        records.row(records.job(2 * number, key=f"{number}"), 10.0, block_medians_ms=tuple(row.items()))
        for number, row in enumerate(drawn(6, 6, 0.5))
    ]
    assert rank(to_frame(rows), ObjectiveSpec(constraints=()), "s").devices[0].winner is not None
    assert len(looks) == 1
