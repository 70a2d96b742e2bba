"""The choice of devices for a new sweep: the devices of earlier sweeps, those that answer to a search, and any other
name."""

from pathlib import Path
from typing import Any

import streamlit as st

from dashboard import state
from dashboard.arguments import server_options
from dashboard.markdown_escape import line, words
from dashboard.rights import role
from dashboard.roles import Role
from dashboard.views import live
from sweeps.errors import EdgeSweepError, StoreError
from sweeps.journal.journal import Journal
from sweeps.launching import reachable_devices
from sweeps.workspace import Workspace

HERE, LAB = "here", "lab"
ON = "on"
"""URL parameter that says where a sweep runs, if a lab is given."""
_FOUND = "launch devices found"
MOST = 40


def draw(root: Path, may: Role, chosen: list[str], label: str, common: dict[str, Any]) -> None:
    """Draw the box of devices, and the button that searches for devices. `chosen`: the devices in the file. `common`:
    arguments that all widgets of the form share."""
    box = st.container()
    if st.button("Look for devices", icon=":material/search:", disabled=may < Role.LAUNCH) and role() >= Role.LAUNCH:
        st.session_state.pop(_FOUND, None)
        try:
            with st.spinner("Asking phones, boards and this computer"):
                st.session_state[_FOUND] = (options(), *reachable_devices.devices(Workspace(root), options()))
        except EdgeSweepError as error:
            live.problem("No device was found.", error)
    asked_with, devices, refused = st.session_state.get(_FOUND, (None, (), ()))
    if asked_with != options():  # the user has changed where the sweep runs
        asked_with, devices, refused = None, (), ()
    try:
        earlier = _earlier(root)
    except StoreError as error:
        earlier = ["local"]
        st.text(line(f"Devices of earlier sweeps are not listed: {error.message}. Next step: {error.next_step}"))
    names = [*earlier, *(device.name for device in devices), *chosen]
    box.multiselect(
        label,
        list(dict.fromkeys(names)),
        accept_new_options=True,
        format_func=line,
        help="local, adb:SERIAL, adb:*, ssh:USER@BOARD, fake:NAME",
        **common,
    )
    if asked_with is not None:
        st.caption(f"{len(devices)} devices answer: choose them above." if devices else "No device answers.")
    for device in devices[:MOST]:
        kept_out = " (quarantined: sweeps leave it alone)" * device.quarantined
        st.markdown(f"**{words(device.name)}** · {words(device.device)}{kept_out}")
    for text in refused[:MOST]:
        st.text(line(text))


def options() -> tuple[str, ...]:
    """Return the arguments that name the lab, if the sweep is to run there."""
    return server_options().lab_options if state.url_value(ON) != HERE else ()


@st.cache_data(ttl=60, max_entries=8, show_spinner=False)
def _earlier(root: Path) -> list[str]:
    """Return the names of this computer and of the devices of the workspace's last 20 sweeps."""
    names = ["local"]
    workspace = Workspace(root)
    if workspace.journal.exists():
        with Journal.open(workspace.journal, read_only=True) as journal:
            names += [facts.name for sweep in journal.sweeps.all()[:20] for facts in journal.plans.devices(sweep.name)]
    return names
