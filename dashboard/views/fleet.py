"""The home page Fleet: sweeps, what runs and what needs attention, and which build wins on which phone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import streamlit as st

from dashboard import data, downloads, fleet_cells, fleet_data, links, state
from dashboard.charts.drawing import Spec
from dashboard.charts.heat import HeatCell, HeatRow, heat_map
from dashboard.markdown_escape import line, words
from dashboard.running import Running
from dashboard.source import KEYS, Source
from dashboard.style import Palette, palette
from dashboard.views import attention, empty, every_result, page_head, shipping
from dashboard.views.tables import draw_table, table_height
from dashboard.words import device_names
from sweeps.journal.remaining_jobs import JOBS_UNKNOWN
from sweeps.launching.driver import find
from sweeps.report.table_files import overview_table
from sweeps.store.fleet import SweepSum
from sweeps.workspace import Workspace

ALL = "*"
"""Value of the URL parameter `model` for an overview of all models."""
PHONES, MODELS, BUILDS, SWEEPS = 20, 6, 8, 12
"""Numbers of phones, models, builds and sweeps that the page draws at a time, so that it is as quick with thousands."""
NEXT = 2
"""Number of builds below the winner on a narrow screen."""
UNKNOWN = "not known here"
"""State of a sweep of another workspace."""
CHARACTERS = 86
"""Number of characters that fit into a row of cells on the narrowest screen that shows it."""


def show(root: Path) -> None:
    """Draw the page."""
    now = data.source(root)
    if now is None or not now.plans:
        empty.show(root)
        return
    fleet_data.judge_first(now)
    page_head.head("Fleet", "Which build of my model do I ship on which phone, and how sure are we?")
    run = Running(find(Workspace(root)))
    _sweeps(now, run)
    attention.show(now, root, run)
    with st.container(horizontal=True, gap="medium", key="choices"):
        sweep = state.chosen("sweep", "Sweep", [row.name for row in data.sweeps(now)])
        sweep_names = fleet_data.names(now, sweep)
        models = list(sweep_names.models)
        if not models:
            st.info("This sweep has no jobs.", icon=":material/inbox:")
            return
        options = [ALL, *models] if len(models) > 1 else models
        choose = state.segment if len(options) <= MODELS + 1 else state.chosen
        model = choose("model", "Model", options, _model_name if choose is state.segment else _plain_model_name)
        names = device_names(sweep_names.devices)
        starts = [str(start) for start in range(0, len(names), PHONES)]
        start = 0
        if len(starts) > 1:
            start = int(state.chosen("from", "Phones", starts, lambda at: _window(int(at), len(names))))
    shown = dict(sorted(names.items(), key=lambda item: item[1])[start : start + PHONES])
    with st.container(key=state.selected(sweep, model), gap="medium"):
        if model == ALL:
            _winners(now, sweep, shown, models)
        else:
            having = fleet_data.having(now, sweep, model)
            _builds(now, sweep, shown, model, {device: names[device] for device in having})
        with st.container(horizontal=True, gap="small", key="take-along"):
            downloads.offer_tables(
                lambda: overview_table(verdict for verdict in data.verdicts(now, root) if verdict.sweep == sweep),
                f"{sweep}-overview",
                "overview",
            )
        every_result.show(now, sweep, names, models)


def _sweeps(now: Source, run: Running) -> None:
    """Draw a table of the sweeps: the state, the progress and the winning builds."""
    sums = fleet_data.standing(now).sums
    sweeps = data.sweeps(now)
    shown = [(sweep.name, sums.get(sweep.name)) for sweep in sweeps[:SWEEPS]]
    only = fleet_data.build_names_of(
        now, tuple((name, total.build) for name, total in shown if total and total.builds == 1)
    )
    lines = []
    for sweep in sweeps[:SWEEPS]:
        total = sums.get(sweep.name) or SweepSum.empty(sweep.name)
        winner = only.get(sweep.name) or ("none yet" if not total.builds else f"{total.builds} different builds")
        progress = total.finished / max(1, total.finished + total.waiting) if now.knows_jobs(sweep.name) else None
        status = state_of(sweep.name, total, run, knows_jobs=now.knows_jobs(sweep.name))
        lines.append((line(sweep.name), status, progress, f"{total.decided} of {total.places}", winner))
    columns = ["Sweep", "State", "Progress", "Decided", "Wins"]
    configure = st.column_config
    draw_table(
        pd.DataFrame(lines, columns=columns),
        hide_index=True,
        height=table_height(len(lines)),
        key="sweeps-table",
        column_config={
            "Progress": configure.ProgressColumn(format="percent", min_value=0.0, max_value=1.0, width=140),
            "Decided": configure.TextColumn(
                help="Phones and models with a winner that nothing is tied with, and no job to come"
            ),
        },
    )
    if not all(now.knows_jobs(sweep.name) for sweep in sweeps[:SWEEPS]):
        st.caption(f":material/info: {UNKNOWN}: {JOBS_UNKNOWN}.")
    if len(sweeps) > SWEEPS:
        st.caption(f"The last {SWEEPS} of {len(sweeps)} sweeps; choose any of them below.")


def state_of(sweep: str, total: SweepSum, run: Running, *, knows_jobs: bool) -> str:
    """Return the state of a sweep in words: `running`; or how this workspace's last run ended, if it was of this sweep,
    and the number of jobs to come."""
    is_last = sweep == run.driver.sweep
    if is_last and run.driver.state != "idle":
        return "running"
    if not knows_jobs:
        return UNKNOWN
    to_come = f"{total.waiting} job{'s' * (total.waiting != 1)} to come" if total.waiting else ""
    ended = run.words.lower() if is_last and run.words in ("Paused", "Stopped", "Failed") else ""
    return ", ".join(filter(None, (ended, to_come))) or "finished"


def _winners(now: Source, sweep: str, devices: dict[str, str], models: list[str]) -> None:
    st.subheader("Who wins where", anchor=False)
    maps = _winner_maps(now, sweep, tuple(devices.items()), tuple(models[:MODELS]), palette())
    _heat(maps, sweep)
    more = f" {len(models) - MODELS} more models: choose one above." if len(models) > MODELS else ""
    st.caption(f"{fleet_cells.colours_in_words(maps.builds)} Click a cell for the evidence.{more}")


def _builds(now: Source, sweep: str, devices: dict[str, str], model: str, having: dict[str, str]) -> None:
    """Draw the costs of the builds of one model. `devices`: the devices on this page; `having`: the devices that have
    the model; both are names by id."""
    drawn = {device: name for device, name in devices.items() if device in having}
    shipping.show(now, sweep, model, having)
    st.subheader("What each build costs on each device", anchor=False)
    maps = _build_maps(now, sweep, tuple(drawn.items()), model, palette())
    _heat(maps, sweep)
    more = f" {maps.more}" if maps.more else ""
    st.caption(
        "Latency (p50) as a multiple of the device's best build that may ship. Ring: the winner. "
        f"Grey: may not ship. Click a cell for the evidence.{more}"
    )


class Maps(NamedTuple):
    """Heat map, and for a narrow screen, where it would be cut, a list per device."""

    wide: Spec
    narrow: Spec
    builds: int
    """Number of different builds."""
    more: str = ""
    """Sentence about the builds that are not drawn."""


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=KEYS)
def _winner_maps(
    now: Source, sweep: str, devices: tuple[tuple[str, str], ...], models: tuple[str, ...], look: Palette
) -> Maps:
    """Return the map of winners. It is cached for all sessions: never change it."""
    verdicts = fleet_data.drawn(now, sweep, tuple(dict(devices)), models)
    keys = tuple(sorted({verdict.job_key for verdict in verdicts.values() if verdict.job_key}))
    rows = fleet_cells.winners(dict(devices), models, verdicts, fleet_data.winner_names(now, sweep, keys))
    return _maps(models, rows, look, len({cell.tint for row in rows for cell in row.cells} - {None}))


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs=KEYS)
def _build_maps(now: Source, sweep: str, devices: tuple[tuple[str, str], ...], model: str, look: Palette) -> Maps:
    """Return the map of builds. It is cached for all sessions: never change it."""
    names = dict(devices)
    costs = fleet_data.costs(now, sweep, model, tuple(names))
    verdicts = {
        device: verdict for (device, _), verdict in fleet_data.drawn(now, sweep, tuple(names), (model,)).items()
    }
    setups = fleet_cells.shown_setups(costs.cells, [verdict.job_key for verdict in verdicts.values()], BUILDS)
    rows = fleet_cells.builds(names, setups, costs.cells, verdicts, model)
    drawn = _maps([costs.names[setup] for setup in setups], rows, look, len(costs.names))
    return drawn._replace(more=fleet_cells.left_out(costs.cells, setups))


def _maps(heads: Sequence[str], rows: list[HeatRow], look: Palette, builds: int) -> Maps:
    several = len(heads) > 1
    lines = [
        HeatRow(f"{row.name} · {line(cells[0].model)}" if several and row.notes == "" else row.name, cells, row.notes)
        for row in rows
        for cells in ([(cell,) for cell in row.cells] if row.notes == "" else [_best_first(row.cells)])
        if cells and cells[0].device
    ]
    flat = [HeatRow(row.name, (_alone(row.cells, heads, row.notes),), row.notes) for row in lines]
    wide = heat_map(heads, rows, look, characters=max(9, CHARACTERS // max(1, len(heads))))
    return Maps(wide, heat_map([], flat, look, characters=40), builds)


def _heat(maps: Maps, sweep: str) -> None:
    with st.container(key="fleet-wide"):
        wide = st.vega_lite_chart(spec=maps.wide, key="fleet-map", on_select="rerun", selection_mode="cell")
    with st.container(key="fleet-narrow"):
        narrow = st.vega_lite_chart(spec=maps.narrow, key="fleet-list", on_select="rerun", selection_mode="cell")
    for event in (wide, narrow):
        for cell in event["selection"].get("cell", []):
            if cell.get("device"):
                job = str(cell["job"]) if cell.get("job") else None
                links.go("decide", sweep=sweep, device=str(cell["device"]), model=str(cell["model"]), job=job)


def _best_first(cells: Sequence[HeatCell]) -> tuple[HeatCell, ...]:
    """Return the winner's cell, or the first cell if no build has won, and the cells of the next best builds that may
    ship; empty without cells."""
    if not cells:
        return ()
    first = next((cell for cell in cells if cell.has_ring), cells[0])
    ranked = sorted((cell.cost, cell.column, cell) for cell in cells if cell.cost is not None and cell is not first)
    return first, *(cell for *_, cell in ranked[:NEXT])


def _alone(cells: Sequence[HeatCell], heads: Sequence[str], notes: str) -> HeatCell:
    """Return the first of a device's cells for a narrow screen, with the costs of the next builds as further lines."""
    first, *rest = cells
    lines = (heads[first.column], *first.lines) if notes and heads else first.lines
    return replace(first, column=0, lines=(*lines, *(f"{cell.lines[0]} {heads[cell.column]}" for cell in rest)))


def _model_name(model: str) -> str:
    return "All models" if model == ALL else words(model)


def _plain_model_name(model: str) -> str:
    return "All models" if model == ALL else line(model)


def _window(start: int, count: int) -> str:
    return f"{start + 1} to {min(count, start + PHONES)} of {count}"
