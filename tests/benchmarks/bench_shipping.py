"""Two rules choose the build to ship when several variants are left: the smallest estimate, unless others are shown to
be within 2 % of it, against the most accurate of all that are not told apart from it (the rule before 2026-11-23).

python tests/benchmarks/bench_shipping.py [--seeds 400]

Both rules choose from the same simulated sweeps: 24 variants lognormal around 10 ms, sigma 0.35, 0.15 or 0.05, or the
best six times (six equal); processes differ by 2, 10 or 20 %. Regret: how much slower than the best the shipped variant
truly is. Two halves of the seeds say how far each figure is from itself (A/A). No clock is read: any machine will do.
"""

import argparse
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product

import numpy as np
from report import Figure, at_most, finish

from sweeps.protocol.presets import PRESETS
from sweeps.ranking.ties import LATENCY, worse
from sweeps.ranking.winner import simplicity
from tests.benchmarks.simulated_sweep import JobResult, latencies_ms, simulate
from workers.devices.fake.phones import PHONES

VARIANTS = 24
EQUAL = 6
PROCESS_CVS = (0.02, 0.10, 0.20)
SPREADS = ("0.35", "0.15", "0.05", "six equal")
METHODS = {
    "quick": PRESETS["quick"],
    "full, 3 rounds": replace(PRESETS["full"], max_rounds=3),
    "full": PRESETS["full"],
}
SHARE = 0.5

Regrets = dict[tuple[float, str, str], list[tuple[float, float, float]]]
"""By process spread, method and spread of the variants: regret (%) of the rule, of its rival, accuracy given up."""


def variants_ms(spread: str, seed: int) -> dict[str, float]:
    ms_of_variant = latencies_ms(VARIANTS, 10.0, 0.15 if spread == "six equal" else float(spread), seed)
    if spread == "six equal":
        best = min(ms_of_variant.values())
        for name in sorted(ms_of_variant, key=lambda name: ms_of_variant[name])[:EQUAL]:
            ms_of_variant[name] = best
    return ms_of_variant


def most_accurate(jobs: dict[str, JobResult]) -> JobResult:
    """The rule before: of all that are not told apart from the best estimate, the most accurate."""
    rows = sorted(jobs.values(), key=lambda job: job.p50_ms.value)
    near = [row for row in rows if not worse(row, rows[0], LATENCY, smaller=True)]
    first = [row for row in near if not any(worse(row, other, LATENCY, smaller=True) for other in near)] or near
    return min(first, key=lambda row: (*simplicity(row), row.p50_ms.value))


def regrets(seeds: range) -> Regrets:
    regrets_of: Regrets = {}
    for cv, method, spread in product(PROCESS_CVS, METHODS, SPREADS):
        phone = replace(PHONES["cool"], name=f"processes {cv:.0%}", process_cv=cv)
        for seed in seeds:
            true_ms = variants_ms(spread, seed)
            sweep = simulate(phone, true_ms, METHODS[method], seed=seed)
            jobs = dict(sweep.jobs)
            rival = most_accurate(jobs)
            assert sweep.named is not None
            best_ms = min(true_ms.values())
            given_up = rival.top1_percent - jobs[sweep.named].top1_percent
            regrets_of.setdefault((cv, method, spread), []).append(
                (100 * sweep.regret, 100 * (true_ms[rival.name] / best_ms - 1), given_up)
            )
    return regrets_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=400)
    seeds = parser.parse_args().seeds
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    chunks = [range(start, min(start + 20, seeds)) for start in range(0, seeds, 20)]
    regrets_of: Regrets = {}
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done, part in enumerate(pool.map(regrets, chunks), start=1):
            for key, values in part.items():
                regrets_of.setdefault(key, []).extend(values)
            print(f"\r{done} of {len(chunks)} chunks of seeds", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)

    print(f"{'processes':9}  {'method':14}  {'spread':9}  regret mean / p90, %: shown within 2 %   most accurate")
    for (cv, method, spread), values in regrets_of.items():
        table = np.array(values)
        means, tenths = table.mean(axis=0), np.quantile(table, 0.9, axis=0)
        own, rivals = (f"{means[rule]:9.2f} / {tenths[rule]:5.2f}" for rule in (0, 1))
        print(f"{cv:9.0%}  {method:14}  {spread:9}  {own:>35}  {rivals}")
    figures = []
    for cv, method in product(PROCESS_CVS, METHODS):
        # All spreads have the same number of seeds, so halves of each are halves of all.
        parts = [np.array(regrets_of[cv, method, spread]) for spread in SPREADS]
        table = np.concatenate(parts)
        halves = [np.concatenate([part[start::2] for part in parts])[:, 0].mean() for start in (0, 1)]
        own, rivals, given_up = table.mean(axis=0)
        label = f"processes {cv:.0%}, {method}"
        figures += [
            Figure(f"{label}: mean regret", float(own), "%"),
            Figure(f"{label}: its two halves (A/A)", float(abs(halves[0] - halves[1])), "%"),
            Figure(f"{label}: mean regret of the most accurate", float(rivals), "%"),
            at_most(f"{label}: regret over that of the most accurate", float(own / rivals), "times", SHARE),
            Figure(f"{label}: accuracy given up (of accuracies 94 to 97 %)", float(given_up), "points"),
        ]
    finish("what is shipped in a tie, on simulated phones", figures, seeds=seeds, variants=VARIANTS)


if __name__ == "__main__":
    main()
