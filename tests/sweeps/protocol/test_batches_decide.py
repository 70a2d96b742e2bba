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


def new_race(groups=TOGETHER, keys=NEAR):
    return ScreenedRace(dict.fromkeys(keys, 2.0), groups, fewest=2, deciding=Deciding(2, MOST))


def driven(race, sigma=0.01, most=100):
    for seed in range(most):
        if not race.batches:
            break
        race.add_batch(batch(race.batches[0], seed, sigma))
    return race


def new_contest(groups=TOGETHER):
    return Contest(
        {key: f"build {key}" for key in NEAR}, PROTOCOL, dict.fromkeys(NEAR, 2.0), groups=groups, batches_decide=True
    )


def ends(contest, sigma=0.01):
    settled_jobs = []
    for seed in range(100):
        if not contest.batches:
            break
        settled_jobs += contest.count_batch(batch(contest.batches[0], seed, sigma))
    return {settled.job_key: settled for settled in settled_jobs}


def test_batches_go_on_until_the_race_is_decided_and_there_are_no_finals():
    decided = driven(new_race())
    assert decided.ended_in_batches
    assert decided.decided
    assert decided.active == ()
    assert decided.leader == "a"
    assert 2 <= decided.most_batches < MOST
    assert {elimination.key for elimination in decided.eliminations} == {"d"}, (
        "3 % in a shared process is no reason to leave"
    )
    ratio = decided.ratio("b")
    assert ratio.low < 1.03 < ratio.high
    assert ratio.value == pytest.approx(1.03, abs=0.015)
    assert decided.ratio("a") is None, "the leader is what the others are held against"


def test_nobody_leaves_after_the_first_batch():
    race = new_race()
    assert race.add_batch(batch(NEAR, sigma=1e-6)) == ()
    assert set(race.batches[0]) == set(NEAR)


@pytest.mark.parametrize("groups", [{**TOGETHER, "d": "other"}, dict.fromkeys("abc", "group")])
def test_builds_that_cannot_all_share_a_process_have_finals(groups):
    race = driven(new_race(groups))
    assert not race.batches_decide
    assert not race.ended_in_batches
    assert race.active


def test_one_that_cannot_be_measured_in_a_batch_makes_finals_necessary():
    race = new_race()
    race.add_batch(batch(NEAR))
    race.add_batch({}, excluded=["b"])
    driven(race)
    assert not race.batches_decide
    assert "b" in race.active
    assert race.ratio("c") is None, "only the finals say that"


def test_a_failure_that_ends_the_batches_leaves_the_rest_to_the_finals():
    race = new_race(dict.fromkeys("abc", "group"), "abc")
    race.add_batch(batch("abc"))
    race.withdraw("a")
    race.withdraw("b")
    assert race.contending == ("c",)
    assert race.active == ("c",)


def test_a_job_that_left_before_may_be_withdrawn_from_a_race_that_has_ended():
    race = driven(new_race())
    race.withdraw("c")
    assert race.ended_in_batches
    assert race.leader == "a"
    assert race.contending == ("a", "b")


def test_batches_in_which_no_block_counts_are_followed_by_finals():
    race = new_race()
    while race.batches:
        race.add_batch(dict.fromkeys(race.batches[0]))
    assert race.most_batches == MOST_BATCHES, "it is the device's doing, and does not take so many"
    assert set(race.active) == set(NEAR)
    assert race.unusable == ()


def test_a_race_that_is_still_open_after_its_last_batch_is_undecided():
    race = driven(new_race(), sigma=1.0)
    assert race.most_batches == MOST
    assert race.ended_in_batches
    assert not race.decided
    assert race.leader is not None


def test_who_joins_a_race_that_had_all_its_batches_has_as_many_with_the_others():
    race = new_race()
    for seed in range(MOST):
        race.add_batch(batch("abd", seed, sigma=1.0))
    assert not race.ended_in_batches
    assert "c" in race.batches[0]
    driven(race, sigma=1.0)
    assert not race.decided
    assert race.most_batches == 2 * MOST


