"""Tables and consoles for all terminal output of EdgeSweep."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeps.text import plain

ONLY_CHECKED = "only checked"
"""Shown in place of rounds and latency of a job that a reference implementation checked."""


def open_console(*, stderr: bool = False) -> Console:
    """A console for people. Piped output is as wide as needed; markup in names is printed as text."""
    console = Console(stderr=stderr, markup=False, highlight=False)
    if not console.is_terminal:
        console.width = 180
    return console


def new_table(title: str, *columns: str) -> Table:
    """A column whose name begins with `>` has numbers: right-aligned, without line breaks."""
    table = Table(title=Text(plain(title), style="bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        numeric = column.startswith(">")
        table.add_column(column.lstrip(">"), justify="right" if numeric else "left", no_wrap=numeric)
    return table


def cells(*values: object) -> list[Text]:
    """The cells of one row as `Text`. Other values may come from outside and lose their control characters."""
    return [value if isinstance(value, Text) else Text(plain(str(value))) for value in values]


def print_fitting(
    console: Console, title: str, least_widths: Mapping[str, int], rows: Sequence[Mapping[str, object]]
) -> None:
    """Print a table with the columns that fit into the terminal."""
    columns = [name for name, least_width in least_widths.items() if console.width >= least_width]
    table = new_table(title, *columns)
    for row in rows:
        table.add_row(*cells(*(row[name] for name in columns)))
    console.print(table)
