"""Fuses modules before capture. The modules are found in the graph, not listed by hand."""

import copy
from contextlib import suppress

import torch
from torch.ao.quantization.quantize_fx import fuse_fx
from torch.fx import GraphModule, Node
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from sweeps.errors import BuildError
from workers.runtimes.library_errors import first_words
from workers.runtimes.torchscript.functional_calls import CONVOLUTIONS, read_what_is_written, spell_out
from workers.runtimes.torchscript.sized_trace import sized_trace


def symbolic(model: torch.nn.Module, example: torch.Tensor | None = None) -> GraphModule:
    """Return the model's graph. Raises `BuildError("not_traceable")` if the model's control flow depends on its input:
    on values, or without an `example` (B, C, H, W) also on sizes."""
    try:
        graph = _traced(model, example)
    except Exception as error:
        raise BuildError(
            "not_traceable",
            f"torch.fx cannot trace the model, which fusing and int8 need: {first_words(error)}",
            "build it in fp32 with fuse: [false], or take the branch on the input out of forward()",
        ) from error
    for node in graph.graph.nodes:
        if node.op == "output":
            # GoogLeNet's annotated return type holds only in training; the graph is in eval mode.
            node.type = None
    _unshare(graph)
    _normalize_calls(graph)
    read_what_is_written(graph)
    graph.recompile()
    return graph


def _traced(model: torch.nn.Module, example: torch.Tensor | None) -> GraphModule:
    try:
        return torch.fx.symbolic_trace(model)
    except Exception:
        if example is None:
            raise
        # The model's code may raise any exception; the first one is about the unchanged model.
        with suppress(Exception):
            return sized_trace(model, example)
        raise


def _normalize_calls(graph: GraphModule) -> None:
    """Replace calls that torch's patterns do not know by equivalents: `torch.relu(x)`, `x.relu()`, `x.flatten(1)`."""
    for node in graph.graph.nodes:
        spelled = (node.op, node.target)
        alone = bool(node.all_input_nodes) and len(node.all_input_nodes[0].users) == 1
        if spelled in (("call_function", torch.relu), ("call_method", "relu")) or (
            spelled in (("call_function", torch.relu_), ("call_method", "relu_")) and alone
        ):
            node.op, node.target = "call_function", torch.nn.functional.relu
        elif spelled == ("call_method", "flatten"):
            node.op, node.target = "call_function", torch.flatten
        elif node.op == "call_function" and node.target in CONVOLUTIONS:
            spell_out(graph, node)


def _unshare(graph: GraphModule) -> None:
    """If a module with weights is called several times, give each further call its own module with the same tensors.

    fuse_fx and prepare_fx replace the module itself: a second call would use the module that was fused for the first
    one (torch 2.12.1; wrong outputs, without an error).
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
    """Fuse Conv+BN, Conv+BN+ReLU, Conv+ReLU, Linear+ReLU (in eval mode) if nothing else reads a value in between.

    Returns the new graph and the fused groups in order: `features.0.0 + features.0.1`; a function has its name in the
    graph.
    """
    check_foldable(graph)
    try:
        graph = torch.fx.symbolic_trace(graph)  # fuse_fx does the same, so that both graphs have equal node names.
        fused = fuse_fx(graph)
    except Exception as error:
        raise BuildError(
            "not_fusable", f"fusing failed: {first_words(error)}", "build it with fuse: [false]"
        ) from error
    return fused, fused_groups(graph, fused)


def check_foldable(graph: GraphModule) -> None:
    """Raises `BuildError("not_fusable")` for a batch norm that torch 2.12.1 folds incorrectly or cannot fold."""
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
            f"{node.target} cannot be folded into the layer before it: it {why}",
            "build it in fp32 with fuse: [false], or put another layer between the two",
        )


def _module(graph: GraphModule, node: Node) -> torch.nn.Module | None:
    return graph.get_submodule(str(node.target)) if node.op == "call_module" else None


def fused_groups(before: GraphModule, after: GraphModule) -> tuple[str, ...]:
    """Return the groups of nodes in `before` that torch fused into one node of `after`, which keeps the first node's
    name."""
    names = {node.name for node in after.graph.nodes}
    groups: dict[Node, list[Node]] = {}
    owner: dict[Node, Node] = {}
    for node in before.graph.nodes:
        if node.name in names:
            continue
        first = node.all_input_nodes[0]
        owner[node] = owner.get(first, first)
        groups.setdefault(owner[node], [owner[node]]).append(node)
    return tuple(" + ".join(map(_called, group)) for group in groups.values())


def _called(node: Node) -> str:
    return str(node.target) if node.op == "call_module" else node.name
