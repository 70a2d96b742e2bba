"""Races that end with batches, because the device was shown to keep the ratios of builds that share a process."""

from dataclasses import replace

import numpy as np
import pytest

from sweeps.protocol.ended import settles
from sweeps.protocol.presets import PRESETS
from sweeps.protocol.screen import MOST_ALONE, ScreenedRace
from sweeps.protocol.stopping import Contest
from sweeps.records import Settled

NEAR = {"a": 10.0, "b": 10.3, "c": 10.35, "d": 30.0}
TOGETHER = dict.fromkeys(NEAR, "group")
PROTOCOL = replace(PRESETS["race"], question="which")


def batch(keys, seed=0, sigma=0.01):
    random = np.random.default_rng([seed, 3])
    return {key: NEAR[key] * float(np.exp(sigma * random.standard_normal())) for key in keys}


def race(groups=TOGETHER, keys=NEAR):
    return ScreenedRace(dict.fromkeys(keys, 2.0), groups, fewest=2, alone=True)


def driven(one, sigma=0.01, most=100):
    for seed in range(most):
        if not one.batches:
            break
        one.add_batch(batch(one.batches[0], seed, sigma))
    return one


def contest(groups=TOGETHER):
    return Contest({key: f"build {key}" for key in NEAR}, PROTOCOL, dict.fromkeys(NEAR, 2.0), groups=groups, alone=True)


def ends(one, sigma=0.01):
    found = []
    for seed in range(100):
        if not one.batches:
            break
        found += one.count_batch(batch(one.batches[0], seed, sigma))
    return {settled.job_key: settled for settled in found}


def test_batches_go_on_until_the_race_is_decided_and_there_are_no_finals():
    found = driven(race())
    assert found.ended_in_batches
    assert found.decided
    assert found.active == ()
    assert found.leader == "a"
    assert 2 <= found.most_batches < MOST_ALONE
    assert {one.key for one in found.eliminations} == {"d"}, "3 % in a shared process is no reason to leave"
    ratio = found.ratio("b")
    assert ratio.low < 1.03 < ratio.high
    assert ratio.value == pytest.approx(1.03, abs=0.015)
    assert found.ratio("a") is None, "the leader is what the others are held against"


def test_nobody_leaves_after_the_first_batch():
    one = race()
    assert one.add_batch(batch(NEAR, sigma=1e-6)) == ()
    assert set(one.batches[0]) == set(NEAR)


@pytest.mark.parametrize("groups", [{**TOGETHER, "d": "other"}, dict.fromkeys("abc", "group")])
def test_builds_that_cannot_all_share_a_process_have_finals(groups):
    one = driven(race(groups))
    assert not one.alone
    assert not one.ended_in_batches
    assert one.active


def test_one_that_cannot_be_measured_in_a_batch_makes_finals_necessary():
    one = race()
    one.add_batch(batch(NEAR))
    one.add_batch({}, apart=["b"])
    driven(one)
    assert not one.alone
    assert "b" in one.active
    assert one.ratio("c") is None, "only the finals say that"


def test_a_failure_that_ends_the_batches_leaves_the_rest_to_the_finals():
    one = race(dict.fromkeys("abc", "group"), "abc")
    one.add_batch(batch("abc"))
    one.withdraw("a")
    one.withdraw("b")
    assert one.contending == ("c",)
    assert one.active == ("c",)


def test_a_job_that_left_before_may_be_withdrawn_from_a_race_that_has_ended():
    one = driven(race())
    one.withdraw("c")
    assert one.ended_in_batches
    assert one.leader == "a"
    assert one.contending == ("a", "b")


def test_batches_in_which_no_block_counts_are_followed_by_finals():
    one = race()
    while one.batches:
        one.add_batch(dict.fromkeys(one.batches[0]))
    assert one.most_batches == MOST_ALONE
    assert set(one.active) == set(NEAR)


def test_a_race_that_is_still_open_after_its_last_batch_is_undecided():
    one = driven(race(), sigma=1.0)
    assert one.most_batches == MOST_ALONE
    assert one.ended_in_batches
    assert not one.decided
    assert one.leader is not None


def test_who_joins_a_race_that_had_all_its_batches_has_as_many_with_the_others():
    one = race()
    for seed in range(MOST_ALONE):
        one.add_batch(batch("abd", seed, sigma=1.0))
    assert not one.ended_in_batches
    assert "c" in one.batches[0]
    driven(one, sigma=1.0)
    assert not one.decided
    assert one.most_batches == 2 * MOST_ALONE


def test_who_is_left_beside_the_winner_has_its_ratio_and_only_the_nearest_is_checked():
    found = ends(contest())
    assert {key: one.reason for key, one in found.items()} == {"a": "best", "b": "best", "c": "best", "d": "slower"}
    assert all(one.alone and one.rounds == 0 and one.batches for one in found.values())
    assert (found["a"].leads, found["a"].confirmations, found["a"].by) == (True, 3, "")
    second, third = sorted((found["b"], found["c"]), key=lambda one: one.ratio)
    assert (second.confirmations, third.confirmations) == (1, 0)
    for one in (second, third):
        assert (one.by, one.by_key, one.leads) == ("build a", "a", False)
        assert one.ratio_low < one.ratio < one.ratio_high
        assert one.message.startswith("the race is decided by batches: no other is faster by more than 2 %")
        assert f"{one.ratio:.3f} times as slow as build a" in one.message


def test_an_open_race_is_not_measured_again_by_the_next_run():
    found = ends(contest(), sigma=1.0)
    open_ones = [one for one in found.values() if one.reason == "undecided"]
    assert len(open_ones) > 1
    assert all(settles(one, PROTOCOL) for one in open_ones)
    assert f"not decided after {MOST_ALONE} batches" in open_ones[0].message
    in_finals = Settled(job_key="a", budget="race", rounds=2, reason="undecided", message="", question="which")
    assert not settles(in_finals, PROTOCOL)


def test_the_same_batches_give_the_same_ends():
    assert ends(contest()) == ends(contest())


def test_finals_that_follow_decide_as_if_batches_had_not_been_alone():
    one = contest({**TOGETHER, "d": "other"})
    ended = ends(one)
    assert not any(settled.alone for settled in ended.values())
    assert set(one.active) == set(NEAR) - set(ended)
