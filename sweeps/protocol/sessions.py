"""Sessions: a device may have another speed on another day, which no number of rounds on one day shows. Pure.

The start time of a run of the driver identifies the run (`Block.session`). A session is one or more runs: it begins
with a start at least 30 minutes after the device's last block, because a device that was just measured is still in the
same state.
"""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime

GAP_S = 1800
"""The gap was chosen by judgement: a phone cools in a few minutes, and programs in the background come and go within
half an hour."""

PRIOR_SPREAD = 0.025
"""The standard deviation between sessions, as a share, that is assumed until there are sessions ..."""
PRIOR_DEGREES = 3.0
"""... and its degrees of freedom: a scaled inverse chi-square distribution."""

_STARTS_S = range(1_000_000_000, 100_000_000_000)
"""The numbers of runs that are start times (seconds). Runs of the oldest journals have a smaller number, which is not a
time."""


def run_of(visit: int) -> int:
    """Return the run (`Block.session`) of a `Block.visit`."""
    return visit // 1000


def has_start(run: int) -> bool:
    """Tell whether the number of a run is the time of its start (seconds since 1970)."""
    return run in _STARTS_S


def begins_session(run: int, last_block: str) -> bool:
    """Tell whether a session begins with a run. `last_block`: the time at which the device's last block before the run
    was stored, as the journal writes times (ISO 8601, UTC)."""
    return run - datetime.fromisoformat(last_block).timestamp() >= GAP_S


def start_text(run: int) -> str:
    """Return the start of a run, as the journal writes times."""
    return datetime.fromtimestamp(run, UTC).isoformat(timespec="microseconds")


def sessions_of(runs: Sequence[int], starts: Sequence[int]) -> tuple[int, ...]:
    """Return the session of each of the `runs`: the latest of the `starts` (of sessions, ascending) that is not after
    the run; 0 if there is none. All runs without a recorded session are one session."""
    return tuple(starts[place - 1] if (place := bisect_right(starts, run)) else 0 for run in runs)
