"""Two speeds of a device are found in the few blocks of a race, and hardly ever where there is one."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from sweeps.ranking.interval_scope import WATCHED_S, interval_of
from sweeps.ranking.intervals import latency_intervals
from sweeps.ranking.race_speeds import RaceBlocks, race_speeds
from sweeps.ranking.two_speeds import TwoSpeeds

BATCHES = (24, 20, 4)
"""Candidates in each batch, the fastest ones; then rounds and a confirmation in processes of their own."""
ROUNDS = (4, 4, 2)
CONFIRMING = (48, 49, 50)
WINNER = "v00"
Noise = Callable[[np.random.Generator, int], np.ndarray]


def race(
    noise: np.ndarray, slow: Callable[[int], float] = lambda _: 0.0, *, own_processes: float = 0.0
) -> dict[str, RaceBlocks]:
    """`noise` and `slow` (the number of the block): logarithms, in the order of measuring. `own_processes`: what is
    added to the logarithm there."""
    blocks = {f"v{number:02d}": RaceBlocks({}, {}) for number in range(BATCHES[0])}
    names, place = list(blocks), 0

    def measure(candidates: list[str], visit: int, *, alone: bool) -> None:
        nonlocal place
        for name in candidates:
            log = 0.05 * names.index(name) + noise[place] + slow(place) + own_processes * alone
            into = blocks[name].alone if alone else blocks[name].in_batches
            into[visit] = 10.0 * math.exp(log)  # type: ignore[index]  # a dict
            place += 1

    for process, count in enumerate(BATCHES, 70):
        measure(names[:count], process, alone=False)
    for visit, count in enumerate(ROUNDS, 3):
        measure(names[:count], visit, alone=True)
    for visit in CONFIRMING:
        measure([WINNER], visit, alone=True)
    return blocks


COUNT = sum(BATCHES) + sum(ROUNDS) + len(CONFIRMING)


def lognormal(seed: int, cv: float = 0.015) -> np.ndarray:
    return cv * np.random.default_rng(seed).standard_normal(COUNT)


def slow_from(first: int, step: float, until: int = COUNT) -> Callable[[int], float]:
    return lambda place: math.log(step) if first <= place < until else 0.0


@pytest.mark.parametrize(
    ("step", "first", "until", "slow_visits"),
    [
        pytest.param(1.12, 24, COUNT, {3, 4, 5, *CONFIRMING}, id="after the first batch"),
        pytest.param(1.12, 0, 24, set(), id="in the first batch alone"),
        pytest.param(1.3, 34, COUNT, {3, 4, 5, *CONFIRMING}, id="from within a batch on"),
        pytest.param(1.3, 52, COUNT, {4, 5, *CONFIRMING}, id="in the finals"),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_a_change_of_the_speed_is_found_in_whatever_part_of_the_race_it_falls(step, first, until, slow_visits, seed):
    speeds = race_speeds(race(lognormal(seed), slow_from(first, step, until)), [WINNER])
    assert speeds is not None
    assert speeds.slower == pytest.approx(step, rel=0.03)
    assert (speeds.slow, speeds.sure) == ((slow_visits,), (True,))
    assert (speeds.share_low, speeds.share_high) == (0.0, 1.0), "a race does not show how often each is"


def test_the_interval_of_a_winner_that_was_confirmed_in_one_state_reaches_over_both():
    blocks = race(lognormal(1), slow_from(24, 1.3))
    confirmed = {visit: blocks[WINNER].alone[visit] for visit in CONFIRMING}
    alone = latency_intervals([confirmed], None)[0]
    interval = latency_intervals([confirmed], race_speeds(blocks, [WINNER]))[0]
    assert alone.low > 12.0
    assert interval.low < 10.0 < 13.0 < interval.high


def correlated(seed: int) -> np.ndarray:
    logs = np.random.default_rng(seed).standard_normal(COUNT)
    for at in range(1, logs.size):
        logs[at] = 0.8 * logs[at - 1] + 0.6 * logs[at]
    return 0.05 * logs


def unequal(seed: int) -> np.ndarray:
    """A third of the candidates has five times the spread of the others."""
    random = np.random.default_rng(seed)
    spreads = np.where(random.random(BATCHES[0]) < 0.3, 0.05, 0.01)
    order = [number for count in (*BATCHES, *ROUNDS) for number in range(count)] + [0] * len(CONFIRMING)
    return spreads[order] * random.standard_normal(COUNT)


BURSTS = "a burst in one block of eight"
NOISES: dict[str, Callable[[int], np.ndarray]] = {
    "lognormal 2 %": lambda seed: lognormal(seed, 0.02),
    "lognormal 6 %": lambda seed: lognormal(seed, 0.06),
    "heavy tails": lambda seed: 0.03 * np.random.default_rng(seed).standard_t(2.5, COUNT),
    "AR(1) 0.8": correlated,
    "unequal": unequal,
    "warming": lambda seed: lognormal(seed) + 0.1 * (1 - np.exp(-np.arange(COUNT) / 30)),
    "one block in thirty is slow": lambda seed: (
        lognormal(seed) + 0.5 * (np.random.default_rng([seed, 1]).random(COUNT) < 1 / 30)
    ),
    BURSTS: lambda seed: lognormal(seed) + math.log(2) * (np.random.default_rng([seed, 1]).random(COUNT) < 0.125),
    "batches differ by 2 %": lambda seed: (
        lognormal(seed)
        + np.repeat(0.02 * np.random.default_rng([seed, 1]).standard_normal(5), (*BATCHES, sum(ROUNDS), 3))
    ),
}


@pytest.mark.parametrize("noise", NOISES)
def test_noise_of_one_speed_is_not_taken_for_two(noise: str):
    """Two speeds are found in one race of a hundred at most; in three where bursts, which are another speed for a
    while, may meet."""
    most = 3 if noise == BURSTS else 1
    assert len([seed for seed in range(100) if race_speeds(race(NOISES[noise](seed)), [WINNER])]) <= most


@pytest.mark.parametrize("factor", [0.8, 1.1, 1.3])
def test_what_a_shared_process_does_to_all_builds_alike_is_no_second_speed(factor: float):
    speeds = [race_speeds(race(lognormal(seed), own_processes=math.log(factor)), [WINNER]) for seed in range(20)]
    assert speeds == [None] * 20


def test_blocks_that_are_alone_or_equal_show_nothing():
    assert race_speeds({}, []) is None
    assert race_speeds({"a": RaceBlocks({1: 1.0}, {}), "b": RaceBlocks({}, {7: 2.0})}, ["b"]) is None
    assert race_speeds({"a": RaceBlocks({1: 1.0}, {7: 2.0})}, ["a"]) is None


TWO = TwoSpeeds(slower=1.2, spread=0.01, slow=(), sure=(), share_low=0.0, share_high=1.0)


@pytest.mark.parametrize(
    ("raced", "speeds", "watched_s", "moved", "expected"),
    [
        (True, None, 30.0, False, "one_state"),
        (True, None, WATCHED_S, False, ""),
        (True, None, WATCHED_S, True, "one_state"),
        (False, None, 30.0, False, ""),
        (True, TWO, 30.0, False, "both_states"),
        (False, TWO, WATCHED_S, False, "both_states"),
    ],
)
def test_an_interval_is_of_the_states_that_were_seen(raced, speeds, watched_s, moved, expected):
    assert interval_of(raced=raced, speeds=speeds, watched_s=watched_s, moved=moved) == expected
