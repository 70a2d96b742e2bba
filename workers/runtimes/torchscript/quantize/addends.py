"""QNNPACK's limits on additions, kept by moving scales."""

import operator

import torch
from torch.fx import GraphModule, Node

from workers.runtimes.torchscript.quantize.calibration import Calibrated
from workers.runtimes.torchscript.quantize.functional_modules import Add, AddReLU, Concatenate, Multiply

_ADDITIONS = (operator.add, operator.iadd, torch.add, "add", "add_")
_LEAST, _MOST = 2.0**-13, 2.0**7
"""Of an addend's scale over the sum's: QNNPACK refuses ratios outside of 2^-14 to 2^8 (qnnpack/src/add.c)."""


def widen(graph: GraphModule) -> None:
    """Make every addition in `graph`, calibrated but not converted, one that QNNPACK takes, in place.

    ConvNeXt starts its branches at a millionth: an addend so small does not move the sum by one unit of the sum's
    scale, at either scale of its own.
    """
    modules = dict(graph.named_modules())
    for node in graph.graph.nodes:
        total = _observer_of_sum(node, modules)
        addends = [found for source in node.all_input_nodes if (found := _observer_of(source, modules)) is not None]
        if total is None or len(addends) < 2:
            continue
        total.raise_scale(max(addend.scale_of_one() for addend in addends) / _MOST)
        for addend in addends:
            addend.raise_scale(total.scale_of_one() * _LEAST)


def _observer_of_sum(node: Node, modules: dict[str, torch.nn.Module]) -> Calibrated | None:
    module = modules.get(str(node.target)) if node.op == "call_module" else None
    if isinstance(module, Add | AddReLU):
        return _calibrated(module.functional.activation_post_process)
    if node.op not in ("call_function", "call_method") or node.target not in _ADDITIONS:
        return None
    readers = list(node.users)
    while len(readers) == 1:
        found = _calibrated(modules.get(str(readers[0].target)))
        if found is not None:
            return found
        readers = list(readers[0].users)  # of a ReLU that will be fused
    return None


def _observer_of(node: Node, modules: dict[str, torch.nn.Module]) -> Calibrated | None:
    """The one of the value itself, or of the value that it was cut out of."""
    while True:
        module = modules.get(str(node.target)) if node.op == "call_module" else None
        if isinstance(module, Add | AddReLU | Multiply | Concatenate):
            module = module.functional
        found = _calibrated(module) or _calibrated(getattr(module, "activation_post_process", None))
        if found is not None or len(node.all_input_nodes) != 1:
            return found
        node = node.all_input_nodes[0]


def _calibrated(module: object) -> Calibrated | None:
    return module if isinstance(module, Calibrated) else None
