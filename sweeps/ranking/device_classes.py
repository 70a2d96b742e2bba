"""One winner for all units of a device class, from the pooled results of the units. Pure.

Units are the replicates. Each unit gives one ratio of a variant to the class winner, paired by the unit's own rounds,
so the overall speed of a unit cancels. Only units under the same conditions are pooled, and only their latency: all
other metrics belong to the build, which is the same on every unit.

If batches decided a unit's race, a variant there has a ratio to the unit's winner but no latency: the ratio is pooled.
A variant that was eliminated in batches has only a bound: it is listed, but not pooled.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sweeps.ranking.eligibility import beside_leader, in_batches_only
from sweeps.ranking.same_conditions import alike
from sweeps.ranking.ties import latency_ratio, told_apart
from sweeps.results import ResultRow
from sweeps.stats import median, p50_estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassEntry:
    """The results of one variant on the units of a class."""

    variant: str
    """The name of the variant, with the run axes if several entries have the same variant."""
    setup: tuple[str, ...]
    """The build and how it is run, as `ResultRow.setup`."""
    units: int
    """The number of units that timed the variant, or on which batches gave its ratio to their winner."""
    in_batches: int
    """The number of units on which only batches gave the variant's ratio."""
    passes_on: int
    """The number of units on which the variant may win."""
    ratio: float
    """The latency (p50) divided by the class winner's: the median over units."""
    ratio_least: float
    """The smallest ratio of any unit."""
    ratio_most: float
    """The largest ratio of any unit."""
    ratio_low: float | None
    """The 95 % interval over units; `None` for one unit."""
    ratio_high: float | None
    tied: bool
    """Whether the variant shares the first place; also true for the winner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRanking:
    """Two or more units of one device class, with the same fingerprint, model and conditions."""

    device: str
    """The maker, model and SoC of the class."""
    fingerprint: str
    model: str
    preset: str
    units: tuple[str, ...]
    """The ids of the units."""
    winner: str
    """The name of the winner; empty if no variant may win on every unit."""
    entries: tuple[ClassEntry, ...]
    """The winner, then the entries tied with it, then the others; empty without a winner."""
    left_in_batches: tuple[str, ...] = ()
    """Variants that were eliminated in batches on a unit, without a latency: that unit is not in their entry."""

    @property
    def in_batches(self) -> list[str]:
        """The lines for people about variants whose ratio comes from batches."""
        lines = [
            f"{entry.variant}: on {entry.in_batches} of its units only batches gave its ratio, and it has no time"
            for entry in self.entries
            if entry.in_batches
        ]
        left = self.left_in_batches
        return [*lines, f"left in batches on a unit, without a time: {', '.join(left)}"] if left else lines


def pool(rows: Sequence[ResultRow], candidates: Collection[str]) -> tuple[ClassRanking, ...]:
    """Return the pooled ranking of each device class. `rows`: all measured rows. `candidates`: the job keys of the rows
    that may win on their unit."""
    groups = alike((row for row in rows if row.timed), lambda row: (row.model, row.device, *row.comparable[1:]))
    # Rows that were measured in batches only have no conditions.
    untimed = [row for row in rows if in_batches_only(row)]
    return tuple(_class(group, untimed, candidates) for group in groups if len({row.device_id for row in group}) > 1)


def _class(group: Sequence[ResultRow], untimed: Sequence[ResultRow], candidates: Collection[str]) -> ClassRanking:
    units = sorted({row.device_id for row in group})
    timed = {row.job_key: row for row in group}
    like = (group[0].model, group[0].device, group[0].fingerprint)
    untimed = [row for row in untimed if (row.model, row.device, row.fingerprint) == like and row.device_id in units]
    beside = [row for row in untimed if _leader(row, timed) is not None]
    setups: dict[tuple[str, ...], dict[str, ResultRow]] = defaultdict(dict)
    for row in (*beside, *group):
        setups[row.setup][row.device_id] = row
    passes_on = {setup: sum(row.job_key in candidates for row in on_unit.values()) for setup, on_unit in setups.items()}
    eligible = [setup for setup in sorted(setups) if passes_on[setup] == len(units)]
    names = _names(list(setups))
    entries: list[ClassEntry] = []
    winner = ""
    if eligible:
        first = min(eligible, key=lambda setup: _mean_log(setups[setup], timed))
        winner = names[first]
        for setup, on_unit in setups.items():
            entries.append(_entry(names[setup], setup, on_unit, setups[first], passes_on[setup], len(units), timed))
        entries.sort(key=lambda entry: (entry.variant != winner, not entry.tied, entry.ratio, entry.variant))
    return ClassRanking(
        device=group[0].device,
        fingerprint=group[0].fingerprint,
        model=group[0].model,
        preset=group[0].preset,
        units=tuple(units),
        winner=winner,
        entries=tuple(entries),
        left_in_batches=tuple(sorted({row.variant for row in untimed if row not in beside})),
    )


def _entry(
    variant: str,
    setup: tuple[str, ...],
    on_unit: Mapping[str, ResultRow],
    winner: Mapping[str, ResultRow],
    passes_on: int,
    units: int,
    timed: Mapping[str, ResultRow],
) -> ClassEntry:
    ratios = []
    for unit, row in on_unit.items():
        ratio = latency_ratio(row, winner[unit])
        # The two rows were each compared with the same leader, so their ratio follows from those ratios.
        ratios.append(math.exp(_log(row, timed) - _log(winner[unit], timed)) if ratio is None else ratio.value)
    pooled = p50_estimate(ratios)
    return ClassEntry(
        variant=variant,
        setup=setup,
        units=len(on_unit),
        in_batches=sum(not row.timed for row in on_unit.values()),
        passes_on=passes_on,
        ratio=median(ratios),
        ratio_least=min(ratios),
        ratio_most=max(ratios),
        ratio_low=pooled.low,
        ratio_high=pooled.high,
        tied=passes_on == units and told_apart(pooled) != "slower",
    )


def _mean_log(on_unit: Mapping[str, ResultRow], timed: Mapping[str, ResultRow]) -> float:
    return sum(_log(row, timed) for row in on_unit.values()) / len(on_unit)


def _leader(row: ResultRow, timed: Mapping[str, ResultRow]) -> ResultRow | None:
    """Return the leader of the batches that gave the row's ratio; `None` if there is none."""
    return None if row.settled is None or not beside_leader(row) else timed.get(row.settled.by_key)


def _log(row: ResultRow, timed: Mapping[str, ResultRow]) -> float:
    """Return the logarithm of the row's latency; for a row without a latency, that of its leader's latency times the
    ratio. The estimate serves only to choose among variants of one unit: it was not measured."""
    if row.timed:
        return math.log(row.metrics["latency_p50_ms"])
    leader = _leader(row, timed)
    assert leader is not None
    assert row.settled is not None
    assert row.settled.ratio is not None
    return math.log(leader.metrics["latency_p50_ms"] * row.settled.ratio)


def _names(setups: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return a name for each setup: its variant, with all run axes if several setups share that variant."""
    counts = Counter(setup[0] for setup in setups)

    def name(setup: tuple[str, ...]) -> str:
        variant, grid, threads, cpus, reuse_input = setup
        if counts[variant] == 1:
            return variant
        words = [variant, grid, f"threads {threads}", f"cpus {cpus}", "" if reuse_input == "True" else "fresh input"]
        return " · ".join(filter(None, words))

    return {setup: name(setup) for setup in setups}
