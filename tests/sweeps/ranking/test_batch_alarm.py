"""A block of the winner's rival seldom contradicts the batches by chance, and does so where it should."""

import numpy as np
import pytest

from sweeps.ranking.batch_alarm import contradicted
from sweeps.stats import Estimate

RACES = 2_000


def alarms(truth: float, spread: float, noise: float | None, seed: int = 0) -> float:
    """The share of races with an alarm. `truth`: the ratio in processes of their own over that in a shared one."""
    random = np.random.default_rng(seed)
    error = spread * (2 / 12) ** 0.5
    count = 0
    for _ in range(RACES):
        shown = float(np.exp(error * random.standard_normal()))
        batches = Estimate(shown, shown * np.exp(-1.96 * error), shown * np.exp(1.96 * error))
        winner = dict(enumerate(10.0 * np.exp(spread * random.standard_normal(3))))
        check = 10.0 * truth * float(np.exp(spread * random.standard_normal()))
        count += contradicted(batches, [(5, check)], winner, noise) is not None
    return count / RACES


@pytest.mark.parametrize("truth", [1.0, 1.05, 1 / 1.05])
@pytest.mark.parametrize(("spread", "known"), [(0.005, True), (0.02, True), (0.02, False), (0.04, True), (0.04, False)])
def test_by_chance_an_alarm_is_raised_in_at_most_two_and_a_half_percent_of_races(
    truth: float, spread: float, known: bool
) -> None:
    # The share 2.5 % of 2,000 is 50, give or take 7 (one standard deviation). The prior's spread is 2.5 %.
    limit = 0.025 if truth == 1.0 else 0.036 if known or spread < 0.03 else 0.06
    assert alarms(truth, spread, spread if known else None) <= limit


@pytest.mark.parametrize(("spread", "least", "most"), [(0.005, 0.99, 1.0), (0.01, 0.8, 1.0), (0.02, 0.2, 0.5)])
def test_a_contradiction_of_ten_percent_is_found_where_processes_differ_by_little(
    spread: float, least: float, most: float
) -> None:
    assert least <= alarms(1.1, spread, spread) <= most


def test_the_run_of_the_check_contradicts_nothing_without_two_blocks_of_the_winner() -> None:
    batches = Estimate(1.0, 0.99, 1.01)
    winner = {0: 10.0, 1: 10.0, 2: 10.0}
    assert contradicted(batches, [(7, 20.0)], winner, 0.01) == pytest.approx(2.0)
    assert contradicted(batches, [(7, 20.0)], {0: 10.0}, 0.01) is None
    assert contradicted(batches, [(1007, 20.0)], winner, 0.01) is None
    assert contradicted(batches, [], winner, 0.01) is None
    later = winner | {1000: 10.0, 1001: 10.0}
    assert contradicted(batches, [(1007, 20.0)], later, 0.01) == pytest.approx(2.0), "the winner was settled there"
