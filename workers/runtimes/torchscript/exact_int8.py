"""Computes static int8 in exact arithmetic, as a CPU on which sums of 8-bit products do not saturate.

Products and their sums are whole numbers in float64, exact up to 2**53; scales, bias and rounding are applied after, as
in the engines. Slow: only for checks on a host whose engine saturates, of models for devices whose engine does not.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.library import _scoped_library
from torch.nn import functional

Kernel = Callable[[torch.Tensor, Any, float, int], torch.Tensor]


@contextmanager
def exact_int8() -> Iterator[None]:
    """Let this process compute all int8 convolutions and linears exactly in the block, with any engine."""
    with _scoped_library("quantized", "IMPL") as library:
        with warnings.catch_warnings():
            # torch warns once per process that one of its kernels is overridden.
            warnings.filterwarnings("ignore", message="Warning only once for all operators", category=UserWarning)
            for name, sums in _SUMS.items():
                operator, _, overload = name.partition(".")
                for relu in (False, True):
                    full = f"{operator}{'_relu' * relu}{'.' * bool(overload)}{overload}"
                    library.impl(full, _kernel(sums, relu), "QuantizedCPU", allow_override=True)
        yield


def engine_saturates() -> bool:
    """Tell whether the current engine saturates for the largest possible sum of two 8-bit products."""
    largest = torch._make_per_tensor_quantized_tensor(torch.full((1, 64), 255, dtype=torch.uint8), 1.0, 0)
    weights = torch._make_per_tensor_quantized_tensor(torch.full((64, 64), 127, dtype=torch.int8), 1.0, 0)
    packed = torch.ops.quantized.linear_prepack(weights, None)
    answer = torch.ops.quantized.linear(largest, packed, 64 * 127.0, 0)
    return bool((answer.int_repr() != 255).any())


def _kernel(sums: Callable[[torch.Tensor, Any], torch.Tensor], relu: bool) -> Kernel:
    def run(x: torch.Tensor, packed: Any, scale: float, zero_point: int) -> torch.Tensor:
        answer = sums(x, packed)
        units = ((answer.relu() if relu else answer) / scale).round() + zero_point
        return torch._make_per_tensor_quantized_tensor(units.clamp(0, 255).to(torch.uint8), scale, zero_point)

    return run


def _convolution(convolve: Callable[..., torch.Tensor]) -> Callable[[torch.Tensor, Any], torch.Tensor]:
    def sums(x: torch.Tensor, packed: Any) -> torch.Tensor:
        weight, bias = packed.unpack()
        how = packed.stride(), packed.padding(), packed.dilation(), packed.groups()
        return _scaled(convolve(_integers(x), _integers(weight), None, *how), x, weight, bias)

    return sums


def _conv1d(x: torch.Tensor, packed: Any) -> torch.Tensor:
    weight, bias = torch.ops.quantized.conv1d_unpack(packed)
    # The engines implement it as a 2-D convolution of an image that is one pixel high.
    stride, padding, dilation = (each[-1:] for each in (packed.stride(), packed.padding(), packed.dilation()))
    sums = functional.conv1d(_integers(x), _integers(weight), None, stride, padding, dilation, packed.groups())
    return _scaled(sums, x, weight, bias)


def _linear(x: torch.Tensor, packed: Any) -> torch.Tensor:
    weight, bias = torch.ops.quantized.linear_unpack(packed)
    return _scaled(functional.linear(_integers(x), _integers(weight)).movedim(-1, 1), x, weight, bias).movedim(1, -1)


def _integers(x: torch.Tensor) -> torch.Tensor:
    """Return the stored integers of a quantized tensor minus its zero points."""
    if x.qscheme() == torch.per_tensor_affine:
        return x.int_repr().double() - x.q_zero_point()
    shape = (-1, *(1 for _ in x.shape[1:]))
    return x.int_repr().double() - x.q_per_channel_zero_points().double().reshape(shape)


def _scaled(sums: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return the real values of integer sums of products (B, channels, ...), with the bias added."""
    shape = (1, -1, *(1 for _ in sums.shape[2:]))
    per_channel = weight.qscheme() != torch.per_tensor_affine
    scales = weight.q_per_channel_scales().double().reshape(shape) if per_channel else weight.q_scale()
    answer = sums * (scales * x.q_scale())
    return answer if bias is None else answer + bias.double().reshape(shape)


_SUMS = {
    "conv1d": _conv1d,
    "conv2d.new": _convolution(functional.conv2d),
    "conv3d.new": _convolution(functional.conv3d),
    "linear": _linear,
}
"""For each operator, the function that computes its result before ReLU, scaling and rounding."""
