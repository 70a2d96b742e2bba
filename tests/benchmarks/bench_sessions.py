"""`compare` is tried on unchanged builds that were measured on other days (exit code 3 is wrong), and on a build that
is slower, against its rule before 2026-11-23: Welch's test without a spread between sessions.

python tests/benchmarks/bench_sessions.py [--seeds 200]

Each comparison has 24 builds, measured in sessions of 3 rounds, 2 s a block, on days of their own for each side. The
device has another speed in each session, it drifts, other programs load it, or its clock has two states (`for hours`:
longer than a session lasts). `one build`: it was compared alone. Slower builds: one of the 24. A sentinel was timed in
3 processes at the start and the end of each session, except in `no sentinel`. No rule was tuned on the parameters here.
No clock is read: any machine will do.
"""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray
from report import Figure, at_most, finish
from scipy.stats import binom

from sweeps.ranking.comparison import EXIT_SLOWER, compare
from sweeps.ranking.comparison_input import Origin, Result
from sweeps.ranking.latency_findings import latency_finding
from sweeps.ranking.session_ratio import Series, ratio
from sweeps.stats import CONFIDENCE
from tests.builders import result_of
from workers.devices.fake.phones import PHONES

BUILDS, ROUNDS, BLOCK_S = 24, 3, 2.0
LENGTH_S = BUILDS * ROUNDS * BLOCK_S
DAY_S = 86_400
SESSIONS = (1, 2, 3)
SLOWER = (1.1, 1.2)
MARGIN_PERCENT = 5.0
MOST = 0.05
PROCESS_CV = 0.02
DEVICE = "phone"

Slowness = Callable[[float], float]
"""From a time in the session (s) to a factor on latency."""
Session = Callable[[np.random.Generator], Slowness]


@dataclass(frozen=True)
class Case:
    name: str
    session: Session
    own_percent: float = 0.0
    """Spread between sessions of each build by itself, for instance by where its memory lies."""


def _constant(factor: float) -> Slowness:
    return lambda _at: factor


def _spread(percent: float) -> Session:
    return lambda random: _constant(math.exp(percent / 100 * random.standard_normal()))


def _drift(random: np.random.Generator) -> Slowness:
    """The device becomes slower during a session, by up to 15 %: warm or cool at its start, in a warm or a cool
    room."""
    first, more = random.uniform(0.0, 0.05), random.uniform(0.0, 0.15)
    return lambda at: 1.0 + first + more * at / LENGTH_S


def _load(random: np.random.Generator) -> Slowness:
    """In every third session another program runs, for a part of the time."""
    if random.random() > 1 / 3:
        return _constant(1.0)
    begins, lasts = random.uniform(-0.5, 1.0) * LENGTH_S, random.uniform(0.1, 1.5) * LENGTH_S
    return lambda at: 1.25 if begins <= at < begins + lasts else 1.0


def _speeds(slower: float, every_s: float, lasting_s: float) -> Session:
    """A daemon's two states, as of the simulated phones (`daemon_every_s`, `daemon_s`, `daemon_slower`)."""

    def drawn(random: np.random.Generator) -> Slowness:
        awake = random.random() < lasting_s / (lasting_s + every_s)
        first, at_s, changes = awake, 0.0, []
        while at_s < LENGTH_S:
            at_s += random.exponential(lasting_s if awake else every_s)
            changes.append(at_s)
            awake = not awake
        return lambda at: slower if (first + int(np.searchsorted(changes, at))) % 2 else 1.0

    return drawn


_DAEMONS = PHONES["holdout_daemons"]
_HOURS = replace(_DAEMONS, daemon_every_s=6 * 3600.0, daemon_s=6 * 3600.0, daemon_slower=1.12)

CASES = (
    Case("sessions 2.5 %", _spread(2.5)),
    Case("sessions 2.5 %, builds 1.5 % each", _spread(2.5), own_percent=1.5),
    Case("sessions 6 %", _spread(6.0)),
    Case("drift", _drift),
    Case("load", _load),
    Case("two speeds for seconds", _speeds(_DAEMONS.daemon_slower, _DAEMONS.daemon_every_s, _DAEMONS.daemon_s)),
    Case("two speeds for minutes", _speeds(1.12, 120.0, 60.0)),
    Case("two speeds for hours", _speeds(_HOURS.daemon_slower, _HOURS.daemon_every_s, _HOURS.daemon_s)),
)


def measure(
    case: Case, true_ms: NDArray[np.float64], days: range, random: np.random.Generator
) -> tuple[list[Result], Series]:
    """The results of one side, and the sentinel's blocks in its sessions."""
    medians: list[list[float]] = [[] for _ in true_ms]
    checks: list[tuple[float, int]] = []
    for day in days:
        slowness, at_s = case.session(random), 0.0
        own = np.exp(case.own_percent / 100 * random.standard_normal(len(true_ms)))
        checks += [(slowness(at) * _process(random), DAY_S * day) for at in (0.0, LENGTH_S) for _ in range(3)]
        for _ in range(ROUNDS):
            for build in random.permutation(len(true_ms)):
                medians[build].append(float(true_ms[build] * own[build]) * slowness(at_s) * _process(random))
                at_s += BLOCK_S
    origins = tuple(Origin(run=str(DAY_S * day), session=DAY_S * day) for day in days for _ in range(ROUNDS))
    results = [result_of(f"build {build}", ms, origins, device_id=DEVICE) for build, ms in enumerate(medians)]
    return results, Series(tuple(ms for ms, _ in checks), tuple(day for _, day in checks))


