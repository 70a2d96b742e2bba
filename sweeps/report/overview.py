"""Prints who won where, a line for each device and model. Decides nothing."""

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from sweeps.advice import ANYWHERE, Here
from sweeps.ranking.amounts import in_words
from sweeps.ranking.overview import PlaceVerdict
from sweeps.report.tables import NO_NAMES, Lines, cells, new_table, open_console
from sweeps.text import plain

_STYLES = {"winner": "green", "tied": "yellow", "provisional": "yellow", "waiting": "dim", "none": "red"}
MORE = "one device's table: --device NAME; everything: --all"


def print_overview(
    sweep: str,
    verdicts: Sequence[PlaceVerdict],
    notes: Iterable[str] = (),
    *,
    here: Here = ANYWHERE,
    names: Mapping[str, str] = NO_NAMES,
) -> None:
    """`notes`, `here` and `names`: as of `print_ranking`."""
    out = Lines(open_console(), here, names)
    out.line(f"\n{sweep}: what to ship on which device", "bold")
    table = new_table("", "device", "model", "ship", ">figure", "state")
    for one in verdicts:
        short = one.name_here.removeprefix(f"{one.model} · ")
        name = short if one.winner else f"provisionally {short}" if one.provisional else f"– {one.reason}"
        table.add_row(
            *cells(out.device(one.device_id, one.device), one.model, name, _figure(one)),
            Text(plain(_state(one)), style=_STYLES[one.state]),
        )
    out.console.print(table)
    for one in verdicts:
        if one.settle:
            lead = f"{names.get(one.device_id, one.device_id)}, {one.model}: "
            lead += f"{one.reason}. To settle it: " if one.provisional else ""
            out.line(f"{lead}{one.settle}")
    for note in notes:
        out.line(note)
    out.line(MORE, "dim")


def _figure(one: PlaceVerdict) -> str:
    if not one.winner:
        return ""
    figures = {
        one.metric: one.value,
        "latency_p50_ms": one.latency_p50_ms,
        "latency_ci_low_ms": one.latency_ci_low_ms,
        "latency_ci_high_ms": one.latency_ci_high_ms,
    }
    metric = one.metric if one.latency_p50_ms is None else "latency_p50_ms"
    if metric.startswith("accuracy_drop"):
        return "" if one.value is None else f"{one.value:.2f} points"
    return in_words(figures, metric)


def _state(one: PlaceVerdict) -> str:
    words: list[str] = [one.state]
    if one.unresolved:
        words.append(f"{one.unresolved} not told apart")
    if one.equal:
        words.append(f"{one.equal} equal")
    if one.waiting:
        words.append(f"{one.waiting} waiting")
    return ", ".join(words)
