from collections.abc import Mapping

import numpy as np
import pytest

from sweeps.protocol.racing import ELIMINATED, Elimination, Race

KEYS = tuple("abcdefgh")


def _rounds(
    speeds: Mapping[str, float], count: int, sigma: float = 0.01, seed: int = 0, drift: float = 0.0
) -> list[dict[str, float]]:
    """Block medians: lognormal around each speed; every round is slower than the one before by `drift`."""
    random = np.random.default_rng(seed)
    return [
        {key: speed * float(np.exp(drift * round + sigma * random.standard_normal())) for key, speed in speeds.items()}
        for round in range(count)
    ]


def _run(race: Race, rounds: list[dict[str, float]]) -> list[Elimination]:
    """Show the rounds until the race is decided; contenders only."""
    gone: list[Elimination] = []
    for medians_ms in rounds:
        if race.decided:
            break
        gone += race.add_round({key: medians_ms[key] for key in race.active if key in medians_ms})
    return gone


def _equal(count: int = 8) -> dict[str, float]:
    return dict.fromkeys(KEYS[:count], 1.0)


def test_nobody_leaves_after_the_first_round():
    race = Race(_equal())
    assert race.add_round({key: 1.0 + place for place, key in enumerate(KEYS)}) == ()
    assert race.contending == KEYS
    assert race.leader == "a"
    assert not race.decided


def test_the_clearly_slower_leave_after_two_rounds_with_their_evidence():
    race = Race(_equal())
    speeds = {key: 10.0 * 1.5**place for place, key in enumerate(KEYS)}
    gone = _run(race, _rounds(speeds, 2))
    assert {elimination.key for elimination in gone} == set(KEYS[1:])
    assert list(race.eliminations) == gone
    assert race.contending == ("a",)
    assert race.why == "one variant is left"
    last = {elimination.key: elimination for elimination in gone}["b"]
    assert (last.by, last.rounds, last.common, last.reason, last.error) == ("a", 2, 2, "slower", ELIMINATED)
    assert last.ratio == pytest.approx(1.5, rel=0.05)
    assert last.ratio_low is not None
    assert 1.0 < last.ratio_low < last.ratio


def test_drift_that_a_round_shares_does_not_hide_a_difference_nor_make_one():
    speeds = dict.fromkeys(KEYS, 10.0) | {"h": 12.0}
    gone = _run(Race(_equal()), _rounds(speeds, 6, drift=0.2))
    assert [elimination.key for elimination in gone] == ["h"]
    assert gone[0].ratio == pytest.approx(1.2, rel=0.02)


def test_the_same_rounds_decide_the_same_again_and_in_any_order_of_keys():
    speeds = {key: 10.0 + 0.3 * place for place, key in enumerate(KEYS)}
    rounds = _rounds(speeds, 32, sigma=0.03)
    first, again = Race(_equal()), Race(dict(reversed(_equal().items())))
    gone = _run(first, rounds)
    assert len(gone) > 3
    backwards = [dict(reversed(medians_ms.items())) for medians_ms in rounds]
    assert _run(again, backwards) == gone
    assert (again.leader, again.why, again.contending) == (first.leader, first.why, first.contending)


def test_of_equal_ones_hardly_any_is_eliminated():
    lost = 0
    for seed in range(100):
        gone = _run(Race(_equal()), _rounds(dict.fromkeys(KEYS, 10.0), 32, sigma=0.05, seed=seed))
        lost += any(elimination.key == "a" for elimination in gone)
    assert lost <= 2


def test_near_ties_end_the_race_at_once_and_rest_meanwhile():
    equal = dict.fromkeys(KEYS[:6], 10.0)
    rounds = []
    for seed in range(20):
        race = Race(equal)
        _run(race, _rounds(equal, 32, sigma=0.02, seed=seed))
        assert race.decided
        assert len(race.contending) > 1, "equal ones are not said to be slower"
        rounds.append(race.rounds)
    assert sorted(rounds)[10] <= 12, "to show that all six are equal would take about 28"


