"""A race's named variant, device seconds and certainty are measured: batches and finals on simulated phones.

python tests/benchmarks/bench_policy.py [--seeds 400] [--processes 2] [--arm deciding]

24 variants lognormal around 10 ms, sigma 0.35, 0.15 or 0.05, or the best six times (six equal), on phones with one
form of noise each (`NOISE_FORMS`, those for judging: no rule was tuned on them). A process takes 2.5 or 0.3 s to start.
Four arms see the same variants: the race with batches and finals (`batches`); the race that batches decide (`deciding`)
and the race in processes of their own only (`solo`), in all forms at 2.5 s; and the preset `full` (2 % between
processes). At 2.5 s and 2 % between processes the race with finals also runs with 3 and 6 groups of batches, and where
a shared process misleads by 3 %; the race that batches decide where it misleads by 10 %, which is what its alarm is
for. What `rank` ships is scored. Two halves of the seeds say how far a median is from itself (A/A). No clock is read.
"""

import argparse
import multiprocessing
import os
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
from bench_shipping import SPREADS, VARIANTS, variants_ms
from policy_cases import Cell, Sweep, percent, table
from report import Figure, at_least, at_most, finish
from scipy.special import betaincinv

from sweeps.protocol.presets import PRESETS
from sweeps.stats import NEGLIGIBLE
from tests.benchmarks.noise_forms import NOISE_FORMS
from tests.benchmarks.simulated_sweep import SimulatedSweep, simulate

STARTS_S = (2.5, 0.3)
FORMS = [name for name in NOISE_FORMS if name.startswith("judge_")]
STANDARD = "judge_processes_middle"
NOISIER = ("judge_processes_high", "judge_ar1_high", "judge_unequal")
"""Twice the device time is allowed there."""
SLOW_TO_DECIDE = ("judge_two_states", "judge_bursts")
MOST_S = {"0.35": 40, "0.15": 65, "0.05": 120, "six equal": 170}
"""Median device seconds at 2.5 s a start."""
MOST_DECIDING_S = {"0.35": 32, "0.15": 40, "0.05": 50, "six equal": 70}
"""The same, where batches decide."""
MISLEADS_CV = {"batches": 0.03, "deciding": 0.1}
MOST_ALARMS = 2.5
"""Percent of races in which the rival's block contradicts the batches by chance."""
ARTIFACT_BYTES = 0
"""Pushes cost every arm the same."""
CERTAINTY = 0.999
"""A cell fails where this one-sided bound excludes the target."""


def cells() -> Iterator[Cell]:
    for start_s in STARTS_S:
        for form in FORMS:
            for spread in SPREADS:
                yield Cell("batches", form, spread, start_s)
                if start_s == STARTS_S[0] or form == STANDARD:
                    yield Cell("deciding", form, spread, start_s)
                    yield Cell("solo", form, spread, start_s)
                if form == STANDARD:
                    yield Cell("full", form, spread, start_s)
    for spread in SPREADS:
        for groups in (3, 6):
            yield Cell("batches", STANDARD, spread, 2.5, groups)
        for arm in MISLEADS_CV:
            yield Cell(arm, STANDARD, spread, 2.5, misleads=True)


def run(cell: Cell, seeds: range) -> list[Sweep]:
    base = NOISE_FORMS[cell.form]
    phone = replace(base, name=cell.name, start_s=cell.start_s - base.load_s)
    scored = []
    for seed in seeds:
        true_ms = variants_ms(cell.spread, seed)
        groups: Mapping[str, str] = {}
        if cell.arm in ("batches", "deciding"):
            groups = {name: str(number % cell.groups) for number, name in enumerate(true_ms)}
        slower = {}
        if cell.misleads:
            drawn = np.random.default_rng([seed, 11]).standard_normal(VARIANTS)
            slower = dict(zip(true_ms, np.exp(MISLEADS_CV[cell.arm] * drawn).tolist(), strict=True))
        protocol = PRESETS["full" if cell.arm == "full" else "race"]
        sweep = simulate(
            phone,
            true_ms,
            protocol,
            seed=seed,
            artifact_bytes=ARTIFACT_BYTES,
            groups=groups,
            shared_slower=slower,
            batches_decide=cell.arm == "deciding",
        )
        scored.append(_scored(sweep, true_ms))
    return scored


def _scored(sweep: SimulatedSweep, true_ms: Mapping[str, float]) -> Sweep:
    best_ms = min(true_ms.values())
    eliminated = {elimination.key for elimination in sweep.eliminations}
    good = [name for name, ms in true_ms.items() if ms <= best_ms * (1 + NEGLIGIBLE)]
    winner = None if sweep.named is None else sweep.jobs.get(sweep.named)
    return Sweep(
        device_s=sweep.device_s,
        named=sweep.regret <= NEGLIGIBLE,
        lost=all(name in eliminated for name in good),
        decided=bool(sweep.decided),
        covered=None if winner is None else winner.holds_what_it_says,
        alarm=sweep.alarm if sweep.checked else None,
        batches_s=sweep.batches_s,
        batches_timed_s=sweep.batches_timed_s,
        timed_s=sweep.timed_s,
    )


