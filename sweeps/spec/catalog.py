"""The catalog of runtimes, transports and views, as pure data: their values in sweep files, and the names of their
classes.

Those of this project are in `sweeps.spec.built_in`. Other packages add theirs (`sweeps.spec.entries`).
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from sweeps.device_facts import VIRTUAL_PHONE, DeviceFacts
from sweeps.metrics import METRICS, Metric
from sweeps.spec import lab_names
from sweeps.spec.built_in import BUILT_IN_DEVICES, BUILT_IN_RUNTIMES
from sweeps.spec.entries import BackendEntry, DeviceEntry, RuntimeEntry, ViewEntry, with_others
from sweeps.variant import Variant

TIMED = frozenset(name for name, metric in METRICS.items() if metric.timed)
"""Names of the built-in metrics that exist only if a device ran the backend."""

_GROUPS: dict[str, tuple[type[Any], tuple[Any, ...]]] = {
    "edgesweep.runtimes": (RuntimeEntry, BUILT_IN_RUNTIMES),
    "edgesweep.devices": (DeviceEntry, BUILT_IN_DEVICES),
    "edgesweep.views": (ViewEntry, ()),
}
"""Class of the entries and the built-in entries, by group of entry points."""


def runtimes() -> Mapping[str, RuntimeEntry]:
    """Return the runtimes by name, the built-in ones first."""
    return _all("edgesweep.runtimes")[0]


def devices() -> Mapping[str, DeviceEntry]:
    """Return the transports by name, the built-in ones first."""
    return _all("edgesweep.devices")[0]


def views() -> Mapping[str, ViewEntry]:
    """Return the dashboard pages of other packages, by name; the dashboard's own pages are in
    `dashboard.views.registry`."""
    return _all("edgesweep.views")[0]


def problems() -> tuple[str, ...]:
    """Return the reasons why entries of other packages were left out, one line each."""
    return tuple(problem for group in _GROUPS for problem in _all(group)[1])


def values(axis: str) -> tuple[str, ...]:
    """Return the values that a sweep file may write for a text axis: the values of all runtimes, each once."""
    if axis == "runtime":
        return tuple(runtimes())
    names = [value for runtime in runtimes().values() for value in _values(runtime, axis)]
    return tuple(dict.fromkeys(names))


def not_of_runtime(axes: Mapping[str, object], free: frozenset[str]) -> str | None:
    """Return the reason why a variant has a value that its runtime does not have; `None` if all are valid. Such
    variants occur because a grid combines every runtime with the values of all runtimes."""
    runtime = runtimes()[str(axes["runtime"])]
    for axis in ("backend", *runtime.values):
        own_values = _values(runtime, axis)
        if axis in free and own_values and axes[axis] not in own_values:
            return f"{runtime.name} has no {axis} {axes[axis]} (it has: {', '.join(own_values)})"
    return None


def device(name: str) -> DeviceEntry | None:
    """Return the transport of a device by its name in a sweep file; `None` if no transport has such names."""
    bare = lab_names.on_host(name)
    entry = devices().get(bare.partition(":")[0])
    return entry if entry is not None and re.fullmatch(entry.pattern, bare) else None


def is_host(name: str) -> bool:
    """Tell whether `name` in a sweep file is this machine itself."""
    entry = device(name)
    return entry is not None and entry.is_host and lab_names.host_of(name) is None


def is_here(facts: DeviceFacts) -> bool:
    """Tell whether the device runs on this computer, so that builds take CPU time from its measurements."""
    return is_host(facts.name) or facts.exec_context == VIRTUAL_PHONE


def unshippable(runtime: str) -> str:
    """Return the reason why no build of this runtime can win; empty if builds can win."""
    entry = runtimes().get(runtime)
    return entry.unshippable if entry is not None else ""


def backend_of(variant: Variant) -> BackendEntry:
    """Return the entry of the variant's backend; an entry with only a name if the backend's package is no longer
    installed."""
    runtime = runtimes().get(variant.runtime)
    return (runtime and runtime.backend(variant.backend)) or BackendEntry(name=variant.backend)


def checked_in_python(backend: str) -> bool:
    """Tell whether a Python program can check builds of the backend in its place; only this machine has it, and no
    phone, even a virtual one."""
    entries = (runtime.backend(backend) for runtime in runtimes().values())
    return any(entry.checked_as_built for entry in entries if entry is not None)


def backend_title(name: str) -> str:
    """Return the display name of a backend."""
    entries = (runtime.backend(name) for runtime in runtimes().values())
    return next((entry.title for entry in entries if entry is not None and entry.title), name)


def metrics() -> Mapping[str, Metric]:
    """Return the metrics that an objective may name, by name: the built-in ones, and further ones that runtimes'
    entries define."""
    return METRICS | {metric.name: metric for entry in runtimes().values() for metric in entry.metrics}


def metric(name: str) -> Metric:
    """Return the metric of this name: a built-in one, one of a runtime, or a substitute for a metric whose package is
    no longer installed."""
    return METRICS.get(name) or metrics().get(name) or Metric(name, name, "", "neither", 3)


def is_timed(metric: str) -> bool:
    """Tell whether the metric exists only if a device ran the backend; a result that was only checked by a reference
    has no such metrics. Metrics of runtimes' entries count as timed, because runners report them while they time."""
    return metric in TIMED or metric not in METRICS


def _values(runtime: RuntimeEntry, axis: str) -> tuple[str, ...]:
    return tuple(backend.name for backend in runtime.backends) if axis == "backend" else runtime.values.get(axis, ())


@cache
def _all(group: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the entries of one group by name, and the reasons why others were left out."""
    kind, built_in = _GROUPS[group]
    return with_others(kind, group, built_in)
