"""Share of a simulated phone's time that is timed iterations, where a process takes 2.5 s or 0.3 s to start.

python tests/benchmarks/bench_shares.py [--seeds 40]

24 variants lognormal around 10 ms, sigma 0.15, on a cool phone. The rest of the time goes into pushes, starts, loads
and warm-ups. The finals of a race are blocks of 0.3 s; their artifacts were pushed before. `edgesweep status` shows the
shares of a real sweep. No clock is read.
"""

import argparse
from dataclasses import replace

import numpy as np
from report import Figure, at_least, finish

from sweeps.protocol.presets import PRESETS
from tests.benchmarks.simulated_sweep import latencies_ms, simulate
from workers.devices.fake.phones import PHONES

VARIANTS = 24
ARTIFACT_BYTES = 10_000_000
FINALS = replace(PRESETS["quick"], preset="finals", min_seconds=0.3)
PROTOCOLS = {name: (PRESETS[name], ARTIFACT_BYTES) for name in ("quick", "full", "race")} | {"finals": (FINALS, 0)}
BOUNDS = {
    (2.5, "quick"): 9.0,
    (2.5, "full"): 9.0,
    (2.5, "finals"): 9.0,
    (0.3, "quick"): 35.0,
    (0.3, "full"): 35.0,
}
"""Percent, by the seconds of a start. The preset race, whose blocks are of 0.2 s and start a process each, is only
reported."""


def shares(start_s: float, name: str, seeds: range) -> np.ndarray:
    """Percent of the device's time, one per sweep."""
    phone = replace(PHONES["cool"], name=f"start {start_s:g} s", start_s=start_s)
    protocol, size = PROTOCOLS[name]
    sweeps = (
        simulate(phone, latencies_ms(VARIANTS, 10.0, 0.15, seed), protocol, seed=seed, artifact_bytes=size)
        for seed in seeds
    )
    return np.array([100 * sweep.measuring_share for sweep in sweeps])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    seeds = parser.parse_args().seeds
    figures = []
    for start_s in (2.5, 0.3):
        for name in PROTOCOLS:
            percents = shares(start_s, name, range(seeds))
            halves = [float(half.mean()) for half in np.array_split(percents, 2)]
            label, bound = f"{name}, {start_s:g} s a start", BOUNDS.get((start_s, name))
            share = float(percents.mean())
            figures += [
                Figure(label, share, "%") if bound is None else at_least(label, share, "%", bound),
                Figure(f"{label}: two halves of the seeds (A/A)", abs(halves[0] - halves[1]), "points"),
            ]
    finish("share of device time that is timed, on simulated phones", figures, seeds=seeds, variants=VARIANTS)


if __name__ == "__main__":
    main()
