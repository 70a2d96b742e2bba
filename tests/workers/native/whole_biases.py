"""Biases as NNAPI stores them, for every engine alike."""

from torch import Tensor
from torch.fx import GraphModule


def with_whole_biases(module: GraphModule, example: Tensor) -> GraphModule:
    """Round the biases of an int8 `module` (weights per tensor), in place, to whole units of input scale times weight
    scale: NNAPI's are int32, those of the x86 engine are floats. `example` (B, C, H, W) runs through it once."""
    scales: dict[str, float] = {}
    layers = {name: layer for name, layer in module.named_modules() if hasattr(layer, "scale")}
    hooks = [
        layer.register_forward_pre_hook(
            lambda _, arguments, name=name: scales.__setitem__(name, arguments[0].q_scale())
        )
        for name, layer in layers.items()
    ]
    module(example)
    for hook in hooks:
        hook.remove()
    for name, layer in layers.items():
        unit = scales[name] * layer.weight().q_scale()
        layer.set_weight_bias(layer.weight(), ((layer.bias().double() / unit).round() * unit).float())
    return module
