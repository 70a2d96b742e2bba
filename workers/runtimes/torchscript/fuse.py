"""Fusing modules before capture, found in the graph instead of listed by hand."""

import copy

import torch
from torch.ao.quantization.quantize_fx import fuse_fx
from torch.fx import GraphModule, Node
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from sweeps.errors import BuildError
from workers.runtimes.torchscript.failures import first_words


def symbolic(model: torch.nn.Module) -> GraphModule:
    """The model's graph. Raises `BuildError("not_traceable")` where its control flow depends on its input."""
    try:
        graph = torch.fx.symbolic_trace(model)
    except Exception as error:
        raise BuildError(
            "not_traceable",
            f"torch.fx cannot trace the model, which fusing and int8 need: {first_words(error)}",
            "build it in fp32 with fuse: [false], or take the branch on the input out of forward()",
        ) from error
    for node in graph.graph.nodes:
        if node.op == "output":
            # GoogLeNet is annotated with what it returns in training; of the graph, which is eval mode, that is wrong.
            node.type = None
    _unshare(graph)
    _spell_alike(graph)
    graph.recompile()
    return graph


def _spell_alike(graph: GraphModule) -> None:
    """Write what torch's patterns do not know in the way that they do: `torch.relu(x)`, `x.relu()`, `x.flatten(1)`."""
    for node in graph.graph.nodes:
        spelled = (node.op, node.target)
        alone = bool(node.all_input_nodes) and len(node.all_input_nodes[0].users) == 1
        if spelled in (("call_function", torch.relu), ("call_method", "relu")) or (
            spelled in (("call_function", torch.relu_), ("call_method", "relu_")) and alone
        ):
            node.op, node.target = "call_function", torch.nn.functional.relu
        elif spelled == ("call_method", "flatten"):
            node.op, node.target = "call_function", torch.flatten


def _unshare(graph: GraphModule) -> None:
    """Give each further call of a module with weights a module of its own, on the same tensors.

    fuse_fx and prepare_fx put what they make of a call in the module's place: of two calls, the second would get what
    was fused for the first (torch 2.12.1; the answers differ, without an error).
    """
    called: set[str] = set()
    for node in graph.graph.nodes:
        if node.op != "call_module":
            continue
        name = str(node.target)
        module = graph.get_submodule(name)
        if name in called and next(module.parameters(), None) is not None:
            memo: dict[int, object] = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
            node.target = f"{name}_{node.name}"
            graph.add_submodule(node.target, copy.deepcopy(module, memo))
        called.add(name)


def fuse(graph: GraphModule) -> tuple[GraphModule, tuple[str, ...]]:
    """Fuse Conv+BN, Conv+BN+ReLU, Conv+ReLU, Linear+ReLU (in eval mode), each where nothing else reads in between.

    Returns the new graph and, in order, what was fused: `features.0.0 + features.0.1`; a function goes by its
    name in the graph.
    """
    check_foldable(graph)
    try:
        graph = torch.fx.symbolic_trace(graph)  # as fuse_fx does first: both graphs then name their nodes alike
        fused = fuse_fx(graph)
    except Exception as error:
        raise BuildError(
            "not_fusable", f"fusing failed: {first_words(error)}", "build it with fuse: [false]"
        ) from error
    return fused, fused_groups(graph, fused)


def check_foldable(graph: GraphModule) -> None:
    """Raises `BuildError("not_fusable")` for a batch norm that torch 2.12.1 would fold wrong, or not at all."""
    for node in graph.graph.nodes:
        norm = _module(graph, node)
        before = _module(graph, node.all_input_nodes[0]) if node.all_input_nodes else None
        if not isinstance(norm, _BatchNorm) or not isinstance(before, _ConvNd | torch.nn.Linear):
            continue
        if norm.running_mean is None:
            why = "has no statistics of its own (track_running_stats=False)"
        elif isinstance(before, _ConvNd) and before.transposed and before.groups > 1:
            why = f"follows {node.all_input_nodes[0].target}, a transposed convolution with groups"
        else:
            continue
        raise BuildError(
            "not_fusable",
            f"{node.target} cannot be folded into what is before it: it {why}",
            "build it in fp32 with fuse: [false], or put another layer between the two",
        )


def _module(graph: GraphModule, node: Node) -> torch.nn.Module | None:
    return graph.get_submodule(str(node.target)) if node.op == "call_module" else None


def fused_groups(before: GraphModule, after: GraphModule) -> tuple[str, ...]:
    """What went into one node, in order, where torch made `after` of `before`: it keeps the first node's name."""
    kept = {node.name for node in after.graph.nodes}
    groups: dict[Node, list[Node]] = {}
    owner: dict[Node, Node] = {}
    for node in before.graph.nodes:
        if node.name in kept:
            continue
        first = node.all_input_nodes[0]
        owner[node] = owner.get(first, first)
        groups.setdefault(owner[node], [owner[node]]).append(node)
    return tuple(" + ".join(map(_called, group)) for group in groups.values())


def _called(node: Node) -> str:
    return str(node.target) if node.op == "call_module" else node.name