def test_who_is_left_beside_the_winner_has_its_ratio_and_only_the_nearest_is_checked():
    end_of = ends(new_contest())
    assert {key: end.reason for key, end in end_of.items()} == {"a": "best", "b": "best", "c": "best", "d": "slower"}
    assert all(end.batches_decide and end.rounds == 0 and end.batches for end in end_of.values())
    assert (end_of["a"].leads, end_of["a"].confirmations, end_of["a"].by) == (True, 3, "")
    second, third = sorted((end_of["b"], end_of["c"]), key=lambda end: end.ratio)
    assert (second.checks, third.checks) == (1, 0)
    assert {second.confirmations, third.confirmations} == {0}, "it is no winner"
    for end in (second, third):
        assert (end.by, end.by_key, end.leads) == ("build a", "a", False)
        assert end.ratio_low < end.ratio < end.ratio_high
        assert end.message.startswith("the race is decided by batches: no other is faster by more than 2 %")
        assert f"{end.ratio:.3f} times as slow as build a" in end.message


def test_an_open_race_is_not_measured_again_by_the_next_run():
    end_of = ends(new_contest(), sigma=1.0)
    open_ones = [end for end in end_of.values() if end.reason == "undecided"]
    assert len(open_ones) > 1
    assert all(settles(end, PROTOCOL) for end in open_ones)
    assert f"not decided after {MOST} batches" in open_ones[0].message
    in_finals = Settled(job_key="a", budget="race", rounds=2, reason="undecided", message="", question="which")
    assert not settles(in_finals, PROTOCOL)


def test_the_same_batches_give_the_same_ends():
    assert ends(new_contest()) == ends(new_contest())


def test_finals_that_follow_decide_as_if_batches_only_screened():
    open_contest = new_contest({**TOGETHER, "d": "other"})
    ended = ends(open_contest)
    assert not any(settled.batches_decide for settled in ended.values())
    assert set(open_contest.active) == set(NEAR) - set(ended)


def test_a_race_has_as_many_batches_as_the_sweep_file_asks_for_and_no_more():
    race = ScreenedRace(dict.fromkeys(NEAR, 2.0), TOGETHER, fewest=5, deciding=Deciding(5, 7))
    assert driven(race, sigma=1e-4).most_batches == 5
    assert race.decided
    race = ScreenedRace(dict.fromkeys(NEAR, 2.0), TOGETHER, fewest=5, deciding=Deciding(5, 7))
    assert driven(race, sigma=1.0).most_batches == 7
    plain = Contest(dict.fromkeys(NEAR, ""), replace(PROTOCOL, rounds=6), dict.fromkeys(NEAR, 2.0), groups=TOGETHER)
    assert plain.race.most_batches == 0
    many = replace(PROTOCOL, rounds=6)
    counted = Contest(dict.fromkeys(NEAR, ""), many, dict.fromkeys(NEAR, 2.0), groups=TOGETHER, batches_decide=True)
    assert {end.batches for end in ends(counted, sigma=1e-4).values() if end.reason == "best"} == {6}


def test_who_never_counts_is_put_aside_after_as_many_batches_as_it_takes_to_decide():
    contest = new_contest()
    first = contest.count_batch(batch("abd") | {"c": None})
    assert (first, "c" in contest.contending) == ([], True)
    end_of = ends_from(contest.count_batch(batch("abd", 1) | {"c": None}), contest)
    assert end_of["c"].reason == "disqualified"
    assert (end_of["c"].batches, end_of["c"].batches_decide, end_of["c"].rounds) == (2, True, 0)
    assert end_of["a"].reason == "best"
    assert end_of["a"].batches < 6, "it holds nobody up"
    assert settles(end_of["c"], PROTOCOL)
    assert not settles(end_of["c"], replace(PROTOCOL, rounds=5)), "more batches may show something"


def ends_from(settled_jobs, contest):
    return {settled.job_key: settled for settled in settled_jobs} | ends_after(contest)


def ends_after(contest):
    settled_jobs = []
    for seed in range(2, 100):
        if not contest.batches:
            break
        settled_jobs += contest.count_batch(batch(contest.batches[0], seed))
    return {settled.job_key: settled for settled in settled_jobs}


def test_one_whose_blocks_counted_once_is_not_put_aside():
    contest = new_contest()
    contest.count_batch(batch(NEAR))
    end_of = ends_from(contest.count_batch(batch("abd", 1) | {"c": None}), contest)
    assert end_of["c"].reason == "best"
    assert end_of["c"].by_key == "a"


