"""Launch: a form and the sweep file beside it, what would run, and the button that starts it."""

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import running
from dashboard.gate import ENTER, GATE
from dashboard.inert import inert, line
from dashboard.options import given
from dashboard.rights import person, role
from dashboard.roles import Role
from dashboard.sweep_form import PRESETS, SweepForm
from dashboard.views import live
from dashboard.views.tables import table_height
from sweeps.errors import EdgeSweepError
from sweeps.journal.journal import Journal
from sweeps.launching.checked import Checked, check
from sweeps.launching.preview import Preview, preview
from sweeps.launching.start import start
from sweeps.spec import catalog
from sweeps.text import duration
from sweeps.workspace import Workspace

TEXT = "launch file"
"""Key of the sweep file's text in the session."""
MOST_CHARACTERS = 65_536
KEPT = "launch kept"
"""What is written on the page, by key: Streamlit forgets a widget's value while another page is shown."""
PLANNED = "launch plan"
"""Of the last preview, with the text that it is of."""
_BEGIN = SweepForm()
_NAMES = tuple(SweepForm.__dataclass_fields__)
_STYLE = "<style>.st-key-launch-file textarea { font-family: monospace; font-size: 0.85rem; }</style>"
"""Indentation has a meaning there."""


def show(root: Path) -> None:
    """Draw the page."""
    st.title("Launch", anchor=False)
    st.html(_STYLE)
    may = role()
    if may < Role.LAUNCH:
        st.info("You may look: sweeps are started by who came in by the printed link, or has a role.", icon="🔒")
    if running.read(root).driver.state != "idle":
        live.draw(root)
        st.caption("This workspace runs one sweep at a time. What stands below can be started when it has ended.")
    form, file = st.columns([2, 3], gap="large")
    with form:
        _form(root, may)
    with file:
        _keep(TEXT, _BEGIN.text())
        text = st.text_area(
            "Sweep file",
            key=TEXT,
            height=520,
            max_chars=MOST_CHARACTERS,
            disabled=may < Role.LAUNCH,
            help="What the form writes; edit it for all that the form lacks.",
        )
        st.session_state[KEPT] = {key: st.session_state[key] for key in (TEXT, *map(_key, _NAMES))}
        if may < Role.LAUNCH:
            text = _BEGIN.text()  # whatever a browser sends: to check a file costs time
        checked = check(Workspace(root), text, given().models)
        _problems(checked)
        _act(root, text, checked, may)
    if may is Role.OPERATE:
        _let_in()


def _form(root: Path, may: Role) -> None:
    """Each change writes the whole file anew."""
    for name in _NAMES:
        value = getattr(_BEGIN, name)
        _keep(_key(name), list(value) if isinstance(value, tuple) else value)
    off = may < Role.LAUNCH
    st.caption("A change here writes the file anew; what was edited in it is replaced.")
    texts = {"name": "Name", "source": "Model: torchvision's name, or module:function", "arguments": "Its arguments"}
    for name, label in texts.items():
        st.text_input(label, key=_key(name), max_chars=1000, disabled=off, on_change=_write)
    _pick("weights", "Weights (or a checkpoint's path)", ("demo", "random", "pretrained"), off)
    st.number_input("Input: pixels a side", 8, 2048, key=_key("side"), disabled=off, on_change=_write)
    _pick("images", "Images (or a folder's path)", ("digits", "synthetic"), off)
    for name, label, options in (
        ("precisions", "Precision", catalog.values("precision")),
        ("layouts", "Layout", catalog.values("layout")),
        ("backends", "Backend", catalog.values("backend")),
        ("threads", "Threads", (1, 2, 4, 8)),
    ):
        st.pills(label, options, selection_mode="multi", key=_key(name), disabled=off, on_change=_write)
    known = list(dict.fromkeys([*_devices(root), *st.session_state[_key("devices")]]))
    st.multiselect(
        "Devices (type any name)",
        known,
        key=_key("devices"),
        accept_new_options=True,
        format_func=line,
        disabled=off,
        on_change=_write,
        help="local, adb:SERIAL, adb:*, ssh:USER@BOARD, fake:NAME",
    )
    st.segmented_control("Protocol", PRESETS, key=_key("preset"), required=True, disabled=off, on_change=_write)


