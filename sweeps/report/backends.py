"""Prints NNAPI against the CPU in a terminal. Decides nothing."""

from rich.console import Console
from rich.text import Text

from sweeps.ranking.backends import TITLE as BACKENDS
from sweeps.ranking.backends import BackendFigure, Best
from sweeps.report.tables import print_fitting
from sweeps.text import plain

_BACKEND_COLUMNS = {
    "device": 0,
    "model": 105,
    "numbers": 0,
    ">CPU ms": 0,
    ">NNAPI ms": 0,
    ">ratio": 0,
    ">95 % interval": 0,
    "finding": 0,
    "best on the CPU": 140,
    "best on NNAPI": 160,
}


def print_backends(console: Console, figure: BackendFigure) -> None:
    title = f"\n{BACKENDS}: the fastest build of each" + (f"; {figure.headline}" if figure.headline else "")
    rows, notes = [], dict[str, list[str]]()
    for pair in figure.pairs:
        if pair.note:
            notes.setdefault(f"{pair.precision}, {pair.note}", []).append(pair.device_id)
        ratio = pair.ratio
        rows.append(
            {
                "device": f"{pair.device} {pair.device_id}",
                "model": pair.model,
                "numbers": pair.precision,
                ">CPU ms": _best_p50(pair.cpu),
                ">NNAPI ms": _best_p50(pair.nnapi),
                ">ratio": "–" if ratio is None else f"{ratio.value:.2f}×",
                ">95 % interval": "–" if ratio is None or ratio.low is None else f"{ratio.low:.2f} – {ratio.high:.2f}",
                "finding": pair.finding or "–",
                "best on the CPU": "–" if pair.cpu is None else pair.cpu.variant,
                "best on NNAPI": "–" if pair.nnapi is None else pair.nnapi.variant,
            }
        )
    print_fitting(console, title, _BACKEND_COLUMNS, rows)
    for note, devices in notes.items():
        console.print(Text(plain(f"{', '.join(dict.fromkeys(devices))}: {note}"), style="dim"))
    if not figure.headline:
        console.print(Text("ratio: NNAPI's p50 divided by the CPU's; below 1, NNAPI is faster", style="dim"))


def _best_p50(best: Best | None) -> str:
    return "–" if best is None else f"{best.p50_ms:.3f}"
