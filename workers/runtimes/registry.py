"""Every runtime of the catalog by name. The classes are imported when asked for: no name costs an import."""

import difflib
import importlib

from sweeps.errors import EdgeSweepError, in_one_line
from sweeps.spec import catalog
from workers.runtimes.interface import Runtime

_EXTRA = "pip install 'edgesweep[workers]'"
_OTHERS = "repair the package that brings it, or take it out of the sweep"


def get(name: str) -> Runtime:
    """The runtime of that name.

    Raises `EdgeSweepError` with the nearest name where there is none; with the extra to install where a library that
    it needs is missing; and where another package's cannot be loaded.
    """
    known = catalog.runtimes()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(known))}"
        raise EdgeSweepError(f"there is no runtime {name!r}", hint)
    module, _, attribute = known[name].target.partition(":")
    try:
        runtime: Runtime = getattr(importlib.import_module(module), attribute)()
    except Exception as error:
        if name not in catalog.BUILT_IN_NAMES:
            raise EdgeSweepError(f"the runtime {name} cannot be loaded: {in_one_line(error)}", _OTHERS) from error
        if not isinstance(error, ModuleNotFoundError):
            raise
        raise EdgeSweepError(f"the runtime {name} needs {error.name}, which is not installed", _EXTRA) from error
    return runtime
