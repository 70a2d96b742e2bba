"""Static int8 in FX graph mode."""

import copy
from collections import defaultdict

import torch
from torch.ao.quantization import ObserverBase
from torch.ao.quantization.fx.custom_config import PrepareCustomConfig
from torch.ao.quantization.fx.tracer import QuantizationTracer
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
from torch.fx import GraphModule, Node

from workers.runtimes.torchscript.fuse import check_foldable, fused_groups, symbolic
from workers.runtimes.torchscript.quantize.bounds import FloatOnly, fixed_to, mark_of, rewrite_bounds
from workers.runtimes.torchscript.quantize.calibration import State, install, observers_of
from workers.runtimes.torchscript.quantize.prepared import Prepared
from workers.runtimes.torchscript.quantize.qconfigs import keep_float, qconfig_mapping
from workers.runtimes.torchscript.scheme import Scheme

_LEAVES = PrepareCustomConfig().set_non_traceable_module_classes([FloatOnly])


def prepare_static(model: torch.nn.Module, scheme: Scheme, example: torch.Tensor) -> Prepared:
    """Insert observers into the model's graph; what no kernel does right stays float."""
    graph = symbolic(model)
    check_foldable(graph)
    keep: set[str] = set()
    while True:
        rewritten = copy.deepcopy(graph)
        rewrite_bounds(rewritten, keep)
        keep_float(rewritten, scheme.engine)
        # Traced as prepare_fx does first: both graphs then name their nodes alike.
        before = GraphModule(rewritten, QuantizationTracer([], [FloatOnly]).trace(rewritten))
        # It fuses by itself, and can not take what is fused already (it looks into ConvReLU2d).
        prepared = prepare_fx(copy.deepcopy(rewritten), qconfig_mapping(scheme), (example,), _LEAVES)
        refused = fix_scales(prepared)
        if not refused:
            return Prepared(module=prepared, fused=fused_groups(before, prepared), example=example)
        keep |= refused


def convert_static(prepared: Prepared, state: State) -> torch.nn.Module:
    """The int8 graph. The engine must be in force."""
    graph = copy.deepcopy(prepared.module)
    assert isinstance(graph, GraphModule)
    install(graph, state)
    return convert_fx(graph)


def fix_scales(prepared: GraphModule) -> set[str]:
    """Fix the observers of marked ReLUs to their bound. Returns the ReLUs for which that is not possible.

    Operators such as concatenation and pooling share one observer between input and output. Its range may be cut to
    0 ... bound only if nothing else could notice.
    """
    modules = dict(prepared.named_modules(remove_duplicate=False))
    slots = observers_of(prepared)
    observed: defaultdict[ObserverBase, list[Node]] = defaultdict(list)
    for node in prepared.graph.nodes:
        observer = _observer(node, modules)
        if observer is not None:
            observed[observer].append(node)
    seen: set[str] = set()
    refused: set[str] = set()
    for observer, nodes in observed.items():
        marks = [mark for node in nodes if (mark := _mark(node.all_input_nodes[0], modules))]
        if not marks:
            continue
        bounds = {bound for _, bound in marks}
        seen |= {name for name, _ in marks}
        bound = min(bounds)
        if len(bounds) > 1 or not all(_range_is_free(node, observer, bound, modules) for node in nodes):
            refused |= {name for name, _ in marks}
            continue
        for name in slots[observer]:
            prepared.set_submodule(name, fixed_to(bound))
    every = {mark[0] for module in modules.values() if (mark := mark_of(module)) is not None}
    return refused | (every - seen)  # a ReLU that nothing observes would lose its bound


def _range_is_free(node: Node, observer: ObserverBase, bound: float, modules: dict[str, torch.nn.Module]) -> bool:
    """Whether cutting the range of what `node` observes to 0 ... bound changes no answer."""
    value = node.all_input_nodes[0]
    if _mark(value, modules):
        return True
    inputs = value.all_input_nodes
    if inputs and all(_observer(source, modules) is observer for source in inputs):
        return True  # an operator that stays within the range of its inputs
    marks = [_mark(user, modules) for user in node.users]
    return bool(marks) and all(mark is not None and mark[1] == bound for mark in marks)  # only read by such ReLUs


def _observer(node: Node, modules: dict[str, torch.nn.Module]) -> ObserverBase | None:
    module = modules.get(str(node.target)) if node.op == "call_module" else None
    return module if isinstance(module, ObserverBase) else None


def _mark(node: Node, modules: dict[str, torch.nn.Module]) -> tuple[str, float] | None:
    return mark_of(modules[str(node.target)]) if node.op == "call_module" else None
