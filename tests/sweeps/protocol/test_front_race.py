from collections.abc import Mapping

import numpy as np
import pytest

from sweeps.protocol.front_race import DECISION_ROUNDS, FrontRace
from sweeps.protocol.racing import Elimination

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


def _run(race: FrontRace, rounds: list[dict[str, float]]) -> list[Elimination]:
    """Show the rounds until the race is decided; contenders only."""
    gone: list[Elimination] = []
    for medians_ms in rounds:
        if race.decided:
            break
        gone += race.add_round({key: medians_ms[key] for key in race.contending if key in medians_ms})
    return gone


def _equal(count: int = 8) -> dict[str, float]:
    return dict.fromkeys(KEYS[:count], 1.0)


def test_nobody_leaves_after_the_first_round():
    race = FrontRace(_equal())
    assert race.add_round({key: 1.0 + place for place, key in enumerate(KEYS)}) == ()
    assert race.contending == KEYS
    assert race.leader == "a"
    assert not race.decided


def test_the_clearly_slower_leave_after_two_rounds_with_their_evidence():
    race = FrontRace(_equal())
    speeds = {key: 10.0 * 1.5**place for place, key in enumerate(KEYS)}
    gone = _run(race, _rounds(speeds, 2))
    assert {elimination.key for elimination in gone} == set(KEYS[1:])
    assert list(race.eliminations) == gone
    assert race.contending == ("a",)
    assert race.why == "one variant is left"
    last = {elimination.key: elimination for elimination in gone}["b"]
    assert (last.by, last.rounds, last.common, last.reason, last.error) == ("a", 2, 2, "slower", 0.02)
    assert last.ratio == pytest.approx(1.5, rel=0.05)
    assert last.ratio_low is not None
    assert 1.0 < last.ratio_low < last.ratio


def test_decisions_are_made_at_the_looks_only():
    race = FrontRace(_equal(2))
    for number, medians_ms in enumerate(_rounds({"a": 10.0, "b": 10.6}, 40, sigma=0.02), start=1):
        if race.add_round(medians_ms):
            assert number in DECISION_ROUNDS
            break
    else:
        pytest.fail("6 % were never told apart")


def test_drift_that_a_round_shares_does_not_hide_a_difference_nor_make_one():
    speeds = dict.fromkeys(KEYS, 10.0) | {"h": 12.0}
    gone = _run(FrontRace(_equal()), _rounds(speeds, 6, drift=0.2))
    assert [elimination.key for elimination in gone] == ["h"]
    assert gone[0].ratio == pytest.approx(1.2, rel=0.02)


def test_the_same_rounds_decide_the_same_again_and_in_any_order_of_keys():
    speeds = {key: 10.0 + 0.3 * place for place, key in enumerate(KEYS)}
    rounds = _rounds(speeds, 32, sigma=0.03)
    first, again = FrontRace(_equal()), FrontRace(dict(reversed(_equal().items())))
    gone = _run(first, rounds)
    assert len(gone) > 3
    backwards = [dict(reversed(medians_ms.items())) for medians_ms in rounds]
    assert _run(again, backwards) == gone
    assert (again.leader, again.why, again.contending) == (first.leader, first.why, first.contending)


def test_the_best_is_seldom_lost_and_the_error_asked_for_is_what_moves_it():
    # The hardest case of the bound: all are equal, so every one of them is a best that may be lost at every look.
    def lost(error: float) -> float:
        races = 150
        count = 0
        for seed in range(races):
            gone = _run(FrontRace(_equal(), error), _rounds(dict.fromkeys(KEYS, 10.0), 32, sigma=0.05, seed=seed))
            count += any(elimination.key == "a" for elimination in gone)
        return count / races

    assert lost(0.02) <= 0.02
    assert 0.0 < lost(0.45) <= 0.45


def test_with_noise_larger_than_the_difference_the_race_stays_open():
    race = FrontRace(_equal(2))
    assert _run(race, _rounds({"a": 10.0, "b": 10.1}, 9, sigma=0.1)) == []
    assert not race.decided
    assert race.why == ""


