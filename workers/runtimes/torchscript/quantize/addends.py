"""Adjusts the scales of additions to QNNPACK's limits."""

import operator

import torch
from torch.fx import GraphModule, Node

from workers.runtimes.torchscript.quantize.functional_modules import Add, AddReLU, Concatenate, Multiply
from workers.runtimes.torchscript.quantize.observers import Calibrated

_ADDITIONS = (operator.add, operator.iadd, torch.add, "add", "add_")
_LEAST, _MOST = 2.0**-13, 2.0**7
"""Bounds of an addend's scale divided by the sum's: QNNPACK refuses ratios outside 2^-14 to 2^8 (qnnpack/src/add.c)."""


def widen(graph: GraphModule) -> None:
    """Raise scales in the calibrated (not converted) `graph`, in place, so that QNNPACK accepts every addition.

    ConvNeXt initialises its branches with a millionth. So small an addend changes the sum by less than one unit of the
    sum's scale, with its old scale and with the raised one.
    """
    modules = dict(graph.named_modules())
    for node in graph.graph.nodes:
        total = _observer_of_sum(node, modules)
        addends = [added for source in node.all_input_nodes if (added := _observer_of(source, modules)) is not None]
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
        observer = _calibrated(modules.get(str(readers[0].target)))
        if observer is not None:
            return observer
        readers = list(readers[0].users)  # the reader is a ReLU that will be fused
    return None


def _observer_of(node: Node, modules: dict[str, torch.nn.Module]) -> Calibrated | None:
    """Return the observer of the node's value, or of the value that it is a part or a view of."""
    while True:
        module = modules.get(str(node.target)) if node.op == "call_module" else None
        if isinstance(module, Add | AddReLU | Multiply | Concatenate):
            module = module.functional
        observer = _calibrated(module) or _calibrated(getattr(module, "activation_post_process", None))
        if observer is not None or len(node.all_input_nodes) != 1:
            return observer
        node = node.all_input_nodes[0]


def _calibrated(module: object) -> Calibrated | None:
    return module if isinstance(module, Calibrated) else None
