"""Races that end with batches, because the device was shown to keep the ratios of builds that share a process."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sweeps.protocol.posterior import posterior
from sweeps.protocol.presets import PRESETS
from sweeps.protocol.screen import MOST_BATCHES, Deciding
from sweeps.protocol.screened_race import ScreenedRace
from sweeps.protocol.settled_check import settles
from sweeps.protocol.stopping import Contest
from sweeps.settled import Settled

NEAR = {"a": 10.0, "b": 10.3, "c": 10.35, "d": 30.0}
TOGETHER = dict.fromkeys(NEAR, "group")
PROTOCOL = replace(PRESETS["race"], question="which")
MOST = PROTOCOL.last_round


def batch(keys, seed=0, sigma=0.01):
    random = np.random.default_rng([seed, 3])
    return {key: NEAR[key] * float(np.exp(sigma * random.standard_normal())) for key in keys}


def race(groups=TOGETHER, keys=NEAR):
    return ScreenedRace(dict.fromkeys(keys, 2.0), groups, fewest=2, deciding=Deciding(2, MOST))


def driven(one, sigma=0.01, most=100):
    for seed in range(most):
        if not one.batches:
            break
        one.add_batch(batch(one.batches[0], seed, sigma))
    return one


def contest(groups=TOGETHER):
    return Contest(
        {key: f"build {key}" for key in NEAR}, PROTOCOL, dict.fromkeys(NEAR, 2.0), groups=groups, batches_decide=True
    )


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
    assert 2 <= found.most_batches < MOST
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
    assert not one.batches_decide
    assert not one.ended_in_batches
    assert one.active


def test_one_that_cannot_be_measured_in_a_batch_makes_finals_necessary():
    one = race()
    one.add_batch(batch(NEAR))
    one.add_batch({}, apart=["b"])
    driven(one)
    assert not one.batches_decide
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
    assert one.most_batches == MOST_BATCHES, "it is the device's doing, and does not take so many"
    assert set(one.active) == set(NEAR)
    assert one.unusable == ()


def test_a_race_that_is_still_open_after_its_last_batch_is_undecided():
    one = driven(race(), sigma=1.0)
    assert one.most_batches == MOST
    assert one.ended_in_batches
    assert not one.decided
    assert one.leader is not None


def test_who_joins_a_race_that_had_all_its_batches_has_as_many_with_the_others():
    one = race()
    for seed in range(MOST):
        one.add_batch(batch("abd", seed, sigma=1.0))
    assert not one.ended_in_batches
    assert "c" in one.batches[0]
    driven(one, sigma=1.0)
    assert not one.decided
    assert one.most_batches == 2 * MOST


def test_who_is_left_beside_the_winner_has_its_ratio_and_only_the_nearest_is_checked():
    found = ends(contest())
    assert {key: one.reason for key, one in found.items()} == {"a": "best", "b": "best", "c": "best", "d": "slower"}
    assert all(one.batches_decide and one.rounds == 0 and one.batches for one in found.values())
    assert (found["a"].leads, found["a"].confirmations, found["a"].by) == (True, 3, "")
    second, third = sorted((found["b"], found["c"]), key=lambda one: one.ratio)
    assert (second.checks, third.checks) == (1, 0)
    assert {second.confirmations, third.confirmations} == {0}, "it is no winner"
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
    assert f"not decided after {MOST} batches" in open_ones[0].message
    in_finals = Settled(job_key="a", budget="race", rounds=2, reason="undecided", message="", question="which")
    assert not settles(in_finals, PROTOCOL)


def test_the_same_batches_give_the_same_ends():
    assert ends(contest()) == ends(contest())


def test_finals_that_follow_decide_as_if_batches_only_screened():
    one = contest({**TOGETHER, "d": "other"})
    ended = ends(one)
    assert not any(settled.batches_decide for settled in ended.values())
    assert set(one.active) == set(NEAR) - set(ended)


def test_a_race_has_as_many_batches_as_the_sweep_file_asks_for_and_no_more():
    one = ScreenedRace(dict.fromkeys(NEAR, 2.0), TOGETHER, fewest=5, deciding=Deciding(5, 7))
    assert driven(one, sigma=1e-4).most_batches == 5
    assert one.decided
    one = ScreenedRace(dict.fromkeys(NEAR, 2.0), TOGETHER, fewest=5, deciding=Deciding(5, 7))
    assert driven(one, sigma=1.0).most_batches == 7
    asked = Contest(dict.fromkeys(NEAR, ""), replace(PROTOCOL, rounds=6), dict.fromkeys(NEAR, 2.0), groups=TOGETHER)
    assert asked.race.most_batches == 0
    many = replace(PROTOCOL, rounds=6)
    counted = Contest(dict.fromkeys(NEAR, ""), many, dict.fromkeys(NEAR, 2.0), groups=TOGETHER, batches_decide=True)
    assert {end.batches for end in ends(counted, sigma=1e-4).values() if end.reason == "best"} == {6}


def test_who_never_counts_is_put_aside_after_as_many_batches_as_it_takes_to_decide():
    one = contest()
    first = one.count_batch(batch("abd") | {"c": None})
    assert (first, "c" in one.contending) == ([], True)
    found = ends_from(one.count_batch(batch("abd", 1) | {"c": None}), one)
    assert found["c"].reason == "disqualified"
    assert (found["c"].batches, found["c"].batches_decide, found["c"].rounds) == (2, True, 0)
    assert found["a"].reason == "best"
    assert found["a"].batches < 6, "it holds nobody up"
    assert settles(found["c"], PROTOCOL)
    assert not settles(found["c"], replace(PROTOCOL, rounds=5)), "more batches may show something"


def ends_from(found, one):
    return {settled.job_key: settled for settled in found} | ends_after(one)


def ends_after(one):
    found = []
    for seed in range(2, 100):
        if not one.batches:
            break
        found += one.count_batch(batch(one.batches[0], seed))
    return {settled.job_key: settled for settled in found}


def test_one_whose_blocks_counted_once_is_not_put_aside():
    one = contest()
    one.count_batch(batch(NEAR))
    found = ends_from(one.count_batch(batch("abd", 1) | {"c": None}), one)
    assert found["c"].reason == "best"
    assert found["c"].by_key == "a"


def test_time_that_is_used_up_leaves_the_leader_of_the_batches_with_its_confirmation():
    timed = replace(PROTOCOL, device_minutes=3.0)
    one = Contest(dict.fromkeys(NEAR, ""), timed, dict.fromkeys(NEAR, 2.0), groups=TOGETHER, batches_decide=True)
    for seed in range(3):
        one.count_batch(batch(NEAR, seed, sigma=0.2))
    found = {settled.job_key: settled for settled in one.expire()}
    assert one.batches == one.active == ()
    assert {end.reason for end in found.values()} == {"out_of_time"}
    [leader] = [end for end in found.values() if end.leads]
    assert (leader.confirmations, leader.checks) == (timed.confirmations, 0)
    assert "the 3 minutes of the device were used up before this was decided" in leader.message
    assert "led after 3 batches" in leader.message
    others = [end for end in found.values() if not end.leads]
    assert all(end.by_key == leader.job_key and end.ratio_low < end.ratio < end.ratio_high for end in others)
    assert sorted(end.checks for end in others) == [0] * (len(others) - 1) + [1]
    assert all(end.batches_decide for end in found.values())


def test_time_that_is_used_up_after_one_batch_names_nobody():
    timed = replace(PROTOCOL, device_minutes=3.0)
    one = Contest(dict.fromkeys(NEAR, ""), timed, dict.fromkeys(NEAR, 2.0), groups=TOGETHER, batches_decide=True)
    one.count_batch(batch(NEAR))
    found = one.expire()
    assert not any(end.leads or end.confirmations or end.by_key for end in found)
    assert all("raise device_minutes" in end.message for end in found)


def test_the_end_of_an_open_race_is_one_only_for_as_many_batches():
    open_ones = [one for one in ends(contest(), sigma=1.0).values() if one.reason == "undecided"]
    assert not any(settles(one, replace(PROTOCOL, max_rounds=MOST + 12)) for one in open_ones)


def test_the_upper_end_of_a_ratio_is_not_its_lower_end_mirrored():
    """Of three blocks two contradict the third: a distribution with two peaks has a long side and a short one."""
    logs = 0.01 * np.random.default_rng(1).standard_normal((3, 12))
    logs[::2, 1] += 0.3
    found = posterior(logs, np.ones(3), np.ones(12, dtype=np.bool_))
    ratio = found.ratio(1, 0)
    assert math.log(ratio.high) == pytest.approx(-found.log_ratio_low(0, 1, 0.025))
    inverse = found.ratio(0, 1)
    assert (inverse.low, inverse.high) == pytest.approx((1 / ratio.high, 1 / ratio.low))
    assert abs(math.log(ratio.high * ratio.low / ratio.value**2)) > 0.01


def test_a_build_that_was_never_held_against_the_leader_has_no_ratio_to_it():
    one = race()
    one.add_batch(batch("ab"), batch("cd"))
    one.add_batch(batch("ab", 1), batch("cd", 1))
    assert one.stop()
    assert one.ratio("b" if one.leader == "a" else "a") is not None
    assert one.ratio("c") is None


def test_one_that_is_left_before_the_sweep_s_rounds_are_over_has_ended_all_the_same():
    """Alone in a batch it would be held against nobody: to ask for more would be to ask for ever."""
    far = {"a": 10.0, "b": 20.0, "c": 30.0}
    asked = replace(PROTOCOL, rounds=6)
    groups = dict.fromkeys(far, "group")
    one = Contest(dict.fromkeys(far, ""), asked, dict.fromkeys(far, 2.0), groups=groups, batches_decide=True)
    found = []
    while one.batches:
        found += one.count_batch({key: far[key] * (1 + 0.001 * len(found)) for key in one.batches[0]})
    assert {end.job_key: end.reason for end in found} == {"a": "best", "b": "slower", "c": "slower"}
    assert max(end.batches for end in found) < 6
    assert all(settles(end, asked) for end in found)
