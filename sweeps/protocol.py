"""The measurement protocol: presets, order of rounds, the labels of a block, summary of blocks. Pure."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from sweeps.errors import RunnerError, SpecError
from sweeps.metrics import METRICS
from sweeps.racing import LAST_LOOK
from sweeps.records import VIRTUAL_PHONE, Block, Settled, Timing, canonical_key
from sweeps.spec import GateSpec, MinutesBudget, ProtocolSpec, SweepSpec
from sweeps.stats import mad, median, outliers, p50_estimate
from sweeps.trust import disqualified, in_order, stored_in_order

STABLE_WITHIN = 0.05
"""The medians of the last 3 rounds agree when (max - min) / median is at most this."""

BUSY_LOAD = 0.15
"""Share of all CPU time that others may take. An idle host shows 0.01 to 0.03; 0.15 of two cores is a third of one,
enough to push the runner off its core now and then. A judgement, not a measurement."""

STEAL_SHARE = 0.05
"""Share of the CPU time that the hypervisor gave to other machines during a block. A judgement, not a measurement."""

OUTLIER_SHARE = 0.10
"""Spikes are normal: a block with 3 % of them has the same p50. From a tenth on, the published p90 is one itself."""

_OUTLIERS_FROM_SAMPLES = 20
"""In smaller blocks two chance outliers would be a tenth already; `few_samples` speaks for those."""

P90_FROM_SAMPLES = 64
P99_FROM_SAMPLES = 662


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """When a device is ready for a block. What it has no sensor for is not waited for."""

    max_battery_temp_c: float
    """Of a phone's battery."""
    max_cpu_temp_c: float
    """Of a host's hottest zone. Judged: boards slow themselves down from 80 on, idle laptops show 40 to 60."""
    max_thermal_status: int
    """Android's, from 0 (none) to 6 (shutdown)."""
    min_battery_percent: float
    """Where there is a battery; one that can not be read is too low."""
    max_load: float
    """Share of all CPU time (0 to 1) that other programs may take."""
    wait_seconds: float
    """The longest wait before one block."""
    load_wait_seconds: float
    """The longest wait for other programs in a whole run: they seldom end because they are waited for."""

    def comparable(self) -> dict[str, float]:
        """What is measured depends on these; for how long one waits does not change it."""
        return {
            "max_battery_temp_c": self.max_battery_temp_c,
            "max_cpu_temp_c": self.max_cpu_temp_c,
            "max_thermal_status": self.max_thermal_status,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A preset with its overrides applied: what one block is, how many rounds there are, what is waited for."""

    preset: str
    rounds: int
    """Of each job at least."""
    warmup_iterations: int
    warmup_seconds: float
    iterations: int
    """A block has at least so many timed iterations ..."""
    min_seconds: float
    """... and takes at least so long ..."""
    max_seconds: float
    """... but is ended after so long (never before one iteration)."""
    seed: int
    max_rounds: int = 0
    """More rounds than `rounds` for what is not stable (or, in a race, not decided); 0: none."""
    budget: Literal["full", "race"] = "full"
    """`race`: a job leaves the rounds as soon as it can not win."""
    device_minutes: float | None = None
    """No new round of a device after so long, waits included."""
    question: str = ""
    """What a race is about: stands for the objective with its constraints. Another one is another race."""
    gate: Gate | None = None
    """`None`: blocks start whatever the device is like."""
    on_not_ready: Literal["fail", "mark"] = "mark"
    fixed_performance: bool = False
    sentinel_every: int = 0
    """Blocks between two looks at the sentinel; 0: never."""

    @property
    def last_round(self) -> int:
        """No job has more rounds than these."""
        return max(self.rounds, self.max_rounds)

    def comparable(self) -> dict[str, Any]:
        """What a job key holds: all but rounds, budget and seed, so that more rounds add to what is there."""
        return {
            "preset": self.preset,
            "warmup_iterations": self.warmup_iterations,
            "warmup_seconds": self.warmup_seconds,
            "iterations": self.iterations,
            "min_seconds": self.min_seconds,
            "max_seconds": self.max_seconds,
            "gate": None if self.gate is None else self.gate.comparable(),
            "fixed_performance": self.fixed_performance,
        }


DEFAULT_GATE = Gate(
    max_battery_temp_c=37.0,
    max_cpu_temp_c=70.0,
    max_thermal_status=0,
    min_battery_percent=30.0,
    max_load=0.15,
    wait_seconds=1200.0,
    load_wait_seconds=60.0,
)
_BRIEF_GATE = replace(DEFAULT_GATE, wait_seconds=60.0, load_wait_seconds=10.0)

PRESETS: dict[str, Protocol] = {
    protocol.preset: protocol
    for protocol in (
        Protocol(
            preset="quick",
            rounds=3,
            warmup_iterations=0,
            warmup_seconds=0.2,
            iterations=1,
            min_seconds=0.5,
            max_seconds=60.0,
            seed=0,
            gate=_BRIEF_GATE,
            fixed_performance=True,
        ),
        Protocol(
            preset="full",
            rounds=3,
            max_rounds=10,
            warmup_iterations=10,
            warmup_seconds=0.5,
            iterations=50,
            min_seconds=2.0,
            max_seconds=300.0,
            seed=0,
            gate=DEFAULT_GATE,
            fixed_performance=True,
            sentinel_every=12,
        ),
        Protocol(
            preset="race",
            rounds=2,
            max_rounds=32,
            warmup_iterations=0,
            warmup_seconds=0.2,
            iterations=5,
            min_seconds=0.2,
            max_seconds=60.0,
            seed=0,
            budget="race",
            gate=DEFAULT_GATE,
            fixed_performance=True,
            sentinel_every=24,
        ),
        Protocol(
            preset="recipe",
            rounds=1,
            warmup_iterations=5,
            warmup_seconds=0.0,
            iterations=200,
            min_seconds=0.0,
            # 3 s an inference: slow models on slow boards still reach the 200 iterations that the preset is about.
            max_seconds=600.0,
            seed=0,
        ),
    )
}


def resolve(spec: ProtocolSpec, budget: Literal["full", "race"] | MinutesBudget = "full") -> Protocol:
    """The preset with the sweep file's overrides and budget.

    Raises `SpecError` where the limits contradict each other.
    """
    preset = PRESETS[spec.preset or ("quick" if budget == "full" else "race")]
    overrides = spec.model_dump(exclude={"preset", "gate"}, exclude_none=True)
    protocol = replace(preset, **overrides)
    if isinstance(spec.gate, GateSpec):
        protocol = replace(protocol, gate=_gate(spec.gate, preset))
    elif spec.gate == "none":
        protocol = replace(protocol, gate=None)
    if budget != "full":
        most = spec.max_rounds or max(preset.max_rounds, PRESETS["race"].max_rounds)
        minutes = budget.device_minutes if isinstance(budget, MinutesBudget) else None
        protocol = replace(protocol, budget="race", max_rounds=most, device_minutes=minutes)
    _check(protocol, spec, budget == "full")
    return protocol


def _gate(spec: GateSpec, preset: Protocol) -> Gate:
    gate = replace(preset.gate or DEFAULT_GATE, **spec.model_dump(exclude_none=True))
    if spec.wait_seconds is None and gate.load_wait_seconds > gate.wait_seconds:
        raise SpecError(
            f"protocol.gate: load_wait_seconds ({gate.load_wait_seconds:g}) is more than the wait_seconds of the "
            f"preset {preset.preset} ({gate.wait_seconds:g}), of which it is a part",
            "raise wait_seconds as well, or lower load_wait_seconds",
        )
    # Who shortens the whole wait means its part as well.
    return replace(gate, load_wait_seconds=min(gate.load_wait_seconds, gate.wait_seconds))


def protocol_of(sweep: SweepSpec) -> Protocol:
    """The protocol of a sweep. Raises `SpecError` where its limits contradict each other or its objective."""
    protocol = resolve(sweep.protocol, sweep.budget)
    if protocol.budget == "full":
        return protocol
    metric = sweep.objective.minimize or sweep.objective.maximize
    if metric != "latency_p50_ms":
        raise SpecError(
            f"a race is decided by latency_p50_ms, but the objective is {metric}",
            "write budget: full, or objective: {minimize: latency_p50_ms, front: ...} to keep what is best in both",
        )
    timed = METRICS.keys() & {entry.name for entry in fields(Timing)}
    if sweep.objective.front in timed:
        raise SpecError(
            f"a race keeps a front of latency and what is known before it; {sweep.objective.front} is not",
            "name an accuracy or artifact_mb as front, or write budget: full",
        )
    if late := sorted({one.metric for one in sweep.objective.constraints} & (timed - {"latency_p50_ms"})):
        raise SpecError(
            f"a race can not hold a bound on {', '.join(late)}: who may win is known before it",
            "write budget: full, or bound accuracy, artifact_mb or latency_p50_ms",
        )
    # Jobs are shared between sweeps, but who lost to whom is true only among the jobs of one sweep.
    asked = sweep.model_dump(mode="json", include={"name", "objective", "data"})
    return replace(protocol, question=canonical_key(asked))


def _check(protocol: Protocol, spec: ProtocolSpec, to_the_end: bool) -> None:
    if protocol.min_seconds > protocol.max_seconds:
        raise SpecError(
            f"protocol: min_seconds ({protocol.min_seconds:g}) is more than max_seconds ({protocol.max_seconds:g})",
            f"lower min_seconds, or set max_seconds (the preset {protocol.preset} "
            f"has {PRESETS[protocol.preset].max_seconds:g})",
        )
    if protocol.min_seconds == 0 and protocol.iterations < 2:
        raise SpecError(
            "protocol: a block of one inference and no least time measures nothing",
            "set min_seconds to more than 0, or iterations to 2 or more",
        )
    if spec.max_rounds is not None and protocol.rounds > spec.max_rounds:
        raise SpecError(
            f"protocol: max_rounds ({spec.max_rounds}) is less than the {protocol.rounds} rounds of the preset "
            f"{protocol.preset}",
            "raise max_rounds, or set rounds",
        )
    if to_the_end and protocol.budget == "race":
        raise SpecError(
            "protocol: the preset race goes on until a race is decided, but budget: full measures it all to the end",
            "write budget: race (or leave it out), or another preset",
        )
    if protocol.budget == "race" and protocol.rounds < 2:
        raise SpecError(
            "a race needs 2 rounds or more: one process says nothing of how processes differ",
            f"set protocol.rounds to 2 or more (the preset {protocol.preset} has {PRESETS[protocol.preset].rounds})",
        )
    if protocol.budget == "race" and protocol.last_round > LAST_LOOK:
        name = "rounds" if protocol.rounds > LAST_LOOK else "max_rounds"
        raise SpecError(
            f"protocol: {name} ({protocol.last_round}) is more than the {LAST_LOOK} rounds of a race: it looks for the "
            "last time after these, and no later round decides anything",
            f"set protocol.{name} to {LAST_LOOK} or less, or write budget: full",
        )


def settles(settled: Settled, protocol: Protocol) -> bool:
    """Whether the end of a job's rounds, as it was stored, is one under this protocol too."""
    if not same_question(settled, protocol):
        return False
    match settled.reason:
        case "reopened":
            return False
        case "unstable" | "undecided":
            return settled.rounds >= protocol.last_round
        case "out_of_time":
            allowed = protocol.device_minutes
            return allowed is not None and settled.device_minutes is not None and settled.device_minutes >= allowed
        case "slower" | "constraint":
            # However few rounds it had: no more of them let it win.
            return True
        case "disqualified" if settled.budget == "full":
            return settled.rounds >= protocol.last_round
        case _:
            return settled.rounds >= protocol.rounds


def same_question(settled: Settled, protocol: Protocol) -> bool:
    """Whether it was said in the same race, or of rounds that nobody races in."""
    return (settled.budget, settled.question) == (protocol.budget, protocol.question)


def order(job_keys: Iterable[str], round: int, seed: int) -> list[str]:
    """The jobs of one round, shuffled: by a hash of seed, round and key.

    The same for any order of `job_keys` and in any process; a job that is added later moves none of the others.
    """
    return sorted(job_keys, key=lambda key: hashlib.sha256(f"{seed}:{round}:{key}".encode()).digest())


def block_labels(block: Block, requested_backend: str, requested_engine: str, protocol: Protocol) -> tuple[str, ...]:
    """The trust labels that one block earns by itself, in the order of `TRUST`.

    `requested_engine` is `none` where nothing is quantized: then any engine will do.
    Raises `RunnerError` of kind `invalid_samples` where there are none, or one is not a positive number.
    """
    samples = block.samples_ns
    invalid = [sample for sample in samples if not (math.isfinite(sample) and sample > 0)]
    if invalid or not samples:
        found = f"{len(invalid)} of {len(samples)} samples, e.g. {invalid[0]} ns" if invalid else "no sample at all"
        raise RunnerError(
            "invalid_samples",
            f"the runner reported times that can not be: {found}",
            "check the clock and the runner of the device, then run again",
        )
    conditions = block.conditions
    load = conditions.load_start
    labels = {
        "throttled": conditions.throttled is True,
        "backend_fell_back": block.backend_ran != requested_backend,
        "engine_differs": requested_engine not in ("none", block.engine_ran),
        "gate_timeout": conditions.gate == "timed_out",
        # No sensor is a state of its own, never "cool".
        "ungated": conditions.gate == "none" or not conditions.knows_heat,
        "virtual_phone": conditions.exec_context == VIRTUAL_PHONE,
        "hot_start": conditions.started_hot,
        "few_samples": len(samples) < protocol.iterations,
        "outliers": len(samples) >= _OUTLIERS_FROM_SAMPLES and float(outliers(samples).mean()) > OUTLIER_SHARE,
        "busy_host": conditions.gate == "busy"
        or (load is not None and load > BUSY_LOAD)
        or (conditions.steal_share is not None and conditions.steal_share > STEAL_SHARE),
    }
    return in_order(name for name, found in labels.items() if found)


def summarize(job_key: str, blocks: Sequence[Block], protocol: Protocol) -> Timing:
    """One timing from all accepted blocks of a job.

    p90 and p99 are over the samples of all blocks together (linear between neighbours), where there are enough of
    them; all other figures are medians over the blocks, so that one odd process does not move them.
    Where there are rounds enough without them, blocks with a disqualifying label are left out.
    Raises `ValueError` for no blocks, another job's block, or a round that comes twice.
    """
    blocks = sorted(blocks, key=lambda block: block.round)
    rounds = [block.round for block in blocks]
    if not blocks or len(set(rounds)) != len(rounds) or any(block.job_key != job_key for block in blocks):
        raise ValueError(f"not the blocks of job {job_key}, one a round: rounds {rounds}")

    sound = [block for block in blocks if not disqualified(block.labels)]
    if len(sound) >= protocol.rounds:
        blocks = sound
    pooled = np.concatenate([np.asarray(block.samples_ns, dtype=np.float64) for block in blocks]) / 1e6
    medians_ms = [median(block.samples_ns) / 1e6 for block in blocks]
    p50 = p50_estimate(medians_ms)
    last = medians_ms[-3:]
    labels = {label for block in blocks for label in block.labels}
    if len(blocks) == 1:
        labels.add("one_block")
    elif _spread(last) > STABLE_WITHIN:
        labels.add("unstable")
    if pooled.size < P90_FROM_SAMPLES or len(blocks) < protocol.rounds:
        labels.add("few_samples")

    return Timing(
        job_key=job_key,
        rounds=len(blocks),
        samples=pooled.size,
        latency_p50_ms=p50.value,
        latency_ci_low_ms=p50.low,
        latency_ci_high_ms=p50.high,
        latency_p90_ms=float(np.quantile(pooled, 0.90)) if pooled.size >= P90_FROM_SAMPLES else None,
        latency_p99_ms=float(np.quantile(pooled, 0.99)) if pooled.size >= P99_FROM_SAMPLES else None,
        spread_within=median([mad(block.samples_ns) / median(block.samples_ns) for block in blocks]),
        spread_between=_spread(medians_ms) if len(blocks) > 1 else None,
        first_inference_ms=_median_of_known([_ms(block.first_inference_ns) for block in blocks]),
        load_ms=_median_of_known([_ms(block.load_ns) for block in blocks]),
        model_rss_mb=_median_of_known([_model_rss_mb(block) for block in blocks]),
        block_medians_ms=tuple(zip((block.visit for block in blocks), medians_ms, strict=True)),
        temp_start_c=_median_of_known([block.conditions.temp_start_c for block in blocks]),
        temp_end_c=_median_of_known([block.conditions.temp_end_c for block in blocks]),
        labels=stored_in_order(labels),
    )


def _ms(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e6


def _model_rss_mb(block: Block) -> float | None:
    if block.rss_peak_bytes is None or block.rss_before_load_bytes is None:
        return None
    return (block.rss_peak_bytes - block.rss_before_load_bytes) / 1e6


def _median_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / median(values)
