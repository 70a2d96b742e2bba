"""Races and `quick` on simulated phones whose clocks tick seldom, or whose tools round each sample: what is shipped,
and what the winner's interval is worth.

python tests/benchmarks/bench_clocks.py [--seeds 40] [--processes 2]

24 variants lognormal around 1 to 20 ms, sigma 0.15, on phones whose samples vary by 1 or 2 %. Clocks: 32,768 Hz, 300
Hz, 1 ms and 12.3 ppm fast, and that of Linux at 250 Hz, whose ticks are up to 1 ns longer; a clock of 0.1 ms, to which
a tool rounds each sample by itself, up, down or to the nearest; the same with 1 ms, which is up to 15 % of a sample: of
builds that are rounded to one tick nothing shows which is the fastest, so here only label and interval are bounded.
Fine clocks: whole nanoseconds, and the 24 MHz of many phones. No clock is read.
"""

import argparse
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from report import Figure, at_least, at_most, finish

from sweeps.protocol.presets import PRESETS
from sweeps.stats import NEGLIGIBLE
from tests.benchmarks.simulated_sweep import latencies_ms, simulate
from workers.devices.fake.phones import PHONES
from workers.devices.fake.ticks import Ticks

VARIANTS = 24
SIGMA = 0.15
BAD = 0.05
"""A shipped build that is worse by more than this has to be labelled."""
NOISE = ("steady", "cool")
ARMS = ("race", "race in batches", "quick")
TENTH = Ticks(tick_s=1e-4)
SLEWED = Ticks(tick_s=1e-3, faster=12.3e-6)
COARSE = {
    "32,768 Hz": (Ticks(tick_s=1 / 32_768), 1.0),
    "300 Hz": (Ticks(tick_s=1 / 300), 20.0),
    "1 ms, 12.3 ppm fast": (SLEWED, 10.0),
    "250 Hz of Linux": (Ticks(tick_s=4e-3, faster=1e-7), 20.0),
    "each rounded to 0.1 ms": (replace(TENTH, each="nearest"), 3.0),
    "each rounded down to 0.1 ms": (replace(TENTH, each="down"), 3.0),
    "each rounded up to 0.1 ms": (replace(TENTH, each="up"), 3.0),
}
"""The clock, and the latency (ms) around which the variants are."""
BLURRED = {
    "each rounded to 1 ms, 12.3 ppm fast": (replace(SLEWED, each="nearest"), 10.0),
    "each rounded down to 1 ms": (Ticks(tick_s=1e-3, each="down"), 10.0),
}
FINE = {"nanoseconds": (None, 5.0), "24 MHz": (Ticks(tick_s=1 / 24e6), 5.0)}
CLOCKS = {**COARSE, **BLURRED, **FINE}


@dataclass(frozen=True)
class Shipped:
    """The build that one sweep shipped, and what the sweep says of it."""

    regret: float
    labelled: bool
    covered: bool
    half_width: float
    """The half-width of the interval, as a share of the estimate."""


def run(clock: str, noise: str, arm: str, seeds: range) -> list[Shipped]:
    ticks, base_ms = CLOCKS[clock]
    phone = replace(PHONES[noise], name=clock, ticks=ticks)
    shipped = []
    for seed in seeds:
        true_ms = latencies_ms(VARIANTS, base_ms, SIGMA, seed)
        protocol = PRESETS["quick" if arm == "quick" else "race"]
        groups = None if arm == "race in batches" else {}
        sweep = simulate(phone, true_ms, protocol, seed=seed, artifact_bytes=0, groups=groups)
        assert sweep.named is not None
        job = sweep.jobs[sweep.named]
        assert job.p50_ms.low is not None
        assert job.p50_ms.high is not None
        half_width = (job.p50_ms.high - job.p50_ms.low) / 2 / job.p50_ms.value
        shipped.append(Shipped(sweep.regret, job.coarse_clock, bool(job.covered), half_width))
    return shipped


def figures(clock: str, shipped: list[Shipped]) -> list[Figure]:
    labelled = 100 * float(np.mean([sweep.labelled for sweep in shipped]))
    unsaid = sum(sweep.regret > BAD and not sweep.labelled for sweep in shipped)
    good = 100 * float(np.mean([sweep.regret <= NEGLIGIBLE for sweep in shipped]))
    covered = 100 * float(np.mean([sweep.covered for sweep in shipped]))
    half = 100 * float(np.median([sweep.half_width for sweep in shipped]))
    result = [
        at_most(f"{clock}: over 5 % worse is shipped without a label", unsaid, f"of {len(shipped)}", 0),
        Figure(f"{clock}: what is shipped is within 2 %", good, "%"),
        Figure(f"{clock}: half-width of the winner's interval, median", half, "%"),
    ]
    if clock in FINE:
        result[1] = at_least(result[1].name, good, "%", 93)
        return [*result, at_most(f"{clock}: winners with the label", labelled, "%", 1)]
    if clock in COARSE:
        result[1] = at_least(result[1].name, good, "%", 93)
    return [
        *result,
        Figure(f"{clock}: winners with the label", labelled, "%"),
        at_least(f"{clock}: the labelled interval holds the truth", covered, "%", 93),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    seeds = range(options.seeds)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    cells = [(clock, noise, arm, seeds) for clock in CLOCKS for noise in NOISE for arm in ARMS]
    shipped_by_clock: dict[str, list[Shipped]] = {clock: [] for clock in CLOCKS}
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for (clock, noise, arm, _), shipped in zip(cells, pool.map(run, *zip(*cells, strict=True)), strict=True):
            shipped_by_clock[clock] += shipped
            print(f"{clock}, {noise}, {arm}", file=sys.stderr)
    every = [figure for clock, shipped in shipped_by_clock.items() for figure in figures(clock, shipped)]
    finish("coarse clocks, on simulated phones", every, seeds=len(seeds), variants=VARIANTS)


if __name__ == "__main__":
    main()
