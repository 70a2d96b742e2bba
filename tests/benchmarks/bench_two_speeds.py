"""Two speeds and bursts: how often they are found where there are none, and where there are; and what intervals hold.

python tests/benchmarks/bench_two_speeds.py [--sweeps 1000]

Sweeps are drawn as block medians, in the order of shuffled rounds, one block every 4.4 s: a level for each variant
(sigma 0.3), noise of one kind, and where it says so a device that is slower by one factor during exponential times. The
truth is the median of what processes of a variant show in the long run, over both speeds. Bursts are drawn as samples
of blocks of 0.5 s. Nothing here was used to choose the limits. No clock is read.
"""

import argparse
import math
import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from report import Figure, at_least, at_most, finish
from scipy.optimize import brentq
from scipy.special import ndtr

from sweeps.protocol.bursts import BURST_SHARE, burst_share
from sweeps.ranking.intervals import latency_intervals
from sweeps.ranking.moderated_intervals import moderated
from sweeps.ranking.two_speeds import two_speeds
from sweeps.stats import Estimate

BLOCK_S = 4.4
Array = NDArray[np.float64]
Random = np.random.Generator
Noise = Callable[[Random, int, int], Array]
"""Logarithms of block medians (rounds, variants) in the order of measuring, around 0."""


def lognormal(cv: float) -> Noise:
    return lambda random, rounds, variants: cv * random.standard_normal((rounds, variants))


def heavy(scale: float) -> Noise:
    return lambda random, rounds, variants: scale * random.standard_t(2.5, (rounds, variants))


def correlated(rho: float, cv: float) -> Noise:
    def noise(random: Random, rounds: int, variants: int) -> Array:
        drawn = random.standard_normal(rounds * variants)
        for at in range(1, drawn.size):
            drawn[at] = rho * drawn[at - 1] + math.sqrt(1 - rho**2) * drawn[at]
        return cv * drawn.reshape(rounds, variants)

    return noise


def warming(by: float) -> Noise:
    def noise(random: Random, rounds: int, variants: int) -> Array:
        at_s = BLOCK_S * np.arange(rounds * variants).reshape(rounds, variants)
        return by * (1 - np.exp(-at_s / 240)) + 0.01 * random.standard_normal((rounds, variants))

    return noise


def by_round(cv: float) -> Noise:
    def noise(random: Random, rounds: int, variants: int) -> Array:
        return cv * random.standard_normal((rounds, 1)) + 0.01 * random.standard_normal((rounds, variants))

    return noise


def unequal(random: Random, rounds: int, variants: int) -> Array:
    """In the order of variants, so `sweep` must not shuffle it; the order of blocks does not matter to it."""
    return np.geomspace(0.005, 0.12, variants) * random.standard_normal((rounds, variants))


NOISES: dict[str, Noise] = {
    "lognormal 2 %": lognormal(0.02),
    "lognormal 10 %": lognormal(0.10),
    "heavy tails (t 2.5), 2 %": heavy(0.02),
    "heavy tails (t 2.5), 5 %": heavy(0.05),
    "AR(1) 0.2, 5 %": correlated(0.2, 0.05),
    "AR(1) 0.8, 2 %": correlated(0.8, 0.02),
    "AR(1) 0.8, 10 %": correlated(0.8, 0.10),
    "unequal variances, 0.5 to 12 %": unequal,
    "warming by 10 %": warming(0.10),
    "rounds differ by 2 %": by_round(0.02),
}
SHAPES = ((24, 3), (24, 10), (8, 5), (6, 3), (40, 2))
"""Variants and rounds."""
SPEEDS = {
    f"{slower:g} x, slow {share:.0%} of the time, {lasts_s:g} s each, processes {cv:.0%}": (slower, share, lasts_s, cv)
    for slower, share, lasts_s, cv in (
        (1.12, 0.5, 60.0, 0.01),
        (1.12, 0.3, 60.0, 0.01),
        (1.25, 0.7, 60.0, 0.02),
        (1.12, 0.5, 5.0, 0.01),
        (1.12, 0.3, 5.0, 0.02),
        (1.5, 0.5, 20.0, 0.04),
        (1.08, 0.4, 200.0, 0.01),
    )
}


def slow_blocks(random: Random, blocks: int, share: float, lasts_s: float) -> NDArray[np.bool_]:
    """Tell whether the device is slow in the middle of each block; a speed lasts `lasts_s` on average over both."""
    slow = bool(random.random() < share)
    ends_s, is_slow = 0.0, np.zeros(blocks, dtype=np.bool_)
    mean_s = {True: 2 * lasts_s * share, False: 2 * lasts_s * (1 - share)}
    at_s, slow = 0.0, not slow
    for block in range(blocks):
        while ends_s <= at_s:
            slow = not slow
            ends_s += random.exponential(mean_s[slow])
        is_slow[block] = slow
        at_s += BLOCK_S
    return is_slow


def medians_of(logs: Array, random: Random) -> tuple[list[dict[int, float]], Array]:
    """By variant and visit, from logarithms in the order of measuring; and the levels of the variants."""
    variants = logs.shape[1]
    levels = np.log(10.0) + 0.3 * random.standard_normal(variants)
    ms_of_visit: list[dict[int, float]] = [{} for _ in range(variants)]
    for visit, row in enumerate(logs):
        for variant, log in zip(random.permutation(variants), row, strict=True):
            ms_of_visit[variant][visit] = math.exp(levels[variant] + log)
    return ms_of_visit, levels


