"""The latency of one block from its samples, and the error of that latency if the device's clock is coarse. Pure.

Some clocks tick every millisecond, every 1/300 s, or 32,768 times a second. All samples are then multiples of one tick,
except for the rounding with which readings are printed: a tick need not be a whole number of nanoseconds. The median of
the samples is a multiple, too, and the same in every process: it is wrong by up to a tick, and an interval of equal
medians has no width.

How exact the mean of the samples is depends on how they were taken. If each sample begins at the reading at which the
last one ended, all errors but the first and the last cancel: the mean is exact to a tick divided by the number of
samples. If a tool rounds each sample separately, nothing cancels. It may round up, down or to the nearest tick, and the
samples of a program whose iterations hardly differ are rounded alike in all processes: the mean is exact to a tick,
however many samples there are. The samples show which case it is: cumulative sums of samples that share their readings
stay near a line, other sums wander.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, compress, pairwise

from sweeps.stats import MAD_PER_SIGMA, OUTLIER_SCORE, Estimate, mad, median

COARSE = 0.01
"""A clock is coarse if its tick is more than this share of a sample."""

_SAMPLES = 5
"""Fewer samples may be multiples of a large number by chance, or because there is only one sample."""
_SLEWED = 1e-5
"""A clock that is being adjusted changes its speed within a block by less than this share, and no program repeats
itself as closely as this."""
_ROUNDED_NS = 2
"""Differences of readings in whole nanoseconds have an error of less than this."""
_PRINTED = 1.25
"""Multiples of a tick that are printed in a coarser unit differ by up to one such unit; the limit is slightly
higher."""
_APART = 10.0
"""A tick is at least this many times as long as the largest difference between samples of the same multiple."""
_EVIDENCE = 12.0
"""Samples count as lying on a grid of ticks only if chance puts them there in fewer than one of exp(12) blocks."""
_SURE = 0.25
"""A gap shows a tick only if its multiple of ticks is known to within this share of a tick."""

_NEAR_TICKS = 2.5
"""Samples of a program that hardly varies lie within this many ticks of their median."""

_SUMMED = 8
"""Sums of fewer samples do not show whether the samples share their readings."""
_WANDERS, _SURELY = 0.95, 0.4
"""Sums of n independent samples range over 0.95 to 1.25 standard deviations times the root of n (Feller, Annals of
Mathematical Statistics 22, 1951). Samples share their readings if the mean range of k blocks is less than
0.95 - 0.4 / root of k. By chance the mean range is that small in up to 1.3 % of single blocks, and in 2.4 % of jobs
with three blocks (simulated: blocks of 8 to 15 samples of two values; with 30 samples 0.6 and 0.2 %)."""


@dataclass(frozen=True, slots=True)
class Readings:
    """The times (ns) that one process measured with its clock."""

    samples: Sequence[int]
    other_times: Sequence[int] = ()
    """Times of warm-up, first inference and loading: they vary more than samples, and so show a tick even if all
    samples are equal."""


def tick_ns(samples_ns: Sequence[int]) -> float:
    """Return the longest time (ns) of which all samples are multiples, except for rounding; 0 for fewer than five
    samples.

    If all samples are equal, the tick is the sample itself: the clock may tick more often, which these samples cannot
    show.
    """
    if len(samples_ns) < _SAMPLES:
        return 0.0
    unit = math.gcd(*samples_ns)
    return _longer_tick_ns(sorted(samples_ns), unit) or float(unit)


def is_coarse(samples_ns: Sequence[int]) -> bool:
    tick = tick_ns(samples_ns)
    return tick > 0 and tick > COARSE * median(samples_ns)


def figure_ns(samples_ns: Sequence[int]) -> float:
    """Return the latency (ns) of one block: the median of its samples, or with a coarse clock the mean without spikes.

    Raises `ValueError` for no samples.
    """
    tick, middle = tick_ns(samples_ns), median(samples_ns)
    return middle if tick <= COARSE * middle else statistics.fmean(compress(samples_ns, _ordinary(samples_ns, tick)))


def spike_share(samples_ns: Sequence[int]) -> float:
    """Return the share of the samples that are spikes (0 to 1), for a coarse clock: `figure_ns` leaves spikes out."""
    return 1 - statistics.fmean(_ordinary(samples_ns, tick_ns(samples_ns)))


def shows_ticks(processes: Sequence[Readings]) -> bool:
    """Tell whether the clock of these processes is coarse: either one process shows it alone, or all processes with too
    few samples show it together."""
    return any(is_coarse(process.samples) for process in processes) or is_coarse(_few_together(processes).samples)


def with_resolution(p50_ms: Estimate, processes: Sequence[Readings]) -> Estimate:
    """Return the p50 (ms) of these processes with its interval, if it has one, widened by the error of their clock."""
    if p50_ms.low is None or p50_ms.high is None:
        return p50_ms
    resolution_ms = _resolution_ns(processes) / 1e6
    # A sample that is shown as one tick took half a tick at least. Only a clock that rounds up could show less time as
    # one tick, but then no sample is shown as 0 ticks.
    low = max(p50_ms.low - resolution_ms, min(p50_ms.low, p50_ms.value / 2))
    return Estimate(p50_ms.value, low, p50_ms.high + resolution_ms)


def _resolution_ns(processes: Sequence[Readings]) -> float:
    """Return by how much (ns) the clock alone may falsify the median of the processes' latencies (`figure_ns`); 0 for a
    fine clock.

    With a coarse clock the error is a tick, up or down, unless the samples show that they share their readings.
    """
    coarse = [process for process in processes if is_coarse(process.samples)]
    if not coarse or 2 * len(coarse) < len(processes):
        together = _few_together(processes)
        return _finest_ns(together) if is_coarse(together.samples) else 0.0
    tick = min(map(_finest_ns, coarse))
    ranges, errors = [], []
    for process in coarse:
        ordinary = _ordinary(process.samples, tick)
        count = sum(ordinary)
        mean = statistics.fmean(compress(process.samples, ordinary))
        deviations = [sample - mean for sample in process.samples]
        ranges.append(_range([by * is_ordinary for by, is_ordinary in zip(deviations, ordinary, strict=True)]))
        # The readings on both sides of a spike no longer cancel.
        errors.append(tick * (1 + len(ordinary) - count) / count)
    known = [wide for wide in ranges if wide is not None]
    shared = 2 * len(known) > len(ranges) and statistics.fmean(known) < _WANDERS - _SURELY / math.sqrt(len(known))
    return median(errors) if shared else tick


def _few_together(processes: Sequence[Readings]) -> Readings:
    """Return all processes with too few samples to show a tick, joined into one."""
    few = [process for process in processes if len(process.samples) < _SAMPLES]
    return Readings(
        [sample for process in few for sample in process.samples],
        [other for process in few for other in process.other_times],
    )


def _finest_ns(process: Readings) -> float:
    """Return the tick of a coarse clock, from all times that the process measured."""
    tick, every = tick_ns(process.samples), tick_ns([*process.samples, *process.other_times])
    return every if COARSE * median(process.samples) < every < tick else tick


def _ordinary(samples_ns: Sequence[int], tick: float) -> list[bool]:
    """Return for each sample whether it is ordinary, i.e. not a spike."""
    middle, deviation = median(samples_ns), mad(samples_ns)
    # A deviation of one tick or less shows only that there are ticks.
    noise = OUTLIER_SCORE * deviation / MAD_PER_SIGMA if deviation > _PRINTED * tick else 0.0
    limit = max(_NEAR_TICKS * tick, noise)
    return [abs(sample - middle) <= limit for sample in samples_ns]


def _range(deviations: Sequence[float]) -> float | None:
    """Return the rescaled range (Hurst) of the cumulative sums of deviations; `None` for too few or only zero
    deviations."""
    squares = math.fsum(by * by for by in deviations)
    if len(deviations) < _SUMMED or not squares:
        return None
    sums = list(accumulate(deviations, initial=0.0))
    return (max(sums) - min(sums)) / math.sqrt(squares)


def _longer_tick_ns(ordered: Sequence[int], unit: int) -> float | None:
    """Return the tick (ns) of which the samples, in ascending order, are multiples except for rounding; `None` if there
    is none.

    Samples of one multiple lie close together, and apart from those of other multiples; the distances between multiples
    are multiples of the tick, and so is the shortest sample. `unit`: all samples are multiples of it, e.g. of the
    microsecond in which a tool prints them.
    """
    middle = ordered[len(ordered) // 2]
    close = max(_ROUNDED_NS, _SLEWED * middle)
    if ordered[-1] - ordered[0] <= close:
        return float(middle)
    printed = _PRINTED * unit > close
    groups = _groups(ordered, _PRINTED * unit, 1.0) if printed else _groups(ordered, close, 2.0)
    close = max(close, _PRINTED * unit)
    # With a unit that is coarser than the noise, single samples are no evidence.
    if len(groups) < 2 or (printed and sum(len(group) > 1 for group in groups) < 2):
        return None
    gaps = sorted(after - before for before, after in pairwise([0.0, *map(statistics.fmean, groups)]))
    ties = len(ordered) - len(groups)
    least = max(_APART * close, COARSE / 2 * middle)
    most = 1 if printed else int(gaps[0] / least)
    for ticks in range(1, most + 1):
        tick = _common_ns(gaps, ticks, close)
        if tick is not None:
            # A gap was tested against each number of ticks up to this one, so a larger number fits by chance more
            # often.
            certain = (ties + len(gaps) - 1) * math.log(tick / ticks / (4 * close)) >= _EVIDENCE
            return tick if tick >= least and certain else None
    # The samples lie on few values, but no tick divides their distances: the clock rounds in a way that is not
    # understood.
    certain = most > 1 and 2 * ties >= len(ordered) and ties * math.log(gaps[0] / (4 * close)) >= _EVIDENCE
    return gaps[0] if certain else None


def _groups(ordered: Sequence[int], close: float, widest: float) -> list[list[int]]:
    """Return the samples in groups of neighbours that are `close` to each other. Return no group at all if one group is
    wider than `widest` times `close`, or if two groups are too near each other to be two ticks."""
    groups = [[ordered[0]]]
    least_gap = (_APART - 2 * widest) * close
    for before, sample in pairwise(ordered):
        if sample - before > close:
            if sample - before < least_gap:
                return []
            groups.append([])
        elif sample - groups[-1][0] > widest * close:
            return []
        groups[-1].append(sample)
    return groups


def _common_ns(gaps: Sequence[float], ticks: int, close: float) -> float | None:
    """Return the tick of which all gaps are multiples; `None` if there is none. `gaps` is ascending, and the first gap
    has `ticks` ticks."""
    length, count = gaps[0], ticks
    for gap in gaps[1:]:
        tick, error = length / count, 2 * close / count
        multiple = round(gap / tick)
        if multiple * error + 2 * close > _SURE * tick:
            break
        if abs(gap - multiple * tick) > 2 * close + multiple * error:
            return None
        length, count = length + gap, count + multiple
    return length / count
