import numpy as np
import pytest

from sweeps.protocol.screen import MOST_BATCHES, Screen
from sweeps.protocol.screened_race import ScreenedRace

SPEEDS = {"a": 10.0, "b": 10.6, "c": 12.5, "d": 30.0}


def _batch(keys, seed=0, sigma=0.005):
    random = np.random.default_rng(seed)
    return {key: SPEEDS[key] * float(np.exp(sigma * random.standard_normal())) for key in keys}


def _race(groups, precedence=None):
    return ScreenedRace(precedence or dict.fromkeys(SPEEDS, 2.0), groups, fewest=2)


def test_those_far_behind_leave_after_two_batches_and_the_near_reach_the_finals():
    screen = Screen(dict.fromkeys(SPEEDS, 2.0))
    assert screen.add_batch(_batch(SPEEDS)) == (), "a burst of other work may have met all that is slow"
    eliminations = screen.add_batch(_batch(screen.active, seed=1))
    assert {
        (elimination.key, elimination.by, elimination.rounds, elimination.in_batches) for elimination in eliminations
    } == {("c", "a", 2, True), ("d", "a", 2, True)}
    assert all(elimination.ratio_low > 1.0 for elimination in eliminations)
    assert screen.active == ()
    assert screen.contending == ("a", "b"), "6 % in a shared process may be nothing alone"
    assert screen.effects_ms["b"] / screen.effects_ms["a"] == pytest.approx(1.06, rel=0.02)


def test_blocks_are_brief_until_a_build_is_known_to_be_near_the_leader():
    screen = Screen(dict.fromkeys(SPEEDS, 2.0))
    assert set(screen.brief) == set(SPEEDS), "nothing is known of anyone"
    screen.add_batch({"a": 10.0, "b": 10.6, "c": 12.5, "d": 15.0})
    assert screen.active == ("a", "b", "c", "d")
    assert screen.brief == ("d",)


def test_a_time_that_no_burst_explains_skips_the_second_batch_and_leaves_at_the_end():
    screen = Screen(dict.fromkeys("abcd", 2.0))
    assert screen.add_batch({"a": 10.0, "b": 10.6, "c": 25.0, "d": 40.0}) == (), "nobody leaves after one block"
    assert screen.active == ("a", "b", "c"), "a block may be up to 3 times as slow as its build"
    assert screen.contending == ("a", "b", "c", "d")
    eliminations = []
    while screen.active:
        eliminations += screen.add_batch({"a": 10.0, "b": 10.6, "c": 25.0})
    assert {elimination.key: elimination.common for elimination in eliminations} == {"c": 2, "d": 1}
    assert screen.contending == ("a", "b")


def test_a_leader_is_not_left_alone_in_a_batch():
    screen = Screen(dict.fromkeys("abc", 2.0))
    screen.add_batch({"a": 10.0, "b": 80.0, "c": 90.0})
    assert screen.active == ("a", "b", "c"), "alone it would be held against nobody"


def test_a_screen_ends_after_its_last_batch():
    screen = Screen(dict.fromkeys(SPEEDS, 2.0))
    batches = 0
    while screen.active:
        screen.add_batch(_batch(screen.active, seed=batches, sigma=0.5))
        batches += 1
    assert batches <= MOST_BATCHES


def test_batches_in_which_no_block_counts_end_too():
    race = _race(dict.fromkeys(SPEEDS, "group"))
    batches = 0
    while race.batches:
        race.add_batch(dict.fromkeys(race.batches[0]))
        batches += 1
    assert batches == MOST_BATCHES
    assert set(race.active) == set(SPEEDS), "all go to the finals"


def test_the_finals_begin_when_all_groups_are_screened():
    race = _race({"a": "one", "b": "one", "c": "two", "d": "two"})
    assert race.batches == (), "two candidates are too few for a screen"
    race = _race({"a": "one", "b": "one", "d": "one"})
    assert race.batches == (("a", "b", "d"),)
    assert race.active == ()
    with pytest.raises(ValueError, match="finals have not begun"):
        race.add_round(_batch("abc"))
    for seed in range(2):
        race.add_batch(_batch(race.batches[0], seed=seed))
    assert race.batches == ()
    assert race.active == ("a", "b", "c"), "c has no group and was in no batch"
    for seed in range(4):
        if not race.decided:
            race.add_round(_batch(race.active, seed=10 + seed))
    assert race.decided
    assert race.leader == "a"
    assert {elimination.key: elimination.in_batches for elimination in race.eliminations}["d"]


