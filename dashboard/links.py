"""Links between pages with parameters in the URL, only to pages that are in the registry."""

import streamlit as st
from streamlit.navigation.page import Page

from dashboard.views.registry import PAGES

PARAMETERS = ("sweep", "device", "model", "job", "part", "a", "b", "file")
"""Names of URL parameters that all pages share. `device`: the id of a unit or a pool; `job`: a job's key; `part`: the
index of one of several sets of conditions; `a` and `b`: the sides of a comparison; `file`: the sweep file that Launch
begins with."""


def has_page(page: str) -> bool:
    """Tell whether the registry has a page of this name."""
    return any(entry.name == page for entry in PAGES)


def link(page: str, label: str, *, icon: str | None = None, help: str | None = None, **parameters: str | None) -> bool:
    """Draw a link to a page, with the `parameters` that are not `None`. Returns whether the registry has the page;
    without it, nothing is drawn.

    `label` is Markdown: text from the store goes through `dashboard.markdown_escape`.
    """
    target = _page(page)
    if target is None:
        return False
    st.page_link(target, label=label, icon=icon, help=help, query_params=query(**parameters))
    return True


def go(page: str, **parameters: str | None) -> None:
    """Switch to another page; do nothing if the registry does not have it."""
    target = _page(page)
    if target is not None:
        st.switch_page(target, query_params=query(**parameters))


def query(**parameters: str | None) -> dict[str, str]:
    """Return the URL parameters that are not `None`. Raises `ValueError` for one that no page reads."""
    if unknown := parameters.keys() - set(PARAMETERS):
        raise ValueError(f"no page reads {sorted(unknown)}")
    return {name: value for name, value in parameters.items() if value is not None}


def _page(name: str) -> Page | None:
    """Return the page of this name, or `None`. Streamlit identifies a page by its URL path, so a new page object with
    the same path is the same page."""
    for number, entry in enumerate(PAGES):
        if entry.name == name:
            return st.Page(_nothing, title=entry.title, icon=entry.icon, url_path=name, default=not number)
    return None


def _nothing() -> None:
    """Stand in for the page's function, which `dashboard.app` registers; this one is never called."""
