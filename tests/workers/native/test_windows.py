"""Convolutions, pools and the fully connected layer against a float64 evaluation by torch."""

import ctypes
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional

from tests.workers.native.cases import activated, check, kinds, laid_out, nchw, openness, tensors
from tests.workers.native.nnapi import Argument, Code, Kind, Type, Values, apply

pytestmark = pytest.mark.compiler

SAME, VALID = 1, 2
cases = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
data_given = given(data=st.data())


def filters(draw: Any, shape: tuple[int, ...], channel_dimension: int, *, quantized: bool) -> Values:
    """Weights; 8-bit ones with one scale and zero point, or symmetric with a scale per channel."""
    if not quantized or not draw(st.booleans()):
        return draw(tensors(shape, quantized=quantized, spread=1.0, is_input=False))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    numbers = torch.randint(-127, 128, shape, generator=random, dtype=torch.int8)
    scales = torch.rand(shape[channel_dimension], generator=random) * 0.05 + 0.001
    return Values(numbers, channel_scales=tuple(scales.tolist()), channel_dimension=channel_dimension)


def biases(image: Values, weights: Values, channels: int) -> tuple[Values, torch.Tensor]:
    """A bias, and what it means in float64."""
    random = torch.Generator().manual_seed(channels)
    if image.kind.type == Type.TENSOR_FLOAT32:
        bias = Values(torch.randn(channels, generator=random))
        return bias, bias.real
    numbers = torch.randint(-3000, 3000, (channels,), generator=random, dtype=torch.int32)
    step = torch.tensor(image.scale).double() * torch.tensor(weights.channel_scales or weights.scale).double()
    return Values(numbers, 0.0 if weights.channel_scales else image.scale * weights.scale), numbers * step


