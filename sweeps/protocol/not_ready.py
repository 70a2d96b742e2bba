"""The conditions that a device did not meet although a block waited for it (`sweeps.records.Lack`), and a looser gate
that it would pass. Pure."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sweeps.records import Lack


def _above(figure: float) -> int:
    return math.floor(figure) + 1


def _below(figure: float) -> int:
    return max(0, math.floor(figure) - 1)


@dataclass(frozen=True, slots=True)
class _Limit:
    beyond: Callable[[float], int]
    """Returns a rounded limit that the figure keeps."""
    most: float
    """The largest value of the field."""
    farther: Callable[[float, float], float] = max
    """Returns whichever of two figures, or of two limits, is farther from the usual limit."""


_LIMITS = {
    "max_battery_temp_c": _Limit(_above, 60),
    "max_cpu_temp_c": _Limit(_above, 110),
    "max_thermal_status": _Limit(int, 6),
    "min_battery_percent": _Limit(_below, 100, min),
}
"""Limits by the names of the fields of a sweep file's `protocol.gate`."""
_KEPT_RESULTS = frozenset({"min_battery_percent"})
"""Limits that are in no job key: after such a limit changes, earlier measurements still count."""


def worst(lacking: Iterable[Lack]) -> tuple[Lack, ...]:
    """Return, for each condition, the lack whose figure is farthest from its limit, in the order in which the
    conditions first occur."""
    farthest: dict[str, Lack] = {}
    for lack in lacking:
        name = lack.limit or lack.text
        before = farthest.setdefault(name, lack)
        if lack.limit and _LIMITS[lack.limit].farther(lack.figure, before.figure) != before.figure:
            farthest[name] = lack
    return tuple(farthest.values())


def figures_text(lacking: Iterable[Lack]) -> str:
    """Return JSON of limits and figures, as it is stored in result rows; empty if nothing was lacking."""
    figures = [(lack.limit, lack.figure) for lack in lacking]
    return json.dumps(figures) if figures else ""


def looser_gate(rows: Iterable[str]) -> dict[str, int] | None:
    """Return the limits, by their names under `protocol.gate`, that would let all conditions in these result rows pass.
    `rows`: texts of `figures_text`.

    `None` if no limit would help: another program on the device, a missing sensor, or a figure beyond what a sweep file
    may set. Rows may come from other computers: a text that cannot be read gives `None`, too.
    """
    gate: dict[str, int] = {}
    try:
        figures = [(str(name), float(figure)) for row in rows if row for name, figure in json.loads(row)]
        for name, figure in figures:
            limit = _LIMITS[name]
            beyond = limit.beyond(figure)
            if beyond > limit.most:
                return None
            gate[name] = int(limit.farther(beyond, gate.get(name, beyond)))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return gate or None


def keeps_results(limits: Iterable[str]) -> bool:
    """Tell whether stored results stay valid after these limits change."""
    return set(limits) <= _KEPT_RESULTS
