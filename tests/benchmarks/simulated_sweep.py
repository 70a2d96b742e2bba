"""Simulates one sweep on a simulated phone, in virtual time: its cost and its result. Pure.

The loop is the driver's, without files and failures: rounds in the same shuffled order, a gate before every block, and
the same `Contest` to decide when a job leaves the rounds. The same `first_place` as in a ranking says which variant is
shipped; accuracies are drawn for it, so that preferring an accurate variant has its price here, too. It simulates the
variants of one model, because each model has its own contest. Blocks that the phone's thermal status marks as throttled
count as cost, but not as results.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from sweeps.protocol.clock import Readings, is_coarse, with_resolution
from sweeps.protocol.presets import Protocol
from sweeps.protocol.racing import Elimination
from sweeps.protocol.stopping import Contest
from sweeps.ranking.batch_alarm import contradicted
from sweeps.ranking.interval_scope import IntervalOf, interval_of
from sweeps.ranking.intervals import latency_intervals
from sweeps.ranking.race_speeds import RaceBlocks, race_speeds
from sweeps.ranking.ties import LATENCY
from sweeps.ranking.two_speeds import two_speeds
from sweeps.ranking.winner import first_place
from sweeps.settled import Settled
from sweeps.stats import Estimate, median, p50_estimate
from tests.benchmarks.simulated_bench import Rest, SimulatedBench
from workers.devices.fake.phones import Phone

_TOP1_PERCENT = (94.0, 97.0)
"""Accuracies are drawn between these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to measure a sweep."""

    name: str
    protocol: Protocol
    rest: Rest = "gate"
    plain: bool = False
    """A block's figure is the mean of its samples, and every block counts: the thermal status is ignored."""


FIXED_REST = Method(
    name="sleep 180 s",
    # The warm-up is the race's: what is compared is how long it rests, how much it measures and what it makes of that.
    protocol=Protocol(
        preset="sleep",
        rounds=1,
        warmup_iterations=0,
        warmup_seconds=0.2,
        iterations=20,
        min_seconds=0.0,
        max_seconds=300.0,
        seed=0,
    ),
    rest=180.0,
    plain=True,
)
"""A common practice: 180 s of sleep before each variant, 20 samples once, their mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """One variant's blocks that count, summarized; a `sweeps.ranking.ties.Contender`."""

    name: str
    job_key: str
    top1_percent: float
    """Drawn at random: it does not depend on the latency."""
    settled: Settled | None
    """The end of its rounds; `None` if the number of rounds was fixed."""
    p50_ms: Estimate
    true_p50_ms: float
    """At the temperatures at which these blocks were measured: the median over them."""
    medians_ms: Mapping[int, float]
    """By round, counted from 0; means where they are what is asked for."""
    coarse_clock: bool
    """The trust label of this name."""
    true_in_state_ms: float
    """The true latency as in `true_p50_ms`, in the states of the clocks that these blocks met."""
    interval_of: IntervalOf = ""
    """The interval's kind as of a ranking's candidate; of the others than the winner it is empty."""

    @property
    def figures(self) -> Mapping[str, float | None]:
        return {LATENCY: self.p50_ms.value, "top1_percent": self.top1_percent, "artifact_mb": None}

    def figure(self, metric: str) -> float | None:
        return self.figures[metric]

    @property
    def covered(self) -> bool | None:
        """The interval contains the true latency; `None` without an interval."""
        if self.p50_ms.low is None or self.p50_ms.high is None:
            return None
        return self.p50_ms.low <= self.true_p50_ms <= self.p50_ms.high

    @property
    def holds_what_it_says(self) -> bool | None:
        """The interval contains the latency that it is of; `None` without an interval."""
        if self.interval_of != "one_state" or self.p50_ms.low is None or self.p50_ms.high is None:
            return self.covered
        return self.p50_ms.low <= self.true_in_state_ms <= self.p50_ms.high


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSweep:
    """The cost and the result of one sweep. Seconds are on the phone's clock, with waiting."""

    named: str | None
    """The variant that `rank` would ship; with the plain method, the one with the smallest mean."""
    best: str
    """The true best."""
    regret: float
    """The named variant truly is slower than the best by this: 0.01 is 1 %; infinite if none was named."""
    decided: str
    """The reason for which a race ended before its last round; empty where it did not."""
    checked: bool
    """Batches decided, and a rival was left to check them with."""
    alarm: bool
    """The check contradicted the batches."""
    eliminations: tuple[Elimination, ...]
    ended: tuple[Settled, ...]
    """The end of each variant's rounds, also of those that have no block; none if their number was fixed."""
    jobs: Mapping[str, JobResult]
    """The variants with at least one block that counts."""
    device_s: float
    timed_s: float
    waited_s: float
    batches_s: float
    """The part of `device_s` that batches took, without waiting ..."""
    batches_timed_s: float
    """... and of `timed_s`."""
    blocks: int
    samples: int
    marked_blocks: int
    """Marked as throttled, or started without passing the gate: none of them counts as a result."""
    throttled_blocks: int
    """Truly throttled ..."""
    throttled_unmarked_blocks: int
    """... and accepted all the same."""

    @property
    def measuring_share(self) -> float:
        """Share of the device's time in which timed iterations ran."""
        return self.timed_s / self.device_s


