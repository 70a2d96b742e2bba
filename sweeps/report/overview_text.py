"""The text of an overview for a terminal: who won, in one line for each device and model. This module makes no
decision."""

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from sweeps.command_hints import ANYWHERE, CommandHints
from sweeps.ranking.amounts import in_words
from sweeps.ranking.overview import PlaceVerdict
from sweeps.report.terminal_tables import NO_NAMES, Lines, cells, new_table, open_console
from sweeps.text import plain

_STYLES = {"winner": "green", "tied": "yellow", "provisional": "yellow", "waiting": "dim", "none": "red"}
MORE = "one device's table: --device NAME; everything: --all"


def print_overview(
    sweep: str,
    verdicts: Sequence[PlaceVerdict],
    notes: Iterable[str] = (),
    *,
    hints: CommandHints = ANYWHERE,
    names: Mapping[str, str] = NO_NAMES,
) -> None:
    """Print the overview. `notes`, `hints` and `names` are as in `print_ranking`."""
    out = Lines(open_console(), hints, names)
    out.line(f"\n{sweep}: what to ship on which device", "bold")
    table = new_table("", "device", "model", "ship", ">figure", "state")
    for verdict in verdicts:
        short = verdict.name_here.removeprefix(f"{verdict.model} · ")
        name = short if verdict.winner else f"provisionally {short}" if verdict.provisional else f"– {verdict.reason}"
        table.add_row(
            *cells(out.device(verdict.device_id, verdict.device), verdict.model, name, _figure(verdict)),
            Text(plain(_state(verdict)), style=_STYLES[verdict.state]),
        )
    out.console.print(table)
    for verdict in verdicts:
        if verdict.settle:
            lead = f"{names.get(verdict.device_id, verdict.device_id)}, {verdict.model}: "
            lead += f"{verdict.reason}. To settle it: " if verdict.provisional else ""
            out.line(f"{lead}{verdict.settle}")
    for note in notes:
        out.line(note)
    out.line(MORE, "dim")


def _figure(verdict: PlaceVerdict) -> str:
    if not verdict.winner:
        return ""
    figures = {
        verdict.metric: verdict.value,
        "latency_p50_ms": verdict.latency_p50_ms,
        "latency_ci_low_ms": verdict.latency_ci_low_ms,
        "latency_ci_high_ms": verdict.latency_ci_high_ms,
    }
    metric = verdict.metric if verdict.latency_p50_ms is None else "latency_p50_ms"
    if metric.startswith("accuracy_drop"):
        return "" if verdict.value is None else f"{verdict.value:.2f} points"
    return in_words(figures, metric)


def _state(verdict: PlaceVerdict) -> str:
    words: list[str] = [verdict.state]
    if verdict.unresolved:
        words.append(f"{verdict.unresolved} not told apart")
    if verdict.equal:
        words.append(f"{verdict.equal} equal")
    if verdict.waiting:
        words.append(f"{verdict.waiting} waiting")
    return ", ".join(words)
