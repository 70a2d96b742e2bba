"""Entries of the catalog: the description of a runtime, a transport or a view, by this project or another package.

Another package adds its own by an entry point that names one entry of a kind below:

    [project.entry-points."edgesweep.runtimes"]
    toy = "edgesweep_toy.entries:RUNTIME"

The groups are `edgesweep.runtimes`, `edgesweep.devices` and `edgesweep.views`. An entry does not import what
it describes: classes are given as text, `module:Class`, and imported when they are needed. A wrong entry is left out,
and the reason is reported.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, get_args

from sweeps.errors import in_one_line
from sweeps.metrics import Better, Metric, is_extra_name
from sweeps.variant import Variant

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")

Value = str | bool | int
"""A value of a build axis."""

_AXES = frozenset(axis.name for axis in fields(Variant))


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendEntry:
    """A backend is where the operators of one runtime run; its entry says which build axes have a choice there."""

    name: str
    title: str = ""
    """The backend's name for people; `name`, if left out."""
    axes: frozenset[str] = frozenset()
    """The build axes that have a choice here, besides those of the runtime."""
    float_axes: frozenset[str] = frozenset()
    """The axes with a choice for floats (fp32, fp16) alone."""
    int8_axes: frozenset[str] = frozenset()
    """The axes with a choice for int8 alone."""
    fixed: Mapping[str, Value] = field(default_factory=dict)
    """The values of axes without a choice; an axis that is not named has the default of `Variant`."""
    int8_fixed: Mapping[str, Value] = field(default_factory=dict)
    """The same for int8 alone."""
    saturating: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The quantization methods whose sums of 8-bit products saturate on an x86 CPU without VNNI, unless weights have a
    reduced range, by engine of int8."""
    unsaid: frozenset[str] = frozenset()
    """Axes without a choice here that the label of a variant leaves out."""
    lists_accelerators: bool = False
    """The backend's program lists the accelerators of a phone, and which operators each takes (`--nnapi-devices`)."""
    support_columns: Mapping[str, str] = field(default_factory=dict)
    """The axis that distinguishes columns of the support table, besides the quantization method, by precision."""
    support_parts: bool = False
    """The support table has one part per precision and engine, instead of one for all."""
    checked_as_built: bool = False
    """A build is checked without the backend, by its own graph in PyTorch: then a survey of what can be built needs no
    device that has the backend, and Python stands in for it where a sweep evaluates it."""
    builds_apart: bool = False
    """The backend's builds share no long stage with builds of the runtime's other backends."""

    @property
    def chosen_axes(self) -> frozenset[str]:
        """The build axes that have a choice here in some precision, besides those of the runtime."""
        return self.axes.union(self.float_axes, self.int8_axes)

    @property
    def named_axes(self) -> frozenset[str]:
        """The names that should be build axes."""
        return self.chosen_axes.union(self.fixed, self.int8_fixed, self.unsaid, self.support_columns.values())

    def wrong(self, axes_of_runtime: frozenset[str]) -> str:
        if not _NAME.fullmatch(self.name):
            return f"the name {self.name!r} of a backend is not of small letters, digits and '_' only"
        # Two variants would have one label otherwise.
        chosen = sorted(self.unsaid & (axes_of_runtime | self.chosen_axes))
        return f"labels of {self.name} cannot leave out {chosen[0]}, which has a choice there" if chosen else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeEntry:
    """A toolchain that builds, and a program that runs what it built."""

    name: str
    target: str
    """`module:Class` of a `workers.runtimes.interface.Runtime`, made without arguments."""
    backends: tuple[BackendEntry, ...]
    axes: frozenset[str] = frozenset()
    """The build axes that have a choice for every backend: some or all of `backend`, `precision` and `layout`; and
    `toolchain` and `runner_toolchain` where `sweeps.spec.toolchains` has its library."""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Allowed values of the text axes. An axis that is left out accepts the values of the other runtimes."""
    synonyms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The values that words of sweep files stand for in this runtime, where other runtimes take the words as they are,
    by axis."""
    unshippable: str = ""
    """The reason why the runtime's builds cannot win; empty if they can."""
    extra: str = ""
    """The extra of this project that installs what it needs beside PyTorch, and the size of that, as `runtimes 390 MB`.
    On phones, the program of such a runtime is only for sweeps that use it."""
    metrics: tuple[Metric, ...] = ()
    """Further figures of its runner (`extra_metrics`)."""
    for_phones: str = ""
    """Module that says how its C++ runner is compiled for phones (`edgesweep runner build`), as
    `workers.runtimes.onnxruntime.for_phones` does; empty if there is none."""

    def backend(self, name: str) -> BackendEntry | None:
        return next((backend for backend in self.backends if backend.name == name), None)

    def wrong(self) -> str:
        if not _all_are(BackendEntry, self.backends) or not self.backends:
            return "its backends are not a tuple of one BackendEntry or more"
        axes = self.axes.union(self.values, *(backend.named_axes for backend in self.backends))
        if unknown := sorted(axes - _AXES):
            return f"there is no build axis {unknown[0]}"
        for axis, words in self.values.items():
            if not _all_are(str, words) or "" in words:
                return f"the values of {axis} are not a tuple of non-empty text: {words!r}"
        return next(filter(None, (backend.wrong(self.axes) for backend in self.backends)), "") or self._wrong_metric()

    def _wrong_metric(self) -> str:
        for metric in self.metrics:
            if not is_extra_name(metric.name):
                return f"{metric.name!r} cannot be the name of an extra metric"
            if metric.better not in get_args(Better):
                known = ", ".join(get_args(Better))
                return f"the metric {metric.name} is better when {metric.better!r}, not one of {known}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEntry:
    """A transport: the way to reach a device. Sweep files write its name, or `name:unit`."""

    name: str
    target: str
    """`module:Class` of a `workers.devices.interface.Device`, created from a folder, and from the unit if there is one.
    """
    unit: str = ""
    """Placeholder for the part after the colon, for people: `SERIAL`. Empty if there is one unit, always present."""
    unit_pattern: str = ""
    """Regular expression of the unit, without the `*` of `name:*`."""
    is_host: bool = False
    """The device is this machine: it runs this Python, and builds disturb its measurements."""
    simulated: bool = False
    may_be_away: bool = False
    """A planned device may be absent now: it keeps its results, and its jobs wait."""
    discovery: str = ""
    """Module that finds all units of `name:*` (see `workers.devices.interface.Discovery`); empty if there is none."""
    recovery: str = ""
    """Module that tries to bring a unit back which stopped answering (see `workers.devices.interface.Recovery`); empty:
    it is only waited for."""

    @property
    def pattern(self) -> str:
        """Regular expression of the names that a sweep file may write."""
        if not self.unit:
            return self.name
        if self.discovery:
            return rf"{self.name}:(\*|{self.unit_pattern})"
        return f"{self.name}:({self.unit_pattern})" if "|" in self.unit_pattern else f"{self.name}:{self.unit_pattern}"

    def wrong(self) -> str:
        if bool(self.unit) != bool(self.unit_pattern):
            return "unit and unit_pattern need each other"
        try:
            re.compile(self.unit_pattern), re.compile(self.pattern)
        except re.error as error:
            return f"its unit_pattern {self.unit_pattern!r} is no regular expression: {error}"
        return ""

    @property
    def usages(self) -> tuple[str, ...]:
        """The forms in which sweep files name it."""
        if not self.unit:
            return (self.name,)
        return (f"{self.name}:{self.unit}", f"{self.name}:*") if self.discovery else (f"{self.name}:{self.unit}",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewEntry:
    """A view of the dashboard, drawn for one model on one device."""

    name: str
    title: str
    target: str
    """`module:function`, called with `dashboard.data.Ranked` and the `DeviceRanking` that the page has chosen."""

    def wrong(self) -> str:
        return ""


def with_others(kind: type[Any], group: str, built_in: Sequence[Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The built-in entries and those of other packages' entry points of this group, by name; and for each entry that
    was left out, a line with the reason."""
    from importlib.metadata import entry_points

    by_name = {entry.name: entry for entry in built_in}
    problems = []
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        try:
            entry = point.load()
            why = _wrong(entry, by_name) if isinstance(entry, kind) else f"{point.value} is no {kind.__name__}"
        except (Exception, SystemExit) as error:  # noqa: BLE001  # another package's code
            why = in_one_line(error)
        if why:
            package = point.dist.name if point.dist is not None else "a package"
            problems.append(f"{point.name} of {package} is left out: {why}")
        else:
            by_name[entry.name] = entry
    return by_name, tuple(problems)


def _wrong(entry: Any, by_name: dict[str, Any]) -> str:
    if entry.name in by_name:
        return f"there is a {entry.name} already"
    if not _NAME.fullmatch(entry.name):
        return f"the name {entry.name!r} is not of small letters, digits and '_' only"
    wrong: str = entry.wrong()
    return wrong or (_metric_of_another(entry, by_name) if isinstance(entry, RuntimeEntry) else "")


def _metric_of_another(entry: RuntimeEntry, by_name: Mapping[str, RuntimeEntry]) -> str:
    """Figures of one name are compared with each other, so they have one definition."""
    for runtime in by_name.values():
        for metric in runtime.metrics:
            if any(own.name == metric.name and own != metric for own in entry.metrics):
                return f"{runtime.name} defines the metric {metric.name} in another way"
    return ""


def _all_are(kind: type[Any], several: object) -> bool:
    return isinstance(several, tuple) and all(isinstance(member, kind) for member in several)
