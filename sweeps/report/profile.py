"""A profile as a table for a terminal."""

from collections.abc import Sequence
from typing import Protocol

_HEADS = ("operator", "where", "calls", "µs", "%")


class _Operator(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def where(self) -> str: ...
    @property
    def calls(self) -> float: ...
    @property
    def self_us(self) -> float: ...
    @property
    def percent(self) -> float: ...


def terminal_text(job: str, device: str, operators: Sequence[_Operator], iterations: int, runner: str) -> str:
    """Per iteration, the slowest operator first; of what an operator calls, it has not the time."""
    rows = [
        _HEADS,
        *((one.name, one.where, f"{one.calls:g}", f"{one.self_us:.1f}", f"{one.percent:.1f}") for one in operators),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    lines = [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "─" * (sum(widths) + 2 * (len(widths) - 1)))
    about = [
        f"Own time of each operator per iteration, the median of {iterations}, told by {runner}.",
        "A profiled run is slower than others: no figure here is a latency.",
    ]
    return "\n".join([f"{job} on {device}, profiled", "", *lines, "", *about])
