"""The ratio of two builds that were measured in different sessions. Pure.

On another day the same build has another speed, which no number of rounds on one day shows. So the logarithm of a block
median has an effect of its build, one of its session, and one of its process. The ratio of two builds has the variance

    within a side (as in B. L. Welch, Biometrika 34, 1947)  +  spread between sessions x (1 / sessions of A + 1 / of B)

and Student's t with the degrees of freedom of Welch and Satterthwaite. If both were measured in one run, the effect of
its session is the same for both and cancels. The spread between sessions is a property of the device. Before any
evidence it has a scaled inverse chi-square prior with 3 degrees of freedom at 2.5 %; builds and sentinels that the
device measured in several sessions add evidence (A. Gelman et al., Bayesian Data Analysis, 3rd ed. 2013, section 2.6).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeps.distributions import student_t_quantile
from sweeps.protocol.sessions import PRIOR_DEGREES, PRIOR_SPREAD
from sweeps.ranking.comparison_input import Result
from sweeps.stats import CONFIDENCE, Estimate

ENOUGH_FOR_ONE = 6
"""The number of sessions that a side needs if the other side has only one. On a device with two speeds, all its
sessions may have had one speed and that one session the other. For k sessions the chance of that is at most
(k / (k + 1))^k / (k + 1): 25 % for 1, 15 % for 2, 5.7 % for 6. With two sessions of each side it is 6.3 % (1/16)."""

MOST_SESSIONS = 20
"""At most this many sessions of a side are suggested."""

_BOUNDLESS = 600.0
"""The largest logarithm of a ratio or of an interval's end: a float cannot hold larger ratios. Two rounds, with the
confidence for a thousand pairs, give such wide intervals; and other programs that write into the store may leave
medians with such ratios."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread between sessions of a device: the variance of logarithms, and the degrees of freedom behind it."""

    variance: float
    degrees: float

    @property
    def percent(self) -> float:
        return 100 * math.sqrt(self.variance)


PRIOR = Spread(PRIOR_SPREAD**2, PRIOR_DEGREES)


@dataclass(frozen=True, slots=True)
class Series:
    """The block medians of one build, or of a sentinel, on one device, each with the start of its session."""

    medians_ms: tuple[float, ...]
    sessions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Side:
    mean: float
    variance: float
    """The variance of the mean, from the spread within sessions only."""
    degrees: float
    sessions: int


def session_spread(builds: Iterable[Series], sentinels: Iterable[Series] = ()) -> Spread:
    """Return the spread between sessions of one device: the prior, and the evidence of these series. Unknown sessions
    (0) are ignored.

    A session affects all builds alike, so 24 builds in two sessions are hardly more evidence than one: the degrees of
    freedom are those of the sessions. Builds and the sentinel saw the same sessions, so their evidence is not added:
    the larger spread counts.
    """
    variance, degrees = max(_evidence(builds), _evidence(sentinels))
    total = PRIOR.degrees + degrees
    return Spread((PRIOR.degrees * PRIOR.variance + degrees * variance) / total, total)


def side_by_side(b: Result, a: Result) -> tuple[Result, Result]:
    """Return both results, with only the blocks of the runs in which both were measured, if each side has two or more
    such blocks; otherwise with all blocks."""
    common = runs_of(a) & runs_of(b)
    if a.device_id != b.device_id or not common:
        return b, a
    pair = b.only(common), a.only(common)
    return pair if all(len(result.medians_ms) > 1 for result in pair) else (b, a)


def sessions(result: Result) -> int:
    """Return the number of sessions of the result's blocks."""
    return len({origin.session for origin in result.of_blocks})


def one_session(b: Result, a: Result) -> bool:
    """Tell whether one side has a single session, and the other side too few to show the effect of sessions."""
    return one_against_few(sessions(b), sessions(a)) and not together(b, a)


def one_against_few(*counts: int) -> bool:
    """Tell whether one of two numbers of sessions is 1, and the other less than `ENOUGH_FOR_ONE`."""
    return min(counts) == 1 and max(counts) < ENOUGH_FOR_ONE


