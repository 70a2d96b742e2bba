"""One result as a comparison needs it: its conditions, its blocks, and their runs and sessions. Pure."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from sweeps.protocol.sessions import has_start, run_of, sessions_of
from sweeps.results import ComparisonConditions, ResultRow
from sweeps.variant import INSTALLED

VERSION = "runtime version"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConditions(ComparisonConditions):
    """The conditions that must be equal in two sessions, including those that cannot vary within one sweep or
    variant."""

    runner: str
    """The runner's name and version; empty if not recorded."""
    protocol: str
    """The JSON of `Protocol.comparable`, or empty. Its form is canonical: 1 and 1.0 are written alike."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "protocol", _canonical(self.protocol))

    def named(self) -> tuple[tuple[str, str | None], ...]:
        """Return each condition as its name for people and its value. `None`: unknown, which counts as equal to any
        value."""
        return (
            ("preset", self.preset),
            (VERSION, self.runtime_version),
            ("runner", self.runner or None),
            ("execution context", self.exec_context),
            ("gate", self.gate),
            ("fixed-performance mode", self.fixed_performance or "none"),
            ("protocol of a block", self.protocol or "not recorded"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The run and session of a block. Two blocks of one device with equal runs were measured side by side, in one run
    of the driver."""

    run: str = ""
    """The run of the driver; empty: unknown."""
    session: int = 0
    """The start of the session (seconds since 1970). All blocks with 0 count as one session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One variant on one device, with the fields that a comparison needs."""

    name: str
    model: str
    setup: tuple[str, ...]
    """The build and how it is run, as `ResultRow.setup`: equal for the same variant in another sweep."""
    device: str
    device_id: str
    fingerprint: str
    conditions: SessionConditions
    medians_ms: tuple[float, ...]
    """One median for each block."""
    origins: tuple[Origin, ...] = ()
    """One origin for each block; empty if unknown."""
    trust: tuple[str, ...]
    release: str = INSTALLED
    """The runner's release, as `Variant.runner_toolchain`."""

    @classmethod
    def of_row(cls, row: ResultRow) -> "Result":
        medians_ms = row.published_medians_ms
        return cls(
            name=row.name,
            model=row.model,
            setup=row.setup,
            device=row.device,
            device_id=row.device_id,
            fingerprint=row.fingerprint,
            conditions=SessionConditions(**asdict(row.conditions), runner=row.runner, protocol=row.protocol),
            medians_ms=tuple(medians_ms.values()),
            origins=origins([run_of(visit) for visit in medians_ms], row.sessions, row.sweep),
            trust=row.trust,
            release=row.runner_toolchain,
        )

    @property
    def of_blocks(self) -> tuple[Origin, ...]:
        """The origin of each block; a default origin for each if they are unknown."""
        return self.origins or (Origin(),) * len(self.medians_ms)

    def only(self, runs: set[str]) -> "Result":
        """Return the same result with only the blocks of these runs."""
        pairs = [pair for pair in zip(self.medians_ms, self.of_blocks, strict=True) if pair[1].run in runs]
        return replace(self, medians_ms=tuple(ms for ms, _ in pairs), origins=tuple(origin for _, origin in pairs))


def origins(runs: Sequence[int], session_starts: tuple[int, ...], sweep: str) -> tuple[Origin, ...]:
    """Return the origin of each block, from the blocks' runs (`Block.session`). `session_starts`: as
    `ResultRow.sessions`.

    In the oldest journals, runs of different sweeps may have the same number, so the name of such a run contains the
    sweep's name.
    """
    names = (str(run) if has_start(run) else f"{sweep} {run}" for run in runs)
    sessions = sessions_of(runs, sorted(session_starts))
    return tuple(Origin(run=name, session=session) for name, session in zip(names, sessions, strict=True))


def differing(a: Result, b: Result) -> list[str]:
    """Return each condition that differs between the two results, in words."""
    differences = []
    if a.device != b.device:
        differences.append(f"device class: {a.device} and {b.device}")
    elif a.fingerprint != b.fingerprint:
        differences.append(f"device fingerprint (OS build, runtimes): {a.fingerprint} and {b.fingerprint}")
    for (condition, a_value), (_, b_value) in zip(a.conditions.named(), b.conditions.named(), strict=True):
        if condition == VERSION and a.release != b.release:
            continue  # The comparison is about these two releases.
        if a_value is not None and b_value is not None and a_value != b_value:
            differences.append(f"{condition}: {_difference(a_value, b_value)}")
    return differences


def _canonical(protocol: str) -> str:
    try:
        return json.dumps(json.loads(protocol, parse_int=float), sort_keys=True)
    except ValueError:
        return protocol


def _difference(a_value: str, b_value: str) -> str:
    """Return the difference as text; for two JSON objects, only the entries that differ."""
    try:
        left, right = json.loads(a_value), json.loads(b_value)
    except ValueError:
        left = right = None
    if not isinstance(left, dict) or not isinstance(right, dict):
        return f"{a_value} and {b_value}"
    keys = [key for key in sorted({*left, *right}) if left.get(key) != right.get(key)]
    return ", ".join(f"{key} {left.get(key)} and {right.get(key)}" for key in keys)
