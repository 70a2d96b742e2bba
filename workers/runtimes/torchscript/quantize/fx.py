"""int8 in FX graph mode: static quantization, and the graph for quantization-aware training."""

import copy
from collections import defaultdict

import torch
from torch.ao.quantization import ObserverBase
from torch.ao.quantization.fx.custom_config import PrepareCustomConfig
from torch.ao.quantization.fx.tracer import QuantizationTracer
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx, prepare_qat_fx
from torch.fx import GraphModule, Node

from workers.runtimes.torchscript.fuse import check_foldable, fused_groups, symbolic
from workers.runtimes.torchscript.quantize import addends
from workers.runtimes.torchscript.quantize.bounds import FloatOnly, fixed_to, mark_of, rewrite_bounds
from workers.runtimes.torchscript.quantize.observers import State, install, observers_of
from workers.runtimes.torchscript.quantize.prepared import Prepared
from workers.runtimes.torchscript.quantize.qat import fold, load_parameters
from workers.runtimes.torchscript.quantize.qconfigs import keep_float, qconfig_mapping
from workers.runtimes.torchscript.scheme import Scheme
from workers.runtimes.torchscript.sized_trace import is_of_one_size, scales_by_a_size, sized_trace

_LEAVES = PrepareCustomConfig().set_non_traceable_module_classes([FloatOnly])


def prepare_graph(model: torch.nn.Module, scheme: Scheme, example: torch.Tensor) -> Prepared:
    """Insert observers into the model's graph. Operators without a correct kernel stay float."""
    graph = symbolic(model, example)
    of_one_size = is_of_one_size(model) or is_of_one_size(graph)
    if scales_by_a_size(graph.graph):
        # Otherwise torch puts an observer on the number.
        graph, of_one_size = symbolic(sized_trace(graph, example)), True
    check_foldable(graph)
    keep: set[str] = set()
    while True:
        rewritten = copy.deepcopy(graph)
        rewrite_bounds(rewritten, keep)
        if scheme.method == "qat":
            rewritten, folded = fold(rewritten)
        keep_float(rewritten, scheme.engine)
        # The model is traced as in prepare_fx, so that both graphs have equal node names.
        before = GraphModule(rewritten, QuantizationTracer([], [FloatOnly]).trace(rewritten))
        # torch fuses by itself, and cannot process modules that are already fused (it traces into ConvReLU2d).
        insert = prepare_qat_fx if scheme.method == "qat" else prepare_fx
        prepared = insert(copy.deepcopy(rewritten), qconfig_mapping(scheme), (example,), _LEAVES)
        refused = _fix_scales(prepared, _marks(before, prepared))
        if not refused:
            fused = folded if scheme.method == "qat" else fused_groups(before, prepared)
            return Prepared(module=prepared, fused=fused, example=example, of_one_size=of_one_size)
        keep |= refused


def convert_graph(prepared: Prepared, state: State, scheme: Scheme) -> torch.nn.Module:
    """Return the int8 graph. The engine must be set."""
    graph = copy.deepcopy(prepared.module)
    assert isinstance(graph, GraphModule)
    install(graph, state)
    if scheme.engine == "qnnpack":
        addends.widen(graph)
    if scheme.method == "qat":
        load_parameters(graph, state)
    return convert_fx(graph)


def _marks(before: GraphModule, prepared: GraphModule) -> dict[str, tuple[str, float]]:
    """Return the marks of ReLUs, by the name of the node in `prepared` that computes their output.

    This node is the ReLU itself, or the node that it was fused into, whose module may be a new one without the mark.
    """
    names = {node.name for node in prepared.graph.nodes}
    marks: dict[str, tuple[str, float]] = {}
    for node in before.graph.nodes:
        mark = mark_of(before.get_submodule(str(node.target))) if node.op == "call_module" else None
        if mark is not None:
            while node.name not in names:
                node = node.all_input_nodes[0]
            marks[node.name] = mark
    return marks


def _fix_scales(prepared: GraphModule, marks: dict[str, tuple[str, float]]) -> set[str]:
    """Fix the observers of marked ReLUs to their bound. Returns the ReLUs for which that is not possible.

    Operators such as concatenation and pooling share one observer for input and output. Its range may be reduced to
    0 ... bound only if that changes no other value.
    """
    modules = dict(prepared.named_modules(remove_duplicate=False))
    slots = observers_of(prepared)
    observed: defaultdict[ObserverBase, list[Node]] = defaultdict(list)
    for node in prepared.graph.nodes:
        observer = _observer(node, modules)
        if observer is not None:
            observed[observer].append(node)
    handled: set[str] = set()
    refused: set[str] = set()
    for observer, nodes in observed.items():
        node_marks = [mark for node in nodes if (mark := marks.get(node.all_input_nodes[0].name))]
        if not node_marks:
            continue
        bounds = {bound for _, bound in node_marks}
        handled |= {name for name, _ in node_marks}
        bound = min(bounds)
        if len(bounds) > 1 or not all(_range_is_free(node, bound, marks, modules) for node in nodes):
            refused |= {name for name, _ in node_marks}
            continue
        for name in slots[observer]:
            prepared.set_submodule(name, fixed_to(bound))
    every = {name for name, _ in marks.values()}
    return refused | (every - handled)  # a ReLU without an observer would lose its bound


def _range_is_free(
    node: Node, bound: float, marks: dict[str, tuple[str, float]], modules: dict[str, torch.nn.Module]
) -> bool:
    """Tell whether the range of the value that `node` observes can be reduced to 0 ... bound without changing
    outputs."""
    value = node.all_input_nodes[0]
    if value.name in marks:
        return True
    inputs = value.all_input_nodes
    if inputs and all(_observer(source, modules) is modules[str(node.target)] for source in inputs):
        return True  # an operator that stays within the range of its inputs
    readers = [marks.get(user.name) for user in node.users]
    return bool(readers) and all(mark is not None and mark[1] == bound for mark in readers)  # only read by such ReLUs


def _observer(node: Node, modules: dict[str, torch.nn.Module]) -> ObserverBase | None:
    module = modules.get(str(node.target)) if node.op == "call_module" else None
    return module if isinstance(module, ObserverBase) else None
