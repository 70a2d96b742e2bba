"""Intervals of latencies: from the spread of all variants (as in a ranking), against Student's t of each variant alone.

python tests/benchmarks/bench_intervals.py [--seeds 400] [--winners]

24 variants on a simulated phone whose processes differ by 2, 10 or 20 %, three rounds; the preset full, whose rounds
end early where they agree; and phones whose noise is of another kind (holdout). Half-width: of the interval, in percent
of the estimate. Two halves of the seeds say how far each figure is from itself (A/A). No clock is read.

Then the winner's interval alone, with 1, 3 or 6 variants that are equally fast, the others lognormal above them (sigma
0.15), under quick and full: how often it holds the truth, and how far its upper end is above the estimate; the same
without the allowance for having been selected.
"""

import argparse
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
from report import Figure, at_least, at_most, finish

from sweeps.protocol.presets import PRESETS
from sweeps.ranking.intervals import latency_intervals
from sweeps.ranking.ties import LATENCY
from sweeps.ranking.two_speeds import two_speeds
from sweeps.ranking.winner import first_place
from sweeps.stats import Estimate, p50_estimate
from tests.benchmarks.simulated_sweep import latencies_ms, simulate
from workers.devices.fake.phones import PHONES, Phone

VARIANTS = 24
QUICK, FULL = PRESETS["quick"], PRESETS["full"]


def processes(cv: float) -> Phone:
    return replace(PHONES["cool"], name=f"processes {cv:.0%}", process_cv=cv)


def daemons(asleep_s: float, awake_s: float, slower: float) -> dict[str, float]:
    return {"daemon_every_s": asleep_s, "daemon_s": awake_s, "daemon_slower": slower}


CASES = {
    **{f"processes {cv:.0%}, 3 rounds": (processes(cv), QUICK) for cv in (0.02, 0.10, 0.20)},
    **{f"processes {cv:.0%}, full": (processes(cv), FULL) for cv in (0.02, 0.10, 0.20)},
    "heavy tails, 3 rounds": (replace(processes(0.02), tail_degrees=2.5), QUICK),
    "two speeds 12 % apart, 60 s each, full": (replace(processes(0.01), **daemons(60.0, 60.0, 1.12)), FULL),
    "bursts of 50 % for 10 s every 90 s, full": (replace(processes(0.01), **daemons(90.0, 10.0, 1.5)), FULL),
    **{f"{name}, full": (phone, FULL) for name, phone in PHONES.items() if name.startswith("holdout_")},
}

WINNERS = {
    f"winner, {equal} equal, processes {cv:.0%}, {protocol.preset}": (equal, processes(cv), protocol)
    for protocol in (QUICK, FULL)
    for cv in (0.02, 0.10)
    for equal in (1, 3, 6)
}

Row = tuple[float, float, bool, bool]
"""Half-widths (%) of both intervals, and whether each holds the truth."""


def rows(case: str, seeds: range) -> list[Row]:
    phone, protocol = CASES[case]
    holds_and_halves = []
    for seed in seeds:
        sweep = simulate(phone, latencies_ms(VARIANTS, 10.0, 0.15, seed), protocol, seed=seed)
        for job in sweep.jobs.values():
            own = p50_estimate(list(job.medians_ms.values()))
            if own.low is not None:
                holds_and_halves.append(
                    (
                        _half(job.p50_ms),
                        _half(own),
                        _holds(job.p50_ms, job.true_p50_ms),
                        _holds(own, job.true_p50_ms),
                    )
                )
    return holds_and_halves


Winner = tuple[bool, bool, float, float, int]
"""The interval of the winner holds the truth, and would if it had not been selected; how far their upper ends are above
the estimate (%); among how many it was selected."""


