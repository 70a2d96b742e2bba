"""The search for load that comes in bursts in the samples of one block: slow samples that follow one another. Pure.

Spikes that do not depend on each other also follow one another by chance. If n of N samples are slow, a run of L slow
ones lies somewhere in fewer than (N - L + 1) (n / N)^L of all orders. Only runs for which this is tiny are bursts.
"""

from collections.abc import Sequence
from itertools import groupby

from sweeps.stats import MAD_PER_SIGMA, mad, median

SLOW = 1.15
"""A slow sample takes longer than this many medians of its block ..."""
_DEVIATIONS = 5.0
"""... and lies above the median by more than this many standard deviations, estimated from the median absolute
deviation."""
BURST_SHARE = 0.05
"""A block gets the label `bursts` if this share of its time, or more, lies in bursts."""
_BY_CHANCE = 1e-5
"""A run of slow samples is a burst if its probability by chance is below this. In a sweep of 240 blocks, a run this
unlikely is seen in 1 of 400 sweeps."""


def burst_share(samples_ns: Sequence[float]) -> float:
    """Return the share of the block's time (0 to 1) that lies in bursts. `samples_ns`: positive, in the order of
    measuring."""
    middle = median(samples_ns)
    limit = max(SLOW * middle, middle + _DEVIATIONS * mad(samples_ns) / MAD_PER_SIGMA)
    count, slow = len(samples_ns), sum(sample > limit for sample in samples_ns)
    in_bursts = 0.0
    for is_slow, neighbours in groupby(samples_ns, key=lambda sample: sample > limit):
        run = list(neighbours)
        if is_slow and (count - len(run) + 1) * (slow / count) ** len(run) < _BY_CHANCE:
            in_bursts += sum(run)
    return in_bursts / sum(samples_ns)
