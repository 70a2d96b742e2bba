"""Entries of the catalog: descriptions of a runtime, a transport or a view, by this project or another package.

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
"""Value of a build axis."""

_AXES = frozenset(axis.name for axis in fields(Variant))


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendEntry:
    """Backend of one runtime, that is, the place where the runtime's operators run; the entry says which build axes
    have a choice there."""

    name: str
    title: str = ""
    """Display name of the backend; `name` if left out."""
    axes: frozenset[str] = frozenset()
    """Build axes that have a choice for this backend, besides those of the runtime."""
    float_axes: frozenset[str] = frozenset()
    """Further axes with a choice for floats (fp32, fp16) only."""
    int8_axes: frozenset[str] = frozenset()
    """Further axes with a choice for int8 only."""
    fixed: Mapping[str, Value] = field(default_factory=dict)
    """Values of axes without a choice; an axis that is not named has the default of `Variant`."""
    int8_fixed: Mapping[str, Value] = field(default_factory=dict)
    """Values of axes without a choice that hold for int8 only; they override `fixed`."""
    saturating: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Quantization methods whose sums of 8-bit products saturate on an x86 CPU without VNNI, unless the weights have a
    reduced range; by int8 engine."""
    unsaid: frozenset[str] = frozenset()
    """Axes without a choice that the label of a variant leaves out."""
    lists_accelerators: bool = False
    """Whether the backend's program can list the accelerators of a phone, and the operators that each one takes
    (`--nnapi-devices`)."""
    support_columns: Mapping[str, str] = field(default_factory=dict)
    """Axis that distinguishes columns of the support table, besides the quantization method; by precision."""
    support_parts: bool = False
    """Whether the support table has one part per precision and engine, instead of one for all."""
    checked_as_built: bool = False
    """Whether a build is checked without the backend, by running its graph in PyTorch. Then a survey of what can be
    built needs no device with the backend, and a sweep on this machine computes the accuracy in Python."""
    builds_apart: bool = False
    """Whether the backend's builds share no long stage with builds of the runtime's other backends."""

    @property
    def chosen_axes(self) -> frozenset[str]:
        """The build axes that have a choice for this backend in some precision, besides those of the runtime."""
        return self.axes.union(self.float_axes, self.int8_axes)

    @property
    def named_axes(self) -> frozenset[str]:
        """All axis names in this entry, each of which must be a build axis."""
        return self.chosen_axes.union(self.fixed, self.int8_fixed, self.unsaid, self.support_columns.values())

    def wrong(self, axes_of_runtime: frozenset[str]) -> str:
        if not _NAME.fullmatch(self.name):
            return f"the name {self.name!r} of a backend is not of small letters, digits and '_' only"
        # Otherwise two variants would have the same label.
        chosen = sorted(self.unsaid & (axes_of_runtime | self.chosen_axes))
        return f"labels of {self.name} cannot leave out {chosen[0]}, which has a choice there" if chosen else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeEntry:
    """Runtime: a toolchain that builds files, and a program that runs them."""

    name: str
    target: str
    """Class of the runtime (`workers.runtimes.interface.Runtime`) as `module:Class`, constructed without arguments."""
    backends: tuple[BackendEntry, ...]
    axes: frozenset[str] = frozenset()
    """Build axes that have a choice for every backend: some or all of `backend`, `precision` and `layout`; and
    `toolchain` and `runner_toolchain` if `sweeps.spec.toolchains` has the runtime's library."""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Allowed values of the text axes. An axis that is left out accepts the values of the other runtimes."""
    synonyms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Values of other runtimes in sweep files, each with the value that it means for this runtime; by axis."""
    unshippable: str = ""
    """Reason why the runtime's builds cannot win; empty if they can."""
    extra: str = ""
    """Optional extra of this project's package that installs the runtime's libraries, with their size, such as
    `runtimes 390 MB`; empty if PyTorch is enough. The program of a runtime with an extra is pushed to phones only in
    sweeps that use the runtime."""
    metrics: tuple[Metric, ...] = ()
    """Further figures that the runner reports (`extra_metrics`)."""
    for_phones: str = ""
    """Module that says how the runtime's C++ runner is compiled for phones (`edgesweep runner build`), as
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
    """Transport: a kind of access to devices. Sweep files write its name, or `name:unit`."""

    name: str
    target: str
    """Class of the device (`workers.devices.interface.Device`) as `module:Class`, constructed with a folder, and with
    the unit if there is one.
    """
    unit: str = ""
    """Placeholder for the part after the colon in messages, such as `SERIAL`. Empty if there is only one unit, which is
    always present."""
    unit_pattern: str = ""
    """Regular expression for the part after the colon, without the `*` of `name:*`."""
    is_host: bool = False
    """Whether the device is this machine: it runs this Python, and builds disturb its measurements."""
    simulated: bool = False
    may_be_away: bool = False
    """Whether a planned device may be absent: its results are kept, and its jobs wait."""
    discovery: str = ""
    """Module that finds all units of `name:*` (see `workers.devices.interface.Discovery`); empty if there is none."""
    recovery: str = ""
    """Module that tries to recover a unit that stopped answering (see `workers.devices.interface.Recovery`); if empty,
    the driver only waits for the unit."""

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
        """The forms in which sweep files name devices of this transport."""
        if not self.unit:
            return (self.name,)
        return (f"{self.name}:{self.unit}", f"{self.name}:*") if self.discovery else (f"{self.name}:{self.unit}",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewEntry:
    """View of the dashboard, drawn for one model on one device."""

    name: str
    title: str
    target: str
    """Function as `module:function`, called with a `dashboard.data.Ranked` and the `DeviceRanking` that is selected on
    the page."""

    def wrong(self) -> str:
        return ""


def with_others(kind: type[Any], group: str, built_in: Sequence[Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the built-in entries and those of other packages' entry points of this group, by name; and for each entry
    that was left out, a line with the reason."""
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
    """Return the reason why a metric of `entry` conflicts with another runtime's metric of the same name; empty if none
    does. Figures of one name are compared with each other, so they must have one definition."""
    for runtime in by_name.values():
        for metric in runtime.metrics:
            if any(own.name == metric.name and own != metric for own in entry.metrics):
                return f"{runtime.name} defines the metric {metric.name} in another way"
    return ""


def _all_are(kind: type[Any], several: object) -> bool:
    return isinstance(several, tuple) and all(isinstance(member, kind) for member in several)
