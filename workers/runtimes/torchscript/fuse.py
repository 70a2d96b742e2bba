"""Fusing modules before capture, found in the graph instead of listed by hand."""

import torch
from torch.ao.quantization.quantize_fx import fuse_fx
from torch.fx import GraphModule, Node

from sweeps.errors import BuildError
from workers.runtimes.torchscript.failures import first_words


def symbolic(model: torch.nn.Module) -> GraphModule:
    """The model's graph. Raises `BuildError("not_traceable")` where its control flow depends on its input."""
    try:
        graph = torch.fx.symbolic_trace(model)
    except Exception as error:
        raise BuildError(
            "not_traceable",
            f"torch.fx can not trace the model, which fusing and int8 need: {first_words(error)}",
            "build it in fp32 with fuse: [false], or take the branch on the input out of forward()",
        ) from error
    for node in graph.graph.nodes:
        if node.op == "output":
            # GoogLeNet is annotated with what it returns in training; of the graph, which is eval mode, that is wrong.
            node.type = None
    graph.recompile()
    return graph


def fuse(graph: GraphModule) -> tuple[GraphModule, tuple[str, ...]]:
    """Fuse Conv+BN, Conv+BN+ReLU, Conv+ReLU, Linear+ReLU (in eval mode), each where nothing else reads in between.

    Returns the new graph and, in order, what was fused: `features.0.0 + features.0.1`; a function goes by its
    name in the graph.
    """
    try:
        graph = torch.fx.symbolic_trace(graph)  # as fuse_fx does first: both graphs then name their nodes alike
        fused = fuse_fx(graph)
    except Exception as error:
        raise BuildError(
            "not_fusable", f"fusing failed: {first_words(error)}", "build it with fuse: [false]"
        ) from error
    kept = {node.name for node in fused.graph.nodes}
    groups: dict[Node, list[Node]] = {}
    owner: dict[Node, Node] = {}
    for node in graph.graph.nodes:
        if node.name in kept:
            continue
        # fuse_fx keeps a group's first node under its name and drops the others.
        before = node.all_input_nodes[0]
        owner[node] = owner.get(before, before)
        groups.setdefault(owner[node], [owner[node]]).append(node)
    return fused, tuple(" + ".join(map(_called, group)) for group in groups.values())


def _called(node: Node) -> str:
    return str(node.target) if node.op == "call_module" else node.name