def bound(percent_: float, count: int, *, upper: bool) -> float:
    """The one-sided bound (%) of a share, by Clopper and Pearson (Biometrika 26, 1934)."""
    hits = round(percent_ / 100 * count)
    if upper:
        return 100.0 if hits == count else 100 * float(betaincinv(hits + 1, count - hits, CERTAINTY))
    return 0.0 if hits == 0 else 100 * float(betaincinv(hits, count - hits + 1, 1 - CERTAINTY))


def at_least_in_every(name: str, shares: list[tuple[str, float]], seeds: int, target: float) -> Figure:
    """The worst cell; it fails where the bound of any cell excludes the target."""
    where, worst = min(shares, key=lambda entry: entry[1])
    reached = all(bound(value, seeds, upper=True) >= target for _, value in shares)
    return Figure(f"{name}, worst case ({where})", worst, "%", f"at least {target:g} %", reached)


def at_most_in_every(name: str, shares: list[tuple[str, float]], seeds: int, target: float) -> Figure:
    """A bound from above, as `at_least_in_every` is one from below."""
    where, worst = max(shares, key=lambda entry: entry[1])
    reached = all(bound(value, seeds, upper=False) <= target for _, value in shares)
    return Figure(f"{name}, worst case ({where})", worst, "%", f"at most {target:g} %", reached)


def figures(sweeps_of: Mapping[Cell, list[Sweep]], seeds: int) -> list[Figure]:
    medians = {cell: float(np.median([sweep.device_s for sweep in sweeps])) for cell, sweeps in sweeps_of.items()}
    arms = {cell.arm for cell in sweeps_of}
    result = finals_figures(sweeps_of, medians, seeds) if {"batches", "solo", "full"} <= arms else []
    return [*result, *(deciding_figures(sweeps_of, medians, seeds) if "deciding" in arms else [])]


def deciding_figures(sweeps_of: Mapping[Cell, list[Sweep]], medians: Mapping[Cell, float], seeds: int) -> list[Figure]:
    races = {cell: sweeps for cell, sweeps in sweeps_of.items() if cell.arm == "deciding" and not cell.misleads}
    misled = [
        sweep for cell, sweeps in sweeps_of.items() if cell.arm == "deciding" and cell.misleads for sweep in sweeps
    ]
    steady = {cell: sweeps for cell, sweeps in races.items() if cell.form not in SLOW_TO_DECIDE}
    unsteady = [sweep for cell, sweeps in races.items() if cell.form in SLOW_TO_DECIDE for sweep in sweeps]
    prefix = "batches decide: "
    return [
        *median_figures(races, medians, MOST_DECIDING_S, prefix),
        *decision_figures(races, seeds, prefix),
        at_most_in_every(f"{prefix}alarms by chance", by_cell("alarm", steady), seeds, MOST_ALARMS),
        Figure(f"{prefix}alarms by chance, two-state clocks and bursts", percent(unsteady, "alarm"), "%"),
        Figure(f"{prefix}alarms where a shared process misleads by 10 %", percent(misled, "alarm"), "%"),
    ]


def finals_figures(sweeps_of: Mapping[Cell, list[Sweep]], medians: Mapping[Cell, float], seeds: int) -> list[Figure]:
    races = {cell: sweeps for cell, sweeps in sweeps_of.items() if cell.arm == "batches" and not cell.misleads}
    one_group = [cell for cell in races if cell.groups == 1]  # several are reported: the bounds are for one process
    result = median_figures(one_group, medians, MOST_S)
    for spread in SPREADS:
        standard = Cell("batches", STANDARD, spread, 2.5)
        solo, full = (medians[replace(standard, arm=arm)] for arm in ("solo", "full"))
        halves = [float(np.median([sweep.device_s for sweep in sweeps_of[standard][start::2]])) for start in (0, 1)]
        result += [
            Figure(f"median device time, {spread}, {STANDARD.removeprefix('judge_')}", medians[standard], "s"),
            Figure(f"its two halves (A/A), {spread}", abs(halves[0] - halves[1]), "s"),
            Figure(f"processes of their own only / batches, {spread}", solo / medians[standard], "times"),
            Figure(f"full / batches, {spread}", full / medians[standard], "times"),
        ]
    misled = {cell: sweeps for cell, sweeps in sweeps_of.items() if cell.arm == "batches" and cell.misleads}
    return [
        *result,
        *decision_figures(races, seeds),
        at_least_in_every("the best named where a shared process misleads", by_cell("named", misled), seeds, 93),
        *shares(races),
    ]


