"""The blocks that the sentinel disqualifies are counted, against its rule before 2026-11-23: everything from the last
check that was like the first one of the run to the next.

python tests/benchmarks/bench_sentinel.py [--seeds 400]

Simulated runs of 10 rounds of 12 blocks, 3 s each, with a check of three processes every 12 blocks. No rule was tuned
on the parameters here. In a device that shifts for good, rounds after the shift compare as well as those before it; its
cost is the blocks between two checks, and it must be found. No clock is read: any machine will do.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from report import Figure, at_least, at_most, finish

from sweeps.protocol.sentinel_rules import CHECK_BLOCKS, MOVED, PlacedBlock, changed_spans, doubtful_spans, round_of
from sweeps.records import Block
from sweeps.stats import median
from tests.sweeps.conftest import Records

ROUNDS, BLOCKS, BLOCK_S, CHECK_S = 10, 12, 3.0, 1.0
SENTINEL_MS = 5.0
TWO_SPEEDS = 1.12
BURST = 1.5

Speed = Callable[[np.random.Generator, float], Callable[[float], float]]
"""From a random generator and the length of a run (s) to the device's slowness at a time (s)."""


@dataclass(frozen=True)
class Case:
    name: str
    process_cv: float
    speed: Speed
    most_percent: float | None
    """The largest share of blocks that may be disqualified; `None`: the device shifts for good, which must be found."""


def _steady(_: np.random.Generator, __: float) -> Callable[[float], float]:
    return lambda _at: 1.0


def _alternating(slower: float, mean_s: tuple[float, float]) -> Speed:
    """Two speeds; the time in each is exponential with these means (s)."""

    def drawn(random: np.random.Generator, length_s: float) -> Callable[[float], float]:
        changes, at_s, state = [], 0.0, int(random.integers(2)) if mean_s[0] == mean_s[1] else 0
        first = state
        while at_s < length_s:
            at_s += random.exponential(mean_s[state])
            changes.append(at_s)
            state = 1 - state
        return lambda at: slower if (first + int(np.searchsorted(changes, at))) % 2 else 1.0

    return drawn


def _drift(percent: float) -> Speed:
    return lambda _, length_s: lambda at: 1.0 + percent / 100 * at / length_s


def _shift(slower: float) -> Speed:
    def drawn(random: np.random.Generator, length_s: float) -> Callable[[float], float]:
        when_s = random.uniform(0.2, 0.8) * length_s
        return lambda at: slower if at >= when_s else 1.0

    return drawn


CASES = (
    Case("independent, processes 2 %", 0.02, _steady, 1.0),
    Case("independent, processes 5 %", 0.05, _steady, 5.0),
    Case("two speeds 12 % apart, 60 s each", 0.01, _alternating(TWO_SPEEDS, (60.0, 60.0)), 10.0),
    Case("two speeds 12 % apart, 15 s each", 0.01, _alternating(TWO_SPEEDS, (15.0, 15.0)), 10.0),
    Case("bursts of 50 % for 10 s every 90 s", 0.01, _alternating(BURST, (90.0, 10.0)), 5.0),
    Case("drift by 15 %", 0.01, _drift(15.0), 5.0),
    Case("shift by 10 %", 0.01, _shift(1.10), None),
    Case("shift by 30 %", 0.02, _shift(1.30), None),
)


def run(case: Case, seed: int) -> tuple[list[PlacedBlock], list[int], dict[int, float]]:
    """The sentinel's blocks, then the positions of the measured blocks, then the device's slowness at each position."""
    random = np.random.default_rng([seed, 11])
    length_s = ROUNDS * BLOCKS * BLOCK_S + (ROUNDS + 1) * CHECK_BLOCKS * CHECK_S
    slowness = case.speed(random, length_s)
    checks: list[PlacedBlock] = []
    blocks: list[int] = []
    slowness_at: dict[int, float] = {}
    at_s, position = 0.0, 0
    for check in range(ROUNDS + 1):
        for number in range(CHECK_BLOCKS):
            ms = SENTINEL_MS * slowness(at_s) * math.exp(case.process_cv * random.standard_normal())
            checks.append(PlacedBlock(position, _block(round_of(check, number), ms)))
            slowness_at[position] = slowness(at_s)
            at_s, position = at_s + CHECK_S, position + 1
        for _ in range(BLOCKS if check < ROUNDS else 0):
            blocks.append(position)
            slowness_at[position] = slowness(at_s)
            at_s, position = at_s + BLOCK_S, position + 1
    return checks, blocks, slowness_at


def against_the_first(placed: Sequence[PlacedBlock]) -> list[tuple[float, float]]:
    """The rule before, as (after, until)."""
    checks = [list(check) for _, check in groupby(placed, key=lambda placed_block: placed_block.block.round // 10)]
    first = [median(placed_block.block.samples_ns) for placed_block in checks[0]]
    spans: list[tuple[float, float]] = []
    began: int | None = None
    good = checks[0][-1].position
    for check in checks[1:]:
        now = [median(placed_block.block.samples_ns) for placed_block in check]
        outside = min(now) > max(first) or max(now) < min(first)
        if outside and abs(median(now) / median(first) - 1) > MOVED:
            began = good if began is None else began
            continue
        if began is not None:
            spans.append((began, check[0].position))
            began = None
        good = check[-1].position
    return spans if began is None else [*spans, (began, math.inf)]


def _block(round_: int, ms: float) -> Block:
    records = Records()
    return records.block(records.job(9), round_, ms=ms, samples=1, session=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=400)
    seeds = parser.parse_args().seeds
    figures = []
    for case in CASES:
        wrong = wrong_before = shifts = doubtful = 0
        for seed in range(seeds):
            checks, blocks, slowness = run(case, seed)
            spans = [(span.after, span.until) for span in changed_spans(checks)]
            wrong += sum(any(after < at < until for after, until in spans) for at in blocks)
            doubts = doubtful_spans(checks)
            doubtful += sum(any(span.after < at < span.until for span in doubts) for at in blocks)
            wrong_before += sum(any(after < at < until for after, until in against_the_first(checks)) for at in blocks)
            shifts += any(slowness[after] != slowness[until] for after, until in spans)
        total = seeds * ROUNDS * BLOCKS
        share = 100 * wrong / total
        label = f"{case.name}: blocks disqualified"
        if case.most_percent is None:
            figures.append(at_least(f"{case.name}: shift found where it is", 100 * shifts / seeds, "%", 95))
            figures.append(Figure(label, share, "%"))
        else:
            figures.append(at_most(label, share, "%", case.most_percent))
        figures.append(Figure(f"{case.name}: by the rule before", 100 * wrong_before / total, "%"))
        figures.append(Figure(f"{case.name}: blocks in doubt", 100 * doubtful / total, "%"))
    finish("sentinel: what it disqualifies, on simulated devices", figures, seeds=seeds)


if __name__ == "__main__":
    main()
