import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from sweeps.distributions import studentized_range_quantile
from sweeps.ranking.multiplicity import Family
from sweeps.ranking.ties import LATENCY, latency_ratio, settling, worse
from sweeps.ranking.winner import first_place
from sweeps.settled import Settled

RACE = Settled(job_key="", budget="race", rounds=9, reason="best", message="")


@dataclass(frozen=True)
class Build:
    name: str
    medians_ms: dict[int, float]
    settled: Settled | None = None
    figures: dict[str, float | None] = field(default_factory=dict)

    @property
    def job_key(self) -> str:
        return self.name

    def figure(self, metric: str) -> float | None:
        return self.figures.get(metric)


def build(name: str, medians_ms: dict[int, float], settled: Settled | None = None) -> Build:
    value = float(np.median(list(medians_ms.values()))) if medians_ms else None
    return Build(
        name,
        medians_ms,
        settled,
        {LATENCY: value, "top1_percent": None, "agreement_percent": None, "artifact_mb": None},
    )


def drawn(draw: np.random.Generator, factors: list[float], rounds: int, spread: float) -> list[Build]:
    noise = draw.standard_normal((len(factors), rounds)) * spread
    blocks = 10.0 * np.array(factors)[:, None] * np.exp(noise)
    return [build(f"v{number}", dict(enumerate(medians))) for number, medians in enumerate(blocks.tolist())]


def sharing(rows: list[Build]) -> set[str]:
    first = first_place(rows, LATENCY, smaller=True)
    return {row.name for row in (first.winner, *first.equal, *first.unresolved)}


@pytest.mark.parametrize(("rounds", "spread"), [(3, 0.02), (3, 0.1), (10, 0.04)])
def test_any_of_six_equal_builds_is_called_slower_in_at_most_one_sweep_of_twenty(rounds: int, spread: float) -> None:
    draw = np.random.default_rng(1)
    wrong = [len(sharing(drawn(draw, [1.0] * 6, rounds, spread))) < 6 for _ in range(400)]
    assert np.mean(wrong) <= 0.05


def test_builds_that_are_five_percent_slower_are_found_as_often_as_pair_by_pair() -> None:
    draw, slower, before = np.random.default_rng(2), 0, 0
    for _ in range(100):
        rows = drawn(draw, [1.0] * 3 + [1.05] * 3, rounds=3, spread=0.01)
        slower += len({"v3", "v4", "v5"} - sharing(rows))
        best = min(rows, key=lambda row: row.figures[LATENCY] or math.inf)
        before += sum(worse(row, best, LATENCY, smaller=True) for row in rows[3:])
    assert slower >= before
    assert slower >= 0.95 * 300


def test_two_builds_alone_are_compared_as_any_two() -> None:
    draw = np.random.default_rng(3)
    for _ in range(50):
        first, second = drawn(draw, [1.0, 1.04], rounds=4, spread=0.02)
        family = Family([first, second])
        pairs = ((first, second), (second, first))
        assert [family.is_slower(*pair, 2) for pair in pairs] == [worse(*pair, LATENCY, True) for pair in pairs]
        assert family.ratio(first, second, 2).low == pytest.approx(latency_ratio(first, second).low, rel=1e-9)


def test_the_ratio_to_the_winner_is_above_one_only_where_the_ranking_says_slower() -> None:
    draw, combinations = np.random.default_rng(4), set()
    for _ in range(60):
        rows = drawn(draw, [1.0] * 6 + [1.04] * 2, rounds=3, spread=0.02)
        first = first_place(rows, LATENCY, smaller=True)
        shared = {first.winner.name, *(row.name for row in (*first.equal, *first.unresolved))}
        for row in rows:
            if row is not first.winner:
                ratio = first.family.ratio(row, first.best, max(2, first.candidates))
                slower = ratio.low > 1.0 and ratio.value >= 1.02
                # A build that is left out may have been slower than another one than the best.
                assert not (slower and row.name in shared)
                combinations.add((slower, row.name in shared))
    assert {(True, False), (False, True)} <= combinations


