"""The views of the page, one line each, then the views of other packages. They are imported when they are drawn."""

import importlib

from dashboard.data import Ranked
from sweeps.ranking.values import DeviceRanking
from sweeps.spec import catalog
from sweeps.spec.entries import ViewEntry

BUILT_IN = (ViewEntry(name="ranking", title="Ranking", target="dashboard.views.ranking:show"),)


def every() -> tuple[ViewEntry, ...]:
    """All views, in the order of the menu."""
    return (*BUILT_IN, *catalog.views().values())


def draw(view: ViewEntry, ranked: Ranked, device: DeviceRanking) -> None:
    """Draw a view of one model on one device."""
    module, _, function = view.target.partition(":")
    getattr(importlib.import_module(module), function)(ranked, device)
