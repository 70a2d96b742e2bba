"""Tables and consoles as all of EdgeSweep's terminal output has them."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeps.text import plain

ONLY_CHECKED = "only checked"
"""What stands for the rounds and the time of a job that a reference implementation answered."""


def open_console(*, stderr: bool = False) -> Console:
    """Where people read. Piped output is as wide as it needs to be; markup in names stays text."""
    console = Console(stderr=stderr, markup=False, highlight=False)
    if not console.is_terminal:
        console.width = 180
    return console


def new_table(title: str, *columns: str) -> Table:
    """A column that begins with `>` holds numbers: to the right, in one line."""
    table = Table(title=Text(plain(title), style="bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        numeric = column.startswith(">")
        table.add_column(column.lstrip(">"), justify="right" if numeric else "left", no_wrap=numeric)
    return table


def cells(*values: object) -> list[Text]:
    """Text for one row: what is no `Text` yet may come from outside and is made harmless."""
    return [value if isinstance(value, Text) else Text(plain(str(value))) for value in values]
