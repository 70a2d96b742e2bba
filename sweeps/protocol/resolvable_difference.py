"""The differences that a device can resolve, from blocks of one artifact in fresh processes (A/A): all their
differences are noise.

Pure. Parts of a block's noise are shares: standard deviations of logarithms, 0.01 is 1 %.

    process, sampling error    differ within a round, too: they limit every comparison
    slow changes               are equal for a whole round, so comparisons within rounds cancel them
    session                    is equal for a whole session: it affects only comparisons with another session

The sampling error comes from the two halves of each block, so samples may depend on their neighbours. Slow changes are
the part that neighbouring blocks share, if they are grouped as a sweep groups them into rounds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from sweeps.distributions import noncentral_t_above, normal_quantile, student_t_quantile
from sweeps.errors import EdgeSweepError
from sweeps.label_kinds import disqualified, in_order
from sweeps.protocol.clock import figure_ns
from sweeps.protocol.presets import Protocol
from sweeps.protocol.sessions import PRIOR_DEGREES, PRIOR_SPREAD
from sweeps.records import Block
from sweeps.stats import CONFIDENCE, NEGLIGIBLE, median

# numpy and scipy are imported inside the functions: `plan --help` needs neither.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROUND = 8
"""This many neighbouring blocks are grouped, like the blocks of a round of as many variants."""

FEWEST_BLOCKS = 5

POWER = 0.8
"""A difference counts as one that can be told apart if this share of sweeps tells it apart: 4 of 5."""

WANTED = 0.05
"""The difference that the rounds of a preset resolve; also the limit for stable rounds of one build."""

MOST_ROUNDS = 1000

_EQUAL = 1e-6
"""Blocks that differ by less than this share are equal, except for the rounding of a clock's readings."""
_FEWEST_HALVED = 4
"""A block with fewer samples has no halves to compare."""
_STEPS = 60
_MEDIAN_ERROR = math.sqrt(math.pi / 2)
_CERTAIN = 30.0
"""Even two rounds resolve a difference of this many standard errors."""
_BOUNDLESS = 600.0
"""The largest difference, as a logarithm: a float cannot hold larger ratios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The noise of one device."""

    blocks: int
    left_out: int
    """The number of further blocks: they have a disqualifying label."""
    sessions: int
    p50_ms: float
    """The p50 of the artifact that was timed."""
    block: float
    """Spread of blocks within a round ..."""
    block_low: float
    block_high: float
    """... and its 95 % interval."""
    sampling: float
    """The part of `block` that longer blocks reduce."""
    process: float
    """The rest of `block`."""
    slow: float | None
    """Spread of slow changes within a session; `None` if no session has two complete rounds."""
    session: float
    """The spread between sessions: an assumed value, and more of the observed one the more sessions there are."""
    block_s: float
    """Median device time of a block: with start, load and warm-up, without waiting."""
    warm_up_s: float
    """The part of `block_s` that is warm-up, without the first inference."""
    timed_s: float
    """The part of `block_s` that is timed iterations."""

    def timed_s_under(self, protocol: Protocol) -> float:
        return min(protocol.max_seconds, max(protocol.min_seconds, protocol.iterations * self.p50_ms / 1e3))

    def block_s_under(self, protocol: Protocol) -> float:
        """Return the device time of a block under another protocol: the process takes as long to start."""
        start_s = max(0.0, self.block_s - self.warm_up_s - self.timed_s)
        warm_up_s = max(protocol.warmup_seconds, protocol.warmup_iterations * self.p50_ms / 1e3)
        return start_s + warm_up_s + self.timed_s_under(protocol)

    def block_under(self, protocol: Protocol) -> float:
        """Return `block` under another protocol: the variance of the sampling error falls as a block lasts longer."""
        share = self.timed_s / self.timed_s_under(protocol)
        return math.hypot(self.process, self.sampling * math.sqrt(share))

    def told_apart_in_sessions(self, rounds: int) -> float:
        """Return the smallest difference, as `told_apart` does, of two builds with `rounds` rounds each, if each build
        has a separate session. It is never less than within one session, because there rounds are paired."""
        inside = (self.block**2 + (self.slow or 0.0) ** 2) / rounds
        between = self.session**2
        # The degrees are Satterthwaite's: the rounds of both builds estimate one variance, the sessions so far (and the
        # prior) estimate the other.
        degrees = (inside + between) ** 2 / (
            inside**2 / (2 * (rounds - 1)) + between**2 / (PRIOR_DEGREES + self.sessions - 1)
        )
        return max(told_apart(self.block, rounds), _smallest(math.sqrt(2.0 * (inside + between)), degrees))


