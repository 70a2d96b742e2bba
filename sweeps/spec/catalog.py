"""The runtimes, transports and views, as pure data: their values in sweep files, and the names of their classes.

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
"""Built-in metrics that exist only where a device ran the backend."""

_GROUPS: dict[str, tuple[type[Any], tuple[Any, ...]]] = {
    "edgesweep.runtimes": (RuntimeEntry, BUILT_IN_RUNTIMES),
    "edgesweep.devices": (DeviceEntry, BUILT_IN_DEVICES),
    "edgesweep.views": (ViewEntry, ()),
}
"""By group of entry points: the kind of its entries, and the built-in ones."""


def runtimes() -> Mapping[str, RuntimeEntry]:
    """The runtimes by name, the built-in ones first."""
    return _all("edgesweep.runtimes")[0]


def devices() -> Mapping[str, DeviceEntry]:
    """The transports by name, the built-in ones first."""
    return _all("edgesweep.devices")[0]


def views() -> Mapping[str, ViewEntry]:
    """The pages of other packages, by name; the dashboard's own are in `dashboard.views.registry`."""
    return _all("edgesweep.views")[0]


def problems() -> tuple[str, ...]:
    """The reasons why entries of other packages were left out, one line each."""
    return tuple(problem for group in _GROUPS for problem in _all(group)[1])


def values(axis: str) -> tuple[str, ...]:
    """The values that a sweep file may write into a build axis of text: of every runtime, each once."""
    if axis == "runtime":
        return tuple(runtimes())
    names = [value for runtime in runtimes().values() for value in _values(runtime, axis)]
    return tuple(dict.fromkeys(names))


def not_of_runtime(axes: Mapping[str, object], free: frozenset[str]) -> str | None:
    """The reason why a variant with these axes is none of its runtime's: in one grid every runtime meets the values of
    all."""
    runtime = runtimes()[str(axes["runtime"])]
    for axis in ("backend", *runtime.values):
        own_values = _values(runtime, axis)
        if axis in free and own_values and axes[axis] not in own_values:
            return f"{runtime.name} has no {axis} {axes[axis]} (it has: {', '.join(own_values)})"
    return None


def device(name: str) -> DeviceEntry | None:
    """The transport of a device that a sweep file calls `name`; `None` where no transport has such names."""
    bare = lab_names.on_host(name)
    entry = devices().get(bare.partition(":")[0])
    return entry if entry is not None and re.fullmatch(entry.pattern, bare) else None


def is_host(name: str) -> bool:
    """Tell whether the device that a sweep file calls `name` is this machine itself."""
    entry = device(name)
    return entry is not None and entry.is_host and lab_names.host_of(name) is None


def is_here(facts: DeviceFacts) -> bool:
    """Tell whether the device runs on a computer that builds: a build would take the device's time."""
    return is_host(facts.name) or facts.exec_context == VIRTUAL_PHONE


def unshippable(runtime: str) -> str:
    """The reason why nothing of that runtime can win; empty where it can."""
    entry = runtimes().get(runtime)
    return entry.unshippable if entry is not None else ""


def backend_of(variant: Variant) -> BackendEntry:
    """The variant's backend; one that nothing is known of, where its package is gone."""
    runtime = runtimes().get(variant.runtime)
    return (runtime and runtime.backend(variant.backend)) or BackendEntry(name=variant.backend)


def checked_in_python(backend: str) -> bool:
    """Tell whether a Python program stands in for the backend: only this machine itself has that, no phone on it."""
    entries = (runtime.backend(backend) for runtime in runtimes().values())
    return any(entry.checked_as_built for entry in entries if entry is not None)


def backend_title(name: str) -> str:
    """The backend for people."""
    entries = (runtime.backend(name) for runtime in runtimes().values())
    return next((entry.title for entry in entries if entry is not None and entry.title), name)


def metrics() -> Mapping[str, Metric]:
    """The metrics that an objective may name: the built-in ones, and those that runners of other packages report
    besides."""
    return METRICS | {metric.name: metric for entry in runtimes().values() for metric in entry.metrics}


def metric(name: str) -> Metric:
    """The metric of that name: built in, a package's own, or one of a package that is gone."""
    return METRICS.get(name) or metrics().get(name) or Metric(name, name, "", "neither", 3)


def is_timed(metric: str) -> bool:
    """Tell whether the metric exists only where a device ran the backend: a result that was only checked has none of
    them. A runner tells its own metrics as it times."""
    return metric in TIMED or metric not in METRICS


def _values(runtime: RuntimeEntry, axis: str) -> tuple[str, ...]:
    return tuple(backend.name for backend in runtime.backends) if axis == "backend" else runtime.values.get(axis, ())


@cache
def _all(group: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The entries of one kind by name, and what is wrong with those that were left out."""
    kind, built_in = _GROUPS[group]
    return with_others(kind, group, built_in)
