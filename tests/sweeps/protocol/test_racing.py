import pytest

from sweeps.protocol.racing import ELIMINATED, Race
from tests.sweeps.protocol.races import KEYS, equal, made_rounds, run


def test_the_clearly_slower_leave_after_two_rounds_with_their_evidence():
    race = Race(equal())
    speeds = {key: 10.0 * 1.5**place for place, key in enumerate(KEYS)}
    eliminations = run(race, made_rounds(speeds, 2))
    assert {elimination.key for elimination in eliminations} == set(KEYS[1:])
    assert list(race.eliminations) == eliminations
    assert race.contending == ("a",)
    assert race.why == "one variant is left"
    last = {elimination.key: elimination for elimination in eliminations}["b"]
    assert (last.by, last.rounds, last.common, last.reason, last.error) == ("a", 2, 2, "slower", ELIMINATED)
    assert last.ratio == pytest.approx(1.5, rel=0.05)
    assert last.ratio_low is not None
    assert 1.0 < last.ratio_low < last.ratio


def test_of_equal_ones_hardly_any_is_eliminated():
    lost = 0
    for seed in range(100):
        eliminations = run(Race(equal()), made_rounds(dict.fromkeys(KEYS, 10.0), 12, sigma=0.05, seed=seed))
        lost += any(elimination.key == "a" for elimination in eliminations)
    assert lost <= 2


def test_near_ties_end_the_race_at_once_and_rest_meanwhile():
    equal = dict.fromkeys(KEYS[:6], 10.0)
    rounds = []
    for seed in range(20):
        race = Race(equal)
        run(race, made_rounds(equal, 32, sigma=0.02, seed=seed))
        assert race.decided
        assert len(race.contending) > 1, "equal ones are not said to be slower"
        rounds.append(race.rounds)
    assert sorted(rounds)[10] <= 12, "to show that all six are equal would take about 28"


def test_who_cannot_change_the_result_rests_and_may_come_back():
    race = Race(equal(3))
    for medians_ms in ({"a": 10.0, "b": 10.3, "c": 10.6}, {"a": 10.05, "b": 10.28, "c": 10.62}) * 2:
        race.add_round({key: medians_ms[key] for key in race.contending})
    assert race.active == ("a",)
    assert "b" in race.contending
    for _ in range(3):
        race.add_round({"a": 11.5})
    assert race.active == ("a",), "without the others, a slow round says nothing of them"
    race.add_round({"a": 12.0, "b": 10.3})
    race.add_round({"a": 12.0, "b": 10.3})
    assert "b" in race.active


def test_what_batches_said_counts_like_one_round_of_doubled_variance():
    race = Race(equal(3), screened=[{"a": 10.0, "b": 10.5, "c": 11.0}])
    assert (race.rounds, race.leader, race.decided) == (0, "a", False)
    assert race.active == ("a", "b", "c"), "who was near in batches shows it in a process of its own"
    race.add_round({"a": 10.0, "b": 10.5, "c": 11.0})
    assert race.decided, "one block of its own is enough beside rivals that were in the same batches"


def test_one_slow_block_eliminates_nobody_of_another_group():
    for seed in range(20):
        rounds = made_rounds({"a": 10.0, "b": 10.1, "c": 9.0}, 8, sigma=0.01, seed=seed)
        rounds[0]["c"] *= 2.0
        race = Race(equal(3), screened=[{"a": 1.0, "b": 1.01}])
        race.add_round(rounds[0])
        assert "c" in race.active, "its only block may have met a burst"
        assert not race.decided
        eliminations = run(race, rounds[1:])
        assert "c" not in {elimination.key for elimination in eliminations}


def test_groups_of_batches_are_compared_only_through_processes_of_their_own():
    race = Race(equal(4), screened=[{"a": 1.0, "b": 1.05}, {"c": 7.0, "d": 7.7}])
    assert race.active == ("a", "b", "c", "d")
    for _ in range(2):
        race.add_round({key: {"a": 20.0, "b": 21.0, "c": 10.0, "d": 11.0}[key] for key in race.active})
    assert race.leader == "c"
    assert {elimination.key for elimination in race.eliminations} >= {"a", "b"}


def test_a_leader_within_two_percent_decides_the_race():
    race = Race(equal(3))
    eliminations = run(race, made_rounds({"a": 10.0, "b": 10.0, "c": 13.0}, 32, sigma=0.01))
    assert [elimination.key for elimination in eliminations] == ["c"]
    assert race.contending == ("a", "b")
    assert race.rounds < 32
    assert race.why == "no other is faster by more than 2 %, with a probability of 98 %"


def test_the_leader_called_best_is_seldom_slower_by_more_than_two_percent():
    wrong = 0
    for seed in range(200):
        race = Race(equal(4))
        run(race, made_rounds({"a": 10.0, "b": 10.25, "c": 10.25, "d": 10.25}, 48, sigma=0.02, seed=seed))
        wrong += race.decided and race.leader != "a"
    assert wrong / 200 <= 0.02


def test_the_leader_is_not_the_one_that_was_spared_by_slow_processes():
    # A fifth of the processes of either lands on slow cores; by chance the slower variant was spared.
    rounds = made_rounds({"a": 10.0, "b": 10.5}, 20, sigma=0.005)
    for unlucky in (3, 8, 12, 17):
        rounds[unlucky]["a"] *= 1.6
    race = Race(equal(2))
    run(race, rounds)
    assert race.leader == "a"


def test_only_a_candidate_of_no_less_precedence_may_beat_another():
    speeds = {"a": 10.0, "b": 15.0, "c": 20.0}
    race = Race({"a": 1.0, "b": 2.0, "c": 1.0})
    eliminations = run(race, made_rounds(speeds, 3))
    assert [elimination.key for elimination in eliminations] == ["c"]
    assert race.contending == ("a", "b")
    assert race.leader == "b"


def test_who_fails_a_constraint_leaves_while_another_passes_or_may_pass():
    eliminations = run(Race({"a": 0.0, "b": 2.0, "c": 1.0}), made_rounds({"a": 5.0, "b": 10.0, "c": 10.0}, 2))
    assert [(elimination.key, elimination.by, elimination.reason) for elimination in eliminations] == [
        ("a", "b", "constraint")
    ]
    assert eliminations[0].ratio == pytest.approx(0.5, rel=0.05)
    assert eliminations[0].ratio_low is None
    assert run(Race({"a": 0.0, "b": 0.0}), made_rounds({"a": 5.0, "b": 5.0}, 2)) == []


def test_a_ratio_of_two_that_never_met_is_unknown():
    race = Race({"a": 0.0, "b": 2.0})
    race.add_round({"a": 10.0})
    [elimination] = race.add_round({"b": 10.0})
    assert (elimination.key, elimination.common, elimination.ratio, elimination.reason) == ("a", 0, None, "constraint")