def decision_figures(races: Mapping[Cell, list[Sweep]], seeds: int, prefix: str = "") -> list[Figure]:
    pooled = [sweep for sweeps in races.values() for sweep in sweeps]
    clear = {cell: sweeps for cell, sweeps in races.items() if cell.form not in SLOW_TO_DECIDE}
    unclear = {cell: sweeps for cell, sweeps in races.items() if cell.form in SLOW_TO_DECIDE}
    undecided = [(name, 100 - value) for name, value in by_cell("decided", clear)]
    undecided_unclear = [(name, 100 - value) for name, value in by_cell("decided", unclear)]
    covered, covered_unclear = (
        percent([sweep for sweeps in chosen.values() for sweep in sweeps], "covered") for chosen in (clear, unclear)
    )
    interval = f"{prefix}the winner's interval holds what it says it is of"
    return [
        at_least(f"{prefix}the best named (within 2 %), all cases", percent(pooled, "named"), "%", 97),
        at_least_in_every(f"{prefix}the best named (within 2 %)", by_cell("named", races), seeds, 93),
        at_most_in_every(f"{prefix}all that are within 2 % of the best eliminated", by_cell("lost", races), seeds, 2),
        at_most_in_every(f"{prefix}undecided", undecided, seeds, 5),
        at_most_in_every(f"{prefix}undecided, two-state clocks and bursts", undecided_unclear, seeds, 30),
        Figure(f"{interval}, all steady phones", covered, "%", "92 to 98 %", 92 <= covered <= 98),
        Figure(f"{interval}, two-state clocks and bursts", covered_unclear, "%"),
    ]


def by_cell(name: str, chosen: Mapping[Cell, list[Sweep]]) -> list[tuple[str, float]]:
    return [(cell.name, percent(sweeps, name)) for cell, sweeps in chosen.items()]


def median_figures(
    races: Collection[Cell], medians: Mapping[Cell, float], most_s: Mapping[str, float], prefix: str = ""
) -> list[Figure]:
    """At 2.5 s a start, the worst case of each spread; twice the time is allowed on noisier phones."""
    result = []
    for spread in SPREADS:
        for noisier in (False, True):
            cases_here = {
                cell: medians[cell]
                for cell in races
                if cell.spread == spread and cell.start_s == 2.5 and (cell.form in NOISIER) == noisier
            }
            where = max(cases_here, key=lambda cell: cases_here[cell])
            phones = "noisier phones" if noisier else "noise up to 2 %"
            name = f"{prefix}median device time, {spread}, {phones}, worst case ({where.name})"
            result.append(at_most(name, cases_here[where], "s", most_s[spread] * (1 + noisier)))
    return result


def shares(races: Mapping[Cell, list[Sweep]]) -> list[Figure]:
    """The shares of device time that timed iterations take."""
    spent: dict[tuple[float, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for cell, sweeps in races.items():
        for sweep in sweeps:
            for phase, timed_s, all_s in (
                ("batches", sweep.batches_timed_s, sweep.batches_s),
                ("finals", sweep.timed_s - sweep.batches_timed_s, sweep.device_s - sweep.batches_s),
            ):
                spent[cell.start_s, phase][0] += timed_s
                spent[cell.start_s, phase][1] += all_s
    least = {(2.5, "batches"): 25, (2.5, "finals"): 9, (0.3, "batches"): 35}
    return [
        at_least(f"share of device time timed, {phase}, {start_s:g} s a start", 100 * timed / total, "%", least[key])
        if (key := (start_s, phase)) in least
        else Figure(f"share of device time timed, {phase}, {start_s:g} s a start", 100 * timed / total, "%")
        for (start_s, phase), (timed, total) in spent.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--arm", choices=("batches", "deciding", "solo", "full"), help="only this one; default: all")
    options = parser.parse_args()
    seeds = options.seeds
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    chosen = [cell for cell in cells() if options.arm in (None, cell.arm)]
    sweeps_of: dict[Cell, list[Sweep]] = {}
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        every = pool.map(run, chosen, [range(seeds)] * len(chosen))
        for done, (cell, sweeps) in enumerate(zip(chosen, every, strict=True), start=1):
            sweeps_of[cell] = sweeps
            print(f"\r{done} of {len(chosen)} cells", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for start_s in STARTS_S:
        print(table(sweeps_of, start_s, "batches"))
        print(table(sweeps_of, start_s, "deciding"))
    finish(
        "batches and finals on simulated phones",
        figures(sweeps_of, seeds),
        seeds=seeds,
        variants=VARIANTS,
        cells=len(sweeps_of),
    )


if __name__ == "__main__":
    main()
