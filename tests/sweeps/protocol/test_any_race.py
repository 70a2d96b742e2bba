"""A race for one winner and a race for a front keep the same promises."""

import pytest

from sweeps.protocol.front_race import FrontRace
from sweeps.protocol.racing import Race
from tests.sweeps.protocol.races import KEYS, equal, made_rounds, run

pytestmark = pytest.mark.parametrize("kind", [Race, FrontRace])


def test_nobody_leaves_after_the_first_round(kind):
    race = kind(equal())
    assert race.add_round({key: 1.0 + place for place, key in enumerate(KEYS)}) == ()
    assert race.contending == KEYS
    assert race.leader == "a"
    assert not race.decided


def test_drift_that_a_round_shares_does_not_hide_a_difference_nor_make_one(kind):
    speeds = dict.fromkeys(KEYS, 10.0) | {"h": 12.0}
    eliminations = run(kind(equal()), made_rounds(speeds, 6, drift=0.2))
    assert [elimination.key for elimination in eliminations] == ["h"]
    assert eliminations[0].ratio == pytest.approx(1.2, rel=0.02)


def test_the_same_rounds_decide_the_same_again_and_in_any_order_of_keys(kind):
    speeds = {key: 10.0 + 0.3 * place for place, key in enumerate(KEYS)}
    rounds = made_rounds(speeds, 32, sigma=0.03)
    first, again = kind(equal()), kind(dict(reversed(equal().items())))
    eliminations = run(first, rounds)
    assert len(eliminations) > 2
    backwards = [dict(reversed(medians_ms.items())) for medians_ms in rounds]
    assert run(again, backwards) == eliminations
    assert (again.leader, again.why, again.contending) == (first.leader, first.why, first.contending)


def test_with_noise_larger_than_the_difference_the_race_stays_open(kind):
    race = kind(equal(2))
    assert run(race, made_rounds({"a": 10.0, "b": 10.1}, 9, sigma=0.1)) == []
    assert not race.decided
    assert race.why == ""


def test_one_spiked_block_does_not_lose_the_best_whatever_the_round_and_the_field(kind):
    for contenders in (2, 5, 60):
        for spiked in range(4):
            keys = [f"v{number:02d}" for number in range(contenders)]
            rounds = made_rounds(dict.fromkeys(keys, 11.0) | {"v00": 10.0}, 9, sigma=0.01)
            rounds[spiked]["v00"] *= 3.0
            race = kind(dict.fromkeys(keys, 1.0))
            eliminations = run(race, rounds)
            assert "v00" not in {elimination.key for elimination in eliminations}
            assert race.leader == "v00"


def test_only_common_rounds_count(kind):
    rounds = made_rounds({"a": 10.0, "b": 20.0, "c": 10.0}, 4)
    for number in (0, 2):
        del rounds[number]["b"]
    race = kind(equal(3))
    eliminations = [elimination for medians_ms in rounds for elimination in race.add_round(medians_ms)]
    assert [(elimination.key, elimination.rounds, elimination.common) for elimination in eliminations] == [("b", 4, 2)]


def test_a_missed_slow_round_is_no_advantage(kind):
    rounds = made_rounds({"a": 10.0, "b": 10.5, "c": 11.0}, 2, sigma=0.001)
    slow_round = {key: 2 * value for key, value in rounds[1].items() if key != "b"}
    race = kind(equal(3))
    race.add_round(rounds[0])
    race.add_round(slow_round)
    assert race.leader == "a"


def test_who_was_never_measured_neither_leads_nor_decides(kind):
    race = kind(equal(2))
    run(race, [{"a": 10.0}] * 6)
    assert race.leader == "a"
    assert not race.decided
    race.withdraw("b")
    assert race.decided
    assert kind(equal(2)).leader is None


def test_a_race_of_one_is_decided(kind):
    race = kind({"a": 1.0})
    assert race.decided
    assert race.add_round({"a": 10.0}) == race.add_round({"a": 10.0}) == ()


def test_a_race_that_everybody_was_taken_out_of_is_over_and_has_no_leader(kind):
    race = kind({"a": 1.0})
    race.withdraw("a")
    assert race.why == "no variant is left"
    assert race.leader is None
    assert race.add_round({}) == race.add_round({}) == ()


def test_a_round_in_which_every_block_failed_changes_nothing_but_the_count(kind):
    race = kind(equal(3))
    rounds = made_rounds({"a": 10.0, "b": 20.0, "c": 30.0}, 2)
    eliminations = run(race, [{}, rounds[0], {}, rounds[1]])
    assert {elimination.key for elimination in eliminations} == {"b", "c"}
    assert race.rounds == 4


def test_what_cannot_be_raced_is_refused(kind):
    with pytest.raises(ValueError, match="needs candidates"):
        kind({})
    with pytest.raises(ValueError, match="finite precedence"):
        kind({"a": float("nan")})
    with pytest.raises(ValueError, match="error of a race"):
        kind(equal(), 0.7)
    race = kind(equal(2))
    with pytest.raises(ValueError, match="not in the race: x"):
        race.add_round({"a": 1.0, "x": 1.0})
    with pytest.raises(ValueError, match="positive numbers"):
        race.add_round({"a": 0.0})
    with pytest.raises(ValueError, match="positive numbers"):
        race.add_round({"a": float("nan")})
    with pytest.raises(ValueError, match="not in the race: x"):
        race.withdraw("x")
    assert race.rounds == 0
