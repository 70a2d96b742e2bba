"""A profile as a table for a terminal."""

from collections.abc import Sequence
from typing import Protocol

from rich.table import Table

from sweeps.report.tables import cells, new_table


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


def operators_table(operators: Sequence[_Operator]) -> Table:
    """Per iteration, in their order; of what an operator calls, it has not the time."""
    table = new_table("", "operator", "where", ">calls", ">µs", ">%")
    for one in operators:
        table.add_row(*cells(one.name, one.where, f"{one.calls:g}", f"{one.self_us:.1f}", f"{one.percent:.1f}"))
    return table