def same_padding(size: int, filter_size: int, stride: int, dilation: int) -> tuple[int, int]:
    total = max(0, (-(-size // stride) - 1) * stride + (filter_size - 1) * dilation + 1 - size)
    return total // 2, total - total // 2


def window(
    draw: Any, image: tuple[int, int], filter_size: tuple[int, int], dilation: tuple[int, int] = (1, 1)
) -> tuple[list[Argument], tuple[int, int], list[int]]:
    """NNAPI's padding and stride operands, the strides (h, w) and the padding as torch's pad takes it."""
    strides = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    if draw(st.booleans()):
        most = [size - 1 for size in filter_size]
        top, bottom = (draw(st.integers(0, most[0])) for _ in range(2))
        left, right = (draw(st.integers(0, most[1])) for _ in range(2))
        return [left, right, top, bottom, strides[1], strides[0]], strides, [left, right, top, bottom]
    scheme = draw(st.sampled_from([SAME, VALID]))
    padding = [0, 0, 0, 0]
    if scheme == SAME:
        padding[2:] = same_padding(image[0], filter_size[0], strides[0], dilation[0])
        padding[:2] = same_padding(image[1], filter_size[1], strides[1], dilation[1])
    return [scheme, strides[1], strides[0]], strides, padding


@pytest.mark.parametrize("kind", ["plain", "depthwise", "grouped"])
@cases
@data_given
def test_convolutions(library: ctypes.CDLL, kind: str, data: st.DataObject) -> None:
    draw = data.draw
    quantized, is_nchw = draw(st.booleans()), draw(st.booleans())
    groups = draw(st.integers(2, 3)) if kind == "grouped" else 1
    channels = draw(st.integers(1, 5)) * groups
    multiplier = draw(st.integers(1, 3))
    outputs = channels * multiplier if kind == "depthwise" else draw(st.integers(1, 5)) * groups
    size = (draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    filter_size = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    image_shape = torch.Size((draw(st.integers(1, 3)), channels, *size))
    image = draw(tensors(laid_out(torch.empty(image_shape), is_nchw).shape, quantized=quantized))
    depthwise = kind == "depthwise"
    shape = (1, *filter_size, outputs) if depthwise else (outputs, *filter_size, channels // groups)
    weights = filters(draw, shape, 3 if depthwise else 0, quantized=quantized)
    bias, real_bias = biases(image, weights, outputs)
    dilation = (
        (1, 1) if kind == "grouped" or draw(st.booleans()) else (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    )
    operands, strides, padding = window(draw, size, filter_size, dilation)
    activation = draw(st.integers(0, 3))
    operands += [multiplier] if depthwise else [groups] if kind == "grouped" else []
    operands += [activation, is_nchw]
    if dilation != (1, 1):
        operands += [dilation[1], dilation[0]]
    padded = functional.pad(nchw(image.real, is_nchw), padding)
    assume(all(padded.shape[2 + i] >= (filter_size[i] - 1) * dilation[i] + 1 for i in range(2)))
    ordered = weights.real.permute((3, 0, 1, 2) if depthwise else (0, 3, 1, 2))
    parts = channels if depthwise else groups
    real = functional.conv2d(padded, ordered, real_bias, strides, dilation=dilation, groups=parts)
    code = {"plain": Code.CONV_2D, "depthwise": Code.DEPTHWISE_CONV_2D, "grouped": Code.GROUPED_CONV_2D}[kind]
    expected = laid_out(activated(real, activation), is_nchw)
    result = draw(kinds(image))
    check(library, code, [image, weights, bias, *operands], expected, result, open_sizes=draw(openness))


@cases
@data_given
def test_transposed_convolution(library: ctypes.CDLL, data: st.DataObject) -> None:
    draw = data.draw
    quantized, is_nchw = draw(st.booleans()), draw(st.booleans())
    channels, outputs = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    size = (draw(st.integers(1, 6)), draw(st.integers(1, 6)))
    filter_size = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    batch = draw(st.integers(1, 3))
    image = draw(tensors(laid_out(torch.empty(batch, channels, *size), is_nchw).shape, quantized=quantized))
    weights = filters(draw, (outputs, *filter_size, channels), 0, quantized=quantized)
    bias, real_bias = biases(image, weights, outputs)
    activation = draw(st.integers(0, 3))
    strides = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    whole = functional.conv_transpose2d(nchw(image.real, is_nchw), weights.real.permute(3, 0, 1, 2), real_bias, strides)
    if draw(st.booleans()):
        top, bottom, left, right = (draw(st.integers(0, 2)) for _ in range(4))
        assume(whole.shape[2] > top + bottom and whole.shape[3] > left + right)
        real = functional.pad(whole, (-left, -right, -top, -bottom))
        operands: list[Argument] = [left, right, top, bottom, strides[1], strides[0]]
    else:
        # With SAME, an image of n pixels came from any size whose strides number n.
        shape = [size[i] * strides[i] - draw(st.integers(0, strides[i] - 1)) for i in range(2)]
        (top, bottom), (left, right) = (same_padding(shape[i], filter_size[i], strides[i], 1) for i in range(2))
        # Pixels that no filter reached hold the bias alone.
        reached = functional.pad(whole - real_bias[:, None, None], (0, shape[1], 0, shape[0]))
        real = reached[:, :, top : top + shape[0], left : left + shape[1]] + real_bias[:, None, None]
        target = laid_out(torch.empty(batch, outputs, *shape), is_nchw).shape
        operands = [list(target), SAME, strides[1], strides[0]]
    operands += [activation, is_nchw]
    expected = laid_out(activated(real, activation), is_nchw)
    result = draw(kinds(image))
    check(
        library, Code.TRANSPOSE_CONV_2D, [image, weights, bias, *operands], expected, result, open_sizes=draw(openness)
    )


@pytest.mark.parametrize("kind", ["average", "largest"])
@cases
@data_given
def test_pools_leave_padding_out(library: ctypes.CDLL, kind: str, data: st.DataObject) -> None:
    draw = data.draw
    quantized, is_nchw = draw(st.booleans()), draw(st.booleans())
    size = (draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    filter_size = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    shape = torch.Size((draw(st.integers(1, 3)), draw(st.integers(1, 4)), *size))
    image = draw(tensors(laid_out(torch.empty(shape), is_nchw).shape, quantized=quantized))
    operands, strides, padding = window(draw, size, filter_size)
    activation = draw(st.integers(0, 3))
    operands += [filter_size[1], filter_size[0], activation]
    if is_nchw or draw(st.booleans()):
        operands.append(is_nchw or draw(st.sampled_from([False, None])))
    padded = functional.pad(nchw(image.real, is_nchw), padding, value=torch.nan)
    assume(all(padded.shape[2 + i] >= filter_size[i] for i in range(2)))
    windows = padded.unfold(2, filter_size[0], strides[0]).unfold(3, filter_size[1], strides[1]).flatten(4)
    real = windows.nanmean(-1) if kind == "average" else windows.nan_to_num(nan=-torch.inf).amax(-1)
    expected = laid_out(activated(real, activation), is_nchw)
    code = Code.AVERAGE_POOL_2D if kind == "average" else Code.MAX_POOL_2D
    # A pool's result is quantized as its input.
    check(library, code, [image, *operands], expected, image.kind, open_sizes=draw(openness))


@cases
@data_given
def test_fully_connected(library: ctypes.CDLL, data: st.DataObject) -> None:
    draw = data.draw
    quantized = draw(st.booleans())
    rows, width, outputs = draw(st.integers(1, 4)), draw(st.integers(1, 40)), draw(st.integers(1, 8))
    shape = (rows, width, 1, 1) if draw(st.booleans()) else (rows, width)
    values = draw(tensors(shape, quantized=quantized))
    weights = filters(draw, (outputs, width), 0, quantized=quantized)
    bias, real_bias = biases(values, weights, outputs)
    activation = draw(st.integers(0, 3))
    expected = activated(functional.linear(values.real.reshape(rows, width), weights.real, real_bias), activation)
    arguments = [values, weights, bias, activation]
    result = draw(kinds(values))
    check(library, Code.FULLY_CONNECTED, arguments, expected, result, open_sizes=draw(openness))


def test_long_8_bit_sums_stay_exact(library: ctypes.CDLL) -> None:
    # 4,608 products of up to 255 x 255 leave the integers that float32 holds; the bias takes all but a few units away.
    random = torch.Generator().manual_seed(0)
    image = Values(torch.randint(200, 256, (1, 3, 3, 512), generator=random, dtype=torch.uint8), 0.5, 0, is_input=True)
    weights = Values(torch.randint(200, 256, (4, 3, 3, 512), generator=random, dtype=torch.uint8), 0.5, 0)
    left = torch.tensor([5, 100, 200, 77])
    sums = (image.numbers.long() * weights.numbers.long()).sum((1, 2, 3))
    bias = Values((left - sums).int(), 0.25)
    result = Kind(Type.TENSOR_QUANT8_ASYMM, (1, 1, 1, 4), 0.25, 0)
    got = apply(library, Code.CONV_2D, [image, weights, bias, 0, 0, 0, 0, 1, 1, 0], result)
    assert got.flatten().tolist() == left.tolist()
