"""The text of the comparison of NNAPI with the CPU for a terminal. This module makes no decision."""

from sweeps.ranking.nnapi_gain import TITLE as BACKENDS
from sweeps.ranking.nnapi_gain import BackendFigure, Best
from sweeps.report.terminal_tables import Lines, print_fitting

_BACKEND_COLUMNS = {
    "device": 0,
    "model": 105,
    "numbers": 0,
    ">CPU ms": 0,
    ">NNAPI ms": 0,
    ">paired ratio": 0,
    ">95 % interval": 0,
    "finding": 0,
    "best on the CPU": 140,
    "best on NNAPI": 160,
}
_PAIRED = (
    "paired ratio: NNAPI's latency to the CPU's in the same rounds (95 %); below 1, NNAPI is faster; a p50 is over all "
    "rounds, so it need not be the quotient of two"
)


def print_backends(out: Lines, figure: BackendFigure) -> None:
    title = f"\n{BACKENDS}: the fastest build of each" + (f"; {figure.headline}" if figure.headline else "")
    rows, notes = [], dict[str, list[str]]()
    for pair in figure.pairs:
        if pair.note:
            notes.setdefault(f"{pair.precision}, {pair.note}", []).append(out.names.get(pair.device_id, pair.device_id))
        ratio = pair.paired
        rows.append(
            {
                "device": out.device(pair.device_id, pair.device),
                "model": pair.model,
                "numbers": pair.precision,
                ">CPU ms": _best_p50(pair.cpu),
                ">NNAPI ms": _best_p50(pair.nnapi),
                ">paired ratio": "–" if ratio is None else f"{ratio.value:.2f}×",
                ">95 % interval": "–" if ratio is None or ratio.low is None else f"{ratio.low:.2f} – {ratio.high:.2f}",
                "finding": pair.finding or "–",
                "best on the CPU": "–" if pair.cpu is None else pair.cpu.variant,
                "best on NNAPI": "–" if pair.nnapi is None else pair.nnapi.variant,
            }
        )
    print_fitting(out.console, title, _BACKEND_COLUMNS, rows)
    for note, devices in notes.items():
        out.line(f"{', '.join(dict.fromkeys(devices))}: {note}", "dim")
    if not figure.headline:
        out.line(_PAIRED, "dim")


def _best_p50(best: Best | None) -> str:
    return "–" if best is None else f"{best.p50_ms:.3f}"
