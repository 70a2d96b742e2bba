"""The least-regret choice of builds, on small tables whose answer is known."""

import math
import random
from itertools import combinations

import pytest

from sweeps.ranking.build_costs import Cell, costs_of
from sweeps.ranking.shipping_costs import shipping
from sweeps.results import ResultRow
from sweeps.spec.objective import ObjectiveSpec
from tests.sweeps.conftest import Records


def cells(**devices: dict[str, float | None]) -> dict[str, dict[tuple[str, ...], Cell]]:
    """Costs by device and build; `None`: it may not ship there."""
    return {
        device: {
            (build,): Cell(job_key=f"{device}{build}", state="may_not" if cost is None else "ships", ratio=cost)
            for build, cost in costs.items()
        }
        for device, costs in devices.items()
    }


def names(choice_setups: tuple[tuple[str, ...], ...]) -> list[str]:
    return [setup[0] for setup in choice_setups]


def test_one_build_has_the_smallest_worst_cost_and_not_the_most_wins() -> None:
    choice = shipping(cells(a={"x": 1.0, "y": 1.3}, b={"x": 1.0, "y": 1.3}, c={"x": 5.0, "y": 1.0}))
    assert choice is not None
    assert names(choice.choices[0].setups) == ["y"]
    assert (choice.choices[0].worst, choice.choices[0].worst_device, choice.choices[0].covers) == (1.3, "a", 3)
    assert sorted(names(choice.choices[1].setups)) == ["x", "y"]
    assert (choice.choices[1].worst, choice.choices[1].mean) == (1.0, 1.0)
    assert len(choice.choices) == 2, "a third build would change nothing"


def test_a_build_that_ships_on_more_devices_comes_first() -> None:
    choice = shipping(cells(a={"x": 1.0, "y": 9.0}, b={"x": None, "y": 9.0, "z": 1.0}))
    assert choice is not None
    assert names(choice.choices[0].setups) == ["y"]
    assert sorted(names(choice.choices[1].setups)) == ["x", "z"]
    assert (choice.devices, choice.choices[0].covers) == (2, 2)


def test_where_nothing_may_ship_there_is_no_choice() -> None:
    assert shipping(cells(a={"x": None}, b={})) is None
    assert shipping({}) is None


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_what_looking_at_every_set_finds(seed: int) -> None:
    rng = random.Random(seed)
    table = {
        f"d{device}": {f"b{build}": rng.choice([None, rng.uniform(1, 4), rng.uniform(1, 2)]) for build in range(8)}
        for device in range(6)
    }
    smallest = shipping(cells(**table))
    assert smallest is not None
    assert smallest.is_exact
    for choice in smallest.choices:
        costs = []
        for builds in combinations(range(8), len(choice.setups)):
            rows = [[table[device][f"b{build}"] for build in builds] for device in table]
            best = [min((cost for cost in row if cost is not None), default=None) for row in rows]
            known = [cost for cost in best if cost is not None]
            if known:
                mean = math.exp(sum(map(math.log, known)) / len(known))
                costs.append((-len(known), max(known), round(mean, 9)))
        assert (-choice.covers, choice.worst, round(choice.mean, 9)) == min(costs)


def test_cells_of_rows_have_their_cost_and_whether_they_may_ship(records: Records) -> None:
    def row(number: int, name: str, ms: float | None, **changes: object) -> ResultRow:
        return records.row(records.job(number), ms, variant=name, **changes)

    rows = [
        row(0, "fast", 2.0),
        row(2, "slow", 3.0),
        row(4, "wrong", 1.0, trust=("invalid_output",)),
        row(6, "broken", None, outcome="failed"),
        row(8, "odd", None, outcome="skipped"),
        row(10, "checked", None),
    ]
    costs = costs_of(rows, ObjectiveSpec(constraints=()))
    by_name = {setup[0]: (cell.state, cell.ratio) for setup, cell in costs.items()}
    assert by_name == {
        "fast": ("ships", 1.0),
        "slow": ("ships", 1.5),
        "wrong": ("may_not", 0.5),
        "broken": ("failed", None),
        "odd": ("skipped", None),
        "checked": ("untimed", None),
    }
