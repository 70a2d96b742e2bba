"""The list of all results of a sweep on the page Fleet, with filters by device, model and build, and with downloads."""

import shlex
from collections.abc import Mapping

import pandas as pd
import streamlit as st

from dashboard import data, downloads, state
from dashboard.arguments import server_options
from dashboard.markdown_escape import NOTHING, line
from dashboard.source import Source
from dashboard.views.tables import draw_table, table_height, text_width
from dashboard.words import setup_names
from sweeps.launching.sweep_commands import command_hints
from sweeps.metrics import METRICS
from sweeps.report.table_files import results_table
from sweeps.results import ResultRow
from sweeps.spec import catalog
from sweeps.workspace import Workspace

ANY = "*"
"""Option of a filter that accepts every value."""
SHOWN, SENT = 100, 10_000
"""Most rows that the page draws, and most rows in a downloaded file."""
OPEN = "results"
"""URL parameter of the switch that opens the list; while it is off, no results are read."""
_FIGURES = {"latency_p50_ms": "p50", "accuracy_drop_points": "Accuracy drop", "artifact_mb": "Size"}


def show(now: Source, sweep: str, devices: Mapping[str, str], models: list[str]) -> None:
    """Draw the switch, and the filtered list if the switch is on. `devices`: display names by id."""
    with st.container(border=True, key="every-result"):
        if not state.switch(OPEN, "Look through all results"):
            return
        with st.container(horizontal=True, gap="medium", key="filters"):
            filters = {
                "place_id": _choice("device", "Phone", list(devices), devices),
                "model": _choice("of", "Model of", models),
                "outcome": _choice("outcome", "Outcome", ["measured", "failed", "skipped"]),
                **{
                    axis: _choice(axis, axis.capitalize(), list(map(str, catalog.values(axis))))
                    for axis in ("backend", "precision", "layout")
                },
            }
        chosen = tuple((name, value) for name, value in filters.items() if value != ANY)
        count, rows = data.chosen_results(now, sweep, chosen, SHOWN)
        first = f", the first {len(rows)} of them" if count > len(rows) else ""
        st.caption(f"{count:,} result{'s' * (count != 1)}{first}. The fastest come first.")
        if rows:
            names = setup_names(rows)
            table = pd.DataFrame([_shown(row, devices, names[row.setup]) for row in rows])
            draw_table(
                table,
                hide_index=True,
                width="stretch",
                height=table_height(min(len(rows), 12)),
                column_config={"Build": st.column_config.TextColumn(width=text_width(table["Build"]))},
            )
        with st.container(horizontal=True, gap="small"):
            downloads.offer_tables(
                lambda: results_table(data.chosen_results(now, sweep, chosen, SENT)[1]), f"{sweep}-results", "every"
            )
        if count > SENT:
            whole = f"edgesweep report {shlex.quote(sweep)} --csv results.csv"
            st.text(
                f"A file has the first {SENT:,} of them. All results: "
                + line(command_hints(Workspace(server_options().workspace)).typed(whole))
            )


def _choice(name: str, label: str, options: list[str], names: Mapping[str, str] | None = None) -> str:
    def shown(option: str) -> str:
        return "Any" if option == ANY else line((names or {}).get(option, option))

    return state.chosen(name, label, [ANY, *options], shown, usual=ANY)


def _shown(row: ResultRow, devices: Mapping[str, str], build: str) -> dict[str, str]:
    figures = {
        title: METRICS[name].format(row.metrics[name]) if name in row.metrics else NOTHING
        for name, title in _FIGURES.items()
    }
    about = row.reason if row.outcome != "measured" else ", ".join(row.trust)
    return {
        "Device": devices.get(row.device_id, line(row.device)),
        "Model": line(row.model),
        "Build": build,
        **figures,
        "Outcome": row.outcome,
        "Trust, or why not": line(about),
    }
