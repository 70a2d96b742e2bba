"""The observers for each engine, and the engine's wrong kernels, which must not be used."""

import warnings
from typing import Any

import torch
from torch.ao.quantization import (
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    QConfig,
    QConfigMapping,
    default_per_channel_weight_observer,
    default_weight_observer,
    get_default_qconfig_mapping,
)
from torch.ao.quantization.fake_quantize import FakeQuantize
from torch.fx import GraphModule, Node
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvTransposeNd

from workers.runtimes.torchscript.quantize.bounds import FloatOnly, replace_by_module
from workers.runtimes.torchscript.scheme import Scheme

_TRANSPOSED = (
    torch.nn.ConvTranspose1d,
    torch.nn.ConvTranspose2d,
    torch.nn.ConvTranspose3d,
    torch.nn.functional.conv_transpose1d,
    torch.nn.functional.conv_transpose2d,
    torch.nn.functional.conv_transpose3d,
)

_SEVEN_BITS = {"quant_min": -64, "quant_max": 64}
"""The range of weights: 255 * 64 * 2 fits into 16 bits, for all activations. torch's own reduced range does not change
weights and gives activations 7 bits, which activations of a ReLU6 and activations outside of the calibrated range
exceed."""


def qconfig_mapping(scheme: Scheme) -> QConfigMapping:
    """Return torch's own mapping for the engine, with weights as in the scheme; `qat` observes weights in every step.

    A transposed convolution is quantized per tensor: no engine supports more (QNNPACK refuses grouped ones). Only
    QNNPACK's results are correct (see `has_wrong_kernel`), and only its sums never saturate. For other engines,
    transposed convolutions that are called as functions stay float, like the modules.
    """
    with warnings.catch_warnings():
        # onednn warns on processors without VNNI, for which the plan sets a reduced range.
        warnings.simplefilter("ignore", UserWarning)
        mapping = get_default_qconfig_mapping(scheme.engine)
    default = mapping.global_qconfig
    assert default is not None
    chosen = QConfig(activation=default.activation, weight=weight_observer(scheme))  # type: ignore[no-untyped-call]  # torch has no types for it
    mapping.set_global(chosen)
    for kind, qconfig in list(mapping.object_type_qconfigs.items()):
        if qconfig == default and kind not in _TRANSPOSED:
            mapping.set_object_type(kind, chosen)
    if scheme.engine != "qnnpack":
        for kind in _TRANSPOSED:
            mapping.set_object_type(kind, None)
    return mapping


def weight_observer(scheme: Scheme) -> Any:
    """Return a factory for the observer of weights (for `qat`: the fake quantization)."""
    per_channel = scheme.granularity == "per_channel"
    if scheme.method != "qat":
        usual = default_per_channel_weight_observer if per_channel else default_weight_observer
        return usual.with_args(**_SEVEN_BITS) if scheme.reduced_range else usual
    # With the constant 1 there is no averaging: weights are rounded as in `convert`.
    observer = MovingAveragePerChannelMinMaxObserver if per_channel else MovingAverageMinMaxObserver
    return FakeQuantize.with_args(  # type: ignore[no-untyped-call]  # torch has no types for it
        observer=observer,
        averaging_constant=1.0,
        **(_SEVEN_BITS if scheme.reduced_range else {"quant_min": -128, "quant_max": 127}),
        dtype=torch.qint8,
        qscheme=torch.per_channel_symmetric if per_channel else torch.per_tensor_symmetric,
    )


def keep_float(graph: GraphModule, engine: str) -> None:
    """Keep operators without a correct kernel of the engine in float, by wrapping them in `FloatOnly`, in place."""
    for node in list(graph.graph.nodes):
        if has_wrong_kernel(graph, node, engine):
            operator = _operator(graph, node)
            assert operator is not None
            replace_by_module(graph, node, f"float_{node.name}", FloatOnly(operator))
    graph.delete_all_unused_submodules()
    graph.recompile()


def has_wrong_kernel(graph: GraphModule, node: Node, engine: str) -> bool:
    """Tell whether the engine's int8 kernel for the operator is wrong or missing.

    Tested with torch 2.12.1 against float arithmetic on the same quantized tensors, in units of the result:

    * PReLU: up to 101 off under every engine
    * x86 and onednn, transposed convolution: 201 off with kernel 2 and stride 2; with output padding onednn refuses,
      with a scale per channel x86 does, and in onednn the process dies
    * QNNPACK, average pooling: counts padding (70 off) and divides by the kernel's size, ignoring the arguments
    * batch norm without statistics: no kernel
    """
    operator = _operator(graph, node)
    match operator:
        case torch.nn.PReLU():
            return True
        case _BatchNorm():
            return operator.running_mean is None
        case _ConvTransposeNd():
            return engine != "qnnpack"
        case torch.nn.AvgPool2d():
            padding = operator.padding if isinstance(operator.padding, tuple) else (operator.padding,)
            ignored = (any(padding) and not operator.count_include_pad) or operator.divisor_override is not None
            return engine == "qnnpack" and ignored
        case _:
            return False


def _operator(graph: GraphModule, node: Node) -> torch.nn.Module | None:
    if node.op == "call_module":
        return graph.get_submodule(str(node.target))
    if node.target is not torch.nn.functional.avg_pool2d:
        return None
    named = {name: value for name, value in node.kwargs.items() if name != "input"}
    return torch.nn.AvgPool2d(*node.args[1:], **named)  # type: ignore[arg-type]  # what the function takes