def test_time_that_is_used_up_leaves_the_leader_of_the_batches_with_its_confirmation():
    timed = replace(PROTOCOL, device_minutes=3.0)
    contest = Contest(dict.fromkeys(NEAR, ""), timed, dict.fromkeys(NEAR, 2.0), groups=TOGETHER, batches_decide=True)
    for seed in range(3):
        contest.count_batch(batch(NEAR, seed, sigma=0.2))
    end_of = {settled.job_key: settled for settled in contest.expire()}
    assert contest.batches == contest.active == ()
    assert {end.reason for end in end_of.values()} == {"out_of_time"}
    [leader] = [end for end in end_of.values() if end.leads]
    assert (leader.confirmations, leader.checks) == (timed.confirmations, 0)
    assert "the 3 minutes of the device were used up before this was decided" in leader.message
    assert "led after 3 batches" in leader.message
    rivals = [end for end in end_of.values() if not end.leads]
    assert all(end.by_key == leader.job_key and end.ratio_low < end.ratio < end.ratio_high for end in rivals)
    assert sorted(end.checks for end in rivals) == [0] * (len(rivals) - 1) + [1]
    assert all(end.batches_decide for end in end_of.values())


def test_time_that_is_used_up_after_one_batch_names_nobody():
    timed = replace(PROTOCOL, device_minutes=3.0)
    contest = Contest(dict.fromkeys(NEAR, ""), timed, dict.fromkeys(NEAR, 2.0), groups=TOGETHER, batches_decide=True)
    contest.count_batch(batch(NEAR))
    ends = contest.expire()
    assert not any(end.leads or end.confirmations or end.by_key for end in ends)
    assert all("raise device_minutes" in end.message for end in ends)


def test_the_end_of_an_open_race_is_one_only_for_as_many_batches():
    open_ones = [end for end in ends(new_contest(), sigma=1.0).values() if end.reason == "undecided"]
    assert not any(settles(end, replace(PROTOCOL, max_rounds=MOST + 12)) for end in open_ones)


def test_the_upper_end_of_a_ratio_is_not_its_lower_end_mirrored():
    """Two of three blocks contradict the third: a distribution with two peaks has a long side and a short one."""
    logs = 0.01 * np.random.default_rng(1).standard_normal((3, 12))
    logs[::2, 1] += 0.3
    beliefs = posterior(logs, np.ones(3), np.ones(12, dtype=np.bool_))
    ratio = beliefs.ratio(1, 0)
    assert math.log(ratio.high) == pytest.approx(-beliefs.log_ratio_low(0, 1, 0.025))
    inverse = beliefs.ratio(0, 1)
    assert (inverse.low, inverse.high) == pytest.approx((1 / ratio.high, 1 / ratio.low))
    assert abs(math.log(ratio.high * ratio.low / ratio.value**2)) > 0.01


def test_a_build_that_was_never_held_against_the_leader_has_no_ratio_to_it():
    race = new_race()
    race.add_batch(batch("ab"), batch("cd"))
    race.add_batch(batch("ab", 1), batch("cd", 1))
    assert race.stop()
    assert race.ratio("b" if race.leader == "a" else "a") is not None
    assert race.ratio("c") is None


def test_one_that_is_left_before_the_sweep_s_rounds_are_over_has_ended_all_the_same():
    """Alone in a batch it would be held against nobody: to ask for more would be to ask for ever."""
    far = {"a": 10.0, "b": 20.0, "c": 30.0}
    protocol = replace(PROTOCOL, rounds=6)
    groups = dict.fromkeys(far, "group")
    contest = Contest(dict.fromkeys(far, ""), protocol, dict.fromkeys(far, 2.0), groups=groups, batches_decide=True)
    ends = []
    while contest.batches:
        ends += contest.count_batch({key: far[key] * (1 + 0.001 * len(ends)) for key in contest.batches[0]})
    assert {end.job_key: end.reason for end in ends} == {"a": "best", "b": "slower", "c": "slower"}
    assert max(end.batches for end in ends) < 6
    assert all(settles(end, protocol) for end in ends)
