"""A profile as a table for a terminal."""

from collections.abc import Iterable

from rich.table import Table

from sweeps.kept_profiles import KeptOperator
from sweeps.report.tables import cells, new_table


def operators_table(operators: Iterable[KeptOperator]) -> Table:
    """Per iteration, in their order; of what an operator calls, it has not the time."""
    table = new_table("", "operator", "where", ">calls", ">µs", ">%")
    for one in operators:
        figures = f"{one.calls_per_iteration:g}", f"{one.self_us_per_iteration:.1f}", f"{one.percent:.1f}"
        table.add_row(*cells(one.name, one.where, *figures))
    return table