def false_alarms(noise: Noise, variants: int, rounds: int, sweeps: int) -> float:
    """Percent of sweeps."""
    alarms = 0
    for seed in range(sweeps):
        random = np.random.default_rng([seed, variants, rounds])
        logs = noise(random, rounds, variants)
        if noise is unequal:
            medians = [dict(enumerate(np.exp(logs[:, variant]))) for variant in range(variants)]
        else:
            medians, _ = medians_of(logs, random)
        alarms += two_speeds(medians) is not None
    return 100 * alarms / sweeps


def median_of_mixture(step: float, share: float, cv: float) -> float:
    """Above the fast level, in logarithms."""
    return float(
        brentq(lambda x: (1 - share) * ndtr(x / cv) + share * ndtr((x - step) / cv) - 0.5, -10 * cv, step + 10 * cv)
    )


def mixtures(
    slower: float, share: float, lasts_s: float, cv: float, variants: int, rounds: int, sweeps: int
) -> dict[str, float]:
    """Percent of sweeps found, percent of intervals that hold the truth, and median half-widths in percent."""
    step, found_count = math.log(slower), 0
    beyond = median_of_mixture(step, share, cv)
    holds: list[tuple[bool, bool]] = []
    held_where_found: list[bool] = []
    halves: list[tuple[float, float]] = []
    for seed in range(sweeps):
        random = np.random.default_rng([seed, 7])
        slow = slow_blocks(random, rounds * variants, share, lasts_s).reshape(rounds, variants)
        medians, levels = medians_of(step * slow + cv * random.standard_normal((rounds, variants)), random)
        speeds = two_speeds(medians)
        found_count += speeds is not None
        mixed = latency_intervals(medians, speeds)
        single = moderated([list(ms_of_visit.values()) for ms_of_visit in medians])
        for level, *pair in zip(levels, mixed, single, strict=True):
            truth = math.exp(level + beyond)
            holds.append((_holds(pair[0], truth), _holds(pair[1], truth)))
            if speeds is not None:
                held_where_found.append(holds[-1][0])
            halves.append((_half(pair[0]), _half(pair[1])))
    of_ours, of_others = 100 * np.mean(holds, axis=0)
    half, other_half = np.median(halves, axis=0)
    where_found = {"holds where found": 100 * float(np.mean(held_where_found))} if held_where_found else {}
    return where_found | {
        "found": 100 * found_count / sweeps,
        "holds": float(of_ours),
        "held before": float(of_others),
        "half-width": float(half),
        "half-width before": float(other_half),
    }


def _holds(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


def _half(estimate: Estimate) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return 50 * (estimate.high - estimate.low) / estimate.value


def samples(kind: str, random: Random, count: int) -> Array:
    """One block, in multiples of its level."""
    logs = 0.03 * random.standard_normal(count)
    match kind:
        case "lognormal 10 %":
            logs *= 10 / 3
        case "heavy tails (t 2.5), 5 %":
            logs = 0.05 * random.standard_t(2.5, count)
        case "AR(1) 0.8, 10 %":
            logs = correlated(0.8, 0.1)(random, 1, count)[0]
        case "independent spikes, 3 %":
            logs += np.where(random.random(count) < 0.03, np.log(random.uniform(2, 5, count)), 0.0)
        case "independent spikes, 20 %":
            logs += np.where(random.random(count) < 0.2, np.log(random.uniform(1.3, 3, count)), 0.0)
        case "a burst of a fifth of the block, 1.5 x":
            begins = int(random.integers(0, count - count // 5))
            logs[begins : begins + count // 5] += math.log(1.5)
    return np.exp(logs)


def bursts_found(kind: str, count: int, blocks: int, seed: int) -> int:
    random = np.random.default_rng([seed, count])
    return sum(burst_share(samples(kind, random, count).tolist()) >= BURST_SHARE for _ in range(blocks))


def _bounded(label: str, percents: dict[str, float]) -> list[Figure]:
    held = percents.get("holds where found")
    return [] if held is None else [at_least(f"{label}: holds the truth where found", held, "%", 93.0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=1000)
    sweeps = parser.parse_args().sweeps
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    figures = []
    for name, noise in NOISES.items():
        for variants, rounds in SHAPES:
            alarms = false_alarms(noise, variants, rounds, sweeps)
            label = f"two speeds called where there are none: {name}, {variants} variants, {rounds} rounds"
            figures.append(at_most(label, alarms, "% of sweeps", 1.0))
    for name, parameters in SPEEDS.items():
        for variants, rounds in ((24, 3), (24, 10)):
            percents = mixtures(*parameters, variants, rounds, sweeps // 5)
            label = f"{name}, {rounds} rounds"
            figures += [
                Figure(f"{label}: found", percents["found"], "% of sweeps"),
                *_bounded(label, percents),
                Figure(f"{label}: holds the truth in all sweeps", percents["holds"], "%"),
                Figure(f"{label}: held it before", percents["held before"], "%"),
                Figure(f"{label}: half-width, median", percents["half-width"], "%"),
                Figure(f"{label}: half-width before", percents["half-width before"], "%"),
            ]
    of_sweep = 240
    for kind in (
        "lognormal 10 %",
        "heavy tails (t 2.5), 5 %",
        "AR(1) 0.8, 10 %",
        "independent spikes, 3 %",
        "independent spikes, 20 %",
    ):
        for count in (200, 20):
            alarms = sum(bursts_found(kind, count, of_sweep, seed) > 0 for seed in range(sweeps // 5))
            label = f"bursts called where there are none: {kind}, {count} samples, {of_sweep} blocks"
            figures.append(at_most(label, 500 * alarms / sweeps, "% of sweeps", 1.0))
    kind = "a burst of a fifth of the block, 1.5 x"
    figures.append(at_least(f"{kind}: called", bursts_found(kind, 200, 1000, 0) / 10, "% of blocks", 95.0))
    finish("two speeds and bursts, drawn", figures, sweeps=sweeps)


if __name__ == "__main__":
    main()
