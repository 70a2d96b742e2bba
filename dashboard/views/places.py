"""Which sweep, device and model a page looks at: chosen in its head, and in its URL."""

from collections import Counter
from pathlib import Path

import streamlit as st

from dashboard import evidence, state
from dashboard.data import Source
from dashboard.inert import line
from sweeps.journal.results_table import Place


def head(title: str, about: str) -> None:
    """The title of a page, and what it answers."""
    st.title(title, anchor=False)
    st.caption(about)


def nothing_yet(root: Path) -> None:
    """Say what to do first: the workspace has no sweep."""
    st.info("No sweep has been recorded in this workspace yet.", icon=":material/inbox:")
    st.text(f"Workspace: {line(str(root))}")
    st.text("Next step: run `edgesweep demo`, or `edgesweep run sweep.yaml`.")


def choose_place(now: Source, root: Path) -> Place | None:
    """Choose a sweep, one of its devices and one of the models there; `None`, with words, if it has none."""
    first, second, third = st.columns([1, 1, 1], gap="medium")
    with first:
        sweep = state.chosen("sweep", "Sweep", evidence.sweeps(now))
    places = evidence.places(now, root, sweep)
    if not places:
        st.info("This sweep has no job to measure.", icon=":material/inbox:")
        return None
    names = device_names(places)
    with second:
        device = state.chosen("device", "Device", list(names), lambda one: names[one])
    with third:
        model = state.chosen("model", "Model", sorted(one.model for one in places if one.place_id == device))
    return Place(sweep, device, model)


def device_names(places: dict[Place, str]) -> dict[str, str]:
    """For people, by the id of a unit or a pool: with the id where several have one name."""
    devices = {place.place_id: device for place, device in sorted(places.items())}
    units = Counter(devices.values())
    return {key: line(name if units[name] == 1 else f"{name} · {key}") for key, name in devices.items()}
