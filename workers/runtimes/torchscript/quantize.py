"""Static int8 in FX graph mode, calibrated, with ReLU6 rewritten so that QNNPACK answers right."""

import copy
from collections import defaultdict
from collections.abc import Iterable

import torch
from torch.ao.quantization import FixedQParamsObserver, ObserverBase, get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
from torch.fx import GraphModule, Node

from sweeps.errors import BuildError
from workers.runtimes.torchscript.failures import first_words
from workers.runtimes.torchscript.fuse import fuse

_BOUND = "edgesweep_bound"
"""Attribute of a ReLU that stands for a ReLU6: its upper bound, kept by its output's scale."""


def quantize(
    graph: GraphModule, calibration: Iterable[torch.Tensor], engine: str
) -> tuple[GraphModule, tuple[str, ...]]:
    """Calibrate on batches (B, C, H, W) and convert for `engine`, which must be in force.

    QNNPACK scrambles quantized relu6, hardtanh and clamp on channels_last tensors (torch 2.12.1: up to 120 units off),
    and FX quantization leaves them as operators of their own. A ReLU with its output's scale fixed to 6/255 and
    zero point 0 can not answer more than 6, is fused into the convolution before it, and is faster on x86 as well.

    Returns the int8 graph and what was fused. Raises `BuildError("not_quantizable")`.
    """
    batches = list(calibration)
    if not batches:
        raise BuildError("not_quantizable", "there is no calibration image", "give data.calibration at least one image")
    try:
        prepared, fused = _prepare(graph, batches[0], engine)
        for batch in batches:
            prepared(batch)
        return convert_fx(prepared), fused
    except BuildError:
        raise
    except Exception as error:
        raise BuildError("not_quantizable", f"FX quantization fails: {first_words(error)}") from error


def _prepare(graph: GraphModule, example: torch.Tensor, engine: str) -> tuple[GraphModule, tuple[str, ...]]:
    keep: set[str] = set()
    while True:
        rewritten = _bounded_by_scale(copy.deepcopy(graph), keep)
        # prepare_fx fuses by itself, and can not take what is fused already (it looks into ConvReLU2d).
        _, fused = fuse(rewritten)
        prepared = prepare_fx(rewritten, get_default_qconfig_mapping(engine), (example,))
        refused = _fix_scales(prepared)
        if not refused:
            return prepared, fused
        keep |= refused


def _bounded_by_scale(graph: GraphModule, keep: set[str]) -> GraphModule:
    """Replace each ReLU6 or Hardtanh from 0, as module or function, by a marked ReLU; not those named in `keep`."""
    for node in list(graph.graph.nodes):
        bound = _upper_bound(graph, node)
        if bound is None or node.name in keep:
            continue
        relu = torch.nn.ReLU().eval()
        setattr(relu, _BOUND, (node.name, bound))
        name = f"bounded_{node.name}"
        graph.add_submodule(name, relu)
        with graph.graph.inserting_after(node):
            replacement = graph.graph.call_module(name, (node.all_input_nodes[0],))
        node.replace_all_uses_with(replacement)
        graph.graph.erase_node(node)
    graph.delete_all_unused_submodules()
    graph.recompile()
    return graph


def _upper_bound(graph: GraphModule, node: Node) -> float | None:
    low: object = None
    high: object = None
    if node.op == "call_module":
        module = graph.get_submodule(str(node.target))
        if isinstance(module, torch.nn.Hardtanh):  # ReLU6 is one
            low, high = module.min_val, module.max_val
    elif node.target is torch.nn.functional.relu6:
        low, high = 0.0, 6.0
    elif node.target in (torch.nn.functional.hardtanh, torch.nn.functional.hardtanh_):
        low, high = _bounds(node, "min_val", "max_val", -1.0, 1.0)
    elif node.target in (torch.clamp, torch.clip, "clamp", "clamp_", "clip"):
        low, high = _bounds(node, "min", "max", None, None)
    numbers = isinstance(low, int | float) and isinstance(high, int | float)
    return float(high) if numbers and low == 0 and high > 0 else None  # type: ignore[operator,arg-type]  # see numbers


def _bounds(node: Node, low: str, high: str, low_default: object, high_default: object) -> tuple[object, object]:
    given = dict(zip((low, high), node.args[1:], strict=False)) | dict(node.kwargs)
    return given.get(low, low_default), given.get(high, high_default)


def _fix_scales(prepared: GraphModule) -> set[str]:
    """Fix the observers of marked ReLUs to their bound. Returns the ReLUs for which that is not possible.

    Operators such as concatenation and pooling share one observer between input and output. Its range may be cut to
    0 ... bound only if nothing else could notice.
    """
    modules = dict(prepared.named_modules(remove_duplicate=False))
    slots: defaultdict[ObserverBase, list[str]] = defaultdict(list)
    for name, module in modules.items():
        if isinstance(module, ObserverBase):
            slots[module].append(name)
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
        fixed = FixedQParamsObserver(  # type: ignore[no-untyped-call]  # torch has no types for it
            scale=bound / 255.0, zero_point=0, dtype=torch.quint8, quant_min=0, quant_max=255
        )
        for name in slots[observer]:
            prepared.set_submodule(name, fixed)
    every = {mark[0] for module in modules.values() if (mark := _module_mark(module)) is not None}
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
    return _module_mark(modules[str(node.target)]) if node.op == "call_module" else None


def _module_mark(module: torch.nn.Module) -> tuple[str, float] | None:
    """Of the ReLU itself, or of the module that it was fused into."""
    for part in (module, *module.children()):
        mark: tuple[str, float] | None = getattr(part, _BOUND, None)
        if mark is not None:
            return mark
    return None
