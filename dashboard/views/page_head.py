"""The head of a page: its title, and the choice of a sweep, a device and a model, which are parameters of the URL."""

from pathlib import Path

import streamlit as st

from dashboard import data, state
from dashboard.markdown_escape import line
from dashboard.source import Source
from dashboard.words import device_names
from sweeps.journal.result_place import Place


def head(title: str, about: str) -> None:
    """Draw the title of a page, and the question that the page answers."""
    with st.container(gap="small"):
        st.title(title, anchor=False)
        st.caption(about)


def choose_place(now: Source, root: Path) -> Place | None:
    """Draw the choice of a sweep, a device and a model, and return the place; `None`, with a message, if the sweep has
    no jobs."""
    with st.container(horizontal=True, gap="medium", key="choices"):
        sweep = state.chosen("sweep", "Sweep", [row.name for row in data.sweeps(now)])
        places = data.places(now, root, sweep)
        if not places.devices:
            st.info("This sweep has no jobs.", icon=":material/inbox:")
            return None
        names = device_names(places.devices)
        device = state.chosen("device", "Device", list(names), lambda key: names.get(key, line(key)))
        model = state.chosen("model", "Model", list(places.models[device]))
    return Place(sweep, device, model)