def simulate(
    phone: Phone,
    true_ms: Mapping[str, float],
    protocol: Protocol,
    *,
    seed: int,
    rest: Rest = "gate",
    plain: bool = False,
    artifact_bytes: int = 10_000_000,
    groups: Mapping[str, str] | None = None,
    shared_slower: Mapping[str, float] = MappingProxyType({}),
    batches_decide: bool = False,
    noise: float | None = None,
) -> SimulatedSweep:
    """Run one sweep of variants with the latencies `true_ms` (at the ambient temperature, without noise).

    `groups`: the group of each variant that a race may measure in batches, by default one for all; `shared_slower`:
    factors on its latency in batches only, by variant. `batches_decide`: the phone was shown to allow it, and to have
    this `noise` (see `sweeps.records.Settled`).

    `protocol.budget` says whether variants leave by racing or when they are stable; `seed` decides both the phone's
    noise and the order of the rounds; `rest` and `plain` as in `Method`. Raises `ValueError` for no variants.
    """
    if not true_ms:
        raise ValueError("nothing to simulate: no variants")
    bench = SimulatedBench(phone, true_ms, protocol, seed, rest, plain)
    for _ in true_ms:
        bench.device.push(artifact_bytes)
    pushed_s = bench.device.now_s
    # Accuracy is not simulated: all have the same precedence.
    groups = dict.fromkeys(true_ms, "") if groups is None else groups
    contest = Contest(
        {key: key for key in true_ms},
        protocol,
        dict.fromkeys(true_ms, 0.0),
        groups=groups,
        batches_decide=batches_decide,
        noise=noise,
    )
    round = 0
    ended: list[Settled] = []
    while (batches := contest.batches) or contest.active:
        for keys in batches:
            ended += contest.count_batch(bench.batch(keys, round, shared_slower, contest.brief))
        if not batches:
            ended += contest.count(bench.round(contest.active, round))
        minutes = protocol.device_minutes
        if minutes is not None and bench.device.now_s - pushed_s >= 60 * minutes:
            ended += contest.expire()
        round += 1
    for end in ended:
        bench.confirm(end.job_key, end.confirmations)
    checks_ms = {end.job_key: bench.check(end.job_key, end.checks) for end in ended if end.checks}
    alarm = [_alarm(bench, end, checks_ms[end.job_key]) for end in ended if end.checks]
    race = contest.race
    settled = {end.job_key: end for end in ended}
    jobs, named = _results(bench, settled, checks_ms, seed, watched_s=bench.device.now_s - pushed_s)
    tally = bench.tally
    if plain:
        named = min(jobs, key=lambda key: jobs[key].p50_ms.value, default=None)
    best = min(true_ms, key=lambda key: true_ms[key])
    return SimulatedSweep(
        named=named,
        best=best,
        regret=np.inf if named is None else true_ms[named] / true_ms[best] - 1.0,
        decided="" if race is None else race.why,
        alarm=any(alarm),
        checked=bool(alarm),
        eliminations=() if race is None else race.eliminations,
        ended=tuple(ended),
        jobs=jobs,
        device_s=bench.device.now_s,
        timed_s=tally.timed_s,
        waited_s=tally.waited_s,
        batches_s=tally.batches_s,
        batches_timed_s=tally.batches_timed_s,
        blocks=tally.blocks,
        samples=tally.samples,
        marked_blocks=tally.marked_blocks,
        throttled_blocks=tally.throttled_blocks,
        throttled_unmarked_blocks=tally.throttled_unmarked_blocks,
    )


