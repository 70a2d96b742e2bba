"""Equal builds that are called slower than the winner, and 5 % slower ones that are called so, on simulated phones.

python tests/benchmarks/bench_twins.py [--seeds 200] [--arm race]

Six builds: all equally fast (`twins`), three 5 % slower than the other three (`half`), or five 5 % slower than the best
(`best alone`). Each with `quick`, `full`, the race with finals, and the race that batches decide, on phones with one
form of noise each (`NOISE_FORMS`, those for judging). `before`: every pair by itself at 95 %, as until 2026-11-28. A
build counts as called slower if a race eliminated it, or if it does not share the first place. No clock is read.
"""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from report import Figure, at_most, finish

from sweeps.protocol.presets import PRESETS
from sweeps.ranking.ties import LATENCY, outdone, worse
from sweeps.ranking.winner import first_place
from sweeps.settled import Settled
from tests.benchmarks.noise_forms import NOISE_FORMS
from tests.benchmarks.simulated_sweep import SimulatedSweep, simulate

BEST_MS, SLOWER = 10.0, 1.05
WORLDS = {"twins": (1.0,) * 6, "half": (1.0,) * 3 + (SLOWER,) * 3, "best alone": (1.0,) + (SLOWER,) * 5}
ARMS = ("quick", "full", "race", "deciding")
FORMS = [name for name in NOISE_FORMS if name.startswith("judge_")]
START_S = 2.5
MOST_WRONG, MOST_LOST = 5.0, 10.0
MISSED = {("quick", "half"), ("deciding", "half"), ("deciding", "best alone")}
"""Where more than `MOST_LOST` is lost, as `infra/protocol-evidence.md` says: reported only."""


Rows = NDArray[np.float64]
"""(sweeps, fields of `Called`)"""


