"""Links between pages: a page, and what its URL asks for. Only to pages that are in the registry."""

import streamlit as st
from streamlit.navigation.page import Page

from dashboard.views.registry import PAGES

PARAMETERS = ("sweep", "device", "model", "job", "part", "a", "b", "file")
"""The names that all pages share. `device`: the id of a unit or a pool; `job`: a job's key; `part`: which of several
sets of conditions; `a` and `b`: what is compared; `file`: what Launch begins with."""


def there(page: str) -> bool:
    """Tell whether the registry has that page."""
    return any(entry.name == page for entry in PAGES)


def link(page: str, label: str, *, icon: str | None = None, help: str | None = None, **parameters: str | None) -> bool:
    """Draw a link to a page, with the `wanted` parameters that are not `None`. False, and nothing, if it is not there.

    `label` is Markdown: text from the store goes through `dashboard.markdown_escape`.
    """
    target = _page(page)
    if target is None:
        return False
    st.page_link(target, label=label, icon=icon, help=help, query_params=query(**parameters))
    return True


def go(page: str, **parameters: str | None) -> None:
    """Show another page at once; nothing if it is not there."""
    target = _page(page)
    if target is not None:
        st.switch_page(target, query_params=query(**parameters))


def query(**parameters: str | None) -> dict[str, str]:
    """The parameters of a URL. Raises `ValueError` for one that no page reads."""
    if unknown := parameters.keys() - set(PARAMETERS):
        raise ValueError(f"no page reads {sorted(unknown)}")
    return {name: value for name, value in parameters.items() if value is not None}


def _page(name: str) -> Page | None:
    """Streamlit knows a page by its place in the URL, so that one made anew is the same."""
    for number, entry in enumerate(PAGES):
        if entry.name == name:
            return st.Page(_nothing, title=entry.title, icon=entry.icon, url_path=name, default=not number)
    return None


def _nothing() -> None:
    """The function is never run: `dashboard.app` has the page's function."""
