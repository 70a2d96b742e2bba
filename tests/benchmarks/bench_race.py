"""Real races on this machine: on a quiet one, with a core that is half busy, and simulated.

python tests/benchmarks/bench_race.py [--rounds 30] [--calm 3] [--races 20] [--rivals 5] [--workspace DIR]

The 12 builds of sweeps/specs/race.yaml, on an idle machine of two cores or more; about 45 minutes on two. First the
truth: so many rounds of every build, each block a process of its own. Then races on the quiet machine, and races while
one core is busy half of the time, by turns of 50 ms; in between, at even distances, races without batches, in which
every process times one build, as in all races before there were batches. Every race is measured anew, in an order of
its own.

A race is scored by the build that `rank` names: how much slower it is than the quiet best, by the quiet rounds. Device
seconds are those of processes, from start to end; wall seconds have the waits and what the driver does. A/A: every
other race with batches against the rest.

The simulator gets what was measured, and has to find the device seconds of races that it was not given: on the quiet
machine from the rounds and the first race, on the busy one from every other race with batches and those without.
"""

import argparse
import math
import signal
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from busy_core import half_busy_core
from race_case import Kind, RealSweep, Sweeps, measuring_process, over_best, say
from race_simulated import device_seconds, phone_of
from report import Figure, at_most, finish

from sweeps.stats import median

NEAR = 0.05
SEEDS = 20
RESAMPLES = 2000


@dataclass(slots=True)
class Found:
    """The results that were measured so far."""

    quiet: RealSweep | None = None
    calm: list[RealSweep] = field(default_factory=list)
    races: list[RealSweep] = field(default_factory=list)
    alone: list[RealSweep] = field(default_factory=list)


def measure(options: argparse.Namespace, sweeps: Sweeps, measured: Found) -> None:
    say(f"{options.rounds} rounds of every build, on the quiet machine")
    measured.quiet = sweeps.measure("rounds", options.rounds)
    quiet_ms = measured.quiet.p50_ms
    for name, ms in sorted(quiet_ms.items(), key=lambda item: item[1]):
        say(f"  {ms:8.3f} ms  {name}")

    def race(kind: Kind, seed: int, into: list[RealSweep], label: str) -> None:
        sweep = sweeps.measure(kind, seed)
        into.append(sweep)
        over = over_best(sweep.named, quiet_ms)
        named = "nobody" if over is None else f"{sweep.named}, {100 * over:.1f} % over the best"
        say(f"{label}: {sweep.device_s:.1f} device s, {sweep.wall_s:.1f} s; {named}")

    for number in range(options.calm):
        race("race", 1000 + number, measured.calm, f"quiet race {number + 1} of {options.calm}")
    with half_busy_core():
        for number in range(options.races):
            race("race", number, measured.races, f"race {number + 1} of {options.races}")
            if (number + 1) * options.rivals // options.races > len(measured.alone):
                race(
                    "race alone",
                    number,
                    measured.alone,
                    f"without batches {len(measured.alone) + 1} of {options.rivals}",
                )


def scored(label: str, races: Sequence[RealSweep], quiet_ms: dict[str, float], bound: float | None) -> list[Figure]:
    """`bound`: the share that has to name a build near the best."""
    over = [share_over for race in races if (share_over := over_best(race.named, quiet_ms)) is not None]
    near = sum(share_over <= NEAR for share_over in over)
    unit = f"of {len(races)}"
    required, reached = "", None
    if bound is not None:
        least = math.ceil(bound * len(races))
        required, reached = f"at least {least}", near >= least
    return [
        Figure(f"{label}: named within 5 % of the quiet best", near, unit, required, reached),
        *([Figure(f"{label}: the slowest that was named", 100 * max(over), "% over the best")] if over else []),
        Figure(f"{label}: undecided", sum(not race.decided for race in races), unit),
        Figure(f"{label}: batches, median", median([len(race.batches) for race in races]), ""),
        *spread(f"{label}: device seconds", [race.device_s for race in races]),
        *spread(f"{label}: wall seconds", [race.wall_s for race in races]),
    ]


def spread(label: str, values: Sequence[float]) -> list[Figure]:
    low, high = np.quantile(values, (0.1, 0.9))
    return [
        Figure(f"{label}, median", median(values), "s"),
        Figure("  a tenth is below", float(low), "s"),
        Figure("  a tenth is above", float(high), "s"),
    ]


