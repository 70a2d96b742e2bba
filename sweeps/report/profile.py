"""A profile as a table for a terminal."""

from collections.abc import Iterable

from rich.table import Table

from sweeps.report.terminal_tables import cells, new_table
from sweeps.stored_profiles import StoredOperator


def operators_table(operators: Iterable[StoredOperator]) -> Table:
    """Return a table of the operators in the given order, with figures per iteration; the time of an operator excludes
    the operators that it calls."""
    table = new_table("", "operator", "where", ">calls", ">µs", ">%")
    for operator in operators:
        figures = (
            f"{operator.calls_per_iteration:g}",
            f"{operator.self_us_per_iteration:.1f}",
            f"{operator.percent:.1f}",
        )
        table.add_row(*cells(operator.name, operator.where, *figures))
    return table
