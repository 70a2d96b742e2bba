"""The runtimes of the catalog as parameters of tests; what a machine without the extra cannot run is listed."""

from functools import cache

import pytest

from sweeps.errors import EdgeSweepError
from sweeps.spec import catalog
from workers.runtimes import registry

SLOW = ("executorch",)
"""Runtimes whose builds take many seconds: their tests are in the second tier."""


def every() -> list[object]:
    return [pytest.param(name, marks=_marks(name)) for name in sorted(catalog.runtimes())]


def _marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.runtime(name), *([pytest.mark.system] if name in SLOW else [])]


@cache
def lack(name: str) -> str:
    """The part of that runtime that this machine lacks, and how to enable it; empty if none."""
    try:
        registry.get(name).versions()
    except EdgeSweepError as error:
        return f"{error.message}; enable with: {error.next_step}"
    return ""