def _alarm(bench: SimulatedBench, rival: Settled, checks_ms: Mapping[int, float]) -> bool:
    """The alarm that a ranking would raise."""
    assert rival.ratio is not None
    ratio = Estimate(rival.ratio, rival.ratio_low, rival.ratio_high)
    winners_ms = bench.confirmed_ms.get(rival.by_key, {})
    return contradicted(ratio, [*checks_ms.items()], winners_ms, rival.noise) is not None


def latencies_ms(variants: int, base_ms: float, sigma: float, seed: int) -> dict[str, float]:
    """Variants whose true latencies are lognormal around `base_ms`; `sigma` is their logarithm's standard deviation."""
    drawn = base_ms * np.exp(sigma * np.random.default_rng([seed, 5]).standard_normal(variants))
    return {f"v{number:02d}": float(value) for number, value in enumerate(drawn)}


def _results(
    bench: SimulatedBench,
    settled: Mapping[str, Settled],
    checks_ms: Mapping[str, Mapping[int, float]],
    seed: int,
    *,
    watched_s: float,
) -> tuple[dict[str, JobResult], str | None]:
    """The results and the winner, as `sweeps.ranking.rank` would find them."""
    accuracies = np.random.default_rng([seed, 7]).uniform(*_TOP1_PERCENT, len(bench.medians_ms))
    top1_percent = dict(zip(bench.medians_ms, accuracies.tolist(), strict=True))
    measured = {
        key: medians_ms for key, medians_ms in bench.medians_ms.items() if medians_ms or key in bench.confirmed_ms
    }
    published = [bench.confirmed_ms.get(key) or medians_ms for key, medians_ms in measured.items()]
    speeds = race_speeds(_raced(bench, checks_ms), list(measured)) if bench.confirmed_ms else two_speeds(published)
    estimates = latency_intervals(published, speeds)
    coarse = {key: _coarse(bench, key) for key in measured}
    jobs = {
        key: JobResult(
            name=key,
            job_key=key,
            top1_percent=top1_percent[key],
            settled=settled.get(key),
            p50_ms=_as_stored(bench, key, estimate, medians_ms) if coarse[key] else estimate,
            true_p50_ms=median([block.true_p50_ms for block in bench.published[key]]),
            true_in_state_ms=median([block.true_in_state_ms for block in bench.published[key]]),
            medians_ms=measured[key],
            coarse_clock=coarse[key],
        )
        for key, estimate, medians_ms in zip(measured, estimates, published, strict=True)
    }
    contending = [job for job in jobs.values() if job.settled is None or not job.settled.eliminated]
    if not contending:
        return jobs, None
    first = first_place(contending, LATENCY, smaller=True)
    named = first.winner.name
    if named not in bench.confirmed_ms:
        place = list(measured).index(named)
        estimate = latency_intervals(published, speeds, {place: first.candidates})[place]
        if coarse[named]:
            estimate = _as_stored(bench, named, estimate, published[place])
        jobs[named] = replace(jobs[named], p50_ms=estimate)
    of = interval_of(raced=named in bench.confirmed_ms, speeds=speeds, watched_s=watched_s)
    jobs[named] = replace(jobs[named], interval_of=of)
    return jobs, named


def _coarse(bench: SimulatedBench, key: str) -> bool:
    """Tell whether the variant has the label `coarse_clock`."""
    ticks = bench.device.phone.ticks
    return ticks is not None and any(is_coarse(block.samples_ns.tolist()) for block in bench.published[key])


def _as_stored(bench: SimulatedBench, key: str, estimate: Estimate, published_ms: Mapping[int, float]) -> Estimate:
    """With a coarse clock a ranking keeps the variant's own interval, which allows for the clock."""
    processes = [Readings(block.samples_ns.tolist(), block.warmup_ns.tolist()) for block in bench.published[key]]
    own = with_resolution(p50_estimate([*published_ms.values()]), processes)
    if own.low is None or own.high is None or estimate.low is None or estimate.high is None:
        return estimate
    return Estimate(estimate.value, min(own.low, estimate.low), max(own.high, estimate.high))


def _raced(bench: SimulatedBench, checks_ms: Mapping[str, Mapping[int, float]]) -> dict[str, RaceBlocks]:
    blocks_of = {}
    for key, rounds_ms in bench.medians_ms.items():
        alone_ms = {**rounds_ms, **bench.confirmed_ms.get(key, {}), **checks_ms.get(key, {})}
        if alone_ms or bench.in_batches_ms[key]:
            blocks_of[key] = RaceBlocks(in_batches=bench.in_batches_ms[key], alone=alone_ms)
    return blocks_of
