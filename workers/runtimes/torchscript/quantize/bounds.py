"""Rewrites ReLU6, Hardtanh and clamp, so that no engine runs their quantized kernels.

QNNPACK's quantized relu6, hardtanh and clamp are wrong on channels_last tensors (torch 2.12.1: up to 120 units off),
and FX quantization keeps them as separate operators. A ReLU whose output has the fixed scale 6/255 and zero point 0
cannot exceed 6, is fused into the convolution before it, and is also faster on x86.
"""

from collections.abc import Callable

import torch
from torch.ao.quantization import FixedQParamsObserver
from torch.fx import GraphModule, Node

_BOUND = "edgesweep_bound"
"""Attribute of a ReLU that replaces a ReLU6: the node's name and the upper bound, which the output's scale enforces."""

_LEVELS = 255
"""The number of quantized levels of an activation above 0."""


class FloatOnly(torch.nn.Module):
    """A wrapper of an operator that must stay float: torch's patterns do not match its type."""

    def __init__(self, operator: torch.nn.Module) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.operator(x)
        return answer


def rewrite_bounds(graph: GraphModule, keep: set[str]) -> None:
    """Replace each module or function that bounds values, in place.

    An operator with the lower bound 0 becomes a marked ReLU, unless its node's name is in `keep`; without an upper
    bound it becomes a plain ReLU. All other operators stay float.
    """
    for node in list(graph.graph.nodes):
        bounds = _bounds_of(graph, node)
        if bounds is None:
            continue
        low, high = bounds
        if low == 0 and high > 0 and node.name not in keep:
            relu = torch.nn.ReLU()
            if high != float("inf"):
                mark(relu, node.name, high)
            replace_by_module(graph, node, f"bounded_{node.name}", relu)
        else:
            replace_by_module(graph, node, f"float_{node.name}", FloatOnly(torch.nn.Hardtanh(low, high)))
    graph.delete_all_unused_submodules()
    graph.recompile()


def replace_by_module(graph: GraphModule, node: Node, name: str, module: torch.nn.Module) -> None:
    """Replace `node` by a call of `module`, added as `name`, on the node's first input."""
    graph.add_submodule(name, module.eval())
    with graph.graph.inserting_after(node):
        replacement = graph.graph.call_module(name, (node.all_input_nodes[0],))
    node.replace_all_uses_with(replacement)
    graph.graph.erase_node(node)


def mark(module: torch.nn.Module, name: str, bound: float) -> None:
    """Mark `module` as the replacement of the node `name`, whose output is between 0 and `bound`."""
    setattr(module, _BOUND, (name, bound))


def mark_of(module: torch.nn.Module) -> tuple[str, float] | None:
    """Return the arguments of `mark` for the module or for the ReLU that was fused into it; `None` if it is not
    marked."""
    for part in (module, *module.children()):
        marked: tuple[str, float] | None = getattr(part, _BOUND, None)
        if marked is not None:
            return marked
    return None


def fixed_to(bound: float) -> FixedQParamsObserver:
    """Return an observer with the fixed range 0 to `bound`."""
    return FixedQParamsObserver(  # type: ignore[no-untyped-call]  # torch has no types for it
        scale=bound / _LEVELS, zero_point=0, dtype=torch.quint8, quant_min=0, quant_max=_LEVELS
    )


_FUNCTIONS: dict[Callable[..., object] | str, tuple[str, str, float | None, float | None]] = {
    torch.nn.functional.relu6: ("", "", 0.0, 6.0),
    torch.nn.functional.hardtanh: ("min_val", "max_val", -1.0, 1.0),
    torch.nn.functional.hardtanh_: ("min_val", "max_val", -1.0, 1.0),
    torch.clamp: ("min", "max", None, None),
    torch.clip: ("min", "max", None, None),
    "clamp": ("min", "max", None, None),
    "clamp_": ("min", "max", None, None),
    "clip": ("min", "max", None, None),
}
"""Functions and methods that bound values: the names of their bounds, and the default values."""


def _bounds_of(graph: GraphModule, node: Node) -> tuple[float, float] | None:
    low: object
    high: object
    if node.op == "call_module":
        module = graph.get_submodule(str(node.target))
        if not isinstance(module, torch.nn.Hardtanh):  # ReLU6 is one
            return None
        low, high = module.min_val, module.max_val
    elif node.op in ("call_function", "call_method") and node.target in _FUNCTIONS:
        lower, upper, low, high = _FUNCTIONS[node.target]
        if lower:
            arguments = dict(zip((lower, upper), node.args[1:], strict=False)) | dict(node.kwargs)
            low, high = arguments.get(lower, low), arguments.get(upper, high)
    else:
        return None
    low, high = (-float("inf") if low is None else low), (float("inf") if high is None else high)
    return (float(low), float(high)) if isinstance(low, int | float) and isinstance(high, int | float) else None