def runs_of(result: Result) -> set[str]:
    """Return the known runs of the result's blocks."""
    return {origin.run for origin in result.origins} - {""}


def together(b: Result, a: Result) -> bool:
    """Tell whether both results were measured in the same runs, so that a session changes both alike."""
    return _apart(b, a) < 1e-9


def ratio(b: Result, a: Result, spread: Spread | None, confidence: float = CONFIDENCE) -> Estimate | None:
    """Return the latency of `b` as a multiple of `a`'s, from their mean logarithms; `None` if a side has only one
    block.

    `spread`: of the device between sessions; `None`: no spread between sessions, as in Welch's test. Raises
    `ValueError` for a median that is not a positive number.
    """
    if len(a.medians_ms) < 2 or len(b.medians_ms) < 2:
        return None
    side_b, side_a = _side(b), _side(a)
    within = [(side_b.variance, side_b.degrees), (side_a.variance, side_a.degrees)]
    between = (0.0, 1.0) if spread is None else (spread.variance * _apart(b, a), spread.degrees)
    return estimate_of(side_b.mean - side_a.mean, _half(within, between, confidence))


def mean_ms(result: Result) -> float | None:
    """Return the geometric mean of the result's blocks, each session with the same weight: `ratio` is the quotient of
    two such means. `None` if the result has only one block. Raises `ValueError` as `ratio` does."""
    return math.exp(_side(result).mean) if len(result.medians_ms) >= 2 else None


def sessions_needed(
    b: Result, a: Result, spread: Spread, confidence: float, settled: Callable[[Estimate], bool]
) -> int | None:
    """Return how many sessions of each side would settle the finding, if all stays as it is; a rough estimate. `None`:
    more than `MOST_SESSIONS`. Each side has two blocks or more."""
    side_b, side_a = _side(b), _side(a)
    for count in range(max(2, 1 + min(side_b.sessions, side_a.sessions)), MOST_SESSIONS + 1):
        within, added = [], 0
        for side in (side_b, side_a):
            more = max(count, side.sessions) / side.sessions
            within.append((side.variance / more, side.degrees * more))
            added += max(count - side.sessions, 0)
        factor = sum(1 / max(count, side.sessions) for side in (side_b, side_a))
        half = _half(within, (spread.variance * factor, spread.degrees + added), confidence)
        if settled(estimate_of(side_b.mean - side_a.mean, half)):
            return count
    return None


def by_session(result: Result) -> list[NDArray[np.float64]]:
    """Return the logarithms of the result's block medians (ms), one array for each session, the earliest first. Raises
    `ValueError` for a median that is not a positive number."""
    if not all(0.0 < ms < math.inf for ms in result.medians_ms):
        raise ValueError(f"block medians must be positive numbers: {list(result.medians_ms)}")
    starts = [origin.session for origin in result.of_blocks]
    groups = dict(zip(dict.fromkeys(starts), _groups(np.log(result.medians_ms), starts), strict=True))
    return [groups[start] for start in sorted(groups)]


def _side(result: Result) -> _Side:
    """Return the mean of one side: each session has the same weight, however many blocks it has."""
    groups = by_session(result)
    logs = np.concatenate(groups)
    count, blocks = len(groups), logs.size
    mean = float(np.mean([group.mean() for group in groups]))
    if blocks < 2 * count:
        # There are too few blocks to estimate a spread within sessions. The spread of all blocks then contains the
        # spread between sessions once more.
        return _Side(mean, float(logs.var(ddof=1)) / blocks, blocks - 1, count)
    within = _within(groups)
    return _Side(mean, within * sum(1 / group.size for group in groups) / count**2, blocks - count, count)


