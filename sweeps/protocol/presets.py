"""The presets of the measurement protocol, and the protocol of a sweep. Pure."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sweeps.device_facts import canonical_key
from sweeps.errors import SpecError
from sweeps.records import LEFT_OUT_WHEN_EMPTY
from sweeps.spec import catalog
from sweeps.spec.protocol import GateSpec, MinutesBudget, ProtocolSpec
from sweeps.spec.sweep import SweepSpec

STABLE_WITHIN = 0.05
"""The medians of the last 3 rounds agree if (max - min) / median is at most this."""

DECISION_ROUNDS = (2, 3, 4, 6, 9, 14, 21, 32, 48)
"""The rounds of a race after which it eliminates candidates, each with the same share of the error. They do not depend
on the number of rounds allowed, so that the same rounds always give the same decisions."""

LAST_DECISION_ROUND = DECISION_ROUNDS[-1]
"""The last round of any race: later rounds would decide nothing."""

FINAL_SECONDS = 0.3
"""The shortest duration of a race's block in a separate process."""

BATCH_WARMUP_ITERATIONS = 2
"""The number of warm-up iterations after the first inference. TorchScript's executor optimizes a model in its first two
iterations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The conditions under which a device is ready for a block. A condition that has no sensor is skipped."""

    max_battery_temp_c: float
    """Temperature of a phone's battery."""
    max_cpu_temp_c: float
    """The temperature of a host's hottest zone. The limit was chosen by judgement: boards throttle from 80, idle
    laptops show 40 to 60."""
    max_thermal_status: int
    """Android's thermal status, from 0 (none) to 6 (shutdown)."""
    min_battery_percent: float
    """The charge of a battery, for devices that have one; a charge that cannot be read counts as too low."""
    max_load: float
    """Share of all CPU time (0 to 1) that other programs may use."""
    wait_seconds: float
    """The longest wait before one block."""
    load_wait_seconds: float
    """The longest wait for other programs in a whole run: they seldom end during the wait."""

    def comparable(self) -> dict[str, float]:
        """Return the limits that affect the measured values; waiting times do not."""
        return {
            "max_battery_temp_c": self.max_battery_temp_c,
            "max_cpu_temp_c": self.max_cpu_temp_c,
            "max_thermal_status": self.max_thermal_status,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A preset with its overrides applied: the length of a block, the number of rounds, the gate."""

    preset: str
    rounds: int
    """The smallest number of rounds of each job."""
    warmup_iterations: int
    warmup_seconds: float
    iterations: int
    """The smallest number of timed iterations of a block."""
    min_seconds: float
    """The shortest duration of a block."""
    max_seconds: float
    """A block ends after this time, even with fewer iterations (but at least one)."""
    seed: int
    max_rounds: int = 0
    """The largest number of rounds of a job that is not stable (in a race: not decided); 0 means `rounds`."""
    confirmations: int = 3
    """Number of new blocks of a race's winner. Only these determine its interval: its other blocks selected it, which
    is partly luck."""
    budget: Literal["full", "race"] = "full"
    """In a `race`, a job leaves the rounds as soon as it cannot win."""
    device_minutes: float | None = None
    """No new round of a device starts after this time, which includes waiting."""
    question: str = ""
    """A hash of what a race decides: the objective, its constraints and the data."""
    gate: Gate | None = None
    """`None` if blocks start in any state of the device."""
    on_not_ready: Literal["fail", "mark"] = "mark"
    fixed_performance: bool = False
    sentinel_every: int = 0
    """Number of blocks between two sentinel checks; 0: no checks."""
    rounds_on: tuple[tuple[str, int], ...] = field(default=(), metadata=LEFT_OUT_WHEN_EMPTY)
    """The `rounds` of devices that need more than the preset, by device id (`sweeps.protocol.rounds_for_noise`)."""

    def on(self, device_id: str) -> "Protocol":
        """Return the protocol of one device."""
        return replace(self, rounds=dict(self.rounds_on).get(device_id, self.rounds), rounds_on=())

    @property
    def last_round(self) -> int:
        """The largest number of rounds that a job can have."""
        return max(self.rounds, self.max_rounds)

    @property
    def in_own_process(self) -> "Protocol":
        """The protocol of a block in a separate process. In a race such a block lasts at least `FINAL_SECONDS`, because
        its process takes seconds to start. The longer duration is not in job keys: a longer block is the same
        measurement, just as more rounds are."""
        if self.budget != "race":
            return self
        return replace(self, min_seconds=max(self.min_seconds, min(FINAL_SECONDS, self.max_seconds)))

    def in_batch(self, *, brief: bool = False) -> "Protocol":
        """Return the protocol of a short block in a batch: half the warm-up is enough, because the process has run
        other builds before. `brief`: half the duration, see `sweeps.protocol.screen.Screen.brief`."""
        iterations, seconds = max(BATCH_WARMUP_ITERATIONS, self.warmup_iterations), self.min_seconds / (1 + brief)
        return replace(self, warmup_iterations=iterations, warmup_seconds=self.warmup_seconds / 2, min_seconds=seconds)

    def comparable(self) -> dict[str, Any]:
        """Return the part that enters job keys: all but rounds, budget and seed, so that more rounds extend stored
        results."""
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
            max_rounds=48,
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
            # 3 s per inference: slow models on slow boards still reach the 200 iterations of this preset.
            max_seconds=600.0,
            seed=0,
        ),
    )
}


def resolve(spec: ProtocolSpec, budget: Literal["full", "race"] | MinutesBudget = "full") -> Protocol:
    """Return the preset with the sweep file's overrides and budget.

    Raises `SpecError` if the limits contradict each other.
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
    # A shorter wait_seconds also shortens the wait for other programs, which is part of it.
    return replace(gate, load_wait_seconds=min(gate.load_wait_seconds, gate.wait_seconds))


def protocol_of(sweep: SweepSpec) -> Protocol:
    """Return the protocol of a sweep. Raises `SpecError` if its limits contradict each other or its objective.

    A sweep without a budget, which `sweeps.planning.budget` has not decided yet, counts as one with `budget: full`.
    """
    protocol = resolve(sweep.protocol, sweep.budget or "full")
    if protocol.budget == "full":
        return protocol
    metric = sweep.objective.minimize or sweep.objective.maximize
    if metric != "latency_p50_ms":
        raise SpecError(
            f"a race is decided by latency_p50_ms, but the objective is {metric}",
            "write budget: full, or objective: {minimize: latency_p50_ms, front: ...} for a Pareto front of both",
        )
    if sweep.objective.front is not None and catalog.is_timed(sweep.objective.front):
        raise SpecError(
            f"a race needs the second metric of the front before anything is timed; {sweep.objective.front} is timed",
            "name an accuracy or artifact_mb as front, or write budget: full",
        )
    bounded = {constraint.metric for constraint in sweep.objective.constraints} - {"latency_p50_ms"}
    if late := sorted(filter(catalog.is_timed, bounded)):
        raise SpecError(
            f"a race cannot check a bound on {', '.join(late)}: its candidates are chosen before anything is timed",
            "write budget: full, or bound accuracy, artifact_mb or latency_p50_ms",
        )
    # Sweeps share jobs, but an elimination holds only among the jobs of one sweep.
    question = sweep.model_dump(mode="json", include={"name", "objective", "data"})
    return replace(protocol, question=canonical_key(question))


def _check(protocol: Protocol, spec: ProtocolSpec, full_budget: bool) -> None:
    if protocol.min_seconds > protocol.max_seconds:
        raise SpecError(
            f"protocol: min_seconds ({protocol.min_seconds:g}) is more than max_seconds ({protocol.max_seconds:g})",
            f"lower min_seconds, or set max_seconds (the preset {protocol.preset} "
            f"has {PRESETS[protocol.preset].max_seconds:g})",
        )
    if protocol.min_seconds == 0 and protocol.iterations < 2:
        raise SpecError(
            "protocol: a block of one inference without a minimum time measures nothing",
            "set min_seconds to more than 0, or iterations to 2 or more",
        )
    if spec.max_rounds is not None and protocol.rounds > spec.max_rounds:
        raise SpecError(
            f"protocol: max_rounds ({spec.max_rounds}) is less than the {protocol.rounds} rounds of the preset "
            f"{protocol.preset}",
            "raise max_rounds, or set rounds",
        )
    if full_budget and protocol.budget == "race":
        raise SpecError(
            "protocol: the preset race stops when a race is decided, but budget: full measures every job to the end",
            "write budget: race (or no budget), or another preset",
        )
    if protocol.budget == "race" and protocol.rounds < 2:
        raise SpecError(
            "a race needs 2 rounds or more: one process does not show how much processes differ",
            f"set protocol.rounds to 2 or more (the preset {protocol.preset} has {PRESETS[protocol.preset].rounds})",
        )
    if protocol.budget == "race" and protocol.last_round > LAST_DECISION_ROUND:
        name = "rounds" if protocol.rounds > LAST_DECISION_ROUND else "max_rounds"
        raise SpecError(
            f"protocol: {name} ({protocol.last_round}) is more than the {LAST_DECISION_ROUND} rounds of a race: "
            "later rounds decide nothing",
            f"set protocol.{name} to {LAST_DECISION_ROUND} or less, or write budget: full",
        )
