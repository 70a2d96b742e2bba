"""Rounds and races that the tests of both kinds of race have in common."""

from collections.abc import Mapping

import numpy as np

from sweeps.protocol.front_race import FrontRace
from sweeps.protocol.racing import Elimination, Race

KEYS = tuple("abcdefgh")


def made_rounds(
    speeds: Mapping[str, float], count: int, sigma: float = 0.01, seed: int = 0, drift: float = 0.0
) -> list[dict[str, float]]:
    """Block medians: lognormal around each speed; every round is slower than the one before by `drift`."""
    random = np.random.default_rng(seed)
    return [
        {key: speed * float(np.exp(drift * round + sigma * random.standard_normal())) for key, speed in speeds.items()}
        for round in range(count)
    ]


def run(race: Race | FrontRace, rounds: list[dict[str, float]]) -> list[Elimination]:
    """Show the rounds until the race is decided; contenders only."""
    eliminations: list[Elimination] = []
    for medians_ms in rounds:
        if race.decided:
            break
        eliminations += race.add_round({key: medians_ms[key] for key in race.active if key in medians_ms})
    return eliminations


def equal(count: int = 8) -> dict[str, float]:
    return dict.fromkeys(KEYS[:count], 1.0)
