"""Are the results of one sweep (or exported manifest) slower than those of another? Pure.

The ratio of two latencies, and what their sessions add to its interval: `sweeps.ranking.sessions`. With one session of
a side, what the device does from day to day is only assumed. So a build that was slower in it is `slower (one
session)`: it does not pass, and is not called slower.

A result that was not found slower has not passed: if the blocks leave it open, it is `unresolved`, not `the same`.

Only results measured under the same conditions are compared. Conditions that differ are named.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sweeps.protocol.sessions import GAP_S
from sweeps.ranking.comparable import Result, differing
from sweeps.ranking.sessions import (
    MOST_SESSIONS,
    Series,
    Spread,
    mean_ms,
    one_session,
    ratio,
    session_spread,
    sessions,
    sessions_needed,
    side_by_side,
    together,
)
from sweeps.ranking.ties import told_apart
from sweeps.stats import CONFIDENCE, NEGLIGIBLE, Estimate, median
from sweeps.trust import disqualified

EXIT_SLOWER = 3
EXIT_NOT_COMPARED = 4
EXIT_UNRESOLVED = 5

LatencyFinding = Literal["slower", "unresolved", "faster", "the same"]
SessionFinding = LatencyFinding | Literal["slower (one session)"]
Finding = SessionFinding | Literal["not comparable"]
FINDINGS: tuple[Finding, ...] = (
    "slower",
    "slower (one session)",
    "unresolved",
    "faster",
    "the same",
    "not comparable",
)
"""In the order of tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What two comparable results say of each other."""

    finding: SessionFinding
    strict: Estimate
    """The ratio with the interval that the finding is from."""
    still_open: str
    """What the finding leaves open, and the next step; empty if nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One variant on one device, B against A."""

    name: str
    """As B has it."""
    device: str
    finding: Finding
    a_p50_ms: float | None
    b_p50_ms: float | None
    a_mean_ms: float | None
    """The geometric mean of A's blocks, each session counting the same; `None` with fewer than 2 blocks."""
    b_mean_ms: float | None
    ratio: float | None
    """Latency of B as a multiple of A's: `b_mean_ms` divided by `a_mean_ms`, with its 95 % interval, where both have 2
    blocks or more, also where the two are not comparable."""
    ratio_low: float | None
    ratio_high: float | None
    a_sessions: int
    """The number of sessions that A's blocks are from."""
    b_sessions: int
    session_spread_percent: float | None
    """Standard deviation between sessions that the interval contains; `None`: both were measured in the same runs."""
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
    in_batches: tuple[str, ...] = ()
    """Names of results of either side that have a ratio from batches and no time: they are not compared."""

    @property
    def exit_code(self) -> int:
        """0: every result of A was compared and is the same or faster. Otherwise the first of `EXIT_SLOWER`,
        `EXIT_NOT_COMPARED` and `EXIT_UNRESOLVED` that applies to any result."""
        findings = {result.finding for result in self.results}
        if "slower" in findings:
            return EXIT_SLOWER
        if self.only_a or "not comparable" in findings or not findings:
            return EXIT_NOT_COMPARED
        return EXIT_UNRESOLVED if findings & {"unresolved", "slower (one session)"} else 0

    def document(self) -> dict[str, Any]:
        """`edgesweep compare --json`."""
        return {**asdict(self), "exit_code": self.exit_code}


