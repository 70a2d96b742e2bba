"""Modules for eager mode: arithmetic between tensors, which can then be observed, and quantization."""

import torch
from torch.ao.nn.quantized import FloatFunctional


class Add(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.functional = FloatFunctional()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.functional.add(x, y)


class AddReLU(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.functional = FloatFunctional()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.functional.add_relu(x, y)


class Multiply(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.functional = FloatFunctional()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.functional.mul(x, y)


class Concatenate(torch.nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.functional = FloatFunctional()
        self.dim = dim

    def forward(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        return self.functional.cat(tensors, self.dim)


class Quantize(torch.nn.Module):
    """A module that quantizes with Python numbers. torch's module uses tensors, so a trace reports data-dependent
    control flow."""

    def __init__(self, scale: float, zero_point: int) -> None:
        super().__init__()
        self.scale = scale
        self.zero_point = zero_point

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x, self.scale, self.zero_point, torch.quint8)
