"""The cells of the heat maps on the page Fleet, with winners and costs. Pure: verdicts and costs in, cells out."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from dashboard.charts.heat import TINTS, HeatCell, HeatRow
from dashboard.markdown_escape import line
from dashboard.words import plain_words
from sweeps.ranking.build_costs import Cell, Cells, Setup
from sweeps.ranking.overview import PlaceVerdict
from sweeps.spec import catalog

STATES = {
    "winner": "",
    "tied": "≈ tied",
    "provisional": "… provisional",
    "waiting": "… waiting",
    "none": "✕ none may ship",
}
"""Mark of each state of a verdict."""
_CELL_STATES = {
    "ships": "",
    "unresolved": "? unresolved",
    "may_not": "✕ may not",
    "failed": "✕ failed",
    "skipped": "– skipped",
    "untimed": "– not timed",
}


def winners(
    devices: Mapping[str, str],
    models: Sequence[str],
    verdicts: Mapping[tuple[str, str], PlaceVerdict],
    names: Mapping[str, str],
) -> list[HeatRow]:
    """Return a row for each device with a cell for each model, which names the winning build. `devices`: names by id.
    `names`: names of builds by job key. Each build has one colour; the build that wins most often has the first."""
    wins = Counter(names[won.job_key] for won in verdicts.values() if won.job_key in names)
    tints = {name: number for number, (name, _) in enumerate(wins.most_common())}
    return [
        HeatRow(
            name,
            tuple(
                _winner(number, verdict, names, tints)
                if (verdict := verdicts.get((device, model)))
                else _nothing(number)
                for number, model in enumerate(models)
            ),
        )
        for device, name in devices.items()
    ]


def colours_in_words(builds: int) -> str:
    """Return a sentence about the colours of `winners`. `builds`: the number of different builds that win."""
    own = len(TINTS) - 1
    if builds <= own + 1:
        return "One colour for each build."
    return f"One colour for each of the {own} builds that win most often; the other {builds - own} are grey."


def figure(verdict: PlaceVerdict) -> str:
    """Return the winner's figure with its unit, such as `3.41 ms`; empty without a figure."""
    if verdict.latency_p50_ms is not None:
        return f"{verdict.latency_p50_ms:#.3g} ms".replace(". ", " ")
    return "" if verdict.value is None else catalog.metric(verdict.metric).format(verdict.value)


def state_text(verdict: PlaceVerdict) -> str:
    """Return the state of a place in words, such as `≈ tied with 2` or `… 3 waiting`; empty for a winner without
    ties."""
    if verdict.state == "tied":
        return f"≈ tied with {verdict.unresolved}"
    if verdict.state in ("provisional", "waiting"):
        return (
            f"{STATES[verdict.state]}, {verdict.waiting} to come" if verdict.winner else f"… {verdict.waiting} waiting"
        )
    return STATES[verdict.state]


def builds(
    devices: Mapping[str, str],
    setups: Sequence[Setup],
    cells: Cells,
    verdicts: Mapping[str, PlaceVerdict],
    model: str,
) -> list[HeatRow]:
    """Return a row for each device with a cell for each build, which shows the build's cost; the winner's cell has a
    ring. `verdicts`: the verdicts of this model by device id."""
    rows = []
    for device, name in devices.items():
        by_setup, verdict = cells.get(device, {}), verdicts.get(device)
        winner = verdict.job_key if verdict else ""
        row = tuple(_build(number, device, model, by_setup.get(setup), winner) for number, setup in enumerate(setups))
        notes = "" if verdict is None else f"{figure(verdict)}  {state_text(verdict)}".strip()
        rows.append(HeatRow(name, row, notes))
    return rows


def shown_setups(cells: Cells, winning: Sequence[str], most: int) -> list[Setup]:
    """Return the builds to show, at most `most`: first those that win somewhere (`winning`: job keys), then those that
    may ship on the most devices at the least cost; last those that are skipped on every device."""
    wins = set(winning)
    built = _built(cells)
    ranks: dict[Setup, tuple[int, int, float]] = {}
    for by_setup in cells.values():
        for setup, cell in by_setup.items():
            won, ships, cost = ranks.get(setup, (0, 0, 0.0))
            may = cell.state == "ships"
            ranks[setup] = (won - (cell.job_key in wins), ships - may, cost + ((cell.ratio or 0.0) if may else 0.0))
    return sorted(ranks, key=lambda setup: (setup not in built, *ranks[setup], setup))[:most]


def left_out(cells: Cells, setups: Collection[Setup]) -> str:
    """Return a sentence with the number of builds that are not in `setups`, such as `2 more builds stand in Decide.`;
    empty if there are none."""
    rest = {setup for by_setup in cells.values() for setup in by_setup} - set(setups)
    more = len(rest & _built(cells))
    skipped = len(rest) - more
    parts = [f"{more} more build{'s' * (more != 1)}"] if more else []
    parts += [f"{skipped} that {'is' if skipped == 1 else 'are'} skipped everywhere"] if skipped else []
    return f"{' and '.join(parts)} stand{'s' * (more + skipped == 1)} in Decide." if parts else ""


def _built(cells: Cells) -> set[Setup]:
    """Return the builds that are not skipped on at least one device."""
    return {setup for by_setup in cells.values() for setup, cell in by_setup.items() if cell.state != "skipped"}


def _winner(column: int, verdict: PlaceVerdict, names: Mapping[str, str], tints: Mapping[str, int]) -> HeatCell:
    state = state_text(verdict)
    name = names.get(verdict.job_key, line(verdict.variant)) if verdict.winner else ""
    reason = "" if verdict.winner else plain_words(verdict.reason)
    lines = tuple(filter(None, (name, figure(verdict), state)))
    tip = " · ".join(filter(None, (line(verdict.device), line(verdict.model), name, figure(verdict), state, reason)))
    return HeatCell(
        column, verdict.device_id, verdict.model, verdict.job_key, lines or ("–",), None, tip, tint=tints.get(name)
    )


def _nothing(column: int) -> HeatCell:
    return HeatCell(column, "", "", "", ("–",), None, "not in this sweep")


def _build(column: int, device: str, model: str, cell: Cell | None, winner: str) -> HeatCell:
    if cell is None:
        return HeatCell(column, device, model, "", ("–",), None, "not in this sweep, or not finished yet")
    state = _CELL_STATES[cell.state]
    cost = "" if cell.ratio is None else f"{cell.ratio:.2f}×"
    lines = tuple(filter(None, (cost, state))) or ("–",)
    shade = cell.ratio if cell.state == "ships" else None
    of_best = f"{cost} of the best build that may ship here" if cost else ""
    tip = " · ".join(filter(None, (of_best, state))) or "no figure"
    return HeatCell(column, device, model, cell.job_key, lines, shade, tip, cell.job_key == winner)
