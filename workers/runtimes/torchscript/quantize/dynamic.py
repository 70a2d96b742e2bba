"""Dynamic int8: quantized weights of linears, with the scales of activations computed at run time."""

import copy

import torch
from torch.ao.nn.intrinsic import LinearReLU
from torch.ao.quantization import default_dynamic_qconfig, per_channel_dynamic_qconfig, quantize_dynamic

from sweeps.errors import BuildError
from workers.runtimes.torchscript.quantize.prepared import Prepared
from workers.runtimes.torchscript.scheme import Scheme

_LINEARS = (torch.nn.Linear, LinearReLU)


def prepare_dynamic(model: torch.nn.Module, example: torch.Tensor) -> Prepared:
    """Return the unchanged model, which need not be traceable, if it has linears. Raises
    `BuildError("nothing_to_quantize")`."""
    if not any(type(module) in _LINEARS for module in model.modules()):
        raise BuildError(
            "nothing_to_quantize",
            f"dynamic quantization changes only linears, and {type(model).__name__} has none",
            "use quantization: [static_fx]",
        )
    return Prepared(module=model, fused=(), example=example)


def convert_dynamic(prepared: Prepared, scheme: Scheme) -> torch.nn.Module:
    """Return the model with int8 linears. The engine must be set."""
    qconfig = per_channel_dynamic_qconfig if scheme.granularity == "per_channel" else default_dynamic_qconfig
    model: torch.nn.Module = quantize_dynamic(  # type: ignore[no-untyped-call]  # torch has no types for it
        copy.deepcopy(prepared.module), dict.fromkeys(_LINEARS, qconfig)
    )
    for module in model.modules():
        # The fast path of torch's encoder reads the weights of its linears as tensors, so it is disabled.
        if isinstance(module, torch.nn.TransformerEncoderLayer):
            module.activation_relu_or_gelu = 0
        elif isinstance(module, torch.nn.TransformerEncoder):
            module.use_nested_tensor = False
    return model
