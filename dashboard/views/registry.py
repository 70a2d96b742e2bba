"""The registry of the dashboard's pages, and of the views that other packages add to the page Decide.

A page is a module with `show(root)`, which draws the page; `root` is the workspace's folder. Modules are imported when
their page is drawn.
"""

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from dashboard.ranked_place import Ranked
from sweeps.ranking.values import DeviceRanking
from sweeps.spec import catalog
from sweeps.spec.entries import ViewEntry


@dataclass(frozen=True, slots=True)
class PageEntry:
    """Page of the dashboard. `name`: its path in the URL, and the name of its module."""

    name: str
    title: str
    icon: str
    has_results: bool = True
    """Whether the page shows results, which may be a copy of some age."""


PAGES = (
    PageEntry("fleet", "Fleet", ":material/grid_view:"),
    PageEntry("decide", "Decide", ":material/verified:"),
    PageEntry("compare", "Compare", ":material/compare_arrows:"),
    PageEntry("result", "Result", ":material/science:"),
    PageEntry("launch", "Launch", ":material/rocket_launch:", has_results=False),
    PageEntry("live", "Live", ":material/monitoring:", has_results=False),
    PageEntry("devices", "Devices", ":material/smartphone:"),
)
"""Pages in the order of the menu; the first one is the home page."""


def draw(entry: PageEntry, root: Path) -> None:
    """Draw a page."""
    _module(entry).show(root)


def load() -> None:
    """Import the modules of all pages."""
    for entry in PAGES:
        _module(entry)


def _module(entry: PageEntry) -> ModuleType:
    return importlib.import_module(f"dashboard.views.{entry.name}")


def views() -> tuple[ViewEntry, ...]:
    """Return the views that other packages add to the page Decide, in the order of the menu."""
    return tuple(catalog.views().values())


def draw_view(view: ViewEntry, ranked: Ranked, device: DeviceRanking) -> None:
    """Draw a view of one model on one device."""
    module, _, function = view.target.partition(":")
    getattr(importlib.import_module(module), function)(ranked, device)
