"""What a device lacked when waiting for it was in vain (`sweeps.records.Conditions.lacking`), and a gate for it. Pure.

The conditions are words, as `workers.measure.readiness.judge` makes them; a test holds the two together.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass


def _above(figure: float) -> int:
    return math.floor(figure) + 1


def _below(figure: float) -> int:
    return max(0, math.floor(figure) - 1)


_FIGURE = r"(\d+(?:\.\d+)?)"


@dataclass(frozen=True, slots=True)
class _Limit:
    field: str
    """Of a sweep file's `protocol.gate`."""
    words: re.Pattern[str]
    """With the figure that was read."""
    beyond: Callable[[float], int]
    """A limit that the figure keeps, which was rounded off."""
    most: float
    """The largest value of the field."""


_LIMITS = (
    _Limit("max_battery_temp_c", re.compile(rf"battery at {_FIGURE} °C"), _above, 60),
    _Limit("max_cpu_temp_c", re.compile(rf"CPU at {_FIGURE} °C"), _above, 110),
    _Limit("max_thermal_status", re.compile(rf"thermal status {_FIGURE}"), int, 6),
    _Limit("min_battery_percent", re.compile(rf"battery at {_FIGURE} %"), _below, 100),
)
_KEPT_RESULTS = frozenset({"min_battery_percent"})
"""Limits that are in no job key: with another one, what was measured counts on."""


def worst(lacking: Iterable[str]) -> tuple[str, ...]:
    """Of each condition the words with the figure farthest from its limit, in the order of their first."""
    found: dict[str, str] = {}
    for words in lacking:
        what, read = _read(words)
        if what not in found or (read is not None and _is_worse(what, read, found[what])):
            found[what] = words
    return tuple(found.values())


def looser_gate(lacking: Iterable[str]) -> dict[str, int] | None:
    """The limits, by their names under `protocol.gate`, that all these conditions keep. `None` if no limit allows one
    of them: another program on the device, a sensor that is gone, or a figure beyond what a sweep file may set."""
    found: dict[str, int] = {}
    for words in worst(lacking):
        what, read = _read(words)
        limit = next((one for one in _LIMITS if one.field == what), None)
        if limit is None or read is None or limit.beyond(read) > limit.most:
            return None
        found[what] = limit.beyond(read)
    return found or None


def keeps_results(limits: Iterable[str]) -> bool:
    """Whether a change of these limits leaves the results that there are as they are."""
    return set(limits) <= _KEPT_RESULTS


def _read(words: str) -> tuple[str, float | None]:
    """The limit's name and the figure; of a condition without one, its words."""
    for limit in _LIMITS:
        if match := limit.words.match(words):
            return limit.field, float(match[1])
    return words, None


def _is_worse(what: str, read: float, words: str) -> bool:
    before = _read(words)[1]
    return before is not None and (read < before if what.startswith("min_") else read > before)
