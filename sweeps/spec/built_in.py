"""The runtimes and transports of this project, as pure data. `sweeps.spec.catalog` has them together with those of
other packages."""

from sweeps.metrics import Metric
from sweeps.spec.entries import BackendEntry, DeviceEntry, RuntimeEntry

_SLOW_KERNELS = "what is not delegated runs in slow kernels"
_OPERATORS_LEFT = "vary grids: backend, precision; the result's page names the operators that are left"
_LIBRARY = Metric(
    *("runtime_mb", "Runtime library", "MB", "lower", 1),
    why="an app carries the runtime's library with its kernels beside the file",
    todo="smaller: vary grids: runtime",
    also=("library", "library (mb)"),
)
"""Size of the runtime that an app needs besides the model's file; for a statically linked program, the size of the
program."""

TORCHSCRIPT = RuntimeEntry(
    name="torchscript",
    target="workers.runtimes.torchscript.runtime:TorchScript",
    for_phones="workers.runtimes.torchscript.for_phones",
    axes=frozenset({"backend", "precision", "layout"}),
    backends=(
        BackendEntry(
            name="cpu",
            title="the CPU",
            axes=frozenset({"capture", "format", "fuse", "optimize"}),
            int8_axes=frozenset({"quantization", "qengine", "granularity", "calibration_images", "interface"}),
            # Dynamic quantization is not listed: torch's dynamic linear layers reduce the range of activations
            # themselves, on every CPU.
            saturating={"onednn": frozenset({"static_fx", "static_eager", "qat"})},
            support_columns={"fp32": "capture", "int8": "capture"},
            support_parts=True,
        ),
        BackendEntry(
            name="nnapi",
            title="NNAPI",
            axes=frozenset({"format", "preference", "flexible_batch"}),
            float_axes=frozenset({"relaxed_fp16"}),
            int8_axes=frozenset({"quantization", "granularity", "calibration_images", "interface"}),
            # The captured module is a traced core, which NNAPI runs, inside a scripted whole. The NNAPI converter
            # accepts only fused models.
            fixed={"capture": "mixed", "fuse": True, "optimize": False},
            # qnnpack's number format is the one that phones' accelerators expect.
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
            # The Metal passes belong to optimize_for_mobile, and include fusing; iOS loads the lite format.
            fixed={"format": "ptl", "fuse": True, "optimize": True},
            int8_fixed={"qengine": "qnnpack"},
            unsaid=frozenset({"format", "fuse", "optimize"}),
            # The columns of int8 on Metal do not differ by capture.
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
    metrics=(_LIBRARY,),
)

EAGER = RuntimeEntry(
    name="eager",
    target="workers.runtimes.eager.runtime:Eager",
    # The model runs as the user wrote it: nothing is captured, fused, lowered or quantized, so no axis has a choice.
    backends=(BackendEntry(name="cpu", fixed={"capture": "eager"}),),
    unshippable="PyTorch in Python runs on no phone: it is here to compare with",
)

_EXTRA = "runtimes 390 MB"
_RELEASES = ("toolchain", "runner_toolchain")
_DELEGATED = Metric(
    "delegated_percent", "Delegated multiply-adds", "%", "higher", 1, why=_SLOW_KERNELS, todo=_OPERATORS_LEFT
)
"""Share of a model's multiply-adds that a delegate runs, in percent; the rest runs in slow portable kernels. The build
reports it."""
_DELEGATED_OPERATORS = Metric(
    *("delegated_operators_percent", "Delegated operators", "%", "higher", 1), why=_SLOW_KERNELS, todo=_OPERATORS_LEFT
)
"""Share of a model's operators that a delegate runs, in percent: each change between delegates moves data through the
CPU."""

_NODES = (
    Metric(
        *("backend_nodes", "Nodes that the backend took", "", "higher", 0),
        why="a backend takes the operators that it knows",
        todo=_OPERATORS_LEFT,
    ),
    Metric(
        *("cpu_nodes", "Nodes left to the CPU", "", "lower", 0),
        why="a backend leaves operators that it does not know to the CPU",
        todo=_OPERATORS_LEFT,
    ),
)
"""Numbers of nodes in one profiled inference on the device. Operators that an execution provider compiles into one node
count as one."""


def _of_onnx(name: str, title: str = "") -> BackendEntry:
    """Return the entry of a backend of ONNX Runtime: an execution provider, with the CPU for operators that the
    provider does not take."""
    return BackendEntry(
        name=name,
        title=title,
        axes=frozenset({"opset", "graph_optimization"}),
        # Only float convolutions on the CPU have a choice of layout.
        float_axes=frozenset({"layout"}) if name == "cpu" else frozenset(),
        int8_axes=frozenset({"quantization", "granularity", "calibration_images"}),
        support_columns={"int8": "granularity"},
        fixed={"capture": "export", "format": "onnx"},
        # The CPU's kernels multiply 8-bit activations by 8-bit weights, for static and dynamic quantization alike.
        saturating={"none": frozenset({"static", "dynamic"})} if name == "cpu" else {},
        unsaid=frozenset({"capture", "format"}),
    )


ONNXRUNTIME = RuntimeEntry(
    name="onnxruntime",
    target="workers.runtimes.onnxruntime.runtime:OnnxRuntime",
    for_phones="workers.runtimes.onnxruntime.for_phones",
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
        "layout": ("nchw", "nchw16c"),
    },
    synonyms={"graph_optimization": {"none": "all"}, "layout": {"nhwc": "nchw"}},
    metrics=(_LIBRARY, *_NODES),
    extra=_EXTRA,
)

_TO_PTE = {"capture": "export", "format": "pte"}

EXECUTORCH = RuntimeEntry(
    name="executorch",
    target="workers.runtimes.executorch.runtime:ExecuTorch",
    for_phones="workers.runtimes.executorch.for_phones",
    axes=frozenset({"backend", "precision", *_RELEASES}),
    backends=(
        BackendEntry(
            # `cpu` is XNNPACK, as in PyTorch Mobile; operators that XNNPACK does not take run in portable kernels.
            name="cpu",
            title="the CPU",
            axes=frozenset({"layout"}),
            int8_axes=frozenset({"quantization", "granularity", "calibration_images"}),
            support_columns={"int8": "granularity"},
            fixed=_TO_PTE,
            unsaid=frozenset(_TO_PTE),
        ),
        BackendEntry(name="portable", title="the CPU, portable kernels", fixed=_TO_PTE, unsaid=frozenset(_TO_PTE)),
        BackendEntry(name="vulkan", title="Vulkan", fixed=_TO_PTE, unsaid=frozenset(_TO_PTE), checked_as_built=True),
    ),
    values={
        "precision": ("fp32", "int8"),
        "quantization": ("static", "dynamic"),
        "granularity": ("auto", "per_tensor", "per_channel"),
        "layout": ("nchw", "nhwc"),
    },
    metrics=(_LIBRARY, _DELEGATED, _DELEGATED_OPERATORS),
    extra=_EXTRA,
)

BUILT_IN_RUNTIMES = (TORCHSCRIPT, EAGER, ONNXRUNTIME, EXECUTORCH)
BUILT_IN_NAMES = frozenset(entry.name for entry in BUILT_IN_RUNTIMES)
ALWAYS_BROUGHT = frozenset(entry.name for entry in BUILT_IN_RUNTIMES if not entry.extra)
"""Names of the runtimes whose programs are pushed to every phone, so that a phone's fingerprint is the same in every
sweep."""

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
        recovery="workers.devices.adb.phone_recovery",
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
