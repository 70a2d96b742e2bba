"""Fleet, the home page: sweeps, what runs and what needs attention, and which build wins on which phone."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard import data, device_rows, downloads, fleet_cells, links, state
from dashboard.charts.heat import HeatCell, HeatRow, heat_map
from dashboard.data import Source
from dashboard.inert import line, words
from dashboard.style import palette
from dashboard.views import attention, empty, every_result, places, shipping
from dashboard.views.tables import table_height
from dashboard.words import device_names
from sweeps.ranking.overview import PlaceVerdict
from sweeps.report.table_files import overview_table

ALL = "*"
"""Of the parameter `model`: an overview of all models."""
PHONES, MODELS, BUILDS, SWEEPS = 20, 6, 8, 12
"""So many of each are drawn at a time: a page is as quick with thousands."""
CHARACTERS = 86
"""What a line of cells holds where it is narrowest."""


def show(root: Path) -> None:
    """Draw the page."""
    now = data.source(root)
    if now is None or not now.plans:
        empty.show(root)
        return
    verdicts = data.verdicts(now, root)
    empty.show_age(root)
    places.head("Fleet", "Which build of my model do I ship on which phone, and how sure are we?")
    _sweeps(now, verdicts, attention.running(root))
    attention.show(now, root)
    with st.container(horizontal=True, gap="medium", key="choices"):
        sweep = state.chosen("sweep", "Sweep", [one.name for one in data.sweeps(now)])
        there = data.places(now, root, sweep)
        models = sorted({model for models in there.models.values() for model in models})
        if not models:
            st.info("This sweep has no jobs.", icon=":material/inbox:")
            return
        options = [ALL, *models] if len(models) > 1 else models
        choose = state.segment if len(options) <= MODELS + 1 else state.chosen
        model = choose("model", "Model", options, _model_name if choose is state.segment else _plain_model_name)
        names = device_names(there.devices)
        starts = [str(start) for start in range(0, len(names), PHONES)]
        start = 0
        if len(starts) > 1:
            start = int(state.chosen("from", "Phones", starts, lambda at: _window(int(at), len(names))))
    shown = dict(sorted(names.items(), key=lambda one: one[1])[start : start + PHONES])
    with st.container(key=f"now-fleet-{downloads.file_name(sweep, model)}", gap="medium"):
        if model == ALL:
            _winners(now, sweep, shown, models, there)
        else:
            _builds(now, sweep, shown, model, there)
        with st.container(horizontal=True, gap="small", key="take-along"):
            mine = [one for one in verdicts if one.sweep == sweep]
            downloads.offer_tables(lambda: overview_table(mine), f"{sweep}-overview", "overview")
        every_result.show(now, sweep, names, models)


def _sweeps(now: Source, verdicts: tuple[PlaceVerdict, ...], running: str) -> None:
    """A line for each sweep: how far it is, and who wins."""
    there: dict[str, list[PlaceVerdict]] = {}
    for one in verdicts:
        there.setdefault(one.sweep, []).append(one)
    found = data.sweeps(now)
    lines = []
    for sweep in found[:SWEEPS]:
        mine = there.get(sweep.name, [])
        by_place = device_rows.places(mine)
        finished, waiting = (sum(getattr(parts[0], name) for parts in by_place) for name in ("finished", "waiting"))
        decided = sum(any(one.winner for one in parts) for parts in by_place)
        wins = Counter(one.variant for one in mine if one.winner)
        winner = (
            "none yet" if not wins else line(next(iter(wins))) if len(wins) == 1 else f"{len(wins)} different builds"
        )
        status = "running" if sweep.name == running else "finished" if not waiting else f"{waiting} jobs to come"
        lines.append(
            (line(sweep.name), status, finished / max(1, finished + waiting), f"{decided} of {len(by_place)}", winner)
        )
    columns = ["Sweep", "State", "Progress", "Decided", "Wins"]
    configure = st.column_config
    st.dataframe(
        pd.DataFrame(lines, columns=columns),
        hide_index=True,
        height=table_height(len(lines)),
        key="sweeps-table",
        column_config={
            "Progress": configure.ProgressColumn(format="percent", min_value=0.0, max_value=1.0, width=140),
            "Decided": configure.TextColumn(help="Phones and models with a winner"),
        },
    )
    if len(found) > SWEEPS:
        st.caption(f"The last {SWEEPS} of {len(found)} sweeps; choose any of them below.")


def _winners(now: Source, sweep: str, devices: dict[str, str], models: list[str], there: data.Places) -> None:
    columns = models[:MODELS]
    verdicts = {
        (device, model): there.models[device][model][0]
        for device in devices
        for model in columns
        if model in there.models[device]
    }
    keys = tuple(sorted({one.job_key for one in verdicts.values() if one.job_key}))
    rows = fleet_cells.winners(devices, columns, verdicts, data.winner_names(now, sweep, keys))
    st.subheader("Who wins where", anchor=False)
    _heat(columns, rows, sweep)
    more = f" {len(models) - MODELS} more models: choose one above." if len(models) > MODELS else ""
    st.caption(f"One colour for each build. Click a cell for the evidence.{more}")


def _builds(now: Source, sweep: str, devices: dict[str, str], model: str, there: data.Places) -> None:
    having = tuple(sorted(device for device, models in there.models.items() if model in models))
    here = {device: name for device, name in devices.items() if device in having}
    shipping.show(now, sweep, model, having)
    known = data.costs(now, sweep, model, tuple(here))
    verdicts = {device: there.models[device][model][0] for device in here}
    setups = fleet_cells.shown_setups(known.cells, [one.job_key for one in verdicts.values()], BUILDS)
    rows = fleet_cells.builds(here, setups, known.cells, verdicts, model)
    st.subheader("What each build costs on each phone", anchor=False)
    _heat([known.names[setup] for setup in setups], rows, sweep)
    more = f" {len(known.names) - BUILDS} more builds stand in Decide." if len(known.names) > BUILDS else ""
    st.caption(
        "Latency (p50) as a multiple of the phone's best build that may ship. Ring: the winner. "
        f"Grey: may not ship. Click a cell for the evidence.{more}"
    )


def _heat(heads: list[str], rows: list[HeatRow], sweep: str) -> None:
    """A map; and on a narrow screen, where it would be cut, a list per phone."""
    look = palette()
    with st.container(key="fleet-wide"):
        wide = st.vega_lite_chart(
            spec=heat_map(heads, rows, look, characters=max(9, CHARACTERS // len(heads))),
            key="fleet-map",
            on_select="rerun",
            selection_mode="cell",
        )
    with st.container(key="fleet-narrow"):
        several = len(heads) > 1
        lines = [
            HeatRow(f"{row.name} · {line(cell.model)}" if several and row.notes == "" else row.name, (cell,), row.notes)
            for row in rows
            for cell in (row.cells if row.notes == "" else [one for one in row.cells if one.has_ring] or row.cells[:1])
            if cell.device
        ]
        flat = [HeatRow(one.name, (_first_column(one.cells[0], heads, one.notes),), one.notes) for one in lines]
        narrow = st.vega_lite_chart(
            spec=heat_map([], flat, look, characters=40), key="fleet-list", on_select="rerun", selection_mode="cell"
        )
    for event in (wide, narrow):
        for cell in event["selection"].get("cell", []):
            if cell.get("device"):
                job = str(cell["job"]) if cell.get("job") else None
                links.go("decide", sweep=sweep, device=str(cell["device"]), model=str(cell["model"]), job=job)


def _first_column(cell: HeatCell, heads: list[str], notes: str) -> HeatCell:
    lines = (heads[cell.column], *cell.lines) if notes and heads else cell.lines
    return replace(cell, column=0, lines=lines)


def _model_name(model: str) -> str:
    return "All models" if model == ALL else words(model)


def _plain_model_name(model: str) -> str:
    return "All models" if model == ALL else line(model)


def _window(start: int, count: int) -> str:
    return f"{start + 1} to {min(count, start + PHONES)} of {count}"
