"""The interval of a race's winner is checked where clocks have two states, and how often two are called of one speed.

python tests/benchmarks/bench_race_states.py [--seeds 100] [--processes 1]

Races of 24 variants as in `bench_policy.py`, 2.5 s a start, with finals and where batches decide. The interval says
what it is of (`sweeps.ranking.interval_scope`): of the long run over both states, or of the state that the device was
in while the winner was confirmed. Each is held against that latency; beside it stands how often the same intervals hold
the long run's. Phones with one speed get a quarter of the seeds, and so do two-state clocks of other steps and times.
The rules were tuned on `tune_two_states`. No clock is read.
"""

import argparse
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from bench_shipping import SPREADS, variants_ms
from report import Figure, at_least, at_most, finish

from sweeps.protocol.presets import PRESETS
from sweeps.ranking.interval_scope import IntervalOf
from tests.benchmarks.noise_forms import NOISE_FORMS
from tests.benchmarks.simulated_sweep import simulate
from workers.devices.fake.phones import Phone

START_S = 2.5
JUDGED = "judge_two_states"
STEADY = [name for name in NOISE_FORMS if name.startswith("judge_") and name not in (JUDGED, "judge_bursts")]
CLOCKS = {
    f"{slower:g} x, slow for {slow_s:g} s, fast for {fast_s:g} s": {
        "daemon_slower": slower,
        "daemon_s": slow_s,
        "daemon_every_s": fast_s,
    }
    for slower, slow_s, fast_s in ((1.08, 60.0, 60.0), (1.12, 5.0, 5.0), (1.2, 120.0, 180.0), (1.5, 40.0, 20.0))
}
"""Other two-state clocks, on the phone that judges."""
FEWEST = 20
"""No share is required of fewer winners."""


@dataclass(frozen=True)
class Case:
    phone: Phone
    spread: str
    decide: bool
    seeds: int


@dataclass(frozen=True)
class Winner:
    of: IntervalOf
    holds: bool
    holds_long_run: bool
    device_s: float


def cases(seeds: int) -> Iterator[Case]:
    fewer = max(1, seeds // 4)
    phones = [(NOISE_FORMS[JUDGED], seeds), *((NOISE_FORMS[name], fewer) for name in STEADY)]
    phones += [(replace(NOISE_FORMS[JUDGED], name=name, **clocks), fewer) for name, clocks in CLOCKS.items()]
    for phone, count in phones:
        for spread in SPREADS:
            for decide in (False, True):
                yield Case(phone, spread, decide, count)


def winners(case: Case) -> list[Winner]:
    """List the winners with an interval."""
    phone = replace(case.phone, start_s=START_S - case.phone.load_s)
    results = []
    for seed in range(case.seeds):
        true_ms = variants_ms(case.spread, seed)
        sweep = simulate(
            phone,
            true_ms,
            PRESETS["race"],
            seed=seed,
            artifact_bytes=0,
            groups=dict.fromkeys(true_ms, ""),
            batches_decide=case.decide,
        )
        winner = None if sweep.named is None else sweep.jobs[sweep.named]
        if winner is not None and winner.covered is not None:
            results.append(Winner(winner.interval_of, bool(winner.holds_what_it_says), winner.covered, sweep.device_s))
    return results


def percent(values: list[bool]) -> float:
    return 100 * sum(values) / len(values) if values else 0.0


def of_two_states(name: str, results: list[Winner], *, judged: bool) -> list[Figure]:
    holds = percent([winner.holds for winner in results])
    required = ("92 to 98 %", 92 <= holds <= 98) if judged else ("", None)
    result = [Figure(f"{name}: the winner's interval holds what it says it is of", holds, "%", *required)]
    words: dict[IntervalOf, str] = {
        "both_states": "over both states",
        "one_state": "of one state",
        "": "without such words",
    }
    for of, words_of_state in words.items():
        winners_of_kind = [winner for winner in results if winner.of == of]
        result.append(
            Figure(f"{name}: {words_of_state}", percent([winner.of == of for winner in results]), "% of winners")
        )
        if winners_of_kind:
            result.append(
                Figure(
                    f"{name}: {words_of_state}, holds it", percent([winner.holds for winner in winners_of_kind]), "%"
                )
            )
            long_run, text = (
                percent([winner.holds_long_run for winner in winners_of_kind]),
                f"{name}: {words_of_state}, holds the long run",
            )
            bound = judged and of == "" and len(winners_of_kind) >= FEWEST
            result.append(at_least(text, long_run, "%", 90) if bound else Figure(text, long_run, "%"))
    result.append(
        Figure(f"{name}: device time, median", float(np.median([winner.device_s for winner in results])), "s")
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    winners_of: dict[str, list[Winner]] = {}
    every = list(cases(options.seeds))
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for case, case_winners in zip(every, pool.map(winners, every), strict=True):
            winners_of.setdefault(case.phone.name, []).extend(case_winners)
    figures = of_two_states("two-state clocks", winners_of[JUDGED], judged=True)
    for name in CLOCKS:
        figures += of_two_states(name, winners_of[name], judged=False)
    for name in STEADY:
        prefix = f"{name.removeprefix('judge_')}, one speed"
        called = percent([winner.of == "both_states" for winner in winners_of[name]])
        figures.append(at_most(f"{prefix}: two speeds called", called, "% of winners", 1.0))
        figures.append(
            Figure(
                f"{prefix}: the winner's interval holds it", percent([winner.holds for winner in winners_of[name]]), "%"
            )
        )
    finish("the states of a race's winner", figures, seeds=options.seeds)


if __name__ == "__main__":
    main()
