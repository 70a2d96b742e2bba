"""Rewrites a model's graph for NNAPI's converter, with the same outputs.

It replaces in-place operators (by out-of-place ones, whose output later readers get), removes dropout and identity, and
replaces batch norm that cannot be fused (by a depthwise 1x1 convolution, which can also be int8), SiLU (x sigmoid(x)),
clamp (hardtanh or ReLU) and self-attention modules (linears around the attention itself). Hardswish, hardsigmoid, GELU,
layer norm, chunks, views and pools stay: the serializer converts them to NNAPI operations, and quantization supports
them.
"""

import copy
import inspect
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.nn import functional

from sweeps.errors import BuildError

_DROPOUTS = (
    torch.nn.Dropout,
    torch.nn.Dropout1d,
    torch.nn.Dropout2d,
    torch.nn.Dropout3d,
    torch.nn.AlphaDropout,
    torch.nn.FeatureAlphaDropout,
    torch.nn.Identity,
)
_DROPOUT_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    functional.dropout,
    functional.dropout1d,
    functional.dropout2d,
    functional.dropout3d,
    functional.alpha_dropout,
    functional.feature_alpha_dropout,
)
_STOCHASTIC_DEPTH = ("torchvision.ops.stochastic_depth", "stochastic_depth")
"""Another dropout function, by its module and its name: its library takes seconds to import."""
_OUT_OF_PLACE: dict[object, Callable[..., Any]] = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
    torch.relu_: torch.relu,
    torch.sigmoid_: torch.sigmoid,
    torch.tanh_: torch.tanh,
    torch.clamp_: torch.clamp,
    functional.relu_: functional.relu,
    functional.hardtanh_: functional.hardtanh,
    functional.leaky_relu_: functional.leaky_relu,
    functional.elu_: functional.elu,
}
_CLAMPS = (torch.clamp, torch.clip, "clamp", "clip")


def fit(graph: GraphModule) -> GraphModule:
    """Return a rewritten copy of a model's graph (eval mode, before fusing and quantization)."""
    graph = copy.deepcopy(graph)
    _out_of_place(graph)
    for rewrite in (_without_dropout, _attention, _batch_norm, _silu, _clamp):
        for node in list(graph.graph.nodes):
            rewrite(graph, node)
    graph.delete_all_unused_submodules()
    graph.recompile()
    return graph


def _module(graph: GraphModule, node: Node) -> torch.nn.Module | None:
    return graph.get_submodule(str(node.target)) if node.op == "call_module" else None


def _argument(node: Node, name: str) -> object:
    """Return the argument `name` of a function call in the graph, or its default."""
    assert callable(node.target)
    bound = inspect.signature(node.target).bind(*node.args, **node.kwargs)
    bound.apply_defaults()
    return bound.arguments.get(name)


def _replace(node: Node, replacement: Node) -> None:
    node.replace_all_uses_with(replacement)
    node.graph.erase_node(node)


def _out_of_place(graph: GraphModule) -> None:
    modules = [module for module in graph.modules() if getattr(module, "inplace", False) is True]
    for node in graph.graph.nodes:
        if node.op == "call_method" and node.target.endswith("_") and not node.target.endswith("__"):
            name = node.target.removesuffix("_")
            if not hasattr(torch.Tensor, name):
                raise BuildError(
                    "unsupported_operator",
                    f"NNAPI has no in-place operators, and {node.target} has no out-of-place form",
                    "write the model without it, or give backend: [cpu]",
                )
            node.target = name
        elif node.target in _OUT_OF_PLACE:
            node.target = _OUT_OF_PLACE[node.target]
        elif node.op == "call_function" and _takes_inplace(node):
            bound = inspect.signature(node.target).bind(*node.args, **node.kwargs)
            bound.arguments["inplace"] = False
            node.args, node.kwargs = bound.args, bound.kwargs
        elif _module(graph, node) not in modules:
            continue
        _move_readers(node)
    for module in modules:
        setattr(module, "inplace", False)  # noqa: B010  # torch types attributes of modules as tensors


def _takes_inplace(node: Node) -> bool:
    try:
        return _argument(node, "inplace") is True
    except (TypeError, ValueError):  # a builtin without a signature
        return False


def _move_readers(node: Node) -> None:
    """Let all nodes that read the changed tensor after `node` read the output of `node`."""
    changed = node.args[0]
    if not isinstance(changed, Node):
        return
    later = False
    for reader in node.graph.nodes:
        if later and changed in reader.all_input_nodes:
            reader.replace_input_with(changed, node)
        later = later or reader is node


def _is_dropout(target: object) -> bool:
    named = getattr(target, "__module__", None), getattr(target, "__name__", None)
    return target in _DROPOUT_FUNCTIONS or named == _STOCHASTIC_DEPTH