def calibrate(blocks: Sequence[Block]) -> Calibration:
    """Return the noise of a device. `blocks`: of one job, in the order of measuring. Raises `EdgeSweepError` if the
    blocks do not show the noise, because they are too few or all equal."""
    from scipy.special import chdtri

    sound = [block for block in blocks if not disqualified(block.labels)]
    sessions = [_logs(list(run)) for _, run in groupby(sound, lambda block: block.session)]
    rounds = [session[at : at + ROUND] for session in sessions for at in range(0, session.size, ROUND)]
    degrees = sum(logs.size - 1 for logs in rounds)
    left_out = len(blocks) - len(sound)
    if degrees < FEWEST_BLOCKS - 1:
        labels = in_order({label for block in blocks for label in disqualified(block.labels)})
        bad = f" ({left_out} more do not count: {', '.join(labels)})" if left_out else ""
        raise EdgeSweepError(
            f"{len(sound)} blocks{bad} are too few to show the noise: {FEWEST_BLOCKS} of one session are needed",
            "measure longer: --minutes",
        )
    within = sum(float(((logs - logs.mean()) ** 2).sum()) for logs in rounds) / degrees
    if math.sqrt(within) < _EQUAL:
        raise EdgeSweepError(
            f"all {len(sound)} blocks took {figure_ns(sound[0].samples_ns) / 1e6:g} ms: a clock that shows no "
            "difference shows no noise",
            "check the clock and the runner of the device",
        )
    sampling = min(_sampling(sound), within)
    slow = _slow(sessions, within)
    return Calibration(
        blocks=len(sound),
        left_out=left_out,
        sessions=len(sessions),
        p50_ms=median([figure_ns(block.samples_ns) for block in sound]) / 1e6,
        block=math.sqrt(within),
        block_low=math.sqrt(degrees * within / float(chdtri(degrees, (1 - CONFIDENCE) / 2))),
        block_high=math.sqrt(degrees * within / float(chdtri(degrees, (1 + CONFIDENCE) / 2))),
        sampling=math.sqrt(sampling),
        process=math.sqrt(within - sampling),
        slow=None if slow is None else math.sqrt(slow),
        session=math.sqrt(_session(sessions, within, slow or 0.0)),
        block_s=median([block.device_seconds for block in sound]),
        warm_up_s=median([sum(block.warmup_ns) / 1e9 for block in sound]),
        timed_s=median([sum(block.samples_ns) / 1e9 for block in sound]),
    )


def told_apart(spread: float, rounds: int) -> float:
    """Return the smallest difference (a share) between two builds that this many rounds resolve at 95 %, in 4 of 5
    sweeps.

    `spread`: of the blocks of one build within a round. The result is at least 2 %: a smaller observed difference is
    never told apart.
    """
    return _smallest(spread * math.sqrt(2.0 / rounds), rounds - 1)


def rounds_for(spread: float, difference: float = WANTED) -> int | None:
    """Return the fewest rounds that tell apart two builds that differ by this share; `None` if `MOST_ROUNDS` do not."""
    shift = math.log1p(difference)
    counts = range(2, MOST_ROUNDS + 1)
    return next(
        (rounds for rounds in counts if _is_resolved(shift, spread * math.sqrt(2.0 / rounds), rounds - 1)), None
    )


def _logs(blocks: Sequence[Block]) -> "NDArray[np.float64]":
    import numpy as np

    return np.log([figure_ns(block.samples_ns) for block in blocks])


def _sampling(blocks: Sequence[Block]) -> float:
    """Return the variance of a block's figure within its process. The difference of two halves has 4 times the variance
    of the whole."""
    squares = []
    for samples in (block.samples_ns for block in blocks if len(block.samples_ns) >= _FEWEST_HALVED):
        half = len(samples) // 2
        squares.append(math.log(figure_ns(samples[:half]) / figure_ns(samples[-half:])) ** 2 / 4)
    return sum(squares) / len(squares) if squares else 0.0


def _slow(sessions: "Sequence[NDArray[np.float64]]", within: float) -> float | None:
    """Return the variance of complete rounds within a session, beyond what single blocks explain."""
    squares, degrees = 0.0, 0
    for session in sessions:
        whole = session.size // ROUND
        means = session[: whole * ROUND].reshape(whole, ROUND).mean(axis=1)
        if whole > 1:
            squares += float(((means - means.mean()) ** 2).sum())
            degrees += whole - 1
    return max(0.0, squares / degrees - within / ROUND) if degrees else None


def _session(sessions: "Sequence[NDArray[np.float64]]", within: float, slow: float) -> float:
    """Return the variance between sessions: the prior, and the excess of the sessions' means over what blocks
    explain."""
    import numpy as np

    degrees = len(sessions) - 1
    prior = PRIOR_DEGREES * PRIOR_SPREAD**2
    if not degrees:
        return PRIOR_SPREAD**2
    means = np.array([session.mean() for session in sessions])
    noise = sum((within + slow * min(ROUND, session.size)) / session.size for session in sessions) / len(sessions)
    excess = max(0.0, float(means.var(ddof=1)) - noise)
    return (prior + degrees * excess) / (PRIOR_DEGREES + degrees)


def _is_resolved(shift: float, error: float, degrees: float) -> bool:
    """Tell whether a difference (of logarithms) is both resolved and estimated as 2 % or more, each with a probability
    of `POWER`.

    `error`: the standard error of its estimate. The figure of a build is a median, whose error is a quarter larger.
    """
    return shift >= _least_observed(error) and (error == 0.0 or _power(shift / error, degrees) >= POWER)


def _smallest(error: float, degrees: float) -> float:
    """Return the smallest difference (a share) that is resolved, see `_is_resolved`."""
    return math.expm1(min(max(_least_observed(error), error * _errors_found(degrees)), _BOUNDLESS))


def _least_observed(error: float) -> float:
    """Return the smallest difference (of logarithms) that is estimated as 2 % or more with a probability of `POWER`."""
    return math.log1p(NEGLIGIBLE) + normal_quantile(POWER) * _MEDIAN_ERROR * error


def _power(errors: float, degrees: float) -> float:
    """Return the probability that a difference of this many standard errors is resolved at 95 %."""
    limit = student_t_quantile(degrees, 0.5 + CONFIDENCE / 2)
    return noncentral_t_above(degrees, limit, min(errors, _CERTAIN))


@lru_cache(maxsize=1024)
def _errors_found(degrees: float) -> float:
    """Return the difference, in standard errors, that is resolved with a probability of `POWER`."""
    low, high = 0.0, _CERTAIN
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _power(middle, degrees) >= POWER else (middle, high)
    return high
