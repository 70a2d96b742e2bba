"""The measurement protocol: presets, order of rounds, the labels of a block, summary of blocks. Pure."""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from sweeps.device_facts import canonical_key
from sweeps.errors import SpecError
from sweeps.metrics import METRICS
from sweeps.records import Timing
from sweeps.spec.protocol import GateSpec, MinutesBudget, ProtocolSpec
from sweeps.spec.sweep import SweepSpec

STABLE_WITHIN = 0.05
"""The medians of the last 3 rounds agree when (max - min) / median is at most this."""

LOOKS = (2, 3, 4, 6, 9, 14, 21, 32, 48)
"""The rounds of a race after which decisions are made, each with the same share of the error. Fixed, so that the same
rounds decide the same whatever the number of rounds allowed."""

LAST_LOOK = LOOKS[-1]
"""Rounds after it would decide nothing: no race has them."""


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
    """Where there is a battery; one that cannot be read is too low."""
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
    """`race`: a job leaves the rounds as soon as it cannot win."""
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
            f"a race cannot hold a bound on {', '.join(late)}: who may win is known before it",
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