def compare(
    a: tuple[str, Sequence[Result]],
    b: tuple[str, Sequence[Result]],
    margin_percent: float,
    *,
    named: bool = False,
    sentinels: Mapping[str, Sequence[Series]] | None = None,
    in_batches: Sequence[str] = (),
) -> Comparison:
    """`a` and `b` with their names for people. `margin_percent`: as in `latency_finding`. `sentinels`: the blocks of
    the sentinels of each device, by its id, as evidence of its spread between sessions. `in_batches`: as of a
    `Comparison`.

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
    spreads = {
        devices: spread_of(devices, (*a[1], *b[1]), sentinels or {})
        for devices in {frozenset((one.device_id, other.device_id)) for one, other in pairs}
    }
    results = [
        _compared(one, other, margin_percent, confidence, spreads[frozenset((one.device_id, other.device_id))])
        for one, other in pairs
    ]
    results.sort(key=lambda one: (FINDINGS.index(one.finding), one.device, one.name))
    return Comparison(
        a=a[0],
        b=b[0],
        results=tuple(results),
        only_a=tuple(one.name for one in a[1] if id(one) not in met_a),
        only_b=tuple(other.name for other in b[1] if id(other) not in met_b),
        margin_percent=margin_percent,
        in_batches=tuple(dict.fromkeys(in_batches)),
    )


def spread_of(devices: Iterable[str], results: Iterable[Result], sentinels: Mapping[str, Sequence[Series]]) -> Spread:
    """The spread between sessions of these devices, by their ids. `results` of other devices are not used."""
    wanted = set(devices)
    builds = [
        Series(one.medians_ms, tuple(origin.session for origin in one.of_blocks))
        for one in results
        if one.device_id in wanted
    ]
    return session_spread(builds, [series for device in wanted for series in sentinels.get(device, ())])


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


def judge(b: Result, a: Result, spread: Spread, margin_percent: float, confidence: float = CONFIDENCE) -> Judged | None:
    """What is known of the latency of `b` against that of `a`; `None` if a side has fewer than two blocks.

    `spread`: between sessions of the device. `confidence`: of the interval that decides.
    """
    b, a = side_by_side(b, a)
    strict = ratio(b, a, spread, confidence)
    within = ratio(b, a, None, confidence)
    if strict is None or within is None:
        return None
    finding: SessionFinding = latency_finding(strict, margin_percent)
    beside = together(b, a)
    if one_session(b, a):
        seen = latency_finding(within, margin_percent) if finding == "unresolved" else finding
        finding = "slower (one session)" if seen == "slower" else finding
    still_open = ""
    if beside and finding == "unresolved":
        still_open = f"{_interval(strict)}; measure more rounds, or allow more with --margin"
    elif finding in ("unresolved", "slower (one session)"):
        needed = sessions_needed(
            b, a, spread, confidence, lambda found: latency_finding(found, margin_percent) != "unresolved"
        )
        would = (
            f"{needed} sessions of each would do" if needed else f"more than {MOST_SESSIONS} sessions of each needed"
        )
        still_open = (
            f"{_interval(within)} within these sessions, {_interval(strict)} from session to session; measure both "
            f"again at least {GAP_S // 60} minutes later ({would}), or both in one run, or allow more with --margin"
        )
    return Judged(finding=finding, strict=strict, still_open=still_open)


def _compared(a: Result, b: Result, margin_percent: float, confidence: float, spread: Spread) -> Compared:
    why = differing(a, b)
    for name, side in (("A", a), ("B", b)):
        if len(side.medians_ms) < 2:
            why.append(f"{name} has {'one timed block' if side.medians_ms else 'no timed blocks'}, 2 are needed")
        if distrusted := disqualified(side.trust):
            why.append(f"{name} is {', '.join(distrusted)}")
    counted_b, counted_a = side_by_side(b, a)
    found = ratio(counted_b, counted_a, spread)
    finding: Finding = "not comparable"
    if not why and (judged := judge(b, a, spread, margin_percent, confidence)) is not None:
        finding = judged.finding
        why += [judged.still_open] if judged.still_open else []
    return Compared(
        name=b.name,
        device=b.device,
        finding=finding,
        a_p50_ms=median(counted_a.medians_ms) if a.medians_ms else None,
        b_p50_ms=median(counted_b.medians_ms) if b.medians_ms else None,
        a_mean_ms=mean_ms(counted_a),
        b_mean_ms=mean_ms(counted_b),
        ratio=None if found is None else found.value,
        ratio_low=None if found is None else found.low,
        ratio_high=None if found is None else found.high,
        a_sessions=sessions(counted_a),
        b_sessions=sessions(counted_b),
        session_spread_percent=None if together(counted_b, counted_a) else spread.percent,
        why="; ".join(why),
    )


def _interval(found: Estimate) -> str:
    return f"{found.low:.4g}× to {found.high:.4g}×"


def _likeness(pair: tuple[Result, Result]) -> tuple[bool, bool, bool]:
    """Larger is more similar: the same unit, then a unit of the same fingerprint, then the same device class."""
    a, b = pair
    return a.device_id == b.device_id, a.fingerprint == b.fingerprint, a.device == b.device
