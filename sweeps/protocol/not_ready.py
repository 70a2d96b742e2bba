"""The conditions that a device lacked when waiting for it was in vain (`sweeps.records.Lack`), and a gate for it.
Pure."""

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
    """The function returns a limit that the figure keeps, which was rounded off."""
    most: float
    """The largest value of the field."""
    farther: Callable[[float, float], float] = max
    """The function returns that of two figures, or of two limits, which is farther from the usual limit."""


_LIMITS = {
    "max_battery_temp_c": _Limit(_above, 60),
    "max_cpu_temp_c": _Limit(_above, 110),
    "max_thermal_status": _Limit(int, 6),
    "min_battery_percent": _Limit(_below, 100, min),
}
"""The limits are by the names of the fields of a sweep file's `protocol.gate`."""
_KEPT_RESULTS = frozenset({"min_battery_percent"})
"""The limits are in no job key: after a change, earlier measurements count on."""


def worst(lacking: Iterable[Lack]) -> tuple[Lack, ...]:
    """Return for each condition the lack whose figure is farthest from its limit, in the order of each condition's
    first."""
    farthest: dict[str, Lack] = {}
    for lack in lacking:
        name = lack.limit or lack.text
        before = farthest.setdefault(name, lack)
        if lack.limit and _LIMITS[lack.limit].farther(lack.figure, before.figure) != before.figure:
            farthest[name] = lack
    return tuple(farthest.values())


def figures_text(lacking: Iterable[Lack]) -> str:
    """The text is JSON of limits and figures, as a row of results has it; empty if nothing lacked."""
    figures = [(lack.limit, lack.figure) for lack in lacking]
    return json.dumps(figures) if figures else ""


def looser_gate(rows: Iterable[str]) -> dict[str, int] | None:
    """The limits, by their names under `protocol.gate`, that all conditions of these rows keep (`figures_text`).

    `None` if no limit allows one of them: another program on the device, a sensor that is gone, or a figure beyond
    what a sweep file may set. Rows may be of other computers: what cannot be read has no limit, either.
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
    """Tell whether a change of these limits leaves the stored results as they are."""
    return set(limits) <= _KEPT_RESULTS