def compared(measured: Found) -> list[Figure]:
    """Races with batches against those without, and against themselves."""
    figures: list[Figure] = []
    halves = [[race.device_s for race in measured.races[first::2]] for first in (0, 1)]
    if all(halves):
        difference = 100 * abs(median(halves[0]) / median(halves[1]) - 1)
        figures.append(Figure("A/A: device seconds of every other race against the rest", difference, "%"))
    for label, seconds, bound in (
        ("device seconds, with batches over without", lambda race: race.device_s, 0.5),
        ("wall seconds, with batches over without", lambda race: race.wall_s, None),
    ):
        figures += ratio(label, [*map(seconds, measured.races)], [*map(seconds, measured.alone)], bound)
    return figures


def ratio(label: str, values: Sequence[float], base_values: Sequence[float], bound: float | None) -> list[Figure]:
    """The ratio of the medians, with a 95 % interval by resampling both (percentiles)."""
    value = median(values) / median(base_values)
    random = np.random.default_rng(0)
    drawn = [
        np.median(random.choice(values_of_arm, (RESAMPLES, len(values_of_arm))), axis=1)
        for values_of_arm in (values, base_values)
    ]
    low, high = np.quantile(drawn[0] / drawn[1], (0.025, 0.975))
    return [
        Figure(label, value, "") if bound is None else at_most(label, value, "", bound),
        Figure("  95 % interval from", float(low), ""),
        Figure("  to", float(high), ""),
    ]


def simulated(label: str, sweeps: Sequence[RealSweep], races: Sequence[RealSweep], *, alone: bool) -> list[Figure]:
    """`given`: what the simulator knows; `races`: what it has to find."""
    phone, true_ms = phone_of(sweeps)
    real_s = median([race.device_s for race in races])
    found_s = median(device_seconds(phone, true_ms, SEEDS, alone=alone))
    return [
        Figure(f"{label}: device seconds, real", real_s, f"s, {len(races)} races"),
        Figure(f"{label}: device seconds, simulated", found_s, f"s, {SEEDS} races"),
        at_most(f"{label}: simulated differs from real by", 100 * abs(found_s / real_s - 1), "%", 20.0),
        Figure("  of that device: a process starts in", phone.start_s, "s"),
        Figure("  a build is loaded in", phone.load_s, "s"),
    ]


def figures_of(measured: Found) -> list[Figure]:
    """The figures of the results; the last ones are missing after an interruption."""
    assert measured.quiet is not None
    quiet_ms = measured.quiet.p50_ms
    first, second = sorted(quiet_ms.values())[:2]
    figures = [
        Figure("builds", len(quiet_ms), "", "12", len(quiet_ms) == 12),
        Figure("the quiet best", first, "ms"),
        Figure("the second", 100 * (second / first - 1), "% over the best"),
    ]
    if measured.calm:
        figures += scored("quiet", measured.calm, quiet_ms, None)
    if measured.races:
        figures += scored("busy", measured.races, quiet_ms, 0.9)
    if measured.races and measured.alone:
        figures += scored("busy, without batches", measured.alone, quiet_ms, None)
        figures += compared(measured)
        busy_ms = [race.p50_ms for race in measured.alone]
        slower = [times_ms[name] / quiet_ms[name] for times_ms in busy_ms for name in times_ms]
        figures.append(Figure("busy over quiet, median of the builds", median(slower), "times"))
    if measured.calm:
        figures += simulated(
            "quiet", [measured.quiet, measured.calm[0]], measured.calm[1:] or measured.calm, alone=False
        )
    if measured.races and measured.alone:
        training = [*measured.races[::2], *measured.alone]
        figures += simulated("busy", training, measured.races[1::2] or measured.races, alone=False)
        figures += simulated("busy, without batches", training, measured.alone, alone=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rounds", 30), ("calm", 3), ("races", 20), ("rivals", 5)):
        parser.add_argument(f"--{name}", type=_positive, default=default)
    parser.add_argument("--workspace", type=Path, help="for the builds, which are kept; by default a temporary one")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    measured, interrupted = Found(), False
    workspace = options.workspace
    with nullcontext(workspace) if workspace else tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as folder:
        try:
            with measuring_process(Path(folder)) as sweeps:
                measure(options, sweeps, measured)
        except KeyboardInterrupt:
            interrupted = True
    if measured.quiet is None:
        parser.exit(1, "interrupted before the quiet rounds ended: there is nothing to report\n")
    figures = figures_of(measured)
    if interrupted:
        figures.append(Figure("interrupted: this is a part", 1, "", "0", False))
    quiet_ms = measured.quiet.p50_ms
    finish(
        "race: 12 builds, one of the cores busy half of the time",
        figures,
        quiet_ms=quiet_ms,
        **{
            name: [race.document(quiet_ms) for race in races]
            for name, races in (("calm", measured.calm), ("busy", measured.races), ("busy_alone", measured.alone))
        },
    )


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("it is below 1")
    return value


if __name__ == "__main__":
    main()
