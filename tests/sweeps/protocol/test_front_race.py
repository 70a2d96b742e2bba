import pytest

from sweeps.protocol.front_race import DECISION_ROUNDS, FrontRace
from tests.sweeps.protocol.races import KEYS, equal, made_rounds, run


def test_the_clearly_slower_leave_after_two_rounds_with_their_evidence():
    race = FrontRace(equal())
    speeds = {key: 10.0 * 1.5**place for place, key in enumerate(KEYS)}
    eliminations = run(race, made_rounds(speeds, 2))
    assert {elimination.key for elimination in eliminations} == set(KEYS[1:])
    assert list(race.eliminations) == eliminations
    assert race.contending == ("a",)
    assert race.why == "one variant is left"
    last = {elimination.key: elimination for elimination in eliminations}["b"]
    assert (last.by, last.rounds, last.common, last.reason, last.error) == ("a", 2, 2, "slower", 0.02)
    assert last.ratio == pytest.approx(1.5, rel=0.05)
    assert last.ratio_low is not None
    assert 1.0 < last.ratio_low < last.ratio


def test_decisions_are_made_at_the_looks_only():
    race = FrontRace(equal(2))
    for number, medians_ms in enumerate(made_rounds({"a": 10.0, "b": 10.6}, 40, sigma=0.02), start=1):
        if race.add_round(medians_ms):
            assert number in DECISION_ROUNDS
            break
    else:
        pytest.fail("6 % were never told apart")


def test_the_best_is_seldom_lost_and_the_error_asked_for_is_what_moves_it():
    # The hardest case of the bound: all are equal, so every one of them is a best that may be lost at every look.
    def lost(error: float) -> float:
        races = 150
        count = 0
        for seed in range(races):
            eliminations = run(
                FrontRace(equal(), error), made_rounds(dict.fromkeys(KEYS, 10.0), 32, sigma=0.05, seed=seed)
            )
            count += any(elimination.key == "a" for elimination in eliminations)
        return count / races

    assert lost(0.02) <= 0.02
    assert 0.0 < lost(0.45) <= 0.45


def test_on_a_pareto_front_the_faster_and_the_more_accurate_stay():
    race = FrontRace({"fast": 60.0, "exact": 75.0, "beaten": 60.0, "zero": 0.0})
    speeds = {"fast": 10.0, "exact": 20.0, "beaten": 15.0, "zero": 5.0}
    eliminations = run(race, made_rounds(speeds, 6))
    assert [(elimination.key, elimination.by) for elimination in eliminations] == [("beaten", "fast")]
    assert race.contending == ("exact", "fast", "zero")
    assert race.why == "every variant left is on the front, within 2 % with 98 % confidence"
