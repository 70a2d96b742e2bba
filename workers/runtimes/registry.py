"""Every runtime of the catalog by name. The classes are imported when asked for: no name costs an import."""

import difflib
import importlib

from sweeps.errors import EdgeSweepError
from sweeps.spec import catalog
from workers.runtimes.interface import Runtime

RUNTIMES: dict[str, str] = {name: entry.target for name, entry in sorted(catalog.runtimes().items())}
"""`module:Class` by name."""

_EXTRA = "pip install 'edgesweep[workers]'"


def get(name: str) -> Runtime:
    """The runtime of that name.

    Raises `EdgeSweepError` with the nearest name where there is none, and with the extra to install where a library
    that it needs is missing.
    """
    if name not in RUNTIMES:
        near = difflib.get_close_matches(name, RUNTIMES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(RUNTIMES))}"
        raise EdgeSweepError(f"there is no runtime {name!r}", hint)
    module, _, attribute = RUNTIMES[name].partition(":")
    try:
        runtime: Runtime = getattr(importlib.import_module(module), attribute)()
    except ModuleNotFoundError as error:
        raise EdgeSweepError(f"the runtime {name} needs {error.name}, which is not installed", _EXTRA) from error
    return runtime
