"""The comparison of the results of one sweep (or exported manifest) with those of another: which are slower? Pure.

`sweeps.ranking.session_ratio` computes the ratio of two latencies, with an interval that allows for differences between
sessions. If a side has only one session, the changes of the device from day to day are only assumed. So a build that
was slower in that session is `slower (one session)`: it does not pass, but is not reported as slower. The finding about
one ratio comes from `sweeps.ranking.latency_findings`.

A result that was not found slower has not passed: if its blocks are not enough to decide, it is `unresolved`, not
`the same`. Builds that were measured in the same sessions are judged as a set (`sweeps.ranking.peer_evidence`).

Only results measured under the same conditions are compared. For other results the conditions that differ are listed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sweeps.label_kinds import disqualified
from sweeps.ranking.comparison_input import Result, differing
from sweeps.ranking.latency_findings import OPEN, Judged, SessionFinding, judge, judge_in_set
from sweeps.ranking.pairing import pairs_of
from sweeps.ranking.peer_evidence import ONE_SIDED, Peer, peers
from sweeps.ranking.session_ratio import (
    Series,
    Spread,
    mean_ms,
    ratio,
    session_spread,
    sessions,
    side_by_side,
    together,
)
from sweeps.stats import CONFIDENCE, Estimate, median

EXIT_SLOWER = 3
EXIT_NOT_COMPARED = 4
EXIT_UNRESOLVED = 5

Finding = SessionFinding | Literal["not comparable"]
FINDINGS: tuple[Finding, ...] = (
    "slower",
    "slower (one session)",
    "unresolved",
    "faster",
    "the same",
    "not slower",
    "not comparable",
)
"""All findings, in the order of tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The comparison of one variant on one device, B against A."""

    name: str
    """The variant's name in B."""
    device: str
    finding: Finding
    a_p50_ms: float | None
    b_p50_ms: float | None
    a_mean_ms: float | None
    """The geometric mean of A's blocks, each session with the same weight; `None` with fewer than 2 blocks."""
    b_mean_ms: float | None
    ratio: float | None
    """The latency of B as a multiple of A's: `b_mean_ms` divided by `a_mean_ms`, with its 95 % interval, if both have 2
    blocks or more, even if the two are not comparable."""
    ratio_low: float | None
    ratio_high: float | None
    a_sessions: int
    """The number of sessions of A's blocks."""
    b_sessions: int
    session_spread_percent: float | None
    """The standard deviation between sessions that the interval contains; `None` if both were measured in the same
    runs."""
    why: str
    """The reason why the two are not comparable, or the question that the finding leaves open; else empty."""
    set_of: int
    """The number of builds in the variant's set (`sweeps.ranking.peer_evidence`); 1: the variant was judged alone."""
    sessions_needed: int | None
    """The number of further sessions that would settle the finding, as `Judged.sessions_needed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The common change of a set of builds: the median of its ratios, B's latency as a multiple of A's."""

    device: str
    builds: int
    ratio: float
    ratio_low: float
    """The interval from session to session: each end is a one-sided bound at 5 %, on which the finding `the same`
    rests."""
    ratio_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    a: str
    b: str
    results: tuple[Compared, ...]
    only_a: tuple[str, ...]
    """The names of the results of A that are not in B."""
    only_b: tuple[str, ...]
    margin_percent: float
    """The margin with which `sweeps.ranking.latency_findings.latency_finding` decided."""
    in_batches: tuple[str, ...] = ()
    """The names of results of either side that have a ratio from batches but no latency: they are not compared."""
    wholes: tuple[Whole, ...] = ()
    """The common change of each set of builds."""

    @property
    def open_results(self) -> tuple[Compared, ...]:
        """The results whose finding more measurements may settle."""
        return tuple(result for result in self.results if result.finding in OPEN)

    @property
    def sessions_needed(self) -> int | None:
        """The number of sessions of each side that would settle all open results; `None` if it is `None` for any of
        them."""
        counts = [result.sessions_needed for result in self.open_results]
        return None if None in counts else max((count for count in counts if count is not None), default=None)

    @property
    def exit_code(self) -> int:
        """The exit code: 0 if every result of A was compared and is the same, faster or not slower. Otherwise the first
        of `EXIT_SLOWER`, `EXIT_NOT_COMPARED` and `EXIT_UNRESOLVED` that applies to any result."""
        findings = {result.finding for result in self.results}
        if "slower" in findings:
            return EXIT_SLOWER
        if self.only_a or "not comparable" in findings or not findings:
            return EXIT_NOT_COMPARED
        return EXIT_UNRESOLVED if self.open_results else 0

    def document(self) -> dict[str, Any]:
        """Return the document of `edgesweep compare --json`."""
        return {**asdict(self), "exit_code": self.exit_code, "sessions_needed": self.sessions_needed}


