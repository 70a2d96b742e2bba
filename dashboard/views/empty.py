"""A page where nothing has been measured says what to do first."""

import shlex
from pathlib import Path

import streamlit as st

from dashboard import data, links
from dashboard.markdown_escape import line, words
from dashboard.running import Running
from sweeps.launching.driver import find
from sweeps.workspace import Workspace


def show(root: Path) -> None:
    """Draw it."""
    run = Running(find(Workspace(root)))
    if run.trouble:
        st.error(words(run.trouble), icon=":material/error:")
        links.link("live", "What happened", icon=":material/monitoring:", sweep=run.driver.sweep or None)
    files = data.copied(root)
    with st.container(border=True, key="empty"):
        if files is not None and not files.complete:
            st.header("The results of MLflow are not here yet", anchor=False)
            st.text(line(files.error or "They are being copied: look again in a while."))
            return
        st.caption(line("Which build of my model do I ship on which phone, and how sure are we?"))
        st.header("No sweep has been recorded in this workspace yet", anchor=False)
        st.text("EdgeSweep builds every variant of a model, measures each on every phone, and says what to ship.")
        links.link("launch", "Launch a sweep", icon=":material/rocket_launch:")
        st.text("Next step: run `edgesweep demo`, which needs no phone, or a sweep file of your own:")
        st.code(f"edgesweep demo --workspace {_quoted(root)}", language=None)
        st.code(f"edgesweep run sweep.yaml --workspace {_quoted(root)}", language=None)
        st.text(f"Workspace: {line(str(root))}")


def _quoted(root: Path) -> str:
    return line(shlex.quote(str(root)))


def show_age(root: Path) -> None:
    """Show the age of a copy of a server that other workspaces write to."""
    files = data.copied(root)
    if files is not None:
        others = "Sweeps of other workspaces: " if Workspace(root).journal.exists() else ""
        st.caption(f":material/cloud_sync: {words(f'{others}{files.text}')}.")
        now = data.source(root)
        if now is not None and now.own_error is not None:
            st.warning(words(f"This workspace's own results are left out: {now.own_error}"))
        if now is not None and now.own is not None and (shared := sorted(files.of_others & now.own.sweeps)):
            st.caption(f":material/info: {words(', '.join(shared))}: other workspaces publish under this name, too.")
