"""The states of the device that the interval of a race's winner covers. Pure.

A race confirms its winner within seconds. Clocks that alternate between two states of half a minute each are in one of
them during that time, and these blocks do not show it. If the blocks of the whole race saw both states, the interval
covers both (`sweeps.ranking.race_speeds`). If they saw one, it covers this one, and a race of half a minute cannot know
more. A device that kept one speed for `WATCHED_S` hardly has another state that lasts for a third of that or less.
"""

from collections.abc import Iterable
from typing import Literal

from sweeps.ranking.two_speeds import TwoSpeeds
from sweeps.results import ResultRow

IntervalOf = Literal["", "one_state", "both_states"]
"""An interval of `both_states` covers both speeds of the device, in the long run. An interval of `one_state` covers the
state that the device was in while the winner was confirmed; the device may have another. The word is empty if one speed
was seen for long enough, or there was no race."""

WATCHED_S = 600.0
"""After this many seconds at one speed, a device has no other speed that lasts for minutes; the limit was chosen by
judgement."""

_WORDS: dict[IntervalOf, str] = {
    "one_state": "in the state that the device was in while it was confirmed",
    "both_states": "over both speeds of the device",
}


def interval_of(*, raced: bool, speeds: TwoSpeeds | None, watched_s: float, moved: bool = False) -> IntervalOf:
    """Return which states the interval covers. `raced`: the row won a race, and was measured again. `watched_s`: for
    how long the device was measured. `moved`: the sentinel saw that the device changed its speed for good."""
    if speeds is not None:
        return "both_states"
    return "one_state" if raced and (moved or watched_s < WATCHED_S) else ""


def with_scope(interval: str, of: IntervalOf) -> str:
    """Return the text of an interval, with the states of the device that it covers."""
    return f"{interval}, {_WORDS[of]}" if of else interval


def watched_seconds(group: Iterable[ResultRow]) -> float:
    """Return for how many seconds the device was busy with these rows, or waited for them."""
    return sum(row.device_seconds + row.batch_seconds + row.waited_seconds for row in group)
