"""The figure of a block, and its worth where the device's clock is coarse. Pure.

Some clocks tick every millisecond, every 1/300 s, or 32,768 times a second. Then all samples are multiples of one tick,
but for what readings are rounded to when they are printed: a tick need be no whole number of nanoseconds. Their median
is a multiple, too, in every process alike: it is wrong by up to a tick, and an interval of equal medians has no width.

The worth of their mean depends on how the samples were made. Where each begins at the reading at which the last one
ended, the errors cancel but for the first and the last: the mean is right to a tick divided by the number of samples.
Where a tool rounds each sample by itself, nothing cancels. It may round up, down or to the nearest tick, and a program
whose iterations hardly differ is rounded alike in all processes: the mean is right to a tick, however many samples
there are. The samples show which it is: sums of samples that share their readings stay near a line, others wander.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, compress, pairwise

from sweeps.stats import MAD_PER_SIGMA, OUTLIER_SCORE, Estimate, mad, median

COARSE = 0.01
"""A clock is coarse where its tick is more than this share of a sample."""

_SAMPLES = 5
"""Fewer samples may be multiples of a large number by chance, or because there is only one."""
_SLEWED = 1e-5
"""A clock that is being set right changes its speed within a block by less than this share, and no program repeats
itself as closely as this."""
_ROUNDED_NS = 2
"""Differences of readings in whole nanoseconds are wrong by less than this."""
_PRINTED = 1.25
"""Multiples of a tick that are printed in a coarser unit differ by up to one unit: slightly more than that."""
_APART = 10.0
"""A tick is at least so many times as long as the difference that its multiples may have."""
_EVIDENCE = 12.0
"""Samples lie on a grid by chance in fewer than one of exp(12) blocks."""
_SURE = 0.25
"""A multiple is known to this share of a tick, or it says nothing."""

_NEAR_TICKS = 2.5
"""Samples of a program that hardly varies lie within so many ticks of their median."""

_SUMMED = 8
"""Sums of fewer samples do not show whether these share their readings."""
_WANDERS, _SURELY = 0.95, 0.4
"""Sums of n independent samples range over 0.95 to 1.25 standard deviations times the root of n (Feller, Annals of
Mathematical Statistics 22, 1951). Samples share their readings where the mean range of k blocks is less than 0.95 by
0.4 / root of k. By chance it is in up to 1.3 % of single blocks, and 2.4 % of jobs with three (simulated: blocks of 8
to 15 samples of two values; with 30 samples 0.6 and 0.2 %)."""


@dataclass(frozen=True, slots=True)
class Readings:
    """The times (ns) that one process measured with its clock."""

    samples: Sequence[int]
    other_times: Sequence[int] = ()
    """Warm-up, first inference and loading vary more than samples, and so show a tick where samples are equal."""


def tick_ns(samples_ns: Sequence[int]) -> float:
    """The longest time of which all samples are multiples, as far as they are rounded; 0 for fewer than five samples.

    Where all samples are equal, it is the sample itself: the clock may tick more often, which these samples cannot
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
    """The latency of one block: the median of its samples, or with a coarse clock the mean of those without spikes.

    Raises `ValueError` for no samples.
    """
    tick, middle = tick_ns(samples_ns), median(samples_ns)
    return middle if tick <= COARSE * middle else statistics.fmean(compress(samples_ns, _ordinary(samples_ns, tick)))


def spike_share(samples_ns: Sequence[int]) -> float:
    """The share of the samples that are spikes, for a coarse clock: `figure_ns` leaves them out."""
    return 1 - statistics.fmean(_ordinary(samples_ns, tick_ns(samples_ns)))


def shows_ticks(processes: Sequence[Readings]) -> bool:
    """Tell whether the clock of these processes is coarse: one process shows it, or all with too few samples show it
    together."""
    return any(is_coarse(process.samples) for process in processes) or is_coarse(_few_together(processes).samples)


def with_resolution(p50_ms: Estimate, processes: Sequence[Readings]) -> Estimate:
    """The p50 (ms) comes from the figures of these processes; its interval, if it has one, allows for their clock."""
    if p50_ms.low is None or p50_ms.high is None:
        return p50_ms
    resolution_ms = _resolution_ns(processes) / 1e6
    # A sample that is shown as one tick took half a tick at least, unless the clock rounds up: no sample is shown as 0
    # ticks.
    low = max(p50_ms.low - resolution_ms, min(p50_ms.low, p50_ms.value / 2))
    return Estimate(p50_ms.value, low, p50_ms.high + resolution_ms)


def _resolution_ns(processes: Sequence[Readings]) -> float:
    """The clock alone may falsify the median of the processes' figures (`figure_ns`) by this time (ns); 0 for a fine
    clock.

    With a coarse clock it is a tick, up or down, unless the samples show that they share their readings.
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
    """All processes with too few samples to show a tick are taken as one process."""
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
    """Tell for each sample whether it is no spike."""
    middle, deviation = median(samples_ns), mad(samples_ns)
    # A deviation of one tick or less says nothing but that there are ticks.
    noise = OUTLIER_SCORE * deviation / MAD_PER_SIGMA if deviation > _PRINTED * tick else 0.0
    limit = max(_NEAR_TICKS * tick, noise)
    return [abs(sample - middle) <= limit for sample in samples_ns]


def _range(deviations: Sequence[float]) -> float | None:
    """The range of the sums of deviations (rescaled, by Hurst); `None` where the range says nothing."""
    squares = math.fsum(by * by for by in deviations)
    if len(deviations) < _SUMMED or not squares:
        return None
    sums = list(accumulate(deviations, initial=0.0))
    return (max(sums) - min(sums)) / math.sqrt(squares)


def _longer_tick_ns(ordered: Sequence[int], unit: int) -> float | None:
    """The tick of which the samples, in ascending order, are multiples but for rounding; `None` if there is none.

    Samples of one multiple lie close together, and apart from those of others; distances are multiples, as well as the
    shortest sample. `unit`: all samples are multiples of it, e.g. of the microsecond in which a tool prints them.
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
            # A gap of several ticks has been tried more often, and so fits by chance more often.
            certain = (ties + len(gaps) - 1) * math.log(tick / ticks / (4 * close)) >= _EVIDENCE
            return tick if tick >= least and certain else None
    # The samples lie on few values, at distances that have nothing in common: more was rounded than is understood.
    certain = most > 1 and 2 * ties >= len(ordered) and ties * math.log(gaps[0] / (4 * close)) >= _EVIDENCE
    return gaps[0] if certain else None


def _groups(ordered: Sequence[int], close: float, widest: float) -> list[list[int]]:
    """Groups hold neighbours that are `close`. There is no group at all, and the search ends early, if one group is
    wider than `widest` times `close`, or two groups are too near for two ticks."""
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
    """The tick of which all gaps are multiples, in ascending order and the first of them so many; `None` if they are
    none."""
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