def test_one_spiked_block_of_the_best_does_not_lose_it_whatever_the_round_and_the_field():
    for contenders in (2, 5, 60):
        for spiked in range(4):
            keys = [f"v{number:02d}" for number in range(contenders)]
            rounds = _rounds(dict.fromkeys(keys, 11.0) | {"v00": 10.0}, 32, sigma=0.01)
            rounds[spiked]["v00"] *= 3.0
            race = FrontRace(dict.fromkeys(keys, 1.0))
            gone = _run(race, rounds)
            assert "v00" not in {elimination.key for elimination in gone}
            assert race.leader == "v00"


def test_only_common_rounds_count():
    rounds = _rounds({"a": 10.0, "b": 20.0, "c": 10.0}, 4)
    for number in (0, 2):
        del rounds[number]["b"]
    race = FrontRace(_equal(3))
    gone = [elimination for medians_ms in rounds for elimination in race.add_round(medians_ms)]
    assert [(elimination.key, elimination.rounds, elimination.common) for elimination in gone] == [("b", 4, 2)]


def test_a_missed_slow_round_is_no_advantage():
    rounds = _rounds({"a": 10.0, "b": 10.5, "c": 11.0}, 2, sigma=0.001)
    slow_round = {key: 2 * value for key, value in rounds[1].items() if key != "b"}
    race = FrontRace(_equal(3))
    race.add_round(rounds[0])
    race.add_round(slow_round)
    assert race.leader == "a"


def test_who_was_never_measured_neither_leads_nor_decides():
    race = FrontRace(_equal(2))
    _run(race, [{"a": 10.0}] * 6)
    assert race.leader == "a"
    assert not race.decided
    race.withdraw("b")
    assert race.decided
    assert FrontRace(_equal(2)).leader is None


def test_on_a_pareto_front_the_faster_and_the_more_accurate_stay():
    race = FrontRace({"fast": 60.0, "exact": 75.0, "beaten": 60.0, "zero": 0.0})
    speeds = {"fast": 10.0, "exact": 20.0, "beaten": 15.0, "zero": 5.0}
    gone = _run(race, _rounds(speeds, 6))
    assert [(elimination.key, elimination.by) for elimination in gone] == [("beaten", "fast")]
    assert race.contending == ("exact", "fast", "zero")
    assert race.why == "every variant left is on the front, within 2 % with 98 % confidence"


def test_a_race_of_one_is_decided():
    race = FrontRace({"a": 1.0})
    assert race.decided
    assert race.add_round({"a": 10.0}) == race.add_round({"a": 10.0}) == ()


def test_a_race_that_everybody_was_taken_out_of_is_over_and_has_no_leader():
    race = FrontRace({"a": 1.0})
    race.withdraw("a")
    assert race.why == "no variant is left"
    assert race.leader is None
    assert race.add_round({}) == race.add_round({}) == ()


def test_a_round_in_which_every_block_failed_changes_nothing_but_the_count():
    race = FrontRace(_equal(3))
    rounds = _rounds({"a": 10.0, "b": 20.0, "c": 30.0}, 2)
    gone = _run(race, [{}, rounds[0], {}, rounds[1]])
    assert {elimination.key for elimination in gone} == {"b", "c"}
    assert race.rounds == 4


def test_what_cannot_be_raced_is_refused():
    with pytest.raises(ValueError, match="needs candidates"):
        FrontRace({})
    with pytest.raises(ValueError, match="finite precedence"):
        FrontRace({"a": float("nan")})
    with pytest.raises(ValueError, match="error of a race"):
        FrontRace(_equal(), 0.7)
    race = FrontRace(_equal(2))
    with pytest.raises(ValueError, match="not in the race: x"):
        race.add_round({"a": 1.0, "x": 1.0})
    with pytest.raises(ValueError, match="positive numbers"):
        race.add_round({"a": 0.0})
    with pytest.raises(ValueError, match="positive numbers"):
        race.add_round({"a": float("nan")})
    with pytest.raises(ValueError, match="not in the race: x"):
        race.withdraw("x")
    assert race.rounds == 0
