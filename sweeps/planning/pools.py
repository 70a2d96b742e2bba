"""Pools: identical units that share the variants of a model, and the assignment of the variants to units. Pure."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from sweeps.planning.plan import Plan
from sweeps.records import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Units of one fingerprint, and the variants of one model that they share."""

    units: tuple[str, ...]
    """Device ids, in the order of the plan."""
    variants: Mapping[str, Mapping[str, Job]]
    """Jobs by the variant's key in the pool and by device id, both in the order of the plan."""

    @property
    def common(self) -> tuple[str, ...]:
        """The keys of the variants that every unit can time: candidates for the anchor, by which the units are
        compared."""
        return tuple(
            key
            for key, jobs in self.variants.items()
            if len(jobs) == len(self.units) and not any(job.emulated for job in jobs.values())
        )


def pools_of(plan: Plan) -> tuple[Pool, ...]:
    """Return the pools of a plan. Units without a common variant form no pool: each measures all its jobs."""
    pooled = dict(plan.pooled)
    fingerprints = {facts.device_id: facts.fingerprint for facts in plan.devices}
    by_place: dict[tuple[str, str], dict[str, dict[str, Job]]] = {}
    for job in plan.jobs:
        if job.key in pooled:
            variants = by_place.setdefault((fingerprints[job.device_id], job.model), {})
            variants.setdefault(pooled[job.key], {})[job.device_id] = job
    pools = []
    for variants in by_place.values():
        able = {device_id for jobs in variants.values() for device_id in jobs}
        pool = Pool(units=tuple(unit for unit in fingerprints if unit in able), variants=variants)
        if len(pool.units) > 1 and pool.common:
            pools.append(pool)
    return tuple(pools)


def assigned(
    pool: Pool, left: Collection[str], ready: Collection[str], busy_s: dict[str, float], seconds: Callable[[Job], float]
) -> dict[str, str]:
    """Assign each variant of `left` to a unit: return device ids by the variants' keys in the pool. The longest builds
    are assigned first, each to the unit that would finish it first.

    All variants of one build go to one unit, which evaluates the build once. `ready`: the units that may get variants.
    `busy_s`: the seconds of work that each unit has already; the new work is added to it.
    """
    builds: dict[str, list[str]] = {}
    for key in pool.variants:
        if key in left:
            builds.setdefault(next(iter(pool.variants[key].values())).build_key, []).append(key)
    units: dict[str, str] = {}

    def long(keys: list[str]) -> float:
        return sum(max(map(seconds, pool.variants[key].values())) for key in keys)

    for keys in sorted(builds.values(), key=long, reverse=True):
        able = [unit for unit in pool.units if unit in ready and all(unit in pool.variants[key] for key in keys)]
        if able:
            ends_s = {
                able_unit: busy_s[able_unit] + sum(seconds(pool.variants[key][able_unit]) for key in keys)
                for able_unit in able
            }
            unit = min(able, key=ends_s.__getitem__)
            busy_s[unit] = ends_s[unit]
            units |= dict.fromkeys(keys, unit)
    return units


def shared_plan(
    plan: Plan, pools: Collection[Pool], links: Mapping[str, str], places: Mapping[str, str], removed: Collection[str]
) -> Plan:
    """Return the plan with only the jobs that units are to measure: the anchor of each pool on every unit, and each
    other variant on its assigned unit.

    `links`: the keys of the anchor's jobs, by unit and model (see `place_of`). `places`: the assigned device ids, by
    the variants' keys in the pool. `removed`: the keys of the anchors' jobs on units that have left their pool; these
    units measure nothing.
    """
    keys = {job.key: key for pool in pools for key, jobs in pool.variants.items() for job in jobs.values()}
    planned = []
    for job in plan.jobs:
        if job.key not in keys:
            planned.append(job)
            continue
        link = links[place_of(job)]
        if link not in removed and (job.key == link or places.get(keys[job.key]) == job.device_id):
            planned.append(replace(job, link=link))
    return replace(plan, jobs=tuple(planned))


def place_of(job: Job) -> str:
    """Return the place of a job as a text: its unit's id and its model."""
    return f"{job.device_id} {job.model}"
