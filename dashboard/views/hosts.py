"""The hosts of a lab, with the users of their devices. They are queried only when a button is pressed, because a query
takes seconds of CPU."""

import time
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard import compare_rows
from dashboard.arguments import server_options
from dashboard.markdown_escape import line
from dashboard.rights import role
from dashboard.roles import Role
from dashboard.views import live
from dashboard.views.tables import draw_table, table_height
from sweeps.errors import EdgeSweepError
from sweeps.launching import reachable_devices
from sweeps.launching.reachable_devices import HostRow
from sweeps.text import duration
from sweeps.workspace import Workspace

_TOLD = "hosts of the lab"


def show(root: Path) -> None:
    """Draw the lab's hosts; nothing if no lab is given."""
    options = server_options().lab_options
    if not options:
        return
    st.subheader("Hosts of the lab", anchor=False)
    may = role() >= Role.LAUNCH
    pressed = st.button("Ask the hosts", icon=":material/dns:", disabled=not may)
    if not may:
        st.caption("Asking them is for who may launch sweeps. In a terminal: `edgesweep hosts`.")
        return  # a browser may send anything
    if pressed:
        st.session_state.pop(_TOLD, None)
        try:
            with st.spinner("Asking the lab's head"):
                st.session_state[_TOLD] = (time.time(), *reachable_devices.hosts(Workspace(root), options))
        except EdgeSweepError as error:
            live.problem("The hosts did not answer.", error)
    if (answer := st.session_state.get(_TOLD)) is None:
        return
    at_s, rows, troubles = answer
    draw_table(
        pd.DataFrame([_line(row) for row in rows], columns=["Host", "Device", "Model", "Used by", "Runs"]),
        hide_index=True,
        key="hosts-table",
        height=table_height(min(len(rows), 20)),
    )
    for text in troubles:
        st.text(line(text))
    st.caption(f"As of {compare_rows.session_text(int(at_s))}. Not asked again until you do.")


def _line(row: HostRow) -> tuple[str, ...]:
    host = row.host if row.answers else f"{row.host} (does not answer)"
    if not row.device:
        return line(host), "no device", "", "", ""
    who = row.used_by or "nobody"
    who += f", about {duration(row.left_s)} left" if row.used_by and row.left_s else ""
    who += f"; {row.waiting} wait" if row.waiting else ""
    return line(host), line(row.device), line(row.device_class), line(who), line(row.running)
