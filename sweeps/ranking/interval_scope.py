"""The states of the device that the interval of a race's winner is of. Pure.

A race confirms its winner within seconds. Clocks that have two states for half a minute each are in one of them then,
and nothing in these blocks shows it. Where the blocks of the whole race saw both states, the interval is of both
(`sweeps.ranking.race_speeds`). Where they saw one, it is of this one, and a race of half a minute cannot know more. A
device that kept one speed for `WATCHED_S` hardly has a state that lasts for a third of that or less.
"""

from collections.abc import Iterable
from typing import Literal

from sweeps.ranking.two_speeds import TwoSpeeds
from sweeps.results import ResultRow

IntervalOf = Literal["", "one_state", "both_states"]
"""An interval of `both_states` is of the long run, over both speeds of the device. An interval of `one_state` is of the
state that the device was in while the winner was confirmed; the device may have another. The word is empty if one speed
was seen for long enough, or there was no race."""

WATCHED_S = 600.0
"""This many seconds on the device at one speed show that it has no other that lasts for minutes; the limit is a
judgement."""

_WORDS: dict[IntervalOf, str] = {
    "one_state": "in the state that the device was in while it was confirmed",
    "both_states": "over both speeds of the device",
}


def interval_of(*, raced: bool, speeds: TwoSpeeds | None, watched_s: float, moved: bool = False) -> IntervalOf:
    """Tell which states the interval is of. `raced`: the row won a race, and was measured again. `watched_s`: how long
    the device was measured. `moved`: the sentinel saw that the device changed its speed for good."""
    if speeds is not None:
        return "both_states"
    return "one_state" if raced and (moved or watched_s < WATCHED_S) else ""


def with_scope(interval: str, of: IntervalOf) -> str:
    """Return the text of an interval, with the states that it is of."""
    return f"{interval}, {_WORDS[of]}" if of else interval


def watched_seconds(group: Iterable[ResultRow]) -> float:
    """Return how long the device was busy with these rows, or waited for them."""
    return sum(row.device_seconds + row.batch_seconds + row.waited_seconds for row in group)