@pytest.mark.parametrize("batches", [False, True])
def test_each_look_of_a_race_has_its_share_of_the_error(batches: bool) -> None:
    # The intervals of batches are of the race's model: it may look as often as it likes, but eliminates with half.
    looks = 2 if batches else 9
    ended = replace(RACE, batches_decide=batches, batches=9 if batches else 3)
    beside = replace(ended, by_key="a", ratio=1.05, ratio_low=1.02, ratio_high=1.08)
    rounds = {} if batches else {0: 10.5, 1: 10.7, 2: 10.3}
    leader = build("a", {0: 10.0} if batches else {0: 10.0, 1: 10.1, 2: 9.9}, replace(ended, leads=True))
    row = build("b", rounds, beside if batches else ended)
    third = build("c", {}, ended)
    family, alone = Family([leader, row, third]), latency_ratio(row, leader)
    ratio = family.ratio(row, leader, 3)
    degrees, normal = (math.inf, 1.959964) if batches else (2, 4.302653)
    quantile = studentized_range_quantile(3, degrees, 0.05 / looks) / math.sqrt(2)
    centre = math.log(alone.value) if batches else (math.log(alone.low) + math.log(alone.high)) / 2
    expected = math.exp(centre - (centre - math.log(alone.low)) * quantile / normal)
    assert ratio.low == pytest.approx(expected, rel=1e-3)
    assert (ratio.value, ratio.high) == (alone.value, alone.high)


@pytest.mark.parametrize("spread", [0.001, 0.02, 0.2])
def test_all_at_once_and_one_by_one_the_same_rows_are_slower(spread: float) -> None:
    draw = np.random.default_rng(7)
    rows = []
    for number in range(60):
        # Most have three rounds, some other ones, one or none; some have the time of another one.
        rounds = [(0, 1, 2), (0, 1, 2), (0, 1, 2), (1, 2), (0,), ()][number % 6]
        pace = draw.choice([1.0, 1.01, 1.03, 1.1])
        medians = {round_: round(10 * pace * math.exp(spread * draw.standard_normal()), 1) for round_ in rounds}
        # Some have a ratio to another one of a race that batches decided.
        low = float(draw.choice([0.99, 1.02]))
        beside = replace(RACE, batches_decide=True, by_key="v4", ratio=1.05, ratio_low=low, ratio_high=1.1)
        rows.append(build(f"v{number}", medians, beside if number % 12 in (5, 10) else None))
    family, left, best = Family(rows), rows, min(rows, key=lambda row: row.figures[LATENCY] or math.inf)
    for group in ([best], rows):
        rivals = [row for row in group if row in left]
        left = next(
            rest
            for count in range(1, len(left) + 1)
            if len(
                rest := [row for row in left if not any(family.is_slower(row, rival, count + 1) for rival in rivals)]
            )
            <= count
        )
    slower = family.slower(best)
    assert slower == [row not in left for row in rows]
    assert 0 < sum(slower) < len(rows)


def test_five_builds_behind_the_best_are_slower_together_where_the_last_alone_is_not() -> None:
    noise = np.random.default_rng(9).standard_normal((6, 5)) * 0.02
    noise -= noise.mean(axis=1, keepdims=True)

    def those(factors: list[float]) -> list[Build]:
        blocks = np.exp(noise) * 10.0 * np.array(factors)[:, None]
        return [build(f"v{number}", dict(enumerate(row))) for number, row in enumerate(blocks.tolist())]

    best, *later = together = those([1.0] + [1.033] * 5)
    family = Family(together)
    assert all(family.is_slower(row, best, 2) for row in later)
    assert not any(family.is_slower(row, best, 6) for row in later)
    assert sharing(together) == {best.name}
    assert len(sharing(those([1.0] * 5 + [1.033]))) == 6


@pytest.mark.parametrize("spread", [0.02, 0.2])
def test_many_builds_near_the_best_with_different_rounds_are_not_compared_in_pairs(spread: float) -> None:
    calls = 0

    class Counted(Build):
        def figure(self, metric: str) -> float | None:
            nonlocal calls
            calls += 1
            return super().figure(metric)

    draw, count = np.random.default_rng(8), 300
    rows = [
        Counted(
            row.name, {round_: ms for round_, ms in row.medians_ms.items() if round_ < 3 + n % 5}, None, row.figures
        )
        for n, row in enumerate(drawn(draw, [1.0] * count, 8, spread))
    ]
    first_place(rows, LATENCY, smaller=True)
    assert calls <= 20 * count


def test_more_rounds_are_asked_for_where_more_builds_share_the_first_place() -> None:
    row, best, *_ = rows = drawn(np.random.default_rng(5), [1.05, 1.0, 1.0, 1.0, 1.0, 1.0], rounds=5, spread=0.06)
    rounds = [Family(rows).settling(row, best, count).rounds for count in (2, 6, 24)]
    assert rounds == sorted(set(rounds)), "more builds, more rounds"
    alone = settling(row.medians_ms, best.medians_ms)
    assert Family([row, best]).settling(row, best, 2) == alone
