"""The result of `prepare`."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A model with observers. Calibrating and converting do not change it, so variants can share it."""

    module: torch.nn.Module
    fused: tuple[str, ...]
    """The fused groups, in order: `features.0.0 + features.0.1`."""
    example: torch.Tensor
    """An input (B, C, H, W), float, for a test run of the converted model."""
    of_one_size: bool = False
    """Tells whether `module` takes only inputs of the shape of `example`, batch included."""