def _apart(b: Result, a: Result) -> float:
    """Return the factor of the spread between sessions in the variance of the ratio: 1 / sessions of each side, without
    the part of runs that both sides share. Different runs of one session do not cancel: the device may have drifted
    between them."""
    (weights_b, sessions_b), (weights_a, sessions_a) = _weights(b), _weights(a)
    common: dict[str, float] = {}
    if a.device_id == b.device_id:
        common = {run: min(weights_a[run], weights_b[run]) for run in weights_a.keys() & weights_b.keys() if run}
    total = 0.0
    for weights, session_of in ((weights_b, sessions_b), (weights_a, sessions_a)):
        rest: dict[int, float] = defaultdict(float)
        for run, weight in weights.items():
            rest[session_of[run]] += weight - common.get(run, 0.0)
        total += sum(weight**2 for weight in rest.values())
    return total


def _weights(result: Result) -> tuple[dict[str, float], dict[str, int]]:
    """Return the weight of each run in the mean of a side, and the session of each run."""
    origins = result.of_blocks
    count = len({origin.session for origin in origins})
    weights: dict[str, float] = defaultdict(float)
    for origin in origins:
        blocks = sum(other.session == origin.session for other in origins)
        weights[origin.run] += 1 / (blocks * count)
    return dict(weights), {origin.run: origin.session for origin in origins}


def _evidence(series: Iterable[Series]) -> tuple[float, int]:
    """Return the variance between sessions, without the part that processes add to it, and its degrees of freedom."""
    variances: dict[frozenset[int], list[float]] = defaultdict(list)
    for build in series:
        known = [(ms, session) for ms, session in zip(build.medians_ms, build.sessions, strict=True) if session]
        groups = _groups(np.log([ms for ms, _ in known]), [session for _, session in known])
        if len(groups) > 1:
            between = float(np.var([group.mean() for group in groups], ddof=1))
            noise = _within(groups) * sum(1 / group.size for group in groups) / len(groups)
            variances[frozenset(session for _, session in known)].append(between - noise)
    if not variances:
        return 0.0, 0
    weights = [len(session_set) - 1 for session_set in variances]
    variance = float(np.average([np.mean(of_set) for of_set in variances.values()], weights=weights))
    return max(0.0, variance), _degrees(variances)


def _degrees(session_sets: Iterable[frozenset[int]]) -> int:
    """Return how many independent differences of sessions these sets contain."""
    joined: list[frozenset[int]] = []
    for session_set in session_sets:
        touching = [other for other in joined if session_set & other]
        joined = [other for other in joined if not session_set & other]
        joined.append(session_set.union(*touching))
    return sum(len(session_set) - 1 for session_set in joined)


def _within(groups: Sequence[NDArray[np.float64]]) -> float:
    """Return the pooled variance within groups; 0 if no group has two values."""
    degrees = sum(group.size - 1 for group in groups)
    return sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / degrees if degrees else 0.0


def _groups(logs: NDArray[np.float64], sessions: Sequence[int]) -> list[NDArray[np.float64]]:
    labels = np.asarray(sessions)
    return [logs[labels == session] for session in dict.fromkeys(sessions)]


def estimate_of(centre: float, half: float) -> Estimate:
    """Return a ratio, from its logarithm and half the width of the logarithm's interval."""
    return Estimate(_ratio(centre), _ratio(centre - half), _ratio(centre + half))


def _half(within: Sequence[tuple[float, float]], between: tuple[float, float], confidence: float) -> float:
    """Return half the width of the interval of logarithms; all parts are variances with their degrees of freedom.

    The interval is never narrower than from `within` alone: otherwise a `between` part with more degrees of freedom
    than those of two rounds would seem to make the whole more certain.
    """
    return max(students_half(within, confidence), students_half([*within, between], confidence))


def students_half(parts: Sequence[tuple[float, float]], confidence: float) -> float:
    """Return half the width of Student's interval for a sum of independent estimates, each with the variance and the
    degrees of freedom of one of `parts` (Welch and Satterthwaite)."""
    variance = sum(part for part, _ in parts)
    if variance == 0.0:
        return 0.0
    degrees = variance**2 / sum(part**2 / freedom for part, freedom in parts)
    return student_t_quantile(degrees, 0.5 + confidence / 2) * math.sqrt(variance)


def _ratio(logarithm: float) -> float:
    return math.exp(max(-_BOUNDLESS, min(logarithm, _BOUNDLESS)))
