"""Costs and results of simulated sweeps: a table per phone for a terminal, one table as Markdown, and JSON.

Decides nothing.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from sweeps.report.tables import cells, new_table, open_console
from sweeps.surveys import Figures, Simulation
from sweeps.text import plain

SIMULATED = "Simulated: virtual time on phones that exist only in a program. No figure here comes from a real phone."


_ROWS = (
    "device time of a sweep, median (min)",
    "of it measuring (%)",
    "samples of a sweep, median",
    "best named, within 2 % (sweeps)",
    "true best eliminated (sweeps)",
    "95 % intervals that hold the truth (%)",
    "blocks throttled (% of all)",
    "of them counted unmarked (% of all)",
    "blocks marked and kept apart (% of all)",
    "races undecided (sweeps)",
)


def document(simulation: Simulation) -> dict[str, Any]:
    """For `--json`."""
    return {"simulated": True, "note": SIMULATED, **asdict(simulation), "methods": dict(simulation.methods)}


def print_simulation(simulation: Simulation) -> None:
    out = open_console()
    out.print(Text(SIMULATED, style="yellow"))
    out.print(Text(simulation.about + "."))
    for phone in simulation.phones:
        table = new_table(f"{phone.phone}: {phone.about}", "", *(f">{one.method}" for one in phone.methods))
        for name, *row in zip(_ROWS, *(_column(one) for one in phone.methods), strict=True):
            table.add_row(*cells(name, *row))
        out.print(table)
    for name, about in simulation.methods.items():
        out.print(Text(plain(f"{name}: {about}"), style="dim"))


def markdown(simulation: Simulation) -> str:
    """One table with all phones."""
    head = ("phone", "method", *_ROWS)
    lines = [_line(head), _line(["---", "---", *["---:"] * len(_ROWS)])]
    for phone in simulation.phones:
        lines += [_line([phone.phone, one.method, *_column(one)]) for one in phone.methods]
    return "\n".join([SIMULATED, f"{simulation.about}.", "", *lines]) + "\n"


def legend(simulation: Simulation) -> str:
    """What the methods and the phones of `markdown` are."""
    methods = [f"* `{name}`: {about}" for name, about in simulation.methods.items()]
    phones = [f"* `{one.phone}`: {one.about}" for one in simulation.phones]
    return "\n".join(["Methods:", "", *methods, "", "Phones:", "", *phones]) + "\n"


def _column(one: Figures) -> list[str]:
    """In the order of `_ROWS`."""
    return [
        f"{one.device_minutes:,.1f}",
        f"{one.measuring_percent:.1f}",
        f"{one.samples:,}",
        f"{one.best_named} of {one.sweeps}",
        "no elimination" if one.best_eliminated is None else f"{one.best_eliminated} of {one.sweeps}",
        _percent(one.intervals_with_truth, one.intervals) if one.intervals else "no interval",
        _percent(one.throttled_blocks, one.blocks),
        _percent(one.throttled_unmarked_blocks, one.blocks),
        _percent(one.marked_blocks, one.blocks),
        "no race" if one.undecided is None else f"{one.undecided} of {one.sweeps}",
    ]


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total:.1f}"


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"
