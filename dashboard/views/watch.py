"""A page that is open notices that a sweep has begun or ended, wherever it was started, and the result it waits for."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import streamlit as st

from dashboard import data
from dashboard.source import Source
from sweeps.errors import EdgeSweepError
from sweeps.launching.driver import find
from sweeps.workspace import Workspace

EVERY_S = 10
"""A look takes some milliseconds of this computer, which may be what is measured."""


def watched(root: Path, draw: Callable[[], None] = lambda: None) -> None:
    """Call `draw` now and again and again. When another sweep runs, or none, the whole page is drawn anew."""
    before = _runs(root)

    def look() -> None:
        if _runs(root) != before:
            st.rerun()
        draw()

    st.fragment(look, run_every=EVERY_S)()


def awaited(root: Path, now: Source) -> None:
    """Draw the whole page anew once there are other results than `now`, where a result is waited for."""

    def look() -> None:
        with suppress(EdgeSweepError):  # whoever draws the page anew sees it
            if data.source(root) != now:
                st.rerun()

    st.fragment(look, run_every=EVERY_S)()


def _runs(root: Path) -> tuple[int | None, str]:
    driver = find(Workspace(root))
    return driver.pid, driver.sweep
