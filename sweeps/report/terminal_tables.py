"""The tables and consoles for all terminal output of EdgeSweep."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import TypeGuard

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from sweeps.command_hints import CommandHints
from sweeps.text import plain

ONLY_CHECKED = "only checked"
"""The text shown instead of the rounds and latency of a job that only a reference implementation checked."""

_BETWEEN = "   "
"""The space between two columns of a table; around the table is one space."""


NO_NAMES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of text on a console."""

    console: Console
    hints: CommandHints
    """The context that completes commands in advice."""
    names: Mapping[str, str]
    """The name of each device in the sweep file, by its id: `edgesweep plan` and the progress of a run use the same
    names."""

    def device(self, device_id: str, text: str) -> str:
        """Return the name of a device, followed by `text`, which describes it. A device without a name is shown by its
        id."""
        return f"{self.names.get(device_id, device_id)}, {text}"

    def line(self, text: str, style: str = "") -> None:
        """Print a line. Control characters of text from outside are removed, so it cannot move the cursor."""
        self.console.print(Text(plain(self.hints.typed(text)), style=style))


def open_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Open a console for people. Piped output is as wide as needed; markup in names is printed as text.

    A notebook gets lines of text, too, because rich needs another package to draw bars there.
    """
    # The streams of a notebook's kernel claim to be terminals, but a notebook cannot move a cursor.
    is_notebook = "ipykernel" in sys.modules
    console = Console(
        stderr=stderr,
        quiet=quiet,
        markup=False,
        highlight=False,
        force_jupyter=False,
        force_terminal=False if is_notebook else None,
    )
    if not console.is_terminal:
        console.width = 180
    return console


class _Lines(Table):
    """A table that draws faster than rich if each cell is one line and all fit into the terminal. Rich takes ten times
    as long for such a table, half a second for 500 rows; rich draws all other tables."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        every = [[Text(str(column.header)), *column.cells] for column in self.columns]
        columns = [[cell for cell in cells if _is_line(cell)] for cells in every]
        widths = [max((cell.cell_len for cell in cells), default=0) for cells in columns]
        width = sum(widths) + len(_BETWEEN) * (len(widths) - 1) + 2
        if columns != every or width > options.max_width or options.ascii_only:
            return super().__rich_console__(console, options)
        of_title = options.update(width=width, justify=self.title_justify)
        title = console.render(self.title, of_title) if self.title else ()
        blank = Segment(" " * width), Segment.line()
        rule = Segment(f" {'─' * (width - 2)} "), Segment.line()
        head, *rows = zip(*columns, strict=True)
        lines = (self._line(console, row, widths) for row in rows)
        heads = self._line(console, head, widths, console.get_style("table.header"))
        return chain(title, blank, heads, rule, *lines, blank)

    def _line(
        self, console: Console, row: Sequence[Text], widths: Sequence[int], style: Style | None = None
    ) -> Iterator[Segment]:
        """Yield the segments of one line. Adjacent cells without a style are joined into one segment."""
        together = " "
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - cell.cell_len)
            text = space + cell.plain if self.columns[number].justify == "right" else cell.plain + space
            together += _BETWEEN if number else ""
            if cell.style:
                yield Segment(together, style)
                yield Segment(text, console.get_style(cell.style))
                together = ""
            else:
                together += text
        yield Segment(f"{together} ", style)
        yield Segment.line()


def new_table(title: str, *columns: str) -> Table:
    """Return an empty table. A column whose name begins with `>` has numbers: right-aligned, without line breaks."""
    table = _Lines(title=Text(plain(title), style="bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        numeric = column.startswith(">")
        table.add_column(column.lstrip(">"), justify="right" if numeric else "left", no_wrap=numeric)
    return table


def cells(*values: object) -> list[Text]:
    """Return the cells of one row as `Text`. Values other than `Text` may come from outside, so their control
    characters are removed."""
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


def _is_line(cell: object) -> TypeGuard[Text]:
    """Tell whether rich would draw the cell unchanged, in one line."""
    return isinstance(cell, Text) and not cell.spans and cell.plain.strip() == cell.plain and "\n" not in cell.plain
