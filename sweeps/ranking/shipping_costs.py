"""The cost of shipping one, two or three builds of a model to all devices of a sweep. Pure, from stored rows.

The least-regret choice is the set of builds whose worst cost (see `build_costs`) over all devices is the smallest (the
minimax relative regret); each device gets the best build of the set that may ship on it.
"""

import functools
import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from sweeps.ranking.build_costs import Cells, Setup

MOST_BUILDS = 3
MOST_CANDIDATES = 24
"""At most this many builds are combined; 24 builds give 2,324 sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A set of builds, and the cost of shipping it."""

    setups: tuple[Setup, ...]
    covers: int
    """The number of devices on which one of the builds may ship."""
    worst: float
    """The largest cost of the set over these devices."""
    worst_device: str
    """The id of the device with that cost."""
    mean: float
    """The geometric mean of the costs over these devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipping:
    """The choices for one model on several devices."""

    devices: int
    """The number of devices on which any build may ship."""
    choices: tuple[Choice, ...]
    """The best sets of one, two and three builds; larger sets that improve nothing are left out."""
    is_exact: bool
    """Whether all sets were compared, and not only those of the most promising builds."""


def shipping(cells: Cells) -> Shipping | None:
    """Return the least-regret choices; `None` if no build may ship anywhere."""
    costs: dict[Setup, dict[str, float]] = defaultdict(dict)
    for device, by_setup in cells.items():
        for setup, cell in by_setup.items():
            if cell.state == "ships" and cell.ratio is not None:
                costs[setup][device] = cell.ratio
    devices = {device for known in costs.values() for device in known}
    if not devices:
        return None
    candidates = _undominated(costs)
    is_exact = len(candidates) <= MOST_CANDIDATES
    candidates = sorted(candidates, key=lambda setup: _promise(costs[setup]))[:MOST_CANDIDATES]
    choices: list[Choice] = []
    for number in range(1, min(MOST_BUILDS, len(candidates)) + 1):
        sets = _least(list(combinations(candidates, number)), costs, sorted(devices))
        best = min((_choice(setups, costs, devices) for setups in sets), key=_regret)
        if choices and _regret(best)[:3] >= _regret(choices[-1])[:3]:
            break
        choices.append(best)
    return Shipping(devices=len(devices), choices=tuple(choices), is_exact=is_exact)


def _undominated(costs: Mapping[Setup, Mapping[str, float]]) -> list[Setup]:
    """Return the builds, without those that another build can replace on every device at no cost."""
    undominated: list[Setup] = []
    for setup in sorted(costs, key=lambda candidate: _promise(costs[candidate])):
        cost_of = costs[setup]
        if not any(
            all(costs[other].get(device, math.inf) <= cost for device, cost in cost_of.items()) for other in undominated
        ):
            undominated.append(setup)
    return undominated


def _promise(cost: Mapping[str, float]) -> tuple[int, float]:
    return -len(cost), _geometric(cost.values())


def _least(
    sets: Sequence[tuple[Setup, ...]], costs: Mapping[Setup, Mapping[str, float]], devices: Sequence[str]
) -> list[tuple[Setup, ...]]:
    """Return the few sets of thousands that may have the least regret, computed for all sets at once. On 2,000 devices,
    2,324 sets take 130 MB of memory for a moment."""
    order = {setup: number for number, setup in enumerate(costs)}
    matrix = np.array([[known.get(device, math.inf) for device in devices] for known in costs.values()])
    members = np.array([[order[setup] for setup in setups] for setups in sets])
    lowest = functools.reduce(np.minimum, (matrix[column] for column in members.T))
    covered = np.isfinite(lowest)
    covers = covered.sum(axis=1)
    worst = np.where(covered, lowest, 0.0).max(axis=1)
    worst[covers < covers.max()] = math.inf
    mean = np.exp(np.log(np.where(covered, lowest, 1.0)).sum(axis=1) / np.maximum(covers, 1))
    mean[worst > worst.min()] = math.inf
    # Sums in another order differ in their last digits, so sets within rounding of the least mean are kept; `_regret`
    # rounds.
    return [sets[int(at)] for at in np.flatnonzero(mean <= mean.min() * (1 + 1e-11))]


def _choice(setups: tuple[Setup, ...], costs: Mapping[Setup, Mapping[str, float]], devices: set[str]) -> Choice:
    lowest = {device: min(costs[setup].get(device, math.inf) for setup in setups) for device in devices}
    covered = {device: cost for device, cost in lowest.items() if cost < math.inf}
    worst = max(sorted(covered), key=lambda device: covered[device])
    return Choice(
        setups=setups,
        covers=len(covered),
        worst=covered[worst],
        worst_device=worst,
        mean=_geometric(covered.values()),
    )


def _regret(choice: Choice) -> tuple[int, float, float, tuple[Setup, ...]]:
    return -choice.covers, choice.worst, round(choice.mean, 12), choice.setups


def _geometric(values: Collection[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))
