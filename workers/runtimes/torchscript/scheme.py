"""How a model becomes int8. Free of torch, because plans and build keys need it too."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One way to quantize."""

    method: str
    """`static_fx`, `static_eager`, `dynamic` or `qat`."""
    engine: str
    """Whose qconfig and kernels: `qnnpack`, `x86` or `onednn`."""
    granularity: str
    """Of weights: `per_tensor` or `per_channel`. Activations always have one scale."""
    reduced_range: bool = False
    """Weights of 7 bits: the sum of two products with activations of 8 bits then always fits into 16."""
