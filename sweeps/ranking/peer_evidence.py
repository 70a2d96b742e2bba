"""The evidence that builds measured in the same sessions give about each other. Pure.

A session has the same effect on all builds of a device. So the logarithm of a ratio has a part that the whole set
shares, which is as uncertain as the device's sessions are few, and a part of the single build, which is much more
certain: its sessions are replicates, and all builds together show how much replicates differ. The spreads of the builds
are moderated (`sweeps.ranking.moderated_intervals`).

The shared part is the median of the builds, so that a few builds that changed do not move it. Its variance has two
estimates, and the wider interval counts: the spread of the device with its prior (`sweeps.ranking.session_ratio`), and
the spread of the shared part in these sessions alone, which gives Student's t whatever the prior is. Each part has its
own quantile, and the halves of their intervals are added in quadrature (G. Y. Zou, A. Donner, Statistics in Medicine
27, 2008). A bound for all of n builds needs n times the confidence for their separate parts, but not for the part that
they share.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sweeps.ranking.comparison_input import Result
from sweeps.ranking.moderated_intervals import FEWEST_VARIANTS, moderated_variances
from sweeps.ranking.session_ratio import (
    Spread,
    by_session,
    estimate_of,
    one_against_few,
    runs_of,
    students_half,
    together,
)
from sweeps.stats import CONFIDENCE, Estimate

ONE_SIDED = 1.0 - 2.0 * (1.0 - CONFIDENCE)
"""The confidence of an interval of which each end is a one-sided bound at 5 %."""

_MEDIAN = math.pi / 2.0
"""The variance of a median of normal values, as a multiple of the variance of their mean; for few values it is less."""

_NOTHING = Spread(0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The ratio of one build of a set. Ratios are logarithms, B's latency against A's; variances are those of one
    session."""

    total: float
    whole: float
    """The ratio of the whole set: the median of its builds."""
    own: float
    """The ratio `total` less the median of the other builds."""
    builds: int
    """The number of builds in the set."""
    sessions: tuple[int, int]
    """The numbers of sessions of A and of B."""
    in_one_run: bool
    """Whether both sides were measured in the same runs: a session then changes A and B alike, so it adds no
    variance."""
    device: Spread
    """The spread between sessions of the device, as of `sweeps.ranking.session_ratio.session_spread`."""
    shared: Spread
    """The spread of the set's shared part between these sessions."""
    alone: Spread
    """The spread of this build against the others between sessions, including the noise of its processes."""
    inside: Spread
    """The spread that processes add to the mean of one session."""
    place: Spread
    """The spread that the builds' separate parts add to `whole`."""

    def ratio(self, shared: float = CONFIDENCE, own: float = CONFIDENCE) -> Estimate:
        """Return the build's ratio from session to session. `shared`, `own`: the confidences for the two parts."""
        half = math.hypot(self._shared_half(shared), students_half([self._of_mean(self.alone)], own))
        return estimate_of(self.total, half)

    def whole_ratio(self, confidence: float) -> Estimate:
        """Return the ratio of the whole set, from session to session."""
        return estimate_of(self.whole, self._shared_half(confidence, self.place))

    def own_ratio(self, confidence: float) -> Estimate:
        """Return the ratio against the others of the set, from session to session."""
        own_spread = Spread(self.alone.variance * (1.0 + _MEDIAN / (self.builds - 1)), self.alone.degrees)
        return estimate_of(self.own, students_half([self._of_mean(own_spread)], confidence))

    def ratio_inside(self, confidence: float) -> Estimate:
        """Return the ratio of the build within the sessions that were measured."""
        return estimate_of(self.total, students_half([self._of_mean(self.inside)], confidence))

    def after(self, count: int) -> "Peer":
        """Return the peer as it would be if each side had at least `count` sessions, and all else stayed as it is."""
        sessions = max(count, self.sessions[0]), max(count, self.sessions[1])
        added = sum(sessions) - sum(self.sessions)
        more = sum(sessions) / sum(self.sessions)
        return replace(
            self,
            sessions=sessions,
            device=replace(self.device, degrees=self.device.degrees + added),
            shared=replace(self.shared, degrees=self.shared.degrees + added),
            alone=replace(self.alone, degrees=self.alone.degrees * more),
            place=replace(self.place, degrees=self.place.degrees * more),
            inside=replace(self.inside, degrees=self.inside.degrees * more),
        )

    @property
    def one_session(self) -> bool:
        """Tell whether one session is compared with few, as `sweeps.ranking.session_ratio.one_session`."""
        return one_against_few(*self.sessions) and not self.in_one_run

    @property
    def _factor(self) -> float:
        """The factor from the variance of one session to that of the difference between two sides."""
        return 1.0 / self.sessions[0] + 1.0 / self.sessions[1]

    def _of_mean(self, spread: Spread) -> tuple[float, float]:
        return spread.variance * self._factor, spread.degrees

    def _shared_half(self, confidence: float, place: Spread = _NOTHING) -> float:
        parts = [self._of_mean(place)]
        return max(students_half([self._of_mean(spread), *parts], confidence) for spread in (self.device, self.shared))


