"""Are the results of one sweep (or exported manifest) slower than those of another? Pure.

The two were measured in different sessions, so no rounds are paired. The ratio of their latencies comes from the block
medians of each side: the difference of their mean logarithms, with Welch's 95 % interval (B. L. Welch, Biometrika 34,
1947), which allows different spreads and numbers of blocks. The ratio includes what affects a whole session (heat,
another program): a small difference between two sessions may come from the days and not from the builds.

A result that was not found slower has not passed: if the rounds leave it open, it is `unresolved`, not `the same`.

Only results measured under the same conditions are compared. Conditions that differ are named.
"""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit

from sweeps.ranking.ties import told_apart
from sweeps.results import ComparisonConditions, ResultRow
from sweeps.stats import CONFIDENCE, NEGLIGIBLE, Estimate, median
from sweeps.trust import disqualified

EXIT_SLOWER = 3
EXIT_NOT_COMPARED = 4
EXIT_UNRESOLVED = 5

LatencyFinding = Literal["slower", "unresolved", "faster", "the same"]
Finding = LatencyFinding | Literal["not comparable"]
FINDINGS: tuple[Finding, ...] = ("slower", "unresolved", "faster", "the same", "not comparable")
"""In the order of tables."""

_BOUNDLESS = 600.0
"""As a logarithm: two rounds, and a thousand pairs to be sure of, give intervals that no float holds the ends of; and
others who write into the store may leave medians whose ratio none holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConditions(ComparisonConditions):
    """The conditions that must be equal in two sessions, also those that cannot vary within one sweep or variant."""

    runner: str
    """Name and version; empty where that was not recorded."""
    protocol: str
    """JSON of `Protocol.comparable`, or empty. It is kept in a canonical form, in which 1 and 1.0 are the same."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "protocol", _canonical(self.protocol))

    def named(self) -> tuple[tuple[str, str | None], ...]:
        """Each condition for people, with its value. `None`: unknown, which counts as equal to any value."""
        return (
            ("preset", self.preset),
            ("runtime version", self.runtime_version),
            ("runner", self.runner or None),
            ("execution context", self.exec_context),
            ("gate", self.gate),
            ("fixed-performance mode", self.fixed_performance or "none"),
            ("protocol of a block", self.protocol or "not recorded"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One variant on one device, as far as a comparison needs it."""

    name: str
    model: str
    setup: tuple[str, ...]
    """As `ResultRow.setup`: the same variant in another sweep."""
    device: str
    device_id: str
    fingerprint: str
    conditions: SessionConditions
    medians_ms: tuple[float, ...]
    trust: tuple[str, ...]

    @classmethod
    def of_row(cls, row: ResultRow) -> "Result":
        return cls(
            name=row.name,
            model=row.model,
            setup=row.setup,
            device=row.device,
            device_id=row.device_id,
            fingerprint=row.fingerprint,
            conditions=SessionConditions(**asdict(row.conditions), runner=row.runner, protocol=row.protocol),
            medians_ms=tuple(row.medians_ms.values()),
            trust=row.trust,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One variant on one device, B against A."""

    name: str
    """As B has it."""
    device: str
    finding: Finding
    a_p50_ms: float | None
    b_p50_ms: float | None
    ratio: float | None
    """Latency of B as a multiple of A's; with its 95 % interval where both have 2 blocks or more, also where the two
    are not comparable."""
    ratio_low: float | None
    ratio_high: float | None
    why: str
    """Why it is not comparable, or what the finding leaves open; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    a: str
    b: str
    results: tuple[Compared, ...]
    only_a: tuple[str, ...]
    """Names of the results that B lacks."""
    only_b: tuple[str, ...]
    margin_percent: float
    """As `latency_finding` was told."""

    @property
    def exit_code(self) -> int:
        """0: every result of A was compared and is the same or faster. Otherwise the first of `EXIT_SLOWER`,
        `EXIT_NOT_COMPARED` and `EXIT_UNRESOLVED` that applies to any result."""
        findings = {result.finding for result in self.results}
        if "slower" in findings:
            return EXIT_SLOWER
        if self.only_a or "not comparable" in findings or not findings:
            return EXIT_NOT_COMPARED
        return EXIT_UNRESOLVED if "unresolved" in findings else 0

    def document(self) -> dict[str, Any]:
        """`edgesweep compare --json`."""
        return {**asdict(self), "exit_code": self.exit_code}


def compare(
    a: tuple[str, Sequence[Result]], b: tuple[str, Sequence[Result]], margin_percent: float, *, named: bool = False
) -> Comparison:
    """`a` and `b` with their names for people. `margin_percent`: as in `latency_finding`.

    `named`: the caller chose one result of each side (on one device or more). The two are compared even if their
    variants differ. Otherwise each variant is compared with itself.

    Each result is compared at most once. The pairs with the most similar devices are matched first, so a unit that only
    A has may be compared with a unit that only B has. Results without a partner are in `only_a` or `only_b`.
    """
    there: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    for one in a[1]:
        there[() if named else (one.model, *one.setup)].append(one)
    candidates = [(one, other) for other in b[1] for one in there[() if named else (other.model, *other.setup)]]
    pairs: list[tuple[Result, Result]] = []
    met_a: set[int] = set()
    met_b: set[int] = set()
    for one, other in sorted(candidates, key=_likeness, reverse=True):
        if id(one) not in met_a and id(other) not in met_b:
            met_a.add(id(one))
            met_b.add(id(other))
            pairs.append((one, other))
    # Bonferroni: at 95 % each, one of many unchanged variants would seem to have changed in most comparisons.
    confidence = 1.0 - (1.0 - CONFIDENCE) / max(1, len(pairs))
    results = [_compared(one, other, margin_percent, confidence) for one, other in pairs]
    results.sort(key=lambda one: (FINDINGS.index(one.finding), one.device, one.name))
    return Comparison(
        a=a[0],
        b=b[0],
        results=tuple(results),
        only_a=tuple(one.name for one in a[1] if id(one) not in met_a),
        only_b=tuple(other.name for other in b[1] if id(other) not in met_b),
        margin_percent=margin_percent,
    )


def latency_finding(ratio: Estimate, margin_percent: float) -> LatencyFinding:
    """What is known of a latency that is `ratio` times another one.

    `slower` and `faster`: resolved, and by at least 2 % (or the margin, if that is less). `the same`: the whole
    interval lies within the margin, as in an equivalence test (D. J. Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987).
    Everything else is `unresolved`, also a ratio without an interval.
    """
    if ratio.low is None or ratio.high is None:
        return "unresolved"
    if apart := told_apart(ratio, least=min(NEGLIGIBLE, margin_percent / 100)):
        return apart
    most = 1.0 + margin_percent / 100
    return "the same" if ratio.low >= 1.0 / most and ratio.high <= most else "unresolved"


def differing(a: Result, b: Result) -> list[str]:
    """Each condition that differs between the two, in words."""
    found = []
    if a.device != b.device:
        found.append(f"device class: {a.device} and {b.device}")
    elif a.fingerprint != b.fingerprint:
        found.append(f"device fingerprint (OS build, runtimes): {a.fingerprint} and {b.fingerprint}")
    for (what, one), (_, other) in zip(a.conditions.named(), b.conditions.named(), strict=True):
        if one is not None and other is not None and one != other:
            found.append(f"{what}: {_difference(one, other)}")
    return found


def welch(now_ms: Sequence[float], then_ms: Sequence[float], confidence: float = CONFIDENCE) -> Estimate | None:
    """The ratio of `now_ms` to `then_ms`, from their mean logarithms; `None` if a side has fewer than two values.

    Raises `ValueError` for a value that is not a positive number.
    """
    if len(now_ms) < 2 or len(then_ms) < 2:
        return None
    if not all(0.0 < ms < math.inf for ms in (*now_ms, *then_ms)):
        raise ValueError(f"block medians must be positive numbers: {list(now_ms)} and {list(then_ms)}")
    now, then = np.log(now_ms), np.log(then_ms)
    centre = float(now.mean() - then.mean())
    parts = now.var(ddof=1) / now.size, then.var(ddof=1) / then.size
    variance = float(sum(parts))
    if variance == 0.0:
        return Estimate(_ratio(centre), _ratio(centre), _ratio(centre))
    degrees = variance**2 / (parts[0] ** 2 / (now.size - 1) + parts[1] ** 2 / (then.size - 1))
    half = float(stdtrit(degrees, 0.5 + confidence / 2)) * math.sqrt(variance)
    return Estimate(_ratio(centre), _ratio(centre - half), _ratio(centre + half))


def _ratio(logarithm: float) -> float:
    return math.exp(max(-_BOUNDLESS, min(logarithm, _BOUNDLESS)))


def _compared(a: Result, b: Result, margin_percent: float, confidence: float) -> Compared:
    why = differing(a, b)
    for name, side in (("A", a), ("B", b)):
        if len(side.medians_ms) < 2:
            why.append(f"{name} has {'one timed block' if side.medians_ms else 'no timed blocks'}, 2 are needed")
        if distrusted := disqualified(side.trust):
            why.append(f"{name} is {', '.join(distrusted)}")
    ratio = welch(b.medians_ms, a.medians_ms)
    finding: Finding = "not comparable"
    if not why and ratio is not None:
        strict = welch(b.medians_ms, a.medians_ms, confidence)
        assert strict is not None
        finding = latency_finding(strict, margin_percent)
        if finding == "unresolved":
            why.append(f"{strict.low:.4g}× to {strict.high:.4g}×; measure more rounds, or allow more with --margin")
    return Compared(
        name=b.name,
        device=b.device,
        finding=finding,
        a_p50_ms=median(a.medians_ms) if a.medians_ms else None,
        b_p50_ms=median(b.medians_ms) if b.medians_ms else None,
        ratio=None if ratio is None else ratio.value,
        ratio_low=None if ratio is None else ratio.low,
        ratio_high=None if ratio is None else ratio.high,
        why="; ".join(why),
    )


def _likeness(pair: tuple[Result, Result]) -> tuple[bool, bool, bool]:
    """Larger is more similar: the same unit, then a unit of the same fingerprint, then the same device class."""
    a, b = pair
    return a.device_id == b.device_id, a.fingerprint == b.fingerprint, a.device == b.device


def _canonical(protocol: str) -> str:
    try:
        return json.dumps(json.loads(protocol, parse_int=float), sort_keys=True)
    except ValueError:
        return protocol


def _difference(one: str, other: str) -> str:
    """The difference in words; for two JSON objects, only the entries that differ."""
    try:
        left, right = json.loads(one), json.loads(other)
    except ValueError:
        left = right = None
    if not isinstance(left, dict) or not isinstance(right, dict):
        return f"{one} and {other}"
    keys = [key for key in sorted({*left, *right}) if left.get(key) != right.get(key)]
    return ", ".join(f"{key} {left.get(key)} and {right.get(key)}" for key in keys)
