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