def test_one_that_is_left_by_its_screen_has_won():
    race = _race({"a": "one", "c": "one", "d": "one"}, dict.fromkeys("acd", 2.0))
    while race.batches:
        race.add_batch(_batch(race.batches[0]))
    assert race.contending == ("a",)
    assert race.decided
    assert race.most_batches == 2


def test_a_candidate_that_fails_is_out_of_the_screen_and_of_the_finals():
    race = _race(dict.fromkeys(SPEEDS, "group"))
    race.withdraw("a")
    assert race.batches == (("b", "c", "d"),)
    with pytest.raises(ValueError, match="not in the race: a"):
        race.withdraw("a")
    while race.batches:
        race.add_batch(_batch(race.batches[0]))
    assert race.contending == ("b",)
    for key in race.contending:
        race.withdraw(key)
    assert race.why == "no variant is left"
    alone = _race({}, {"a": 2.0})
    alone.withdraw("a")
    assert alone.contending == ()


def test_one_that_cannot_win_is_eliminated_by_one_that_can():
    race = _race(dict.fromkeys(SPEEDS, "group"), {"a": 0.0, "b": 2.0, "c": 2.0, "d": 2.0})
    while race.batches:
        race.add_batch(_batch(race.batches[0]))
    assert {elimination.key: elimination.reason for elimination in race.eliminations}["a"] == "constraint"
    assert race.contending == ("b",)


def test_what_two_processes_of_one_batch_show_does_not_tell_their_items_apart():
    screen = Screen(dict.fromkeys("abcd", 2.0))
    for number in range(2):
        eliminations = screen.add_batch({"a": 10.0, "b": 10.1}, {"c": 20.0 + number, "d": 20.2 + number})
        assert eliminations == (), "all of it may be the process"
    assert set(screen.active) == set("abcd")
    screen.add_batch({"a": 10.0, "b": 10.1, "c": 10.0, "d": 10.1})
    assert screen.effects_ms["c"] / screen.effects_ms["a"] == pytest.approx(1.0, rel=0.01)
    assert screen.effects_ms["d"] / screen.effects_ms["b"] == pytest.approx(1.0, rel=0.01)


def test_who_was_never_held_against_the_leader_reaches_the_finals_without_a_figure():
    screen = Screen(dict.fromkeys("abcd", 2.0))
    for _ in range(MOST_BATCHES):
        assert screen.active
        screen.add_batch({"a": 10.0, "b": 10.1}, {"c": 20.0, "d": 20.2})
    assert screen.active == ()
    assert screen.contending == ("a", "b", "c", "d")
    assert set(screen.effects_ms) == {"a", "b"}


def test_processes_of_one_batch_are_one_batch():
    screen = Screen(dict.fromkeys(SPEEDS, 2.0))
    for seed in range(MOST_BATCHES):
        assert screen.rounds == seed
        assert screen.active, "not yet the last batch"
        noisy = _batch(SPEEDS, seed=seed, sigma=1.5)
        screen.add_batch({key: noisy[key] for key in "ac"}, {key: noisy[key] for key in "bd"})
    assert screen.active == ()


def test_an_item_alone_in_its_process_says_nothing():
    screen = Screen(dict.fromkeys(SPEEDS, 2.0))
    for seed in range(2):
        screen.add_batch(_batch("abc", seed=seed), {"d": 1.0})
    assert "d" in screen.active, "it was held against nobody"
    assert "d" not in screen.effects_ms
    assert screen.effects_ms["b"] / screen.effects_ms["a"] == pytest.approx(1.06, rel=0.02)


def test_a_batch_counts_also_where_its_screen_ends_with_who_is_measured_alone():
    race = _race(dict.fromkeys(SPEEDS, "group"))
    race.add_batch(_batch("acd"))
    assert "b" in race.batches[0]
    eliminations = race.add_batch(_batch("acd", seed=1), excluded=["b"])
    assert {(elimination.key, elimination.in_batches) for elimination in eliminations} == {("c", True), ("d", True)}
    assert race.batches == ()
    assert race.contending == ("a", "b"), "it goes to the finals"


def test_a_batch_in_which_all_failed_leaves_all_to_the_finals():
    race = _race(dict.fromkeys(SPEEDS, "group"))
    assert race.add_batch({}, excluded=list(SPEEDS)) == ()
    assert race.batches == ()
    assert race.active == tuple(SPEEDS)
    assert race.most_batches == 0
