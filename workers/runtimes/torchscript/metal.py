"""The Metal backend of PyTorch Mobile: lowering on any machine, and what iOS will do with the result.

PyTorch deleted the backend in 2026 (pull request 174940); phones run a libtorch up to v2.8, the last one that has
mobile build scripts. What is said here of iOS was read in `aten/src/ATen/native/metal` of that time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.mobile_optimizer import optimize_for_mobile

from sweeps.errors import BuildError
from workers.native.compiler import shared_library
from workers.runtimes.torchscript.failures import first_words

_REGISTERED = {
    "MetalAddmm": ("addmm",),
    "MetalBinaryElementwise": (
        *("add.Tensor", "add_.Tensor", "sub.Tensor", "sub_.Tensor"),
        *("mul.Tensor", "mul_.Tensor", "div.Tensor", "div_.Tensor"),
    ),
    "MetalChunk": ("chunk",),
    "MetalClamp": ("hardtanh", "hardtanh_", "clamp"),
    "MetalConcat": ("cat",),
    "MetalHardshrink": ("hardshrink",),
    "MetalHardswish": ("hardswish", "hardswish_"),
    "MetalLeakyReLU": ("leaky_relu", "leaky_relu_"),
    "MetalNeurons": ("tanh", "relu", "relu_", "sigmoid", "hardsigmoid_"),
    "MetalPadding": ("reflection_pad2d",),
    "MetalPooling": ("max_pool2d", "adaptive_avg_pool2d"),
    "MetalReduce": ("mean.dim",),
    "MetalReshape": ("detach", "view", "reshape", "flatten.using_ints"),
    "MetalSoftmax": ("softmax.int", "log_softmax.int"),
    "MetalTranspose": ("t", "transpose.int"),
    "MetalUpsamplingNearest": ("upsample_nearest2d.vec",),
}
"""The kernels of `aten` by the file in `aten/src/ATen/native/metal/ops` that registers them for Metal."""

_COMPOSED = ("relu6", "contiguous", "size", "size.int", "dim", "numel")
"""Need no kernel: torch makes them of those above, or of the shape alone."""

KERNELS = frozenset(f"aten::{name}" for names in (*_REGISTERED.values(), _COMPOSED) for name in names) | {
    "metal_prepack::conv2d_run",
    "metal_prepack::linear_run",
    "metal::copy_to_host",
}
"""What iOS can run on a Metal tensor, as `operator.overload`."""

_BATCH_OF_ONE = ("aten::chunk", "aten::mean.dim")
_ELEMENTWISE = frozenset(f"aten::{name}" for name in _REGISTERED["MetalBinaryElementwise"])

_USES: Mapping[str, tuple[Callable[[Mapping[str, Any]], bool], str]] = {
    "aten::adaptive_avg_pool2d": (lambda given: given["output_size"] == [1, 1], "to another size than 1x1"),
    "aten::max_pool2d": (lambda given: given["dilation"] == [1, 1], "dilated"),
    "aten::cat": (lambda given: given["dim"] in (0, 1), "neither of batches nor of channels"),
    "aten::chunk": (lambda given: (given["chunks"], given["dim"]) == (2, 1), "other than two halves of the channels"),
    "aten::mean.dim": (lambda given: min(given["dim"] or [0]) > 0, "of the batch, or with dimensions below 0"),
    "aten::clamp": (lambda given: None not in (given["min"], given["max"]), "with one bound"),
}
"""What iOS' kernels ask of their constant arguments, and how a use is called that breaks it."""

_SILU = """
graph(%x):
  %y = aten::silu(%x)
  return (%y)"""
_SIGMOID_AND_MUL = """
graph(%x):
  %s = aten::sigmoid(%x)
  %y = aten::mul(%x, %s)
  return (%y)"""
_HARD_SIGMOID = """
graph(%x, %w):
  %c = metal_prepack::conv2d_run(%x, %w)
  %y = aten::hardsigmoid(%c)
  return (%y)"""