def _pick(name: str, label: str, options: tuple[str, ...], off: bool) -> None:
    own = st.session_state[_key(name)]
    st.selectbox(
        label,
        list(dict.fromkeys([*options, own])),
        key=_key(name),
        accept_new_options=True,
        format_func=line,
        disabled=off,
        on_change=_write,
    )


def _keep(key: str, begin: Any) -> None:
    """As it is, as it was before another page was shown, or as it begins."""
    st.session_state[key] = st.session_state.get(key, st.session_state.get(KEPT, {}).get(key, begin))


def _write() -> None:
    if role() < Role.LAUNCH:
        return
    given_now = {name: st.session_state[_key(name)] for name in _NAMES}
    st.session_state[TEXT] = SweepForm(**given_now).text()


def _key(name: str) -> str:
    return f"launch {name}"


@st.cache_data(ttl=60, max_entries=8, show_spinner=False)
def _devices(root: Path) -> list[str]:
    """This computer, and what earlier sweeps of the workspace measured on."""
    found = ["local"]
    workspace = Workspace(root)
    if workspace.journal.exists():
        with Journal.open(workspace.journal, read_only=True) as journal:
            found += [facts.name for sweep in journal.sweeps()[:20] for facts in journal.devices(sweep.name)]
    return found


def _problems(checked: Checked) -> None:
    if checked.problems:
        st.error("This file cannot be started.", icon=":material/error:")
        for problem in checked.problems:
            st.text(line(problem.text))


def _act(root: Path, text: str, checked: Checked, may: Role) -> None:
    bad = checked.spec is None
    with st.container(horizontal=True):
        look = st.button("Preview", icon=":material/preview:", disabled=bad or may < Role.LAUNCH)
        go = st.button("Start", icon=":material/play_arrow:", type="primary", disabled=bad or may < Role.LAUNCH)
    if role() < Role.LAUNCH or bad:
        return  # whatever a browser sends
    try:
        if look:
            st.session_state[PLANNED] = None
            with st.spinner("Planning: nothing is trained, downloaded or built"):
                st.session_state[PLANNED] = (text, preview(Workspace(root), text, given().models))
        if go:
            start(Workspace.open(root), text, person(), given().models)
            st.rerun()
    except EdgeSweepError as error:
        live.problem("It was not started." if go else "There is no plan of this file.", error)
    planned = st.session_state.get(PLANNED)
    if planned is not None and planned[0] == text:
        _plan(planned[1])


def _plan(plan: Preview) -> None:
    done = sum(one.done for one in plan.devices)
    there = sum(one.builds_there for one in plan.devices)
    st.subheader("What would run", anchor=False)
    with st.container(horizontal=True):
        st.metric("Jobs", len(plan.jobs), width="content")
        st.metric("Done before", done, width="content", help="Measured or failed under the same conditions.")
        st.metric("Built before", there, width="content", help="Jobs whose build is in the workspace.")
        st.metric("Skipped", len(plan.skipped), width="content")
        st.metric("Time, about", duration(plan.seconds), width="content")
    for note in plan.notes:
        st.caption(inert(note))
    devices = [
        {
            "Device": line(one.name),
            "Model": line(one.device),
            "Jobs": one.jobs,
            "Done before": one.done,
            "Built before": one.builds_there,
            "Time, about": duration(one.seconds),
        }
        for one in plan.devices
    ]
    st.dataframe(pd.DataFrame(devices), hide_index=True, width="stretch")
    with st.expander(f"{len(plan.jobs)} jobs"):
        _table(("Job", "Device", "State"), plan.jobs)
    if plan.skipped:
        with st.expander(f"{len(plan.skipped)} combinations skipped, with reasons"):
            _table(("Combination", "Device", "Reason"), plan.skipped)


def _table(columns: tuple[str, str, str], rows: tuple[tuple[str, str, str], ...]) -> None:
    frame = pd.DataFrame([[line(cell) for cell in row] for row in rows], columns=list(columns))
    st.dataframe(frame, hide_index=True, width="stretch", height=table_height(len(rows)))


def _let_in() -> None:
    """A link for one more browser: the one that is printed works once."""
    with st.expander("Let another browser in"):
        st.text("A link works once. Who opens it first may start and stop sweeps here.")
        if st.button("Make a link") and role() is Role.OPERATE:
            st.code(f"{ENTER}?token={GATE.new_link()}", language=None)
            st.caption("Behind this server's address, like `http://127.0.0.1:8501`.")
