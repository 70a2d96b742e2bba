import io
import sys
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeps.report.terminal_tables import cells, new_table, open_console

ROWS: list[tuple[object, ...]] = [
    ("int8 · nhwc", "0.271", Text("pass", style="green")),
    ("日本語 [bold]x[/bold]  two spaces", "1,234.5", Text("fail", style="red")),
    ("", "–", "2 %"),
]


def drawn(table: Table, draw: type[Table], width: int) -> str:
    file = io.StringIO()
    table.__class__ = draw
    Console(file=file, width=width, markup=False, highlight=False, color_system=None).print(table)
    return file.getvalue()


def test_a_kernel_s_stream_that_says_it_is_a_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: True, write=str, flush=str))
    assert open_console(stderr=True).is_terminal
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    assert not open_console(stderr=True).is_terminal


@pytest.mark.parametrize("title", ["", "of all"])
@pytest.mark.parametrize(
    "more_rows",
    [[], [("a line\nand one more", "1", "")], [(" space before", "1", "")], [("word " * 30, "2", "")]],
    ids=["fits", "lines", "space", "too wide"],
)
def test_a_table_is_drawn_as_rich_draws_it(title: str, more_rows: list[tuple[object, ...]]) -> None:
    table = new_table(title, "variant", ">p50 ms", "verdict")
    own_type = type(table)
    for row in (*ROWS, *more_rows):
        table.add_row(*(Text(value) if isinstance(value, str) and "\n" in value else cells(value)[0] for value in row))
    assert drawn(table, own_type, 100) == drawn(table, Table, 100)
    empty = new_table(title, "variant", ">p50 ms")
    assert drawn(empty, own_type, 100) == drawn(empty, Table, 100)
    single = new_table(title, "a")
    single.add_row(*cells("one"))
    assert drawn(single, own_type, 100) == drawn(single, Table, 100)
