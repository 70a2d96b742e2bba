"""The dashboard's Streamlit script, which `edgesweep dashboard` serves (`dashboard.web_server` binds it to this machine
only)."""

import gc
from functools import partial
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard import rights, state
from dashboard.arguments import server_options
from dashboard.markdown_escape import line
from dashboard.style import ICON, STYLE, WIDTH_PX
from dashboard.views import empty, registry
from dashboard.views.registry import PageEntry
from sweeps.errors import EdgeSweepError
from sweeps.launching.sweep_commands import command_hints
from sweeps.workspace import Workspace


def main() -> None:
    st.set_page_config(page_title="EdgeSweep", page_icon=ICON, layout="wide")
    st.html(STYLE)
    _freeze()
    if not rights.admitted():
        rights.ask_to_log_in()
        return
    root = server_options().workspace
    pages = [
        st.Page(
            partial(_draw, entry, root), title=entry.title, icon=entry.icon, url_path=entry.name, default=not number
        )
        for number, entry in enumerate(registry.PAGES)
    ]
    st.navigation(pages, position="top" if len(pages) > 1 else "hidden").run()


@st.cache_resource(show_spinner=False)
def _freeze() -> None:
    """Exclude the imported libraries from garbage collection, once in the server's process: Streamlit collects garbage
    after each run, which is faster without them."""
    registry.load()
    # Arrow's columns of text make small tables slow: they take a fifth of a rerun of the page Decide.
    pd.options.mode.string_storage = "python"
    gc.collect()
    gc.freeze()


def _draw(entry: PageEntry, root: Path) -> None:
    # Long lines are hard to read, so the page stays narrow on a wide screen.
    with (
        st.container(horizontal=True, horizontal_alignment="center"),
        st.container(width=WIDTH_PX, gap="medium"),
    ):
        try:
            if entry.has_results:
                empty.show_age(root)
            with state.boxes_tied():
                registry.draw(entry, root)
        except EdgeSweepError as error:
            st.error("The results cannot be shown.", icon=":material/error:")
            st.text(line(error.message))
            if error.next_step:
                st.text(f"Next step: {line(command_hints(Workspace(root)).typed(error.next_step))}")
        rights.show_person()


main()
