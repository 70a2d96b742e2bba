"""A sweep ships a good build also where the device shifts, or is loaded for a while, around the last sentinel check.

python tests/benchmarks/bench_last_check.py [--seeds 100]

The real driver, journal and ranking on a device in virtual time (`tests/workers/shifting_device.py`). `full`: 12 or 24
builds, lognormal around 10 ms (sigma 0.35 or 0.15), processes differ by 1 to 4 %. A burst begins at a random time
after the last check but one and ends 5 to 60 s after the last one began; a shift begins at such a time and lasts. Both
make the device 1.1 to 2 times as slow. Regret is how much slower than the best the shipped build truly is.

`slow start`: races of 12 builds on a device that is 10 to 40 % slower for the first 8 to 60 s after it was plugged in:
how many winners carry the label `device_moved`, and how often their interval holds the truth.
"""

import argparse
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from report import Figure, at_least, at_most, finish

from sweeps.ranking.values import DeviceRanking
from sweeps.stats import NEGLIGIBLE
from tests.workers.shifting_device import ShiftingSweep, Speed

MUCH = 0.05
SPREADS = (0.35, 0.15)
BUILDS = (12, 24)
CVS = (0.01, 0.02, 0.04)


@dataclass(frozen=True)
class Shipped:
    regret: float
    named: bool
    """The first lines name a better estimate that was disqualified."""
    moved: bool
    held: bool
    """The interval holds the truth."""
    blocks: int


def latencies_ms(random: np.random.Generator, builds: int, sigma: float) -> tuple[float, ...]:
    return tuple((10.0 * np.exp(sigma * random.standard_normal(builds))).tolist())


@cache
def last_checks(builds: int) -> tuple[float, float]:
    """When the last check but one ends, and when the last one begins (s), in a quiet sweep: all blocks are equally
    long."""
    with tempfile.TemporaryDirectory() as folder:
        sweep = ShiftingSweep(Path(folder), tuple(5.0 * 1.1**number for number in range(builds)))
        device = sweep.device()
        with sweep.open() as journal:
            sweep.run(journal, device)
    checks = [at_s for at_s, key in device.measured if key == sweep.sentinel.key]
    return checks[-4], checks[-3]


def burst(random: np.random.Generator, builds: int) -> Speed:
    before_s, last_s = last_checks(builds)
    began_s, ended_s = random.uniform(before_s, last_s), last_s + random.uniform(5.0, 60.0)
    slower = random.uniform(1.1, 2.0)
    return lambda at_s: slower if began_s <= at_s < ended_s else 1.0


def shift(random: np.random.Generator, builds: int) -> Speed:
    began_s, slower = random.uniform(*last_checks(builds)), random.uniform(1.1, 2.0)
    return lambda at_s: slower if at_s >= began_s else 1.0


def slow_start(random: np.random.Generator, _: int) -> Speed:
    ended_s, slower = random.uniform(8.0, 60.0), random.uniform(1.1, 1.4)
    return lambda at_s: slower if at_s < ended_s else 1.0


def run(world: Callable[[np.random.Generator, int], Speed], seed: int, *, race: bool = False) -> Shipped:
    random = np.random.default_rng([seed, 31])
    builds = BUILDS[0] if race else BUILDS[seed % 2]
    sigma, process_cv = SPREADS[seed // 2 % 2], CVS[seed % 3]
    with tempfile.TemporaryDirectory() as folder:
        sweep = ShiftingSweep(
            Path(folder), latencies_ms(random, builds, sigma), budget="race" if race else "full", seed=seed
        )
        device = sweep.device(world(random, builds), process_cv=process_cv, seed=seed)
        with sweep.open() as journal:
            sweep.run(journal, device)
            ranking = sweep.ranked(journal)
    return shipped(ranking, sweep, len(device.measured))


def shipped(ranking: DeviceRanking, sweep: ShiftingSweep, blocks: int) -> Shipped:
    named = bool(ranking.better_disqualified)
    if ranking.winner is None:
        return Shipped(math.inf, named, moved=False, held=False, blocks=blocks)
    true_ms = sweep.true_ms[ranking.winner.job_key]
    low, high = (ranking.winner.figures[f"latency_ci_{end}_ms"] for end in ("low", "high"))
    return Shipped(
        regret=true_ms / min(sweep.true_ms.values()) - 1.0,
        named=named,
        moved="device_moved" in ranking.winner.trust,
        held=low is not None and high is not None and low <= true_ms <= high,
        blocks=blocks,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    seeds = parser.parse_args().seeds
    figures: list[Figure] = []
    for world in (burst, shift):
        name = f"a {world.__name__} at the last check"
        runs = [run(world, seed) for seed in range(seeds)]
        worse = sum(sweep.regret > MUCH and not sweep.named for sweep in runs)
        within = 100 * sum(sweep.regret <= NEGLIGIBLE for sweep in runs) / seeds
        figures += [
            at_most(f"{name}: over 5 % worse, and nothing disqualified is named beside it", worse, "sweeps", 0),
            at_least(f"{name}: what ships is within 2 %", within, "%", 95),
            Figure(f"{name}: blocks of a sweep, mean", float(np.mean([sweep.blocks for sweep in runs])), "blocks"),
        ]
    races = [run(slow_start, seed, race=True) for seed in range(seeds)]
    figures += [
        at_most(
            "slow start: winners of races with device_moved", 100 * sum(sweep.moved for sweep in races) / seeds, "%", 5
        ),
        Figure(
            "slow start: the winner's interval holds the truth", 100 * sum(sweep.held for sweep in races) / seeds, "%"
        ),
    ]
    finish("last check: what ships where the device shifts at the end", figures, seeds=seeds)


if __name__ == "__main__":
    main()
