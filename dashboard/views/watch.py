"""Automatic updates of an open page: it notices that a sweep has begun or ended, and that an awaited result has
come."""

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
"""Seconds between two checks. Each takes some milliseconds of this computer's CPU, and this computer may be the device
that is measured."""


def watched(root: Path, draw: Callable[[], None] = lambda: None) -> None:
    """Call `draw` now and every `EVERY_S` seconds. When another sweep runs, or none any more, redraw the whole page."""
    before = _runs(root)

    def look() -> None:
        if _runs(root) != before:
            st.rerun()
        draw()

    st.fragment(look, run_every=EVERY_S)()


def awaited(root: Path, now: Source) -> None:
    """Redraw the whole page when the results differ from `now`, for pages that wait for a result."""

    def look() -> None:
        with suppress(EdgeSweepError):  # the error appears when the page is drawn again
            if data.source(root) != now:
                st.rerun()

    st.fragment(look, run_every=EVERY_S)()


def _runs(root: Path) -> tuple[int | None, str]:
    driver = find(Workspace(root))
    return driver.pid, driver.sweep
