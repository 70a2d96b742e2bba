"""The runtimes, transports and views, as pure data: their values in sweep files, and the names of their classes.

Those of this project stand here. Other packages add theirs (`sweeps.spec.entries`).
"""

import re
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from sweeps.device_facts import VIRTUAL_PHONE, DeviceFacts
from sweeps.metrics import METRICS, Metric
from sweeps.records import Timing
from sweeps.spec import places
from sweeps.spec.entries import BackendEntry, DeviceEntry, RuntimeEntry, ViewEntry, with_others
from sweeps.variant import Variant

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
            # torch's dynamic linear layers reduce the range of activations themselves, on every CPU.
            saturating={"onednn": frozenset({"static_fx", "static_eager", "qat"})},
            support_columns={"fp32": "capture", "int8": "capture"},
            support_parts=True,
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
            unsaid=frozenset({"capture", "fuse", "optimize"}),
            lists_accelerators=True,
            support_columns={"fp32": "relaxed_fp16", "int8": "interface"},
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
            unsaid=frozenset({"format", "fuse", "optimize"}),
            # int8 has no capture there to tell apart.
            support_columns={"fp32": "capture"},
        ),
    ),
    values={
        "precision": ("fp32", "int8"),
        "quantization": ("static", "static_fx", "static_eager", "dynamic", "qat"),
        "qengine": ("auto", "qnnpack", "x86", "onednn"),
        "granularity": ("auto", "per_tensor", "per_channel"),
        "interface": ("core", "full", "inside"),
        "layout": ("nchw", "nhwc"),
        "capture": ("script", "trace", "mixed"),
        "format": ("pt", "ptl"),
        "preference": ("sustained_speed", "fast_single_answer", "low_power"),
    },
    synonyms={"quantization": {"static": "static_fx"}},
)

EAGER = RuntimeEntry(
    name="eager",
    target="workers.runtimes.eager.runtime:Eager",
    # As the user wrote it: nothing is captured, fused, lowered or quantized, so no axis has a choice.
    backends=(BackendEntry(name="cpu", fixed={"capture": "eager"}),),
    unshippable="PyTorch in Python runs on no phone: it is here to compare with",
)

_EXTRA = "runtimes 390 MB"
_RELEASES = ("toolchain", "runner_toolchain")
_LIBRARY = Metric("runtime_mb", "Runtime library", "MB", "lower", 1)
"""What an app needs beside the model: told by runners that run with a library of their own."""
_DELEGATED = Metric("delegated_percent", "Delegated multiply-adds", "%", "higher", 1)
"""What a delegate takes of a model: the rest runs in portable kernels, which are slow. Told by the build."""


def _of_onnx(name: str, title: str = "") -> BackendEntry:
    """Where ONNX Runtime can run operators: an execution provider, with the CPU for what it does not take."""
    return BackendEntry(
        name=name,
        title=title,
        axes=frozenset({"opset", "graph_optimization"}),
        int8_axes=frozenset({"quantization", "granularity", "calibration_images"}),
        fixed={"capture": "export", "format": "onnx"},
        # Its kernels take activations of 8 bits and weights of 8, in whatever way the weights were quantized.
        saturating={"none": frozenset({"static", "dynamic"})} if name == "cpu" else {},
        unsaid=frozenset({"capture", "format"}),
    )


ONNXRUNTIME = RuntimeEntry(
    name="onnxruntime",
    target="workers.runtimes.onnxruntime.runtime:OnnxRuntime",
    axes=frozenset({"backend", "precision", *_RELEASES}),
    backends=(
        _of_onnx("cpu"),
        _of_onnx("xnnpack", "XNNPACK"),
        _of_onnx("nnapi"),
        _of_onnx("qnn", "Qualcomm's NPU"),
        _of_onnx("coreml", "Core ML"),
    ),
    values={
        "precision": ("fp32", "fp16", "int8"),
        "quantization": ("static", "dynamic"),
        "granularity": ("auto", "per_tensor", "per_channel"),
        "graph_optimization": ("all", "extended", "basic", "disabled"),
    },
    synonyms={"graph_optimization": {"none": "all"}},
    metrics=(_LIBRARY,),
    extra=_EXTRA,
)

_TO_PTE = {"capture": "export", "format": "pte"}

EXECUTORCH = RuntimeEntry(
    name="executorch",
    target="workers.runtimes.executorch.runtime:ExecuTorch",
    axes=frozenset({"backend", "precision", *_RELEASES}),
    backends=(
        BackendEntry(
            # XNNPACK, as in PyTorch Mobile; what it does not take runs in portable kernels.
            name="cpu",
            title="the CPU",
            axes=frozenset({"layout"}),
            int8_axes=frozenset({"quantization", "granularity", "calibration_images"}),
            fixed=_TO_PTE,
            unsaid=frozenset(_TO_PTE),
        ),
        BackendEntry(name="portable", title="the CPU, portable kernels", fixed=_TO_PTE, unsaid=frozenset(_TO_PTE)),
        BackendEntry(name="vulkan", title="Vulkan", fixed=_TO_PTE, unsaid=frozenset(_TO_PTE)),
    ),
    values={
        "precision": ("fp32", "int8"),
        "quantization": ("static", "dynamic"),
        "granularity": ("auto", "per_tensor", "per_channel"),
        "layout": ("nchw", "nhwc"),
    },
    metrics=(_LIBRARY, _DELEGATED),
    extra=_EXTRA,
)

