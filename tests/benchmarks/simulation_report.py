"""Costs and results of simulated sweeps: a table per phone for a terminal, one table as Markdown, and JSON.

Nothing is decided here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.text import Text

from sweeps.report.terminal_tables import cells, new_table, open_console
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One method on one phone, over `sweeps` sweeps."""

    method: str
    sweeps: int
    device_minutes: float
    """The median of a sweep: pushes, starts, loads, warm-ups and waits counted."""
    measuring_percent: float
    """Share of the device's time in which timed iterations ran."""
    samples: int
    """The median of a sweep."""
    best_named: int
    """Sweeps whose best is within 2 % of the true best."""
    best_eliminated: int | None
    """Sweeps in which the true best left the race; `None` without elimination."""
    intervals: int
    """95 % intervals given ..."""
    intervals_with_truth: int
    blocks: int
    """The blocks of all sweeps."""
    marked_blocks: int
    """Kept apart, as throttled or because the phone was not ready in time."""
    throttled_blocks: int
    throttled_unmarked_blocks: int
    """Counted as results all the same."""
    undecided: int | None
    """Races that were not decided when their rounds or their time ended; `None` where there is no race."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhoneFigures:
    """Every method on one phone."""

    phone: str
    about: str
    methods: tuple[Figures, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """One run of `simulate.py`."""

    variants: int
    base_ms: float
    sigma: float
    seeds: int
    methods: Mapping[str, str]
    """Name to what is done, in words."""
    phones: tuple[PhoneFigures, ...]

    @property
    def about(self) -> str:
        return (
            f"{self.seeds} sweeps of {self.variants} variants each; their true latencies are lognormal around "
            f"{self.base_ms:g} ms (sigma {self.sigma:g}). Builds, accuracy passes and the sentinel are not counted"
        )


def document(simulation: Simulation) -> dict[str, Any]:
    """For `--json`."""
    return {"simulated": True, "note": SIMULATED, **asdict(simulation), "methods": dict(simulation.methods)}


def print_simulation(simulation: Simulation) -> None:
    out = open_console()
    out.print(Text(SIMULATED, style="yellow"))
    out.print(Text(simulation.about + "."))
    for phone in simulation.phones:
        table = new_table(f"{phone.phone}: {phone.about}", "", *(f">{figures.method}" for figures in phone.methods))
        for name, *row in zip(_ROWS, *(_column(figures) for figures in phone.methods), strict=True):
            table.add_row(*cells(name, *row))
        out.print(table)
    for name, about in simulation.methods.items():
        out.print(Text(plain(f"{name}: {about}"), style="dim"))


def markdown(simulation: Simulation) -> str:
    """One table with all phones."""
    head = ("phone", "method", *_ROWS)
    lines = [_line(head), _line(["---", "---", *["---:"] * len(_ROWS)])]
    for phone in simulation.phones:
        lines += [_line([phone.phone, figures.method, *_column(figures)]) for figures in phone.methods]
    return "\n".join([SIMULATED, f"{simulation.about}.", "", *lines]) + "\n"


def legend(simulation: Simulation) -> str:
    """Explain the methods and the phones of `markdown`."""
    methods = [f"* `{name}`: {about}" for name, about in simulation.methods.items()]
    phones = [f"* `{phone.phone}`: {phone.about}" for phone in simulation.phones]
    return "\n".join(["Methods:", "", *methods, "", "Phones:", "", *phones]) + "\n"


def _column(figures: Figures) -> list[str]:
    """In the order of `_ROWS`."""
    return [
        f"{figures.device_minutes:,.1f}",
        f"{figures.measuring_percent:.1f}",
        f"{figures.samples:,}",
        f"{figures.best_named} of {figures.sweeps}",
        "no elimination" if figures.best_eliminated is None else f"{figures.best_eliminated} of {figures.sweeps}",
        _percent(figures.intervals_with_truth, figures.intervals) if figures.intervals else "no interval",
        _percent(figures.throttled_blocks, figures.blocks),
        _percent(figures.throttled_unmarked_blocks, figures.blocks),
        _percent(figures.marked_blocks, figures.blocks),
        "no race" if figures.undecided is None else f"{figures.undecided} of {figures.sweeps}",
    ]


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total:.1f}"


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"