def test_who_cannot_change_the_result_rests_and_may_come_back():
    race = Race(_equal(3))
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
    race = Race(_equal(3), screened=[{"a": 10.0, "b": 10.5, "c": 11.0}])
    assert (race.rounds, race.leader, race.decided) == (0, "a", False)
    assert race.active == ("a", "b", "c"), "who was near in batches shows it in a process of its own"
    race.add_round({"a": 10.0, "b": 10.5, "c": 11.0})
    assert race.decided, "one block of its own is enough beside rivals that were in the same batches"


def test_one_slow_block_eliminates_nobody_of_another_group():
    for seed in range(20):
        rounds = _rounds({"a": 10.0, "b": 10.1, "c": 9.0}, 8, sigma=0.01, seed=seed)
        rounds[0]["c"] *= 2.0
        race = Race(_equal(3), screened=[{"a": 1.0, "b": 1.01}])
        race.add_round(rounds[0])
        assert "c" in race.active, "its only block may have met a burst"
        assert not race.decided
        gone = _run(race, rounds[1:])
        assert "c" not in {one.key for one in gone}


def test_groups_of_batches_are_compared_only_through_processes_of_their_own():
    race = Race(_equal(4), screened=[{"a": 1.0, "b": 1.05}, {"c": 7.0, "d": 7.7}])
    assert race.active == ("a", "b", "c", "d")
    for _ in range(2):
        race.add_round({key: {"a": 20.0, "b": 21.0, "c": 10.0, "d": 11.0}[key] for key in race.active})
    assert race.leader == "c"
    assert {one.key for one in race.eliminations} >= {"a", "b"}


def test_a_leader_within_two_percent_decides_the_race():
    race = Race(_equal(3))
    gone = _run(race, _rounds({"a": 10.0, "b": 10.0, "c": 13.0}, 32, sigma=0.01))
    assert [elimination.key for elimination in gone] == ["c"]
    assert race.contending == ("a", "b")
    assert race.rounds < 32
    assert race.why == "no other is faster by more than 2 %, with a probability of 98 %"


def test_the_leader_called_best_is_seldom_slower_by_more_than_two_percent():
    wrong = 0
    for seed in range(200):
        race = Race(_equal(4))
        _run(race, _rounds({"a": 10.0, "b": 10.25, "c": 10.25, "d": 10.25}, 48, sigma=0.02, seed=seed))
        wrong += race.decided and race.leader != "a"
    assert wrong / 200 <= 0.02


def test_with_noise_larger_than_the_difference_the_race_stays_open():
    race = Race(_equal(2))
    assert _run(race, _rounds({"a": 10.0, "b": 10.1}, 9, sigma=0.1)) == []
    assert not race.decided
    assert race.why == ""


def test_one_spiked_block_of_the_best_does_not_lose_it_whatever_the_round_and_the_field():
    for contenders in (2, 5, 60):
        for spiked in range(4):
            keys = [f"v{number:02d}" for number in range(contenders)]
            rounds = _rounds(dict.fromkeys(keys, 11.0) | {"v00": 10.0}, 32, sigma=0.01)
            rounds[spiked]["v00"] *= 3.0
            race = Race(dict.fromkeys(keys, 1.0))
            gone = _run(race, rounds)
            assert "v00" not in {elimination.key for elimination in gone}
            assert race.leader == "v00"


def test_the_leader_is_not_the_one_that_was_spared_by_slow_processes():
    # A fifth of the processes of either lands on slow cores; by chance the slower variant was spared.
    rounds = _rounds({"a": 10.0, "b": 10.5}, 20, sigma=0.005)
    for unlucky in (3, 8, 12, 17):
        rounds[unlucky]["a"] *= 1.6
    race = Race(_equal(2))
    _run(race, rounds)
    assert race.leader == "a"


