"""The finding about the latency of one build against that of another, which was measured in other sessions. Pure.

A build is `slower` or `faster` if its ratio is told apart from 1, and has passed if it is shown to lie within the
margin. For a build that is compared alone, its interval shows that. A build of a set (`sweeps.ranking.peer_evidence`)
must show three things instead: that the set as a whole lies within the margin from session to session, that the build
does so against the others of the set from session to session, and that the build itself does so within the measured
sessions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sweeps.protocol.sessions import GAP_S
from sweeps.ranking.comparison_input import Result
from sweeps.ranking.peer_evidence import ONE_SIDED, Peer
from sweeps.ranking.session_ratio import (
    MOST_SESSIONS,
    Spread,
    one_session,
    ratio,
    sessions_needed,
    side_by_side,
    together,
)
from sweeps.ranking.ties import told_apart
from sweeps.stats import CONFIDENCE, NEGLIGIBLE, Estimate

LatencyFinding = Literal["slower", "unresolved", "faster", "the same", "not slower"]
SessionFinding = LatencyFinding | Literal["slower (one session)"]
OPEN: tuple[SessionFinding, ...] = ("unresolved", "slower (one session)")
"""The findings that need more measurements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The finding about two comparable results, with the question that it leaves open."""

    finding: SessionFinding
    still_open: str = ""
    """The question that the finding leaves open, and the next step; empty if there is none."""
    sessions_needed: int | None = None
    """The number of sessions of each side that would settle the question, if all stays as it is; `None` if nothing is
    open, or sessions do not settle it, or more than `MOST_SESSIONS` would be needed."""


def latency_finding(
    ratio: Estimate, margin_percent: float, proofs: Sequence[Sequence[Estimate]] = ()
) -> LatencyFinding:
    """Return the finding about a latency that is `ratio` times another one.

    `slower` and `faster`: resolved, and by at least 2 % (or the margin, if that is less). `the same`: the whole
    interval lies within the margin, as in an equivalence test (D. J. Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987).
    `not slower`: the upper end of the interval lies within the margin. All else is `unresolved`, including a ratio
    without an interval.

    `proofs`: groups of intervals to use instead of `ratio` to show that the latency lies within the margin. One group
    is enough, but all of its intervals must lie within it.
    """
    if ratio.low is None or ratio.high is None:
        return "unresolved"
    if direction := told_apart(ratio, least=min(NEGLIGIBLE, margin_percent / 100)):
        return direction
    most = 1.0 + margin_percent / 100
    shown = proofs or ((ratio,),)
    if not any(all(_below(interval, most) for interval in proof) for proof in shown):
        return "unresolved"
    is_same = any(all(_above(interval, 1.0 / most) for interval in proof) for proof in shown)
    return "the same" if is_same else "not slower"


def judge(b: Result, a: Result, spread: Spread, margin_percent: float, confidence: float = CONFIDENCE) -> Judged | None:
    """Return the judgement of the latency of `b` against that of `a`; `None` if a side has fewer than two blocks.

    `spread`: between sessions of the device. `confidence`: of the interval that tells the two apart; whether they lie
    within the margin is tested at 95 %.
    """
    b, a = side_by_side(b, a)
    strict, plain = ratio(b, a, spread, confidence), ratio(b, a, spread)
    within = ratio(b, a, None, confidence)
    if strict is None or plain is None or within is None:
        return None
    finding: SessionFinding = latency_finding(strict, margin_percent, [[plain]])
    if one_session(b, a):
        finding = _of_one_session(finding, within, margin_percent)
    if finding not in OPEN:
        return Judged(finding=finding)
    if together(b, a):
        return Judged(finding=finding, still_open=_more_rounds(plain))
    needed = _sessions_alone(b, a, spread, margin_percent, confidence)
    shown = strict if finding == "slower (one session)" else plain
    would = f"{needed} sessions of each would do" if needed else f"more than {MOST_SESSIONS} sessions of each needed"
    return Judged(
        finding=finding,
        still_open=_measure_again(
            f"{_interval(within)} within these sessions, {_interval(shown)} from session to session", would
        ),
        sessions_needed=needed,
    )


def judge_in_set(peer: Peer, margin_percent: float, confidence: float) -> Judged:
    """Return the judgement of one build of a set. `confidence`: as in `judge`, for each of all compared builds; the
    common part of the set is tested only once."""
    finding: SessionFinding = _finding_in_set(peer, margin_percent, confidence)
    within = peer.ratio_inside(confidence)
    if peer.one_session:
        finding = _of_one_session(finding, within, margin_percent)
    if finding not in OPEN:
        return Judged(finding=finding)
    if peer.in_one_run:
        return Judged(finding=finding, still_open=_more_rounds(peer.ratio_inside(CONFIDENCE)))
    counts = range(max(2, 1 + min(peer.sessions)), MOST_SESSIONS + 1)
    settled = (
        count for count in counts if _finding_in_set(peer.after(count), margin_percent, confidence) != "unresolved"
    )
    most = 1.0 + margin_percent / 100
    claims = [f"{words} {_interval(claim)}" for words, claim in _claims(peer) if not _below(claim, most)]
    if finding == "slower (one session)":
        claims = [f"{_interval(within)} within these sessions, {_interval(peer.ratio())} from session to session"]
    return Judged(finding=finding, still_open=_measure_again(", ".join(claims)), sessions_needed=next(settled, None))


def _finding_in_set(peer: Peer, margin_percent: float, confidence: float) -> LatencyFinding:
    # The common part of the set is tested once for all of its builds, so it gets the share of the error of all of them.
    shared = 1.0 - (1.0 - confidence) * peer.builds
    proofs = [[peer.ratio()], [claim for _, claim in _claims(peer)]]
    return latency_finding(peer.ratio(shared, confidence), margin_percent, proofs)


def _of_one_session(finding: SessionFinding, within: Estimate, margin_percent: float) -> SessionFinding:
    within_finding = latency_finding(within, margin_percent) if finding == "unresolved" else finding
    return "slower (one session)" if within_finding == "slower" else finding


def _claims(peer: Peer) -> list[tuple[str, Estimate]]:
    """Return the claims that together show that one build of a set is within the margin, each as text and interval."""
    return [
        (f"the set of {peer.builds} as a whole", peer.whole_ratio(ONE_SIDED)),
        ("against the others of the set", peer.own_ratio(ONE_SIDED)),
        ("within these sessions", peer.ratio_inside(CONFIDENCE)),
    ]


def _sessions_alone(b: Result, a: Result, spread: Spread, margin_percent: float, confidence: float) -> int | None:
    def apart(ratio: Estimate) -> bool:
        return latency_finding(ratio, margin_percent) in ("slower", "faster")

    def settled(ratio: Estimate) -> bool:
        return latency_finding(ratio, margin_percent) in ("the same", "not slower")

    counts = [sessions_needed(b, a, spread, confidence, apart), sessions_needed(b, a, spread, CONFIDENCE, settled)]
    return min((count for count in counts if count is not None), default=None)


def _more_rounds(interval: Estimate) -> str:
    return f"{_interval(interval)}; measure more rounds, or allow more with --margin"


def _measure_again(known: str, would: str = "") -> str:
    advice = f"measure both again at least {GAP_S // 60} minutes later{would and f' ({would})'}"
    return f"{known}; {advice}, or both in one run, or allow more with --margin"


def _below(interval: Estimate, most: float) -> bool:
    return interval.high is not None and interval.high <= most


def _above(interval: Estimate, least: float) -> bool:
    return interval.low is not None and interval.low >= least


def _interval(estimate: Estimate) -> str:
    return f"{estimate.low:.4g}× to {estimate.high:.4g}×"
