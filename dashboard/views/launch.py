"""The page Launch: a form and the sweep file beside it, a preview of the work, and the button that starts the sweep."""

from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard import running, state
from dashboard.arguments import server_options
from dashboard.login import ENTER, GATE
from dashboard.markdown_escape import inert, line, words
from dashboard.rights import person, role
from dashboard.roles import Role
from dashboard.views import explained, launch_devices, launch_form, live, page_head, watch
from dashboard.views.launch_devices import HERE, LAB, ON
from dashboard.views.tables import draw_table, table_height
from sweeps.errors import EdgeSweepError
from sweeps.launching.preview import Preview, preview
from sweeps.launching.start import start
from sweeps.launching.text_check import Checked, check
from sweeps.text import duration, plain
from sweeps.workspace import Workspace

PLANNED = "launch plan"
"""Key in the session for the last preview, with the file's text and the lab options that it was made for."""
_STYLE = "<style>.st-key-launch-file textarea { font-family: monospace; font-size: 0.85rem; }</style>"
"""Style of the sweep file's text: a monospaced font, because indentation has a meaning."""


def show(root: Path) -> None:
    """Draw the page."""
    page_head.head("Launch", "Which builds to make of a model, and on which devices to measure them.")
    st.html(_STYLE)
    may = role()
    if may < Role.LAUNCH:
        st.info("You may look: sweeps are started by who came in by the printed link, or has a role.", icon="🔒")
    with st.container(key="runs-here"):  # always drawn, so that the form keeps its place and the text typed into it
        if running.read(root).driver.state != "idle":
            live.draw(root, brief=True)
            st.caption("This workspace runs one sweep at a time. What stands below can be started when it has ended.")
        else:
            watch.watched(root)
    launch_form.begin(root, may)
    form, file = st.columns([2, 3], gap="large")
    with form:
        launch_form.draw(root, may)
    with file:
        text = launch_form.draw_file(may)
        checked = check(Workspace(root), text, server_options().models)
        _problems(checked, text)
        _act(root, text, checked, may)
    if may is Role.OPERATE:
        _let_in()


def _problems(checked: Checked, text: str) -> None:
    """Draw each problem, with the line of the file that it concerns."""
    if checked.problems:
        st.error("This file cannot be started.", icon=":material/error:")
        lines = text.splitlines()
        for problem in checked.problems:
            st.text(line(problem.text))
            if problem.line is not None and 0 < problem.line <= len(lines):
                st.code(f"{problem.line:>4} | {plain(lines[problem.line - 1])[:200]}", language=None)


def _where() -> tuple[str, ...]:
    """Draw the choice of where the sweep runs, and return the arguments of the command for it."""
    lab = server_options().lab_options
    if not lab:
        return ()
    names = {LAB: f"The lab {server_options().lab}", HERE: "This computer"}
    state.segment(ON, "Runs on", list(names), lambda key: words(names[key]))
    return launch_devices.options()


def _act(root: Path, text: str, checked: Checked, may: Role) -> None:
    bad = checked.spec is None
    options = _where()
    with st.container(horizontal=True):
        look = st.button("Preview", icon=":material/preview:", disabled=bad or may < Role.LAUNCH)
        go = st.button("Start", icon=":material/play_arrow:", type="primary", disabled=bad or may < Role.LAUNCH)
    if role() < Role.LAUNCH or bad:
        return  # a browser may send anything
    of = (text, options)
    try:
        if look:
            st.session_state[PLANNED] = None
            with st.spinner("Planning: nothing is trained, and no model is built"):
                st.session_state[PLANNED] = (of, preview(Workspace(root), text, server_options().models, options))
        if go:
            start(Workspace.open(root), text, person(), server_options().models, options)
            st.rerun()
    except EdgeSweepError as error:
        live.problem("It was not started." if go else "There is no plan of this file.", error)
    planned = st.session_state.get(PLANNED)
    if planned is not None and planned[0] == of:
        _plan(planned[1])


def _plan(plan: Preview) -> None:
    ended = sum(device.done for device in plan.devices)
    built = sum(device.builds_there for device in plan.devices)
    st.subheader("What would run", anchor=False)
    with st.container(horizontal=True):
        st.metric("Jobs", len(plan.jobs), width="content")
        st.metric("Done before", ended, width="content", help="Measured or failed under the same conditions.")
        st.metric("Built before", built, width="content", help="Jobs whose build is in the workspace.")
        st.metric("Skipped", len(plan.skipped), width="content")
        takes = f"Builds take about {duration(plan.builds_s)}." if plan.builds_s else None
        st.metric("Time, about", duration(plan.seconds), width="content", help=takes)
    for note in plan.notes:
        st.caption(inert(note))
    devices = [
        {
            "Device": line(device.name),
            "Time, about": duration(device.seconds),
            "Jobs": device.jobs,
            "Done": device.done,
            "Built": device.builds_there,
            "Model": line(device.device),
        }
        for device in plan.devices
    ]
    draw_table(pd.DataFrame(devices), hide_index=True, width="stretch")
    with st.expander(f"{len(plan.jobs)} job{'s' * (len(plan.jobs) != 1)}"):
        _table(("Job", "Device", "State"), plan.jobs)
    if plan.skipped:
        with st.expander(f"{len(plan.skipped)} combinations skipped, with reasons"):
            _table(("Combination", "Device", "Reason"), plan.skipped)
        explained.show([("skip", kind) for kind in plan.skip_kinds])


def _table(columns: tuple[str, str, str], rows: tuple[tuple[str, str, str], ...]) -> None:
    frame = pd.DataFrame([[line(cell) for cell in row] for row in rows], columns=list(columns))
    draw_table(frame, hide_index=True, width="stretch", height=table_height(len(rows)))


def _let_in() -> None:
    """Draw a button that creates a link for one more browser, because the printed link works only once."""
    with st.expander("Let another browser in"):
        st.text("A link works once. Who opens it first may start and stop sweeps here.")
        if st.button("Make a link") and role() is Role.OPERATE:
            st.code(f"{ENTER}?token={GATE.new_link()}", language=None)
            st.caption("Behind this server's address, like `http://127.0.0.1:8501`.")