_REWRITES = (
    (_SILU, _SIGMOID_AND_MUL),  # SiLU has no kernel, its parts have
    # Hard sigmoid has a kernel in place only. A pattern matches where nothing else reads what is inside of it.
    (_HARD_SIGMOID, _HARD_SIGMOID.replace("hardsigmoid", "hardsigmoid_")),
)


@cache
def load_operators() -> str:
    """Register the Metal operators with torch, compiled on first use. Returns the library's path.

    Once per process: torch refuses to define an operator twice. Raises `BuildError`: `no_compiler`,
    `not_compilable` or `not_loadable`.
    """
    path = str(shared_library("metal_ops.cpp", "edgesweep_metal_ops.so"))
    try:
        torch.ops.load_library(path)  # type: ignore[no-untyped-call]  # torch has no types for it
    except (OSError, RuntimeError) as error:
        raise BuildError(
            "not_loadable", f"torch can not load {path}: {first_words(error)}", f"remove {path}, it is made anew"
        ) from error
    return path


def lower(captured: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """The captured fp32 model (in eval mode) with its convolutions and linears prepacked for Metal.

    Not frozen first, as the CPU's have to be: the bias that folding makes is lost (pytorch issue 76807) in a rewrite of
    Conv1d, which these passes have not; and frozen linears become constants, where iOS' own exporter has attributes.
    Raises `BuildError`: `not_optimizable`, and what `load_operators` raises.
    """
    load_operators()
    try:
        lowered: torch.jit.ScriptModule = optimize_for_mobile(captured, backend="metal")
        for pattern, replacement in _REWRITES:
            torch._C._jit_pass_custom_pattern_based_rewrite_graph(pattern, replacement, lowered.graph)
    except Exception as error:
        raise BuildError("not_optimizable", f"optimize_for_mobile fails for Metal: {first_words(error)}") from error
    return lowered


def unsupported(lowered: torch.jit.ScriptModule, batch: int = 1) -> list[str]:
    """What iOS can not run of a lowered model on `batch` images: operators, and uses of operators that it refuses.

    For instance `["aten::gelu", "aten::mean.dim (batch 2)"]`. Operators on numbers and shapes run on the CPU.
    """
    device = {value.debugName() for value in lowered.graph.inputs() if _holds_tensors(value)}
    return sorted(
        {refused for node in _on_device(lowered.graph, device) if (refused := _refused(node, lowered, device, batch))}
    )


def _on_device(block: Any, device: set[str]) -> Iterator[Any]:
    """The operators in `block` that read a value named in `device`, which grows by the values that they make."""
    for node in block.nodes():
        reads = _any_in(device, node.inputs())
        for inner in node.blocks():
            if reads:
                device.update(_tensors(inner.inputs()))
            yield from _on_device(inner, device)
            reads = reads or _any_in(device, inner.outputs())
        if not reads:
            continue
        device.update(_tensors(node.outputs()))
        if _is_operator(node):
            yield node
        else:
            device.update(value.debugName() for value in node.inputs() if str(value.type()) == "Tensor[]")  # append


def _any_in(device: set[str], values: Iterable[Any]) -> bool:
    return any(value.debugName() in device for value in values)


def _tensors(values: Iterable[Any]) -> Iterator[str]:
    return (value.debugName() for value in values if _holds_tensors(value))


def _holds_tensors(value: Any) -> bool:
    return "Tensor" in str(value.type())


def _is_operator(node: Any) -> bool:
    """Whether it computes: the others are control flow, and lists that hold whatever they are given."""
    return node.kind() == "prim::ConstantChunk" or (not node.kind().startswith("prim::") and "Tensor" in node.schema())


def _refused(node: Any, lowered: torch.jit.ScriptModule, device: set[str], batch: int) -> str | None:
    """The operator, and why where it is for its arguments; `None` where iOS takes it."""
    name, given = _call(node)
    if name not in KERNELS:
        return name
    inputs = list(node.inputs())
    reasons = []
    if name == "metal_prepack::conv2d_run":
        origin = inputs[1].node()
        attribute = origin.kind() == "prim::GetAttr"
        reasons.append(_refused_convolution(getattr(lowered, origin.s("name")) if attribute else given["W_prepack"]))
    if name in _USES and not _USES[name][0](given):
        reasons.append(_USES[name][1])
    if name in _BATCH_OF_ONE and batch != 1:
        reasons.append(f"batch {batch}")
    if name in _ELEMENTWISE:
        if inputs[0].debugName() not in device:
            reasons.append("a constant as first operand")
        constant = given["other"]  # torch hands a tensor that a number was traced into over as the number
        if isinstance(constant, int | float) or (isinstance(constant, torch.Tensor) and constant.dim() < 3):
            reasons.append("a constant without channels")
        if given.get("alpha", 1) != 1:
            reasons.append("alpha")
    reason = ", ".join(filter(None, reasons))
    return f"{name} ({reason})" if reason else None


def _call(node: Any) -> tuple[str, Mapping[str, Any]]:
    """Its name with the overload, and its arguments by name: `None` for those that are not constant."""
    if node.kind() == "prim::ConstantChunk":
        return "aten::chunk", {"chunks": node.i("chunks"), "dim": node.i("dim")}
    name = node.schema().partition("(")[0]
    operator, _, overload = name.partition(".")
    arguments = torch._C._get_schema(operator, overload).arguments
    values = (value.toIValue() for value in node.inputs())
    return name, {argument.name: value for argument, value in zip(arguments, values, strict=True)}


def _refused_convolution(context: torch.ScriptObject | None) -> str | None:
    if context is None:
        return "with computed weights"
    weight, _, _, _, dilation, groups, _, _ = context._get_method("__getstate__")()
    outputs, inputs = weight.shape[:2]
    if dilation != [1, 1]:
        return "dilated"  # two equal dilations pass iOS' check by mistake, and are left out of what it computes
    depthwise = inputs == 1 and outputs == groups
    return "groups of channels that are no multiple of 4" if groups > 1 and not depthwise and inputs % 4 else None


def round_to_half(model: Callable[[torch.Tensor], torch.Tensor]) -> torch.nn.Module:
    """`model`, an eager fp32 one or one loaded by the lite interpreter, with fp16 between its operators, as on iOS.

    Whatever an operator reads (inputs, weights) and answers is rounded to fp16; inside it computes in fp32. Batch norm
    reads its statistics unrounded: they are folded into weights before anything is stored in fp16.
    """
    return _Rounded(model)


class _Rounded(torch.nn.Module):
    def __init__(self, model: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Inference mode: only there a dispatch mode sees the operators that the model names, not their parts.
        with torch.inference_mode(), _RoundToHalf():  # type: ignore[no-untyped-call]  # torch's own, untyped
            return self.model(_half(x))


class _RoundToHalf(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own, untyped
    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        schema = func._schema
        written = [argument.is_write for argument in schema.arguments]
        if not schema.is_mutable and any(returned.alias_info for returned in schema.returns):
            return func(*args, **kwargs)  # a view: whoever reads it rounds
        if func is torch.ops.aten.batch_norm.default:
            return _half(func(_half(args[0]), *args[1:], **kwargs))
        read = [value if kept else tree_map(_half, value) for value, kept in zip(args, written, strict=False)]
        result = func(*read, **tree_map(_half, kwargs))
        if not schema.is_mutable:
            return tree_map(_half, result)
        for value in (value for value, kept in zip(args, written, strict=False) if kept):
            value.copy_(_half(value))  # in place: whoever holds it sees it rounded
        return result


def _half(value: Any) -> Any:
    return value.half().float() if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value
