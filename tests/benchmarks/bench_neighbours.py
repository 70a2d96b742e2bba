"""The winner's interval is checked where a block depends on which build ran just before it.

python tests/benchmarks/bench_neighbours.py [--seeds 150]

24 builds around 10 ms (sigma 0.15). Each makes whatever is measured next slower, by a factor of its own between 1 and
1.04; everything else is as in `bench_policy.py`, for processes that differ by 0.5 and by 2 %. Rounds are shuffled anew,
so a build follows other builds in each; the blocks that confirm the winner of a race follow each other. The latency
after the build itself is what an app sees that runs nothing else; the mean over all neighbours is what shuffled rounds
estimate. No clock is read.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from report import Figure, at_least, finish

from sweeps.protocol.presets import PRESETS
from sweeps.stats import NEGLIGIBLE
from tests.benchmarks.noise_forms import NOISE_FORMS
from tests.benchmarks.simulated_sweep import latencies_ms, simulate

FORMS = ("judge_processes_low", "judge_processes_middle")
MOST_CARRIED = 0.04


class CarriedOver(dict[str, float]):
    """Latencies that are read once for each block, in the order of measuring."""

    def __init__(self, true_ms: Mapping[str, float], seed: int) -> None:
        super().__init__(true_ms)
        random = np.random.default_rng([seed, 21])
        self.after = {key: 1.0 + MOST_CARRIED * float(random.random()) for key in true_ms}
        self._before = ""

    def __getitem__(self, key: str) -> float:
        before, self._before = self._before, key
        return super().__getitem__(key) * self.after.get(before, 1.0)


@dataclass(frozen=True)
class Held:
    own: bool
    """The interval holds the latency after a block of the same build ..."""
    mean: bool
    """... and the mean over all neighbours."""
    within: bool


def run(form: str, preset: str, seed: int, *, decide: bool) -> Held | None:
    true_ms = latencies_ms(24, 10.0, 0.15, seed)
    carried = CarriedOver(true_ms, seed)
    protocol = replace(PRESETS[preset], seed=seed)
    sweep = simulate(NOISE_FORMS[form], carried, protocol, seed=seed, batches_decide=decide)
    if sweep.named is None:
        return None
    interval, winners_ms = sweep.jobs[sweep.named].p50_ms, true_ms[sweep.named]
    if interval.low is None or interval.high is None:
        return None

    def holds(factor: float) -> bool:
        assert interval.low is not None
        assert interval.high is not None
        return interval.low <= winners_ms * factor <= interval.high

    return Held(
        own=holds(carried.after[sweep.named]),
        mean=holds(float(np.mean([*carried.after.values()]))),
        within=winners_ms <= min(true_ms.values()) * (1 + NEGLIGIBLE),
    )


def _figure(name: str, percent: float, *, is_bound: bool) -> Figure:
    return at_least(name, percent, "%", 90) if is_bound else Figure(name, percent, "%")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=150)
    seeds = parser.parse_args().seeds
    figures: list[Figure] = []
    for form in FORMS:
        for arm, preset, decide in (("race", "race", False), ("deciding", "race", True), ("full", "full", False)):
            runs = [result for seed in range(seeds) if (result := run(form, preset, seed, decide=decide)) is not None]
            shares = {
                name: 100 * sum(getattr(result, name) for result in runs) / len(runs)
                for name in ("own", "mean", "within")
            }
            name = f"{form.removeprefix('judge_')}, {arm}"
            figures += [
                at_least(f"{name}: what ships is within 2 %", shares["within"], "%", 97),
                _figure(f"{name}: holds the latency after itself", shares["own"], is_bound=preset == "race"),
                _figure(f"{name}: holds the mean over all neighbours", shares["mean"], is_bound=preset == "full"),
            ]
    finish("neighbours: intervals where a block depends on the one before it", figures, seeds=seeds)


if __name__ == "__main__":
    main()