def compare(
    a: tuple[str, Sequence[Result]],
    b: tuple[str, Sequence[Result]],
    margin_percent: float,
    *,
    named: bool = False,
    sentinels: Mapping[str, Sequence[Series]] | None = None,
    in_batches: Sequence[str] = (),
) -> Comparison:
    """Compare the results of `a` and `b`, each with its name for people. `margin_percent`: as
    `Comparison.margin_percent`. `sentinels`: the blocks of the sentinels of each device, by its id, as evidence of its
    spread between sessions. `in_batches`: as `Comparison.in_batches`.

    `named`: the caller chose one result of each side (on one device or more). The two are then compared even if their
    variants differ. Otherwise each variant is compared with itself.

    Results without a partner (`sweeps.ranking.pairing`) are in `only_a` or `only_b`.
    """
    pairs = pairs_of(a[1], b[1], named=named)
    # Bonferroni's correction is needed: at 95 % each, one of many unchanged variants would seem to have changed in most
    # comparisons. To pass, all must be shown to be within the margin, which needs no such correction (R. L. Berger,
    # Technometrics 24, 1982).
    confidence = 1.0 - (1.0 - CONFIDENCE) / max(1, len(pairs))
    results: list[Compared] = []
    wholes: dict[Whole, None] = {}
    for devices, group in _by_device(pairs).items():
        spread = spread_of(devices, (*a[1], *b[1]), sentinels or {})
        whys = [_not_comparable(*pair) for pair in group]
        counted = [_counted(*pair) for pair, why in zip(group, whys, strict=True) if not why]
        in_sets = iter(peers(counted, spread))
        for pair, why in zip(group, whys, strict=True):
            peer = None if why else next(in_sets)
            results.append(_compared(*pair, why, margin_percent, confidence, spread, peer))
            if peer is not None:
                wholes[_whole(pair[1].device, peer)] = None
    results.sort(key=lambda compared: (FINDINGS.index(compared.finding), compared.device, compared.name))
    return Comparison(
        a=a[0],
        b=b[0],
        results=tuple(results),
        only_a=_left_over(a[1], [pair[0] for pair in pairs]),
        only_b=_left_over(b[1], [pair[1] for pair in pairs]),
        margin_percent=margin_percent,
        wholes=tuple(wholes),
        in_batches=tuple(dict.fromkeys(in_batches)),
    )


def spread_of(devices: Iterable[str], results: Iterable[Result], sentinels: Mapping[str, Sequence[Series]]) -> Spread:
    """Return the spread between sessions of these devices, by their ids. `results` of other devices are not used."""
    device_ids = set(devices)
    builds = [
        Series(result.medians_ms, tuple(origin.session for origin in result.of_blocks))
        for result in results
        if result.device_id in device_ids
    ]
    return session_spread(builds, [series for device in device_ids for series in sentinels.get(device, ())])


def _counted(a: Result, b: Result) -> tuple[Result, Result]:
    """Return both results, each with only the blocks that are compared."""
    counted_b, counted_a = side_by_side(b, a)
    return counted_a, counted_b


def _not_comparable(a: Result, b: Result) -> list[str]:
    """Return the reasons why the two are not compared; empty if they are."""
    why = differing(a, b)
    for name, side in (("A", a), ("B", b)):
        if len(side.medians_ms) < 2:
            why.append(f"{name} has {'one timed block' if side.medians_ms else 'no timed blocks'}, 2 are needed")
        if distrusted := disqualified(side.trust):
            why.append(f"{name} is {', '.join(distrusted)}")
    return why


def _compared(
    a: Result, b: Result, why: list[str], margin_percent: float, confidence: float, spread: Spread, peer: Peer | None
) -> Compared:
    counted_a, counted_b = _counted(a, b)
    estimate: Estimate | None
    judged: Judged | None
    if peer is not None:
        estimate, judged = peer.ratio(), judge_in_set(peer, margin_percent, confidence)
    else:
        estimate = ratio(counted_b, counted_a, spread)
        judged = None if why else judge(b, a, spread, margin_percent, confidence)
    return Compared(
        name=b.name,
        device=b.device,
        finding="not comparable" if judged is None else judged.finding,
        a_p50_ms=median(counted_a.medians_ms) if a.medians_ms else None,
        b_p50_ms=median(counted_b.medians_ms) if b.medians_ms else None,
        a_mean_ms=mean_ms(counted_a),
        b_mean_ms=mean_ms(counted_b),
        ratio=None if estimate is None else estimate.value,
        ratio_low=None if estimate is None else estimate.low,
        ratio_high=None if estimate is None else estimate.high,
        a_sessions=sessions(counted_a),
        b_sessions=sessions(counted_b),
        session_spread_percent=None if together(counted_b, counted_a) else spread.percent,
        why="; ".join(why) if judged is None else judged.still_open,
        set_of=1 if peer is None else peer.builds,
        sessions_needed=None if judged is None else judged.sessions_needed,
    )


def _whole(device: str, peer: Peer) -> Whole:
    whole = peer.whole_ratio(ONE_SIDED)
    assert whole.low is not None
    assert whole.high is not None
    return Whole(device=device, builds=peer.builds, ratio=whole.value, ratio_low=whole.low, ratio_high=whole.high)


def _by_device(pairs: Iterable[tuple[Result, Result]]) -> dict[tuple[str, str], list[tuple[Result, Result]]]:
    by_device: dict[tuple[str, str], list[tuple[Result, Result]]] = defaultdict(list)
    for a, b in pairs:
        by_device[a.device_id, b.device_id].append((a, b))
    return by_device


def _left_over(results: Iterable[Result], compared: Iterable[Result]) -> tuple[str, ...]:
    places = {id(result) for result in compared}
    return tuple(result.name for result in results if id(result) not in places)