def _without_dropout(graph: GraphModule, node: Node) -> None:
    module = _module(graph, node)
    idle = isinstance(module, torch.nn.Identity) or (isinstance(module, _DROPOUTS) and not module.training)
    if idle or (_is_dropout(node.target) and not _argument(node, "training")):
        _replace(node, node.all_input_nodes[0])


def _batch_norm(graph: GraphModule, node: Node) -> None:
    """Replace a batch norm, unless it can be fused: it follows a convolution whose output nothing else reads."""
    norm = _module(graph, node)
    if not isinstance(norm, torch.nn.BatchNorm2d) or norm.training or norm.running_var is None:
        return
    source = node.all_input_nodes[0]
    if isinstance(_module(graph, source), torch.nn.Conv2d) and len(source.users) == 1:
        return
    assert norm.running_mean is not None
    channels = norm.num_features
    factor = torch.rsqrt(norm.running_var + norm.eps) * (1.0 if norm.weight is None else norm.weight)
    depthwise = torch.nn.Conv2d(channels, channels, 1, groups=channels).eval()
    assert depthwise.bias is not None
    with torch.no_grad():
        depthwise.weight.copy_(factor.reshape(-1, 1, 1, 1))
        depthwise.bias.copy_((0.0 if norm.bias is None else norm.bias) - norm.running_mean * factor)
    depthwise.requires_grad_(requires_grad=False)
    _replace(node, _called(graph, node, "depthwise", depthwise, source))


def _called(graph: GraphModule, before: Node, name: str, module: torch.nn.Module, source: Node) -> Node:
    """Add a module that is called on `source` right before the node `before`; returns the node of the call."""
    name = f"{name}_{before.name}"
    graph.add_submodule(name, module)
    with graph.graph.inserting_before(before):
        return graph.graph.call_module(name, (source,))


def _silu(graph: GraphModule, node: Node) -> None:
    if not isinstance(_module(graph, node), torch.nn.SiLU) and node.target is not functional.silu:
        return
    x = node.all_input_nodes[0]
    with graph.graph.inserting_before(node):
        sigmoid = graph.graph.call_function(torch.sigmoid, (x,))
        _replace(node, graph.graph.call_function(operator.mul, (x, sigmoid)))


def _clamp(graph: GraphModule, node: Node) -> None:
    if node.op not in ("call_function", "call_method") or node.target not in _CLAMPS:
        return
    arguments = dict(zip(("min", "max"), node.args[1:], strict=False)) | dict(node.kwargs)
    low, high = arguments.get("min"), arguments.get("max")
    images = node.all_input_nodes[0]
    with graph.graph.inserting_before(node):
        if isinstance(low, int | float) and isinstance(high, int | float):
            _replace(node, graph.graph.call_function(functional.hardtanh, (images, float(low), float(high))))
        elif low == 0 and high is None:
            _replace(node, graph.graph.call_function(functional.relu, (images,)))


def _attention(graph: GraphModule, node: Node) -> None:
    """Replace self-attention over (B, S, E) with unused attention weights by two linears and the heads' attention."""
    attention = _module(graph, node)
    if not isinstance(attention, torch.nn.MultiheadAttention) or not attention.batch_first:
        return
    inputs = (*node.args, *(node.kwargs[name] for name in ("query", "key", "value") if name in node.kwargs))
    plain = len(inputs) == 3 and len(set(inputs)) == 1 and set(node.kwargs) <= {"query", "key", "value", "need_weights"}
    answers = [user for user in node.users if user.users or user.target is not operator.getitem]
    first = all(user.target is operator.getitem and user.args[1] == 0 for user in answers)
    extras = attention.bias_k is not None or attention.add_zero_attn or attention.in_proj_weight is None
    if not plain or not first or extras or attention.training:
        return
    width, heads = attention.embed_dim, attention.num_heads
    joint = torch.nn.Linear(width, 3 * width, bias=attention.in_proj_bias is not None).eval()
    joint.weight = attention.in_proj_weight
    if attention.in_proj_bias is not None:
        joint.bias = attention.in_proj_bias
    out = torch.nn.Linear(width, width, bias=attention.out_proj.bias is not None).eval()
    out.weight, out.bias = attention.out_proj.weight, attention.out_proj.bias
    source = inputs[0]
    assert isinstance(source, Node)
    projected = _called(graph, node, "joint", joint, source)
    with graph.graph.inserting_before(node):
        call = graph.graph.call_method
        parts = graph.graph.call_function(torch.chunk, (projected, 3, -1))
        query, key, value = (
            call("transpose", (call("unflatten", (_item(parts, index), -1, (heads, width // heads))), 1, 2))
            for index in range(3)
        )
        attended = graph.graph.call_function(functional.scaled_dot_product_attention, (query, key, value))
        joined = call("flatten", (call("transpose", (attended, 1, 2)), 2))
    answer = _called(graph, node, "out", out, joined)
    for user in list(node.users):
        _replace(user, answer)
    graph.graph.erase_node(node)


def _item(parts: Node, index: int) -> Node:
    return parts.graph.call_function(operator.getitem, (parts, index))