BUILT_IN_RUNTIMES = (TORCHSCRIPT, EAGER, ONNXRUNTIME, EXECUTORCH)
BUILT_IN_NAMES = frozenset(entry.name for entry in BUILT_IN_RUNTIMES)
ALWAYS_BROUGHT = frozenset(entry.name for entry in BUILT_IN_RUNTIMES if not entry.extra)
"""The runtimes whose programs every phone gets, so that its fingerprint is the same in every sweep."""

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
        unit_pattern=r"[A-Za-z0-9._:\[\]%-]+",
        may_be_away=True,
        discovery="workers.devices.adb.discovery",
        recovery="workers.devices.adb.recovery",
    ),
    DeviceEntry(
        name="ssh",
        target="workers.devices.ssh.device:SshDevice",
        unit="USER@BOARD",
        unit_pattern=(
            r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?"
            r"(?:[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?\])(?::[0-9]{1,5})?"
        ),
        may_be_away=True,
        discovery="workers.devices.ssh.discovery",
    ),
)

TIMED = METRICS.keys() & {entry.name for entry in fields(Timing)}
"""Built-in metrics that exist only where a device ran the backend."""

_GROUPS: dict[str, tuple[type[Any], tuple[Any, ...]]] = {
    "edgesweep.runtimes": (RuntimeEntry, BUILT_IN_RUNTIMES),
    "edgesweep.devices": (DeviceEntry, BUILT_IN_DEVICES),
    "edgesweep.views": (ViewEntry, ()),
}
"""By group of entry points: the kind of its entries, and the built-in ones."""


def runtimes() -> Mapping[str, RuntimeEntry]:
    """By name, the built-in ones first."""
    return _all("edgesweep.runtimes")[0]


def devices() -> Mapping[str, DeviceEntry]:
    """By name, the built-in ones first."""
    return _all("edgesweep.devices")[0]


def views() -> Mapping[str, ViewEntry]:
    """Those of other packages, by name; the dashboard's own are in `dashboard.views.registry`."""
    return _all("edgesweep.views")[0]


def problems() -> tuple[str, ...]:
    """Why entries of other packages were left out, one line each."""
    return tuple(problem for group in _GROUPS for problem in _all(group)[1])


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
    bare = places.on_host(name)
    found = devices().get(bare.partition(":")[0])
    return found if found is not None and re.fullmatch(found.pattern, bare) else None


def is_host(name: str) -> bool:
    """Whether the device that a sweep file calls `name` is this machine itself."""
    found = device(name)
    return found is not None and found.is_host and places.host_of(name) is None


def is_here(facts: DeviceFacts) -> bool:
    """Whether the device runs on a computer that builds: what is built would take its time."""
    return is_host(facts.name) or facts.exec_context == VIRTUAL_PHONE


def unshippable(runtime: str) -> str:
    """Why nothing of that runtime can win; empty where it can."""
    found = runtimes().get(runtime)
    return found.unshippable if found is not None else ""


def backend_of(variant: Variant) -> BackendEntry:
    """The variant's backend; one that nothing is known of, where its package is gone."""
    runtime = runtimes().get(variant.runtime)
    return (runtime and runtime.backend(variant.backend)) or BackendEntry(name=variant.backend)


def backend_title(name: str) -> str:
    """The backend for people."""
    found = (one.backend(name) for one in runtimes().values())
    return next((one.title for one in found if one is not None and one.title), name)


def metrics() -> Mapping[str, Metric]:
    """Those that an objective may name: the built-in ones, and what runners of other packages tell besides."""
    return METRICS | {one.name: one for entry in runtimes().values() for one in entry.metrics}


def metric(name: str) -> Metric:
    """The metric of that name: built in, a package's own, or one of a package that is gone."""
    return METRICS.get(name) or metrics().get(name) or Metric(name, name, "", "neither", 3)


def is_timed(metric: str) -> bool:
    """Whether it exists only where a device ran the backend: what was only checked has none of them. A runner tells
    its own metrics as it times."""
    return metric in TIMED or metric not in METRICS


def _values(runtime: RuntimeEntry, axis: str) -> tuple[str, ...]:
    return tuple(one.name for one in runtime.backends) if axis == "backend" else runtime.values.get(axis, ())


@cache
def _all(group: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """All entries of one kind by name, and what is wrong with those that were left out."""
    kind, built_in = _GROUPS[group]
    return with_others(kind, group, built_in)
