"""The way in which a model is quantized to int8. Torch-free, because plans and build keys need it too."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One way to quantize."""

    method: str
    """`static_fx`, `static_eager`, `dynamic` or `qat`."""
    engine: str
    """The engine that gives the qconfig and the kernels: `qnnpack`, `x86` or `onednn`."""
    granularity: str
    """The granularity of weights: `per_tensor` or `per_channel`. Activations are always per tensor."""
    reduced_range: bool = False
    """7-bit weights: the sum of two products with 8-bit activations then always fits into 16 bits."""