def winners(case: str, seeds: range) -> list[Winner]:
    equal, phone, protocol = WINNERS[case]
    coverage = []
    for seed in seeds:
        true_ms = latencies_ms(VARIANTS, 10.0, 0.15, seed)
        best = min(true_ms.values())
        true_ms |= dict.fromkeys(sorted(true_ms, key=lambda name: true_ms[name])[:equal], best)
        sweep = simulate(phone, true_ms, protocol, seed=seed)
        assert sweep.named is not None
        job = sweep.jobs[sweep.named]
        medians = [job.medians_ms for job in sweep.jobs.values()]
        every = latency_intervals(medians, two_speeds(medians))
        own = every[list(sweep.jobs).index(sweep.named)]
        first = first_place(list(sweep.jobs.values()), LATENCY, smaller=True)
        coverage.append(
            (
                _holds(job.p50_ms, job.true_p50_ms),
                _holds(own, job.true_p50_ms),
                _above(job.p50_ms),
                _above(own),
                first.candidates,
            )
        )
    return coverage


def _above(estimate: Estimate) -> float:
    assert estimate.high is not None
    return 100 * (estimate.high / estimate.value - 1)


def _half(estimate: Estimate) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return 50 * (estimate.high - estimate.low) / estimate.value


def _holds(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--winners", action="store_true", help="Only the intervals of winners.")
    options = parser.parse_args()
    seeds = options.seeds
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if options.winners:
        finish("intervals of winners, on simulated phones", _winner_figures(seeds), seeds=seeds, variants=VARIANTS)
    halves = (range(0, seeds // 2), range(seeds // 2, seeds))
    pairs = [(case, half) for case in CASES for half in halves]
    figures = []
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(rows, *zip(*pairs, strict=True)))
    for number, case in enumerate(CASES):
        first, second = (np.array(part, dtype=np.float64) for part in results[2 * number : 2 * number + 2])
        every = np.concatenate([first, second])
        half, own_half = np.median(every[:, :2], axis=0)
        holds, own_holds = 100 * every[:, 2:].mean(axis=0)
        label = f"{case}: half-width, median"
        figures += [
            at_most(label, float(half), "%", 2.6)
            if case == "processes 2%, 3 rounds"
            else Figure(label, float(half), "%"),
            Figure(f"{case}: half-width of Student's", float(own_half), "%"),
            _coverage(case, float(holds)),
            Figure(f"{case}: Student's holds the truth", float(own_holds), "%"),
            Figure(
                f"{case}: two halves of the seeds (A/A)",
                100 * abs(float(first[:, 2].mean() - second[:, 2].mean())),
                "points",
            ),
        ]
        print(case, file=sys.stderr)
    figures += _winner_figures(seeds)
    finish("intervals of latencies, on simulated phones", figures, seeds=seeds, variants=VARIANTS)


def _winner_figures(seeds: int) -> list[Figure]:
    numbers = range(seeds)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(winners, WINNERS, [numbers] * len(WINNERS)))
    figures, pooled = [], []
    for case, rows_ in zip(WINNERS, results, strict=True):
        every = np.array(rows_, dtype=np.float64)
        holds, own_holds = 100 * every[:, :2].mean(axis=0)
        above, own_above = np.median(every[:, 2:4], axis=0)
        pooled.append(holds)
        figures += [
            Figure(f"{case}: holds the truth", holds, "%", "92 to 98 %", 92 <= holds <= 98),
            Figure(f"{case}: without the allowance", own_holds, "%"),
            Figure(f"{case}: upper end above the estimate, median", above, "%"),
            Figure(f"{case}: without the allowance, median", own_above, "%"),
            Figure(f"{case}: selected among, mean", float(every[:, 4].mean()), "variants"),
        ]
    mean = float(np.mean(pooled))
    return [*figures, Figure("winner, pooled: holds the truth", mean, "%", "92 to 98 %", 92 <= mean <= 98)]


def _coverage(case: str, holds: float) -> Figure:
    label = f"{case}: holds the truth"
    if case.startswith("processes") and case.endswith("3 rounds"):
        return Figure(label, holds, "%", "93 to 97 %", 93 <= holds <= 97)
    return at_least(label, holds, "%", 93) if case.startswith("processes") else Figure(label, holds, "%")


if __name__ == "__main__":
    main()
