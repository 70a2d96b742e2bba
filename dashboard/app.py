"""The dashboard's entry, which `edgesweep dashboard` serves (`dashboard.launch` binds it to this machine alone)."""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

import streamlit as st

from dashboard.inert import line
from dashboard.style import STYLE, WIDTH_PX
from dashboard.views import registry
from dashboard.views.registry import PageEntry
from sweeps.errors import EdgeSweepError


def main(argv: list[str]) -> None:
    st.set_page_config(page_title="EdgeSweep", layout="wide")
    st.html(STYLE)
    root = _workspace(argv)
    pages = [
        st.Page(
            partial(_draw, entry, root), title=entry.title, icon=entry.icon, url_path=entry.name, default=not number
        )
        for number, entry in enumerate(registry.PAGES)
    ]
    st.navigation(pages, position="top" if len(pages) > 1 else "hidden").run()


def _draw(entry: PageEntry, root: Path) -> None:
    # Long lines are hard to read, so the page stays narrow on a wide screen.
    with (
        st.container(horizontal=True, horizontal_alignment="center"),
        st.container(width=WIDTH_PX, gap="medium"),
    ):
        try:
            registry.draw(entry, root)
        except EdgeSweepError as error:
            st.error("The results cannot be shown.", icon=":material/error:")
            st.text(line(error.message))
            if error.next_step:
                st.text(f"Next step: {line(error.next_step)}")


def _workspace(argv: list[str]) -> Path:
    parser = argparse.ArgumentParser(prog="streamlit run dashboard/app.py --", allow_abbrev=False)
    default = os.environ.get("EDGESWEEP_WORKSPACE", "edgesweep-data")
    parser.add_argument("--workspace", type=Path, default=Path(default), help="the folder that holds the results")
    root: Path = parser.parse_args(argv).workspace
    return root.expanduser().resolve()


main(sys.argv[1:])