def test_only_common_rounds_count():
    rounds = _rounds({"a": 10.0, "b": 20.0, "c": 10.0}, 4)
    for number in (0, 2):
        del rounds[number]["b"]
    race = Race(_equal(3))
    gone = [elimination for medians_ms in rounds for elimination in race.add_round(medians_ms)]
    assert [(elimination.key, elimination.rounds, elimination.common) for elimination in gone] == [("b", 4, 2)]


def test_a_missed_slow_round_is_no_advantage():
    rounds = _rounds({"a": 10.0, "b": 10.5, "c": 11.0}, 2, sigma=0.001)
    slow_round = {key: 2 * value for key, value in rounds[1].items() if key != "b"}
    race = Race(_equal(3))
    race.add_round(rounds[0])
    race.add_round(slow_round)
    assert race.leader == "a"


def test_who_was_never_measured_neither_leads_nor_decides():
    race = Race(_equal(2))
    _run(race, [{"a": 10.0}] * 6)
    assert race.leader == "a"
    assert not race.decided
    race.withdraw("b")
    assert race.decided
    assert Race(_equal(2)).leader is None


def test_only_a_candidate_of_no_less_precedence_may_beat_another():
    speeds = {"a": 10.0, "b": 15.0, "c": 20.0}
    race = Race({"a": 1.0, "b": 2.0, "c": 1.0})
    gone = _run(race, _rounds(speeds, 3))
    assert [elimination.key for elimination in gone] == ["c"]
    assert race.contending == ("a", "b")
    assert race.leader == "b"


def test_who_fails_a_constraint_leaves_while_another_passes_or_may_pass():
    gone = _run(Race({"a": 0.0, "b": 2.0, "c": 1.0}), _rounds({"a": 5.0, "b": 10.0, "c": 10.0}, 2))
    assert [(elimination.key, elimination.by, elimination.reason) for elimination in gone] == [("a", "b", "constraint")]
    assert gone[0].ratio == pytest.approx(0.5, rel=0.05)
    assert gone[0].ratio_low is None
    assert _run(Race({"a": 0.0, "b": 0.0}), _rounds({"a": 5.0, "b": 5.0}, 2)) == []


def test_a_ratio_of_two_that_never_met_is_unknown():
    race = Race({"a": 0.0, "b": 2.0})
    race.add_round({"a": 10.0})
    [gone] = race.add_round({"b": 10.0})
    assert (gone.key, gone.common, gone.ratio, gone.reason) == ("a", 0, None, "constraint")


def test_a_race_of_one_is_decided():
    race = Race({"a": 1.0})
    assert race.decided
    assert race.add_round({"a": 10.0}) == race.add_round({"a": 10.0}) == ()


def test_a_race_that_everybody_was_taken_out_of_is_over_and_has_no_leader():
    race = Race({"a": 1.0})
    race.withdraw("a")
    assert race.why == "no variant is left"
    assert race.leader is None
    assert race.add_round({}) == race.add_round({}) == ()


def test_a_round_in_which_every_block_failed_changes_nothing_but_the_count():
    race = Race(_equal(3))
    rounds = _rounds({"a": 10.0, "b": 20.0, "c": 30.0}, 2)
    gone = _run(race, [{}, rounds[0], {}, rounds[1]])
    assert {elimination.key for elimination in gone} == {"b", "c"}
    assert race.rounds == 4


def test_what_cannot_be_raced_is_refused():
    with pytest.raises(ValueError, match="needs candidates"):
        Race({})
    with pytest.raises(ValueError, match="finite precedence"):
        Race({"a": float("nan")})
    with pytest.raises(ValueError, match="error of a race"):
        Race(_equal(), 0.7)
    race = Race(_equal(2))
    with pytest.raises(ValueError, match="not in the race: x"):
        race.add_round({"a": 1.0, "x": 1.0})
    with pytest.raises(ValueError, match="positive numbers"):
        race.add_round({"a": 0.0})
    with pytest.raises(ValueError, match="positive numbers"):
        race.add_round({"a": float("nan")})
    with pytest.raises(ValueError, match="not in the race: x"):
        race.withdraw("x")
    assert race.rounds == 0
