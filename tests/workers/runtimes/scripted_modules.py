"""Modules that TorchScript compiles and runners are given: the plainest ones, and those that fail or never end."""

import torch


class Flat(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)


class Image(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Pair(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, x


class Expects(torch.nn.Module):
    """Raises with what it was given."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert bool(x.max() < -5), f"given {x.flatten()[0].item()} {x.is_contiguous(memory_format=torch.channels_last)}"
        return x.flatten(1)


class Endless(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while bool(x.sum() < 1e30):
            x = x * 1.0
        return x


class Divide(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(5 % (x.size(0) - 1))  # TorchScript does not look at the divisor: SIGFPE
