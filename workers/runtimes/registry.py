"""All runtimes of the catalog by name. Their classes are imported at first use."""

import difflib
import importlib
from collections.abc import Callable
from importlib import metadata
from types import ModuleType
from typing import Any

from sweeps.device_facts import DeviceFacts
from sweeps.errors import EdgeSweepError, in_one_line
from sweeps.extras import install_line
from sweeps.skip_kinds import Skip
from sweeps.spec import built_in, catalog
from sweeps.spec.entries import RuntimeEntry
from sweeps.variant import Variant
from workers.runtimes.interface import Runtime

_REPAIR = "repair the package that provides it, or remove it from the sweep"


def get(name: str) -> Runtime:
    """Return the runtime of that name.

    Raises `EdgeSweepError`: with the closest name if it is unknown, with the extra to install if a library is missing,
    and if a runtime of another package cannot be loaded.
    """
    module, _, attribute = _entry(name).target.partition(":")
    runtime: Runtime = _loaded(name, lambda: getattr(importlib.import_module(module), attribute)())
    return runtime


def skip_of(variant: Variant, facts: DeviceFacts) -> Skip | None:
    """The answer of the variant's runtime to `Runtime.supports`.

    Raises `EdgeSweepError` as `get` does, and if a runtime of another package answers something else.
    """
    name = variant.runtime
    answer: object = get(name).supports(variant, facts)
    if answer is None or isinstance(answer, Skip):
        return answer
    package = _entry(name).target.partition(":")[0].partition(".")[0]
    raise EdgeSweepError(
        f"the runtime {name} of the package {package} does not work: its supports() must return None or a "
        f"sweeps.skip_kinds.Skip, and returned {answer!r:.200}",
        f"update or repair {package}, or take {name} out of runtime in grids",
    )


def for_phones(name: str) -> ModuleType:
    """Return the module that says how the C++ runner of that runtime is compiled (`RuntimeEntry.for_phones`). Raises
    `EdgeSweepError` as `get` does."""
    module: ModuleType = _loaded(name, lambda: importlib.import_module(_entry(name).for_phones))
    return module


def _entry(name: str) -> RuntimeEntry:
    known = catalog.runtimes()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(known))}"
        raise EdgeSweepError(f"there is no runtime {name!r}", hint)
    return known[name]


def _loaded(name: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except (Exception, SystemExit) as error:
        if name not in built_in.BUILT_IN_NAMES:
            raise EdgeSweepError(f"the runtime {name} cannot be loaded: {in_one_line(error)}", _REPAIR) from error
        if not isinstance(error, ModuleNotFoundError):
            raise
        raise not_installed(name, str(error.name)) from error


def not_installed(name: str, package: str) -> EdgeSweepError:
    """Return the error of a runtime of this project that lacks a package, with the extra that has it, and its size."""
    extra, _, size = catalog.runtimes()[name].extra.partition(" ")
    install = install_line(*filter(None, ("workers", extra))) + (size and f" ({size})")
    return EdgeSweepError(f"the runtime {name} needs {package}, which is not installed", install)


def versions(name: str, *packages: str) -> dict[str, str]:
    """Return the versions of packages that a runtime of this project needs. Raises `EdgeSweepError` as `get` does."""
    try:
        return {package: metadata.version(package) for package in packages}
    except metadata.PackageNotFoundError as error:
        raise not_installed(name, str(error.name)) from error
