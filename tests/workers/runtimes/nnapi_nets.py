"""Small networks, one for each thing that NNAPI's converter has to know. Each takes (B, 6, 12, 12)."""

import torch
from torch import nn
from torch.nn import functional

CHANNELS, SIZE = 6, 12


def settled(net: nn.Module) -> nn.Module:
    """With batch norms that do something, in eval mode."""
    for norm in (m for m in net.modules() if isinstance(m, nn.BatchNorm2d)):
        if norm.affine:
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.uniform_(norm.bias, -0.5, 0.5)
        assert norm.running_mean is not None
        assert norm.running_var is not None
        nn.init.uniform_(norm.running_mean, -0.5, 0.5)
        nn.init.uniform_(norm.running_var, 0.5, 1.5)
    return net.eval()


class Convolutions(nn.Module):
    """With stride, padding, dilation, groups, a channel multiplier, without bias, transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(6, 8, (3, 5), stride=(1, 2), padding=(1, 2), bias=False),
            nn.Conv2d(8, 16, 3, padding=1, groups=8),
            nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=16),
            nn.Conv2d(16, 8, 3, padding=(0, 2), dilation=(1, 2)),
            nn.Conv2d(8, 12, 3, groups=4, padding=1),
            nn.ConvTranspose2d(12, 5, 3, stride=2, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Activations(nn.Module):
    """Each on channels of its own scale, so that all their pieces are met."""

    def __init__(self) -> None:
        super().__init__()
        self.spread = nn.Conv2d(6, 12, 1)
        self.spread.weight.data.mul_(6.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.spread(x)
        y = functional.relu6(x) + functional.hardtanh(x) + torch.clamp(x, 0.0, 6.0) + x.clamp(min=0)
        y = y + torch.sigmoid(x) * torch.tanh(x) + functional.hardsigmoid(x)
        return y + functional.hardswish(x) - functional.silu(x)


class InPlace(nn.Module):
    """Every form of it, and a value that is read after it was changed."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 6, 1)
        self.relu = nn.ReLU(inplace=True)
        self.swish = nn.Hardswish(inplace=True)
        self.dropout = nn.Dropout(0.5, inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        z = self.relu(y)
        z = self.dropout(z + y)
        y = self.swish(self.conv(z))
        functional.relu(y, inplace=True)
        y += z
        y.mul_(0.5)
        return functional.hardtanh_(torch.relu_(y) + y, 0.0, 6.0)


class Norms(nn.Module):
    """Batch norm in front of a ReLU, behind a convolution that something else reads, and folded."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.BatchNorm2d(6)
        self.conv = nn.Conv2d(6, 6, 3, padding=1)
        self.second = nn.BatchNorm2d(6)
        self.folded = nn.Sequential(nn.Conv2d(6, 6, 1, bias=False), nn.BatchNorm2d(6, affine=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(functional.relu(self.first(x)))
        return self.folded(self.second(x) + x)


class Pools(nn.Module):
    """Ceil mode, padding that is not counted, adaptive, means over height and width."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = functional.max_pool2d(x, 3, 2, ceil_mode=True)
        b = functional.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False)
        c = functional.avg_pool2d(x, 5, 2, ceil_mode=True)
        d = functional.adaptive_avg_pool2d(x, (3, 4))
        tops = torch.cat([p.mean((2, 3), keepdim=True) for p in (a, b, c, d)], 1)
        return torch.cat([tops.flatten(1), x.mean((2, 3)), x.mean(1).flatten(1), a.flatten(1), c.flatten(1)], 1)