class Case(NamedTuple):
    arm: str
    world: str
    form: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One that may win; a `sweeps.ranking.ties.Contender`."""

    name: str
    job_key: str
    settled: Settled | None
    medians_ms: Mapping[int, float]
    figures: Mapping[str, float | None]

    def figure(self, metric: str) -> float | None:
        return self.figures[metric]


class Called(NamedTuple):
    """Counts of one sweep."""

    twins: int
    """Builds as fast as the best that are called slower ..."""
    slower: int
    """... and builds that are 5 % slower."""
    twins_before: int
    slower_before: int
    eliminated: int
    """The number of `twins` that the race eliminated."""
    unresolved: int
    unresolved_before: int


def builds(sweep: SimulatedSweep) -> list[Build]:
    """List the builds that may win, with those that are left in batches and have no time."""
    settled = {end.job_key: end for end in sweep.ended}
    rows = []
    for key in sorted({*settled, *sweep.jobs}):
        job, ended = sweep.jobs.get(key), settled.get(key)
        if ended is not None and ended.eliminated:
            continue
        figures: dict[str, float | None] = {LATENCY: None, "top1_percent": 95.0, "artifact_mb": None}
        if job is not None:
            figures[LATENCY] = job.p50_ms.value
        medians_ms = {} if job is None else job.medians_ms
        rows.append(Build(name=key, job_key=key, settled=ended, medians_ms=medians_ms, figures=figures))
    return rows


def sharing_before(rows: list[Build]) -> set[str]:
    """Name the builds that share the first place where every pair is tested by itself."""
    leaders = [row for row in rows if row.settled is not None and row.settled.leads]
    first = leaders[0] if leaders else min(rows, key=lambda row: row.figure(LATENCY) or np.inf)
    near = [row for row in rows if row is first or not worse(row, first, LATENCY, smaller=True)]
    beaten = outdone(near, LATENCY, smaller=True)
    return {row.name for row, is_worse in zip(near, beaten, strict=True) if row in leaders or not is_worse}


def called(case: Case, seed: int) -> Called:
    base = NOISE_FORMS[case.form]
    phone = replace(base, start_s=START_S - base.load_s)
    factors = np.random.default_rng([seed, 13]).permutation(WORLDS[case.world])
    true_ms = {f"v{number}": float(BEST_MS * factor) for number, factor in enumerate(factors)}
    protocol = PRESETS[case.arm if case.arm in PRESETS else "race"]
    sweep = simulate(phone, true_ms, protocol, seed=seed, artifact_bytes=0, batches_decide=case.arm == "deciding")
    rows = builds(sweep)
    twins = {name for name, ms in true_ms.items() if ms == BEST_MS}
    slower = true_ms.keys() - twins
    first = first_place(rows, LATENCY, smaller=True)
    now = {row.name for row in (first.winner, *first.equal, *first.unresolved)}
    before = sharing_before(rows)
    equal_before = len(first.equal)
    return Called(
        twins=len(twins - now),
        slower=len(slower - now),
        twins_before=len(twins - before),
        slower_before=len(slower - before),
        eliminated=len(twins - {row.name for row in rows}),
        unresolved=len(first.unresolved),
        unresolved_before=max(0, len(before) - 1 - equal_before),
    )


def cases(arms: tuple[str, ...]) -> Iterator[Case]:
    return (Case(arm, world, form) for arm in arms for world in WORLDS for form in FORMS)


def run(case: Case, seeds: range) -> list[Called]:
    return [called(case, seed) for seed in seeds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--arm", choices=ARMS, help="only this one; default: all")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    chosen = list(cases((options.arm,) if options.arm else ARMS))
    rows_of: dict[Case, Rows] = {}
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for case, rows in zip(chosen, pool.map(run, chosen, [range(options.seeds)] * len(chosen)), strict=True):
            rows_of[case] = np.array(rows, dtype=np.float64)
            print(line(case, rows_of[case]), file=sys.stderr, flush=True)
    finish("equal builds called slower than the winner", figures(rows_of), seeds=options.seeds, cases=len(rows_of))


def share(rows: Rows, name: str) -> float:
    """The share of sweeps in which it happened at all (%)."""
    return 100 * float((rows[:, Called._fields.index(name)] > 0).mean())


def power(rows: Rows, name: str, world: str) -> float:
    """The share of the builds of this world that are 5 % slower (%)."""
    return 100 * float(rows[:, Called._fields.index(name)].mean()) / max(1, WORLDS[world].count(SLOWER))


def mean(rows: Rows, name: str) -> float:
    return float(rows[:, Called._fields.index(name)].mean())


def line(case: Case, rows: Rows) -> str:
    twins = f"{share(rows, 'twins_before'):5.1f} -> {share(rows, 'twins'):5.1f}"
    slower = f"{power(rows, 'slower_before', case.world):5.1f} -> {power(rows, 'slower', case.world):5.1f}"
    unresolved = f"{mean(rows, 'unresolved_before'):.2f} -> {mean(rows, 'unresolved'):.2f}"
    return (
        f"{case.arm:9} {case.world:11} {case.form.removeprefix('judge_'):17} twins {twins} "
        f"({share(rows, 'eliminated'):4.1f} eliminated)  slower {slower}  unresolved {unresolved}"
    )


def figures(rows_of: Mapping[Case, Rows]) -> list[Figure]:
    """The bounds hold for the mean over all forms of noise; the worst form is reported."""
    result = []
    for arm in dict.fromkeys(case.arm for case in rows_of):
        equal = {case.form: rows for case, rows in rows_of.items() if case[:2] == (arm, "twins")}
        wrong = {form: share(rows, "twins") for form, rows in equal.items()}
        worst = max(wrong, key=lambda form: wrong[form])
        result += [
            at_most(f"{arm}: sweeps that call a twin slower", mean_of(wrong), "%", MOST_WRONG),
            Figure(f"{arm}: the worst form ({worst.removeprefix('judge_')})", wrong[worst], "%"),
            Figure(
                f"{arm}: by elimination",
                mean_of({form: share(rows, "eliminated") for form, rows in equal.items()}),
                "%",
            ),
            Figure(f"{arm}: before", mean_of({form: share(rows, "twins_before") for form, rows in equal.items()}), "%"),
        ]
        for world in ("half", "best alone"):
            lost = {
                case.form: power(rows, "slower_before", world) - power(rows, "slower", world)
                for case, rows in rows_of.items()
                if case[:2] == (arm, world)
            }
            most = max(lost, key=lambda form: lost[form])
            name = f"{arm}, {world}: 5 % slower, called so less often by"
            result += [
                Figure(f"{name} (required: {MOST_LOST:g})", mean_of(lost), "points")
                if (arm, world) in MISSED
                else at_most(name, mean_of(lost), "points", MOST_LOST),
                Figure(f"{arm}, {world}: the worst form ({most.removeprefix('judge_')})", lost[most], "points"),
            ]
    return result


def mean_of(by_form: Mapping[str, float]) -> float:
    return float(np.mean(list(by_form.values())))


if __name__ == "__main__":
    main()