def peers(pairs: Sequence[tuple[Result, Result]], device: Spread) -> list[Peer | None]:
    """Return for each pair (A, B) of one device the build as a peer in its set; `None` if the pair has no set, and is
    judged alone.

    A set has `FEWEST_VARIANTS` pairs or more with the same sessions of A and of B. Either these are at least three
    sessions together, or A and B were measured in the same runs. Each result has two blocks or more. `device`: its
    spread between sessions. Raises `ValueError` for a median that is not a positive number.
    """
    sets: dict[tuple[bool, tuple[int, ...], tuple[int, ...]], list[int]] = defaultdict(list)
    for number, (a, b) in enumerate(pairs):
        in_one_run = together(b, a)
        if in_one_run or not runs_of(a) & runs_of(b):
            sets[in_one_run, _sessions(a), _sessions(b)].append(number)
    members_of: list[Peer | None] = [None] * len(pairs)
    for (in_one_run, *sessions), numbers in sets.items():
        if len(numbers) < FEWEST_VARIANTS or not (in_one_run or sum(map(len, sessions)) > 2):
            continue
        members = _members([pairs[number] for number in numbers], device, in_one_run=in_one_run)
        for number, member in zip(numbers, members, strict=False):
            members_of[number] = member
    return members_of


def _members(pairs: Sequence[tuple[Result, Result]], device: Spread, *, in_one_run: bool) -> list[Peer]:
    """Return the peers of one set; none if no measurement was repeated."""
    sides = [[by_session(pair[side]) for pair in pairs] for side in (0, 1)]
    means = [np.array([[blocks.mean() for blocks in build] for build in side]) for side in sides]
    counts = means[0].shape[1], means[1].shape[1]
    processes = [_inside(a, b) for a, b in zip(*sides, strict=True)]
    repeated = all(spread.degrees for spread in processes)
    inside = _moderated(processes) if repeated else []
    if in_one_run and not repeated:
        return []
    if in_one_run:
        device = shared = _NOTHING
        alone = inside
    else:
        shared, alone = _between(means)
        inside = inside or alone
    totals = means[1].mean(axis=1) - means[0].mean(axis=1)
    place = Spread(
        _MEDIAN * float(np.mean([spread.variance for spread in alone])) / len(pairs),
        max(spread.degrees for spread in alone),
    )
    whole, medians = float(np.median(totals)), _medians_of_others(totals)
    return [
        Peer(
            total=float(total),
            whole=whole,
            own=float(total - medians[number]),
            builds=len(pairs),
            sessions=counts,
            in_one_run=in_one_run,
            device=device,
            shared=shared,
            alone=alone[number],
            inside=inside[number],
            place=place,
        )
        for number, total in enumerate(totals)
    ]


def _medians_of_others(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each of two values or more, the median of all others."""
    ranks = np.argsort(np.argsort(values))
    ordered, count = np.sort(values), values.size - 1
    middle = [ordered[place + (ranks <= place)] for place in ((count - 1) // 2, count // 2)]
    return np.asarray((middle[0] + middle[1]) / 2.0)


def _between(means: Sequence[NDArray[np.float64]]) -> tuple[Spread, list[Spread]]:
    """Return the spreads between sessions: of the part that the builds share, and of each build alone. `means`: an
    array (builds, sessions) for each side."""
    centred = [side - side.mean(axis=1, keepdims=True) for side in means]
    shared = [side.mean(axis=0) for side in centred]
    degrees = sum(side.shape[1] - 1 for side in means)
    variance_shared = sum(float((side**2).sum()) for side in shared) / degrees
    rest = sum(((side - common) ** 2).sum(axis=1) for side, common in zip(centred, shared, strict=True))
    builds = means[0].shape[0]
    variances = np.asarray(rest) / (degrees * (1.0 - 1.0 / builds))
    return Spread(variance_shared, degrees), _moderated([Spread(float(variance), degrees) for variance in variances])


def _inside(a: Sequence[NDArray[np.float64]], b: Sequence[NDArray[np.float64]]) -> Spread:
    """Return the variance of the mean of one session, from the spread within the sessions of both sides."""
    groups = [*a, *b]
    degrees = sum(blocks.size - 1 for blocks in groups)
    squares = sum(float(((blocks - blocks.mean()) ** 2).sum()) for blocks in groups)
    factor = sum(sum(1.0 / blocks.size for blocks in side) / len(side) ** 2 for side in (a, b))
    return Spread(squares / max(degrees, 1) * factor / (1.0 / len(a) + 1.0 / len(b)), degrees)


def _moderated(spreads: Sequence[Spread]) -> list[Spread]:
    moderated = moderated_variances(
        [spread.variance for spread in spreads], [int(spread.degrees) for spread in spreads]
    )
    return [Spread(variance, degrees) for variance, degrees in moderated]


def _sessions(result: Result) -> tuple[int, ...]:
    return tuple(sorted({origin.session for origin in result.of_blocks}))
