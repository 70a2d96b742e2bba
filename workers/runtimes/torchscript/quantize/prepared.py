"""What `prepare` hands on."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A model with observers. Calibrating and converting leave it as it is, so that variants can share it."""

    module: torch.nn.Module
    fused: tuple[str, ...]
    """What was fused, in order: `features.0.0 + features.0.1`."""
    example: torch.Tensor
    """(B, C, H, W), float: what the converted model is tried on."""
