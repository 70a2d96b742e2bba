"""The pages of the dashboard, one line each, and the views that other packages add to Decide.

A page is a module with `show(root)`, which draws it; `root` is the workspace's folder. Modules are imported when they
are drawn.
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
    """A page. `name` is its place in the URL, and that of its module."""

    name: str
    title: str
    icon: str
    has_results: bool = True
    """The page shows results, which may be a copy of some age."""


PAGES = (
    PageEntry("fleet", "Fleet", ":material/grid_view:"),
    PageEntry("decide", "Decide", ":material/verified:"),
    PageEntry("compare", "Compare", ":material/compare_arrows:"),
    PageEntry("result", "Result", ":material/science:"),
    PageEntry("launch", "Launch", ":material/rocket_launch:", has_results=False),
    PageEntry("live", "Live", ":material/monitoring:", has_results=False),
    PageEntry("devices", "Devices", ":material/smartphone:"),
)
"""The pages in the order of the menu; the first one is shown first."""


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
    """The views that other packages add to Decide, in the order of their menu."""
    return tuple(catalog.views().values())


def draw_view(view: ViewEntry, ranked: Ranked, device: DeviceRanking) -> None:
    """Draw a view of one model on one device."""
    module, _, function = view.target.partition(":")
    getattr(importlib.import_module(module), function)(ranked, device)
