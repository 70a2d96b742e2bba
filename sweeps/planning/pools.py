"""Pools: identical units that share the variants of a model, and the plan of what each of them measures. Pure."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from sweeps.planning.plan import Plan
from sweeps.records import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Units with one fingerprint, and the variants of one model that they share."""

    units: tuple[str, ...]
    """Device ids, in the order of the plan."""
    variants: Mapping[str, Mapping[str, Job]]
    """The jobs of each variant, by its key in the pool and by device id; both in the order of the plan."""

    @property
    def common(self) -> tuple[str, ...]:
        """Keys of the variants that every unit can time: one of them compares the units."""
        return tuple(
            key
            for key, jobs in self.variants.items()
            if len(jobs) == len(self.units) and not any(job.emulated for job in jobs.values())
        )


def pools_of(plan: Plan) -> tuple[Pool, ...]:
    """The pools of a plan. Units that have no variant in common are none: each measures its own."""
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
    """A unit for each variant of `left`, by their keys in the pool: the longest first, to whoever is done with it
    first.

    What is of one build stays on one unit, where it is evaluated once. `ready`: the units that may get something.
    `busy_s`: what units have to do already, in seconds; this is added to it.
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
    plan: Plan, pools: Collection[Pool], links: Mapping[str, str], places: Mapping[str, str], apart: Collection[str]
) -> Plan:
    """The plan with the jobs that units measure: of each pool the common variant on every unit, and the other variants
    where they are assigned.

    `links`: by device id and model (see `place_of`), the key of the job of the common variant. `places`: the device id
    of each variant, by its key in the pool. `apart`: keys of such jobs on units that are not in their pool any more;
    these measure nothing.
    """
    keys = {job.key: key for pool in pools for key, jobs in pool.variants.items() for job in jobs.values()}
    planned = []
    for job in plan.jobs:
        if job.key not in keys:
            planned.append(job)
            continue
        link = links[place_of(job)]
        if link not in apart and (job.key == link or places.get(keys[job.key]) == job.device_id):
            planned.append(replace(job, link=link))
    return replace(plan, jobs=tuple(planned))


def place_of(job: Job) -> str:
    """The place of a job: its unit and model."""
    return f"{job.device_id} {job.model}"
