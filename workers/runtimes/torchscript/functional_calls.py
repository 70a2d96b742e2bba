"""Rewrites calls in a graph into the form that torch's passes understand, without changing what they compute."""

from collections.abc import Callable

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.nn import functional
from torch.nn.functional import pad

CONVOLUTIONS: dict[Callable[..., object], int] = {
    torch.conv1d: 1,
    torch.conv2d: 2,
    torch.conv3d: 3,
    functional.conv1d: 1,
    functional.conv2d: 2,
    functional.conv3d: 3,
}
"""The number of spatial dimensions, by function."""
_PARAMETERS = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_DEFAULTS: dict[str, object] = {"bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1}


def spell_out(graph: GraphModule, node: Node) -> None:
    """Give a call of a convolution all its arguments, and its padding as numbers instead of a word: int8 kernels have
    no defaults and accept no words. If the ends of a dimension differ, insert a call that pads before it.

    Nothing is changed if the weight's size is not known, or a number is computed in the graph.
    """
    passed = dict(zip(_PARAMETERS, node.args, strict=False)) | dict(node.kwargs)
    call = {**_DEFAULTS, **passed}
    dimensions = CONVOLUTIONS[node.target]  # type: ignore[index]  # only called for these
    stride, dilation = (_numbers(call[name], dimensions) for name in ("stride", "dilation"))
    if stride is None or dilation is None:
        return
    padding: tuple[int, ...] | None
    if call["padding"] == "same":
        weight = call["weight"]
        if not isinstance(weight, Node) or weight.op != "get_attr":
            return
        kernel = _attribute(graph, str(weight.target)).shape[2:]
        totals = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
        padding = tuple(whole // 2 for whole in totals)
        if any(whole % 2 for whole in totals):
            ends = [end for whole in reversed(totals) for end in (whole // 2, whole - whole // 2)]
            with graph.graph.inserting_before(node):
                call["input"] = graph.graph.call_function(pad, (call["input"], ends))  # type: ignore[arg-type]
            padding = (0,) * dimensions
    else:
        padding = (0,) * dimensions if call["padding"] == "valid" else _numbers(call["padding"], dimensions)
    if padding is None:
        return
    call |= {"stride": stride, "padding": padding, "dilation": dilation}
    node.args, node.kwargs = tuple(call[name] for name in _PARAMETERS), {}  # type: ignore[misc]  # nodes and numbers


def read_what_is_written(graph: GraphModule) -> None:
    """Let nodes after an in-place operation read the operation's result instead of its input, which is the same tensor.

    Otherwise nothing reads the result of a statement such as `x.sub_(mean)`, and torch's passes delete it (torch
    2.12.1; wrong answers, without an error).
    """
    roots: dict[Node, Node] = {}
    """The node whose tensor an in-place operation writes into, by the node of the operation."""
    latest: dict[Node, Node] = {}
    """The last in-place operation on a node's tensor, by that node."""

    def as_written(read: Node) -> Node:
        return latest.get(roots.get(read, read), read)

    for node in graph.graph.nodes:
        node.args, node.kwargs = map_arg(node.args, as_written), map_arg(node.kwargs, as_written)
        if _in_place(graph, node):
            root = roots[node] = roots.get(node.args[0], node.args[0])
            latest[root] = node


def _in_place(graph: GraphModule, node: Node) -> bool:
    if not node.args or not isinstance(node.args[0], Node):
        return False
    if node.op == "call_module":
        return bool(getattr(graph.get_submodule(str(node.target)), "inplace", False))
    if node.op not in ("call_method", "call_function"):
        return False
    name = str(getattr(node.target, "__name__", node.target))
    return node.kwargs.get("inplace") is True or (name.endswith("_") and not name.endswith("__"))


def _numbers(value: object, dimensions: int) -> tuple[int, ...] | None:
    if isinstance(value, int):
        return (value,) * dimensions
    if isinstance(value, tuple | list) and all(isinstance(number, int) for number in value):
        return tuple(value) if len(value) == dimensions else tuple(value) * dimensions
    return None


def _attribute(graph: GraphModule, path: str) -> torch.Tensor:
    module, _, name = path.rpartition(".")
    tensor: torch.Tensor = getattr(graph.get_submodule(module), name)
    return tensor
