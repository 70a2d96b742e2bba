"""Inputs and outputs of int8 models: float (`core`, `inside`) or quantized (`full`)."""

import copy
import operator
from dataclasses import dataclass

import torch
from torch.ao.nn.quantized import DeQuantize
from torch.fx import GraphModule, Node

from sweeps.errors import BuildError
from workers.runtimes.torchscript.quantize.functional_modules import Quantize


@dataclass(frozen=True, slots=True, kw_only=True)
class QParams:
    """Quantization parameters of a tensor: real = (stored - zero_point) * scale."""

    scale: float
    zero_point: int
    dtype: torch.dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """An int8 model without quantize at its input and dequantize at its output.

    `core` takes a quantized tensor (B, C, H, W) with the parameters `input`. It returns a quantized tensor with the
    parameters `output`, or floats if `output` is `None`, because the model's last operator is not quantized.
    """

    core: GraphModule
    input: QParams
    output: QParams | None


class FloatEnds(torch.nn.Module):
    """A core between quantize and dequantize, so with float input and output. Can be traced and scripted.

    Keeps the input's memory format: a channels_last tensor is quantized to a channels_last tensor.
    """

    def __init__(self, core: torch.nn.Module, input: QParams, dequantizes: bool) -> None:
        super().__init__()
        self.core = core
        self.scale = input.scale
        self.zero_point = input.zero_point
        self.dtype = input.dtype
        self.dequantizes = dequantizes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.core(torch.quantize_per_tensor(x, self.scale, self.zero_point, self.dtype))
        if self.dequantizes:
            answer = answer.dequantize()
        return answer


def wrap_core(core_module: torch.nn.Module, core: Core) -> torch.nn.Module:
    """Return `core_module` with the interface `core`. `core_module` is `core.core`, or its captured or converted form.

    The result is not scripted: the caller scripts or traces it. The interface `full` needs no wrapper.
    """
    return FloatEnds(core_module, core.input, dequantizes=core.output is not None).eval()


def split(graph: GraphModule) -> Core:
    """Remove the quantize step at the start and the dequantize step at the end of an int8 graph.

    Works on a copy of `graph`. Raises `BuildError("interface_not_possible")` if the input is not quantized first.
    """
    cut = with_numbers(graph)
    images = next(node for node in cut.graph.nodes if node.op == "placeholder")
    users = [node for node in images.users if not _reads_shape(node)]
    steps = [_quantizes(cut, node) for node in users]
    if None in steps or not steps:
        readers = ", ".join(node.name for node, step in zip(users, steps, strict=True) if step is None)
        raise BuildError(
            "interface_not_possible",
            f"the model's input is not quantized first: {readers or 'nothing'} reads it as floats",
            "give interface: [inside] for nnapi, or [core] for cpu",
        )
    if len(set(steps)) > 1:
        raise BuildError("interface_not_possible", "the model's input is quantized in two different ways")
    qparams = steps[0]
    assert qparams is not None
    for node in users:
        node.replace_all_uses_with(images)
        cut.graph.erase_node(node)
    end = next(node for node in cut.graph.nodes if node.op == "output")
    last = end.args[0]
    output = None
    if isinstance(last, Node) and _dequantizes(cut, last):
        quantized = last.all_input_nodes[0]
        end.args = (quantized,)
        cut.graph.erase_node(last)
        output = _output_qparams(cut, quantized) if quantized is not images else qparams
    cut.delete_all_unused_submodules()
    cut.recompile()
    return Core(core=cut, input=qparams, output=output)


def _quantizes(graph: GraphModule, node: Node) -> QParams | None:
    """Return the parameters of a quantize node of FX or eager mode; `None` for other nodes."""
    if node.target is torch.quantize_per_tensor:
        scale, zero_point, dtype = node.args[1:]
    elif node.op == "call_module" and isinstance(module := graph.get_submodule(str(node.target)), Quantize):
        scale, zero_point, dtype = module.scale, module.zero_point, torch.quint8
    else:
        return None
    assert isinstance(scale, float)
    assert isinstance(zero_point, int)
    assert isinstance(dtype, torch.dtype)
    return QParams(scale=scale, zero_point=zero_point, dtype=dtype)


def _reads_shape(node: Node) -> bool:
    """Tell whether `node` reads only the shape, which quantization does not change."""
    if node.op == "call_method":
        return node.target in ("size", "dim")
    return node.target is getattr and node.args[1] in ("shape", "ndim")


def _dequantizes(graph: GraphModule, node: Node) -> bool:
    if node.op == "call_module":
        return isinstance(graph.get_submodule(str(node.target)), DeQuantize)
    return node.op == "call_method" and node.target == "dequantize"


def with_numbers(graph: GraphModule) -> GraphModule:
    """Return a copy of `graph` whose scales and zero points are Python numbers instead of buffers.

    NNAPI's converter needs numbers, and `split` reads its parameters from them.
    """
    graph = copy.deepcopy(graph)
    for node in list(graph.graph.nodes):
        if node.op != "get_attr":
            continue
        value = operator.attrgetter(node.target)(graph)
        if not isinstance(value, torch.Tensor) or value.numel() != 1 or isinstance(value, torch.nn.Parameter):
            continue
        readers = [user for user in node.users if _takes_qparams(user, node)]
        for user in readers:
            number = value.item()
            user.args = tuple(number if arg is node else arg for arg in user.args)
        if not node.users:
            graph.graph.erase_node(node)
    graph.recompile()
    return graph


def _takes_qparams(user: Node, node: Node) -> bool:
    """Tell whether `user` reads `node` as scale or zero point: these arguments come after its tensors."""
    quantizes = user.target is torch.quantize_per_tensor or str(user.target).startswith("quantized.")
    return quantizes and node in user.args[1:]


_FIXED = {
    # Operators whose outputs always have the same parameters (torch's fixed-qparams operators).
    **dict.fromkeys(("sigmoid", "Sigmoid", "hardsigmoid", "Hardsigmoid", "softmax", "Softmax"), (1 / 256, 0)),
    **dict.fromkeys(("tanh", "Tanh"), (2 / 256, 128)),
}


def _output_qparams(graph: GraphModule, node: Node) -> QParams:
    """Return the parameters of the quantized output of `node`: its own, or those of its input if the operator keeps
    them."""
    while True:
        module = graph.get_submodule(str(node.target)) if node.op == "call_module" else None
        # Eager mode keeps the parameters of arithmetic in an inner module.
        inner = getattr(module, "functional", module)
        scale, zero_point = getattr(inner, "scale", None), getattr(inner, "zero_point", None)
        name = type(module).__name__ if module is not None else getattr(node.target, "__name__", str(node.target))
        if (step := _quantizes(graph, node)) is not None:
            return step
        if node.op == "call_function" and str(node.target).startswith("quantized."):
            scale, zero_point = node.args[-2:]
        elif name in _FIXED:
            scale, zero_point = _FIXED[name]
        if scale is not None and zero_point is not None:
            return QParams(scale=float(scale), zero_point=int(zero_point), dtype=torch.quint8)
        if not node.all_input_nodes:
            raise BuildError(
                "interface_not_possible",
                f"the scale of the model's output is not known: no operator before {node.name} has one",
                "give interface: [inside] for nnapi, or [core] for cpu",
            )
        node = node.all_input_nodes[0]
