"""The alarm that blocks in separate processes contradict the batches that decided a race. Pure.

The winner has several blocks in separate processes, and its nearest rival one. The logarithm of their ratio, less that
of the batches, is the effect of a shared process on the ratio, plus noise. The alarm is raised if the 95 % interval of
that effect lies beyond 5 %: so if the true effect is within 5 %, there is an alarm in at most 2.5 % of races, as far as
blocks are lognormal and the noise is known. The noise is known from `edgesweep noise --batches`, which counts like
`_KNOWN_DEGREES` further blocks, and from the winner's blocks. A single block reveals a contradiction only if it is
several times as large as the noise.

Blocks with a disqualifying label do not count, nor do pairs of blocks from two runs: a device may have another state in
each run.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

from sweeps.distributions import student_t_quantile
from sweeps.protocol.sessions import run_of
from sweeps.results import ResultRow
from sweeps.stats import CONFIDENCE, TAIL, Estimate

MOST = 0.05
"""A shared process may change a ratio by this share without an alarm."""
SPREAD, DEGREES = 0.025, 3.0
"""The prior of the spread of blocks if it was not measured: the prior of a race (`sweeps.protocol.mixture`)."""
_KNOWN_DEGREES = 6.0
"""The degrees of freedom of a measured spread: it may be another one today."""
_SETTLE = "edgesweep run SWEEP.yaml --settle 3"


def alarm(winner: ResultRow, group: Sequence[ResultRow]) -> str:
    """Return how a row of `group` contradicts the batches in which `winner` led, as a text; empty if none does."""
    for row in group:
        ended = row.settled
        if ended is None or not ended.checks or ended.by_key != winner.job_key or ended.ratio is None:
            continue
        alone = contradicted(
            Estimate(ended.ratio, ended.ratio_low, ended.ratio_high),
            row.check_medians_ms,
            winner.published_medians_ms,
            ended.noise,
        )
        if alone is not None:
            name = row.name_here.removeprefix(f"{row.model} · ")
            return (
                f"{name} took {alone:.2f} times as long as the winner in a process of its own, and {ended.ratio:.2f} "
                f"times in batches, which decided. By chance alone that happens in at most {100 * TAIL:g} % of races: "
                f"{_SETTLE} measures what is tied in processes of its own, edgesweep noise --batches the device"
            )
    return ""


def contradicted(
    batches: Estimate,
    checks_ms: Sequence[tuple[int, float]],
    winners_ms: Mapping[int, float],
    noise: float | None,
) -> float | None:
    """Return the ratio of latencies in separate processes, if it is shown to differ from that of the batches by more
    than `MOST`; otherwise `None`. Blocks are (visit, ms). `noise`: as `sweeps.settled.Settled.noise`."""
    runs = {run_of(visit) for visit, _ in checks_ms}
    check = [math.log(ms) for _, ms in checks_ms]
    winner = [math.log(ms) for visit, ms in winners_ms.items() if {run_of(visit)} == runs]
    if not check or len(winner) < 2:
        return None
    spread, degrees = (SPREAD, DEGREES) if noise is None else (noise, _KNOWN_DEGREES)
    mean = sum(winner) / len(winner)
    squares = degrees * spread**2 + sum((log - mean) ** 2 for log in winner)
    degrees += len(winner) - 1
    variance = squares / degrees * (1 / len(check) + 1 / len(winner)) + _variance(batches)
    shown = sum(check) / len(check) - mean
    half = student_t_quantile(degrees, 1 - TAIL) * math.sqrt(variance)
    off = abs(shown - math.log(batches.value)) - half > math.log1p(MOST)
    return math.exp(shown) if off else None


def _variance(ratio: Estimate) -> float:
    """Return the variance of the ratio's logarithm, from its interval."""
    if ratio.low is None or ratio.high is None:
        return 0.0
    return (math.log(ratio.high / ratio.low) / 2 / NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)) ** 2
