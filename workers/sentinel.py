"""The network of the sentinel (see `sweeps.protocol.sentinel_rules`): what phones run most, convolutions, and small."""

from torch import nn


def sentinel() -> nn.Module:
    """(N, 3, 64, 64) to (N, 10); 0.1 billion multiply-adds, a few milliseconds on one core of a phone."""
    return nn.Sequential(
        *_stage(3, 32, stride=1),
        *_stage(32, 64, stride=2),
        *_stage(64, 64, stride=1),
        *_stage(64, 128, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def _stage(channels: int, out_channels: int, stride: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(channels, out_channels, 3, stride=stride, padding=1, bias=False)
    return convolution, nn.BatchNorm2d(out_channels), nn.ReLU()
