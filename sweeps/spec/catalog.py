"""The runtimes, transports and views, as pure data: their values in sweep files, and the names of their classes.

The built-in ones are listed here. Another package adds its own by an entry point that names one of the entries below:

    [project.entry-points."edgesweep.runtimes"]
    toy = "edgesweep_toy.entries:RUNTIME"

The groups are `edgesweep.runtimes`, `edgesweep.devices` and `edgesweep.views`. An entry does not import what it
describes: classes are given as text, `module:Class`, and imported when they are needed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from sweeps.errors import in_one_line
from sweeps.metrics import METRICS, Metric

Value = str | bool | int
"""What a build axis may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendEntry:
    """Where the operators of one runtime run, and which build axes have a choice there."""

    name: str
    title: str = ""
    """For people; the name, if left out."""
    axes: frozenset[str] = frozenset()
    """The build axes that have a choice here, besides those of the runtime."""
    fp32_axes: frozenset[str] = frozenset()
    """Of fp32 alone."""
    int8_axes: frozenset[str] = frozenset()
    """Of int8 alone."""
    fixed: Mapping[str, Value] = field(default_factory=dict)
    """What an axis without a choice has; one that is not named has the default of `Variant`."""
    int8_fixed: Mapping[str, Value] = field(default_factory=dict)
    """The same for int8 alone."""
    builds_apart: bool = False
    """Its builds share no long stage with builds of the runtime's other backends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeEntry:
    """A toolchain that builds, and a program that runs what it built."""

    name: str
    target: str
    """`module:Class` of a `workers.runtimes.interface.Runtime`, made without arguments."""
    backends: tuple[BackendEntry, ...]
    axes: frozenset[str] = frozenset()
    """The build axes that have a choice for every backend: some or all of `backend`, `precision` and `layout`."""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Allowed values of the text axes. An axis that is left out accepts the values of the other runtimes."""
    unshippable: str = ""
    """Why its builds cannot win; empty if they can."""
    metrics: tuple[Metric, ...] = ()
    """Further figures of its runner (`extra_metrics`)."""

    def backend(self, name: str) -> BackendEntry | None:
        return next((one for one in self.backends if one.name == name), None)


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
    """Regular expression of the unit."""
    is_host: bool = False
    """Whether it is this machine: it runs this Python, and builds disturb its measurements."""
    simulated: bool = False
    may_be_away: bool = False
    """Whether a planned device may be absent now: it keeps its results, and its jobs wait."""
    discovery: str = ""
    """Module that finds all units of `name:*` (see `workers.devices.interface.Discovery`); empty if there is none."""

    @property
    def pattern(self) -> str:
        return f"{self.name}:{self.unit_pattern}" if self.unit else self.name

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


TORCHSCRIPT = RuntimeEntry(
    name="torchscript",
    target="workers.runtimes.torchscript.runtime:TorchScript",
    axes=frozenset({"backend", "precision", "layout"}),
    backends=(
        BackendEntry(
            name="cpu",
            title="the CPU",
            axes=frozenset({"capture", "format", "fuse", "optimize"}),
            int8_axes=frozenset({"quantization", "qengine", "granularity", "calibration_images", "interface"}),
        ),
        BackendEntry(
            name="nnapi",
            title="NNAPI",
            axes=frozenset({"format", "preference", "flexible_batch"}),
            fp32_axes=frozenset({"relaxed_fp16"}),
            int8_axes=frozenset({"quantization", "granularity", "calibration_images", "interface"}),
            # A traced core that NNAPI runs, in a scripted whole. Its converter takes fused models only.
            fixed={"capture": "mixed", "fuse": True, "optimize": False},
            # Its numbers are those that phones' accelerators are made for.
            int8_fixed={"qengine": "qnnpack"},
            builds_apart=True,
        ),
        BackendEntry(
            name="metal",
            title="Metal",
            axes=frozenset({"capture"}),
            int8_axes=frozenset({"quantization", "granularity", "calibration_images", "interface"}),
            # The Metal passes are a part of optimize_for_mobile, and fuse by themselves; iOS loads the lite format.
            fixed={"format": "ptl", "fuse": True, "optimize": True},
            int8_fixed={"qengine": "qnnpack"},
        ),
    ),
    values={
        "precision": ("fp32", "int8"),
        "quantization": ("static_fx", "static_eager", "dynamic", "qat"),
        "qengine": ("auto", "qnnpack", "x86", "onednn"),
        "granularity": ("auto", "per_tensor", "per_channel"),
        "interface": ("core", "full", "inside"),
        "layout": ("nchw", "nhwc"),
        "capture": ("script", "trace", "mixed"),
        "format": ("pt", "ptl"),
        "preference": ("sustained_speed", "fast_single_answer", "low_power"),
    },
)