def slower_before(a: list[Result], b: list[Result]) -> set[str]:
    """Name the builds that the rule before calls slower: all blocks as of one session, which adds nothing."""
    confidence = 1.0 - (1.0 - CONFIDENCE) / len(a)
    slower = set()
    for then, now in zip(a, b, strict=True):
        pair = [replace(result, origins=(Origin(run="1"),) * len(result.medians_ms)) for result in (now, then)]
        strict = ratio(*pair, None, confidence)
        assert strict is not None
        if latency_finding(strict, MARGIN_PERCENT) == "slower":
            slower.add(now.name)
    return slower


def _process(random: np.random.Generator) -> float:
    return math.exp(PROCESS_CV * random.standard_normal())


def comparisons(case: Case, count: int, factor: float, seeds: int) -> Counter[str]:
    """In how many comparisons each arm called an unchanged build slower (`wrong`), and found the one that is slower by
    `factor` (`right`; `once`: as slower in one session)."""
    counts: Counter[str] = Counter()
    changed = {"build 0"} if factor > 1.0 else set()
    for seed in range(seeds):
        random = np.random.default_rng([seed, count, round(100 * factor), CASES.index(case)])
        true_ms = 10.0 * np.exp(0.35 * random.standard_normal(BUILDS))
        a, checks_a = measure(case, true_ms, range(1, count + 1), random)
        b, checks_b = measure(
            case, true_ms * np.where(np.arange(BUILDS) == 0, factor, 1.0), range(101, 101 + count), random
        )
        all_checks = Series(checks_a.medians_ms + checks_b.medians_ms, checks_a.sessions + checks_b.sessions)
        sentinel = {DEVICE: (all_checks,)}
        arms = {
            "24 builds": compare(("a", a), ("b", b), MARGIN_PERCENT, sentinels=sentinel),
            # Somebody may ask for one build alone: nothing is paid for the others.
            "one build": compare(("a", a[:1]), ("b", b[:1]), MARGIN_PERCENT, sentinels=sentinel),
        }
        if factor == 1.0:
            arms["24 builds, no sentinel"] = compare(("a", a), ("b", b), MARGIN_PERCENT)
            arms["one build, no sentinel"] = compare(("a", a[:1]), ("b", b[:1]), MARGIN_PERCENT)
        for arm, compared in arms.items():
            called, once = (
                {result.name for result in compared.results if result.finding == finding}
                for finding in ("slower", "slower (one session)")
            )
            assert (compared.exit_code == EXIT_SLOWER) == bool(called)
            counts[f"{arm}: wrong"] += bool(called - changed)
            counts[f"{arm}: right"] += bool(called & changed)
            counts[f"{arm}: once"] += bool(once & changed)
        for arm, builds in (("24 builds", BUILDS), ("one build", 1)):
            before = slower_before(a[:builds], b[:builds])
            counts[f"{arm}, before: wrong"] += bool(before - changed)
            counts[f"{arm}, before: right"] += bool(before & changed)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    seeds = parser.parse_args().seeds
    # A cell fails where its share is more than 5 % beyond doubt (99.9 %); all together have to keep the 5 %.
    most_percent = 100 * float(binom.ppf(0.999, seeds, MOST)) / seeds
    arms = [f"{builds}{sentinel}" for builds in ("24 builds", "one build") for sentinel in ("", ", no sentinel")]
    figures: list[Figure] = []
    wrong: Counter[str] = Counter()
    for case, count in product(CASES, SESSIONS):
        label = f"{case.name}, {count} a side"
        unchanged = comparisons(case, count, 1.0, seeds)
        wrong.update(unchanged)
        for arm in arms:
            share = 100 * unchanged[f"{arm}: wrong"] / seeds
            figures.append(at_most(f"{label}: unchanged called slower, {arm}", share, "%", most_percent))
        for arm in ("24 builds", "one build"):
            share = 100 * unchanged[f"{arm}, before: wrong"] / seeds
            figures.append(Figure(f"{label}: unchanged called slower, {arm}, by the rule before", share, "%"))
        for factor in SLOWER:
            counts = comparisons(case, count, factor, seeds)
            for arm in ("24 builds", "one build"):
                for rule, key in (("", "right"), (" (one session)", "once"), (", by the rule before", "right")):
                    share = 100 * counts[f"{arm}{', before' * ('before' in rule)}: {key}"] / seeds
                    figures.append(Figure(f"{label}: {factor - 1:.0%} slower found{rule}, {arm}", share, "%"))
        print(f"{label}: done", file=sys.stderr, flush=True)
    cells = len(CASES) * len(SESSIONS) * seeds
    for arm in arms:
        figures.append(
            at_most(f"all: unchanged called slower, {arm}", 100 * wrong[f"{arm}: wrong"] / cells, "%", 100 * MOST)
        )
    for arm in ("24 builds", "one build"):
        share = 100 * wrong[f"{arm}, before: wrong"] / cells
        figures.append(Figure(f"all: unchanged called slower, {arm}, by the rule before", share, "%"))
    finish("comparisons across sessions, on simulated devices", figures, seeds=seeds, builds=BUILDS)


if __name__ == "__main__":
    main()