class Slices(nn.Module):
    """chunk, split, slices with steps and ends from behind, one row, and a channel shuffle."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, dim=1)
        x = torch.cat([b, a * 2.0], 1)
        n, c, h, w = x.size()
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)
        first, second, third = torch.split(x, [1, 2, 3], dim=1)
        x = torch.cat([third, first, second], dim=-3)
        return x[:, 1:-1, ::2, 3:11:3] + x[:, 2:, 5, 1].unsqueeze(-1).unsqueeze(-1)


class Views(nn.Module):
    """Linears over the channels of every pixel, between permutations, and a flatten that height and width survive."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 5)
        self.conv = nn.Conv2d(5, 4, 3)
        self.head = nn.Linear(400, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = self.conv(x)
        y = x.reshape(x.shape[0], 4, -1).transpose(1, 2) - 1.5
        y = torch.softmax(y, dim=1).transpose(1, 2).reshape(-1, 4, 10, 10)
        return self.head(torch.flatten(y + x, 1))


class Constants(nn.Module):
    """Numbers and parameters of fewer dimensions, on either side."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(6, 1, 1))
        self.conv = nn.Conv2d(6, 6, 1)
        self.gate = nn.Conv2d(6, 6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(2.0 * x) * self.scale + self.scale
        x = x * torch.sigmoid(self.gate(x.mean((2, 3), keepdim=True)))
        return torch.softmax(x / (1.0 + self.scale) - 0.5, dim=1)


class Resizes(nn.Module):
    """Nearest pixels by size, by factors, and to the size of another tensor; one slope, and one for each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 6, 3, 2, 1)
        self.slopes, self.slope = nn.PReLU(6), nn.PReLU()
        nn.init.uniform_(self.slopes.weight, -0.5, 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        small = self.slopes(self.conv(x))
        x = x + functional.interpolate(small, size=x.shape[-2:])
        y = functional.interpolate(small, scale_factor=(1.5, 3.0))
        z = functional.interpolate(y, size=(5, 7))
        z = functional.interpolate(z, scale_factor=1.3, recompute_scale_factor=True)
        return self.slope(torch.cat([part.flatten(1) for part in (x, y, z)], 1))


class BatchMeans(nn.Module):
    """Means over the batch, kept and not, alone and with other dimensions; log softmax over channels and over rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.log_softmax(x - x.mean(0, keepdim=True), 1)
        y = y * x.mean(0) + x.mean((0, 2, 3)).reshape(6, 1, 1) + x.mean((0, 1, 2, 3), keepdim=True)
        return functional.log_softmax(y, -1)


FLOAT_NETS: dict[str, type[nn.Module]] = {
    net.__name__: net
    for net in (Convolutions, Activations, InPlace, Norms, Pools, Slices, Views, Constants, Resizes, BatchMeans)
}


class Int8(nn.Module):
    """The parts of quantized MobileNets: ReLU6, hardswish, squeeze and excite, additions, a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(6, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6(inplace=True))
        self.depthwise = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.Hardswish(inplace=True))
        self.squeeze, self.excite = nn.Conv2d(16, 8, 1), nn.Conv2d(8, 16, 1)
        self.norm = nn.BatchNorm2d(16)
        self.left, self.right = nn.Conv2d(16, 8, 1), nn.Conv2d(16, 8, 3, padding=1, groups=4)
        self.hidden, self.head = nn.Linear(16, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = self.depthwise(x)
        scale = functional.relu(self.squeeze(functional.adaptive_avg_pool2d(y, 1)))
        x = functional.relu(self.norm(y * functional.hardsigmoid(self.excite(scale))) + x)
        x = functional.max_pool2d(torch.cat([self.left(x), self.right(x)], 1), 3, 2, ceil_mode=True)
        x = functional.silu(x).mean((2, 3))
        return self.head(functional.relu(self.hidden(x)))


class Int8Resize(nn.Module):
    """A resize and a mean over the batch, which are int8, and PReLU, which stays float."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.slopes = nn.Conv2d(6, 8, 3, padding=1), nn.PReLU(8)
        self.conv, self.head = nn.Conv2d(8, 8, 3, 2, 1), nn.Conv2d(8, 4, 1)
        nn.init.uniform_(self.slopes.weight, -0.5, 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.interpolate(self.conv(self.slopes(self.stem(x))), scale_factor=2.0)
        return self.head(x.mean(0, keepdim=True))


def serialized_model(module: torch.jit.ScriptModule) -> bytes:
    """The serialized NNAPI model inside a module from `lower`, also after saving and loading. See `parse`."""
    wrapper = module if hasattr(module, "nnapi") else module.core
    serialized: torch.Tensor = wrapper.nnapi.ser_model
    return serialized.numpy().tobytes()
