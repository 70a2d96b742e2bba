"""Units that share work: compares the units, and assigns variants to them.

First every unit measures the common variant. Then the units are compared, and the other variants are assigned to the
units that are alike. Both decisions are recorded before anything is measured by them, so that a later run continues
with them.
"""

from collections.abc import Iterator
from functools import partial

from sweeps.failure_kinds import FAILS_AGAIN
from sweeps.journal.assignments import EVERY_UNIT
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import Complete
from sweeps.label_kinds import disqualified
from sweeps.planning.plan import Plan
from sweeps.planning.planned_job import planned_job
from sweeps.planning.pools import Pool, assigned, place_of, pools_of, shared_plan
from sweeps.planning.size import block_seconds, evaluation_seconds
from sweeps.protocol.clock import figure_ns
from sweeps.protocol.units import differing, slightly_different
from sweeps.records import Failed, Job
from sweeps.stats import Estimate
from workers.driver.schedule import Durations


class Sharing:
    """The shared work of one plan. `plan` has the jobs to measure next; without units that share, that is the whole
    plan."""

    def __init__(self, whole: Plan, journal: Journal | None, *, record: bool = True) -> None:
        """Share one plan; with `record` the decisions are stored in the journal. `journal`: `None` if the workspace has
        none yet."""
        self._whole = whole
        self._journal = journal
        self._record = record and journal is not None
        self._sweep = whole.sweep.name
        self._pools = pools_of(whole)
        self._durations = Durations()
        self._places = {} if journal is None else journal.assignments.of_sweep(self._sweep)
        self._excluded = {} if journal is None else journal.assignments.units_apart(self._sweep)
        for pool in self._pools:
            self._choose_common(pool)

    @property
    def plan(self) -> Plan:
        if not self._pools:
            return self._whole
        links = {place_of(job): job.key for pool in self._pools for job in self._common(pool).values()}
        return shared_plan(self._whole, self._pools, links, self._places, self._excluded)

    def advance(self, *, wait: bool) -> bool:
        """Compare the units by the blocks of the common variant, and assign the variants that are left. Return whether
        the plan has changed.

        `wait`: assign nothing while a unit has not measured the common variant yet; without it, such a unit gets no
        variants.
        """
        before = dict(self._places), dict(self._excluded)
        self._learn()
        busy_s = self._busy_s()
        for pool in self._pools:
            self._choose_common(pool)
            self._compare(pool)
            jobs = self._common(pool)
            endings = {unit: self._ending(job) for unit, job in jobs.items() if job.key not in self._excluded}
            ready = [unit for unit, ending in endings.items() if self._comparable(jobs[unit], ending)]
            if not wait or None not in endings.values():
                self._assign(assigned(pool, self._left(pool), ready, busy_s, self._seconds))
        return before != (self._places, self._excluded)

    def propose(self) -> None:
        """Assign the variants that are left as if all units were alike, for a preview of the plan."""
        self._learn()
        busy_s = self._busy_s()
        for pool in self._pools:
            ready = [unit for unit, job in self._common(pool).items() if job.key not in self._excluded]
            self._assign(assigned(pool, self._left(pool), ready, busy_s, self._seconds))

    @property
    def waiting(self) -> int:
        """Return the number of variants that are not assigned, because no unit could be compared."""
        return sum(len(self._left(pool)) for pool in self._pools)

    def lines(self) -> Iterator[str]:
        """Yield sentences for people: the shared variants, and the units that are left out."""
        names = {facts.device_id: facts.name for facts in self._whole.devices}
        for pool in self._pools:
            jobs = self._common(pool)
            first = next(iter(jobs.values()))
            common = first.name.removesuffix(f" · {names[first.device_id]}")  # the job's name without its unit
            left = len(self._left(pool))
            yield (
                f"{len(jobs)} units share {len(pool.variants)} variants of {first.model}; all measure {common}"
                + (f"; {left} are assigned once the units have been compared" if left else "")
            )
            for unit, ratio in slightly_different(self._compared(jobs)).items():
                yield f"{names[unit]} differs a little and stays in its class: {_words(ratio, jobs[unit])}"
            for unit, job in jobs.items():
                if job.key in self._excluded:
                    why = self._excluded[job.key]
                    yield f"{names[unit]} is taken out of its class, and its results are not ranked: {why}"
                elif (ending := self._ending(job)) is not None and not self._comparable(job, ending):
                    failed = isinstance(ending, Failed)
                    why = "failed there" if failed else "has no two blocks there that can be trusted"
                    final = isinstance(ending, Failed) and ending.kind in FAILS_AGAIN
                    advice = "" if final else "; try again with --retry-failed"
                    yield f"{names[unit]} gets no variant: {job.name} {why}{advice}"

    def _choose_common(self, pool: Pool) -> None:
        """Choose the variant that was the common one before, else the first one, but none that failed on every unit."""
        before = [key for key in pool.common if self._places.get(key) == EVERY_UNIT]
        usable = [
            key
            for key in (*before, *pool.common)
            if not all(isinstance(self._ending(job), Failed) for job in pool.variants[key].values())
        ]
        chosen = usable[0] if usable else pool.common[0]
        # A variant that failed everywhere is assigned like any other.
        for key in before:
            if key != chosen:
                self._assign({key: pool.units[0]})
        self._assign({chosen: EVERY_UNIT})

    def _common(self, pool: Pool) -> dict[str, Job]:
        """Return the jobs of the common variant, by unit."""
        [key] = [key for key in pool.common if self._places.get(key) == EVERY_UNIT]
        return dict(pool.variants[key])

    def _compare(self, pool: Pool) -> None:
        jobs = self._common(pool)
        for unit, ratio in differing(self._compared(jobs)).items():
            self._set_apart(jobs[unit], _words(ratio, jobs[unit]))

    def _compared(self, jobs: dict[str, Job]) -> dict[str, list[float]]:
        """Return the medians of the blocks (ns), by unit, for the units that are in the pool and can be compared by
        these jobs."""
        return {
            unit: self._medians(job)
            for unit, job in jobs.items()
            if job.key not in self._excluded and self._comparable(job, self._ending(job))
        }

    def _comparable(self, link: Job, ending: Complete | Failed | None) -> bool:
        """Tell whether the unit of this job can be compared with others: an interval needs two blocks."""
        return isinstance(ending, Complete) and len(self._medians(link)) > 1

    def _left(self, pool: Pool) -> list[str]:
        """Return the variants that are not assigned, or whose unit is not in the pool any more."""
        common = self._common(pool)
        units = {unit for unit, job in common.items() if job.key not in self._excluded}
        # A variant that was the common one before, as long as all units could measure it, is treated like any other.
        return [
            key
            for key, jobs in pool.variants.items()
            if jobs != common and self._places.get(key, EVERY_UNIT) not in units
        ]

    def _medians(self, job: Job) -> list[float]:
        assert self._journal is not None
        blocks = self._journal.attempts.blocks(job.key, job.sentinel)
        return [figure_ns(block.samples_ns) for block in blocks if not disqualified(block.labels)]

    def _ending(self, job: Job) -> Complete | Failed | None:
        return None if self._journal is None else self._journal.outcomes.ending(planned_job(self._whole, job))

    def _busy_s(self) -> dict[str, float]:
        """Return the seconds of the assigned work, by unit."""
        seconds = {facts.device_id: 0.0 for facts in self._whole.devices}
        for pool in self._pools:
            for key, jobs in pool.variants.items():
                unit = self._places.get(key, EVERY_UNIT)
                if unit in jobs:
                    seconds[unit] += self._seconds(jobs[unit])
        return seconds

    def _seconds(self, job: Job) -> float:
        """Return the expected seconds of all measurements of a job, from earlier blocks of its unit and its
        artifact."""
        expected = partial(self._durations.expected, job.device_id, job.build_key)
        evaluation_s = expected("evaluation", evaluation_seconds(self._whole, job))
        if job.emulated:
            return evaluation_s
        protocol = self._whole.protocol.on(job.device_id)
        return evaluation_s + protocol.rounds * expected("block", block_seconds(self._whole, protocol, job))

    def _learn(self) -> None:
        """Learn the times of the blocks of all variants that have a unit: no other variant was measured."""
        self._durations = Durations()
        if self._journal is None:
            return
        for pool in self._pools:
            places = ((jobs, self._places.get(key, EVERY_UNIT)) for key, jobs in pool.variants.items())
            for job in (*self._common(pool).values(), *(jobs[unit] for jobs, unit in places if unit in jobs)):
                count, seconds = self._journal.times.block_seconds(job.key)
                guess_s = block_seconds(self._whole, self._whole.protocol.on(job.device_id), job)
                self._durations.learn(job.device_id, job.build_key, "block", seconds, guess_s, count)

    def _assign(self, places: dict[str, str]) -> None:
        self._places |= places
        if self._record and self._journal is not None:
            self._journal.assignments.assign(self._sweep, places)

    def _set_apart(self, link: Job, reason: str) -> None:
        self._excluded[link.key] = reason
        if self._record and self._journal is not None:
            self._journal.assignments.set_apart(self._sweep, link.key, reason)


def with_links(plan: Plan, more: dict[str, int]) -> dict[str, int]:
    """Return the rounds to add, by job key, with equally many of the common variant on the same unit."""
    links: dict[str, int] = {}
    for job in plan.jobs:
        if job.key in more and job.link:
            links[job.link] = max(more[job.key], links.get(job.link, 0))
    return links | more


def _words(ratio: Estimate, job: Job) -> str:
    return f"{job.name} takes {ratio.value:.3f} times ({ratio.low:.3f} to {ratio.high:.3f}) as long as on the others"