EAGER = RuntimeEntry(
    name="eager",
    target="workers.runtimes.eager.runtime:Eager",
    # As the user wrote it: nothing is captured, fused, lowered or quantized, so no axis has a choice.
    backends=(BackendEntry(name="cpu", fixed={"capture": "eager"}),),
    unshippable="PyTorch in Python runs on no phone: it is here to compare with",
)

BUILT_IN_RUNTIMES = (TORCHSCRIPT, EAGER)

BUILT_IN_DEVICES = (
    DeviceEntry(name="local", target="workers.devices.local:LocalDevice", is_host=True),
    DeviceEntry(
        name="fake",
        target="workers.devices.fake.device:FakeDevice",
        unit="NAME",
        unit_pattern="[a-z0-9_]+",
        simulated=True,
    ),
    DeviceEntry(
        name="adb",
        target="workers.devices.adb.device:AdbDevice",
        unit="SERIAL",
        unit_pattern=r"(\*|[A-Za-z0-9._:\[\]%-]+)",
        may_be_away=True,
        discovery="workers.devices.adb.discovery",
    ),
)

Entry = TypeVar("Entry", RuntimeEntry, DeviceEntry, ViewEntry)


@cache
def runtimes() -> Mapping[str, RuntimeEntry]:
    """By name, the built-in ones first."""
    return _all(RuntimeEntry, "edgesweep.runtimes", BUILT_IN_RUNTIMES)


@cache
def devices() -> Mapping[str, DeviceEntry]:
    """By name, the built-in ones first."""
    return _all(DeviceEntry, "edgesweep.devices", BUILT_IN_DEVICES)


@cache
def views() -> Mapping[str, ViewEntry]:
    """Those of other packages, by name; the dashboard's own are in `dashboard.views.registry`."""
    return _all(ViewEntry, "edgesweep.views", ())


def problems() -> tuple[str, ...]:
    """Why entries of other packages were left out, one line each."""
    runtimes(), devices(), views()
    return tuple(_PROBLEMS)


def values(axis: str) -> tuple[str, ...]:
    """What a sweep file may write into a build axis of text: of every runtime, each once."""
    if axis == "runtime":
        return tuple(runtimes())
    found = [value for one in runtimes().values() for value in _values(one, axis)]
    return tuple(dict.fromkeys(found))


def not_of_runtime(axes: Mapping[str, object], free: frozenset[str]) -> str | None:
    """Why a variant with these axes is none of its runtime's: in one grid every runtime meets the values of all."""
    runtime = runtimes()[str(axes["runtime"])]
    for axis in ("backend", *runtime.values):
        known = _values(runtime, axis)
        if axis in free and known and axes[axis] not in known:
            return f"{runtime.name} has no {axis} {axes[axis]} (it has: {', '.join(known)})"
    return None


def device(name: str) -> DeviceEntry | None:
    """The transport of a device that a sweep file calls `name`; `None` where no transport has such names."""
    found = devices().get(name.partition(":")[0])
    return found if found is not None and re.fullmatch(found.pattern, name) else None


def is_host(name: str) -> bool:
    """Whether the device that a sweep file calls `name` is this machine itself."""
    found = device(name)
    return found is not None and found.is_host


def unshippable() -> Mapping[str, str]:
    """The runtimes of which nothing can win, and why."""
    return {name: one.unshippable for name, one in runtimes().items() if one.unshippable}


def backend_title(name: str) -> str:
    """The backend for people."""
    found = (one.backend(name) for one in runtimes().values())
    return next((one.title for one in found if one is not None and one.title), name)


def metric(name: str) -> Metric:
    """The metric of that name: built in, a package's own, or one of a package that is gone."""
    own = {one.name: one for entry in runtimes().values() for one in entry.metrics}
    return METRICS.get(name) or own.get(name) or Metric(name, name, "", "neither", 3)


def _values(runtime: RuntimeEntry, axis: str) -> tuple[str, ...]:
    return tuple(one.name for one in runtime.backends) if axis == "backend" else runtime.values.get(axis, ())


def _all(kind: type[Entry], group: str, built_in: tuple[Entry, ...]) -> dict[str, Entry]:
    from importlib.metadata import entry_points

    found = {one.name: one for one in built_in}
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        package = point.dist.name if point.dist is not None else "a package"
        try:
            entry = point.load()
        except Exception as error:  # noqa: BLE001  # another package's code
            _PROBLEMS.append(f"{point.name} of {package} is left out: {in_one_line(error)}")
            continue
        if not isinstance(entry, kind):
            _PROBLEMS.append(f"{point.name} of {package} is left out: {point.value} is no {kind.__name__}")
        elif entry.name in found:
            _PROBLEMS.append(f"{point.name} of {package} is left out: there is a {entry.name} already")
        else:
            found[entry.name] = entry
    return found


_PROBLEMS: list[str] = []
