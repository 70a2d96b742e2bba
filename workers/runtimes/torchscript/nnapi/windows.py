# mypy: allow-untyped-calls
"""Convolutions, fully connected layers and pooling, for NNAPI."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._C import Node, Value
from torch.backends._nnapi.serializer import Operand

from workers.runtimes.torchscript.nnapi.coverage import packed
from workers.runtimes.torchscript.nnapi.serializer import (
    CODE,
    FUSED,
    NCHW,
    Converter,
    Refused,
    Serializer,
    Tensor,
    like,
    output_sizes,
)


@dataclass(frozen=True, slots=True)
class Window:
    """Kernel, stride, padding and dilation of a convolution or pooling, each (height, width)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    def explicit(self, s: Serializer, after: tuple[int, int]) -> list[int]:
        """Return NNAPI's operands: padding left, right, top, bottom, then stride horizontal, vertical."""
        return s.integers(self.padding[1], after[1], self.padding[0], after[0], self.stride[1], self.stride[0])


def _pair(numbers: Sequence[int]) -> tuple[int, int]:
    return numbers[0], numbers[-1]


def _convolution(s: Serializer, node: Node) -> None:
    _, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *_ = (
        s.constant(value) for value in node.inputs()
    )
    if weight is None:
        raise Refused("its weight is computed")
    if transposed and any(output_padding):
        raise Refused("a transposed convolution with output padding")
    if bias is None:
        bias = torch.zeros(weight.shape[0] if not transposed else weight.shape[1] * groups)
    window = Window(_pair(weight.shape[2:]), _pair(stride), _pair(padding), _pair(dilation))
    _convolve(s, node, weight, bias, window, groups, transposed=transposed, changes={}, fused=FUSED.FUSED_NONE)


def _conv2d(s: Serializer, node: Node) -> None:
    _, weight, bias, stride, padding, dilation, groups = (s.constant(value) for value in node.inputs())
    if weight is None or isinstance(padding, str):
        raise Refused("its weight is computed" if weight is None else f"padding {padding!r}")
    bias = torch.zeros(weight.shape[0]) if bias is None else bias
    window = Window(_pair(weight.shape[2:]), _pair(stride), _pair(padding), _pair(dilation))
    _convolve(s, node, weight, bias, window, groups, transposed=False, changes={}, fused=FUSED.FUSED_NONE)


def _quantized_convolution(fused: int) -> Converter:
    def convert(s: Serializer, node: Node) -> None:
        weight, bias, config = packed(s.constant(node.inputsAt(1)))
        # Torch's format 2: dimensions; pairs for stride, padding, dilation, output padding; groups; transposed.
        assert config is not None
        stride, padding, dilation, output_padding = (_pair(config[at : at + 2]) for at in (1, 3, 5, 7))
        groups, transposed = config[9], bool(config[10])
        if any(output_padding):
            raise Refused("a transposed convolution with output padding")
        window = Window(_pair(weight.shape[2:]), stride, padding, dilation)
        image = s.tensor(node.inputsAt(0))[1]
        weight, bias, changes = _quantized(s, node, image, weight, bias)
        _convolve(s, node, weight, bias, window, groups, transposed=transposed, changes=changes, fused=fused)

    return convert


def _quantized(
    s: Serializer, node: Node, image: Operand, weight: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """Return the weight as unsigned bytes, the bias in units of input scale times weight scale, and the output's
    parameters."""
    if weight.qscheme() != torch.per_tensor_affine:
        raise Refused("weights with a scale per channel: PyTorch's loader hands NNAPI one scale for each tensor")
    scale, zero_point = s.constant(node.inputsAt(2)), s.constant(node.inputsAt(3))
    if scale is None or zero_point is None:
        raise Refused("its scale or zero point is computed")
    if weight.dtype == torch.qint8:
        weight = torch._make_per_tensor_quantized_tensor(
            (weight.int_repr().int() + 128).to(torch.uint8), weight.q_scale(), weight.q_zero_point() + 128
        )
    if bias is None:
        bias = torch.zeros(weight.shape[0])
    bias = torch.quantize_per_tensor(bias, image.scale * weight.q_scale(), 0, torch.qint32)
    return weight, bias, {"scale": scale, "zero_point": zero_point}


def _convolve(
    s: Serializer,
    node: Node,
    weight: torch.Tensor,
    bias: torch.Tensor,
    window: Window,
    groups: int,
    *,
    transposed: bool,
    changes: dict[str, Any],
    fused: int,
) -> None:
    number, image = s.tensor(node.inputsAt(0))
    sizes = output_sizes(node)
    if len(sizes) != 4:
        raise Refused(f"a convolution over {len(sizes) - 2} dimensions")
    dilated = window.dilation != (1, 1)
    depthwise = groups > 1 and groups == image.shape[1]
    if dilated and (transposed or (groups > 1 and not depthwise)):
        raise Refused("a dilated convolution that is grouped or transposed")
    if transposed and groups > 1:
        raise Refused("a grouped transposed convolution")
    extra: list[int] = []
    if transposed:
        code, order = CODE.TRANSPOSE_CONV_2D, (1, 2, 3, 0)
    elif depthwise:
        code, order, extra = CODE.DEPTHWISE_CONV_2D, (1, 2, 3, 0), s.integers(weight.shape[0] // groups)
    elif groups > 1:
        code, order, extra = CODE.GROUPED_CONV_2D, (0, 2, 3, 1), s.integers(groups)
    else:
        code, order = CODE.CONV_2D, (0, 2, 3, 1)
    inputs = [number, s.weight(weight.permute(order).contiguous())[0], s.weight(bias)[0]]
    inputs += window.explicit(s, after=window.padding) + extra + s.integers(fused)
    inputs.append(s.add_immediate_bool_scalar(image.use_nchw()))
    if dilated:
        inputs += s.integers(window.dilation[1], window.dilation[0])
    s.emit(code, inputs, like(image, sizes, **changes), node.output())


def _linear(s: Serializer, node: Node) -> None:
    _, weight, bias = (s.constant(value) for value in node.inputs())
    fully_connected(s, node, node.inputsAt(0), weight, bias)


def _addmm(s: Serializer, node: Node) -> None:
    bias, _, weight, beta, alpha = (s.constant(value) for value in node.inputs())
    if weight is None or beta != 1 or alpha != 1:
        raise Refused("its weight is computed" if weight is None else "alpha or beta is not 1")
    fully_connected(s, node, node.inputsAt(1), weight.t().contiguous(), bias)


def fully_connected(
    s: Serializer, node: Node, features: Value, weight: torch.Tensor | None, bias: torch.Tensor | None
) -> None:
    if weight is None:
        raise Refused("its weight is computed")
    bias = torch.zeros(weight.shape[0]) if bias is None else bias
    _connect(s, node, s.tensor(features, NCHW), weight, bias, {}, FUSED.FUSED_NONE)


def _quantized_linear(fused: int) -> Converter:
    def convert(s: Serializer, node: Node) -> None:
        features = s.tensor(node.inputsAt(0), NCHW)
        weight, bias, _ = packed(s.constant(node.inputsAt(1)))
        weight, bias, changes = _quantized(s, node, features[1], weight, bias)
        _connect(s, node, features, weight, bias, changes, fused)

    return convert


def _connect(
    s: Serializer,
    node: Node,
    features: Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    changes: dict[str, Any],
    fused: int,
) -> None:
    number, operand = features
    if len(operand.shape) < 2:
        raise Refused("a linear layer on a tensor of one dimension; NNAPI takes two or more")
    output = like(operand, output_sizes(node), **changes)
    inputs = [number, s.weight(weight.contiguous())[0], s.weight(bias)[0], *s.integers(fused)]
    if len(output.shape) == 2:
        s.emit(CODE.FULLY_CONNECTED, inputs, output, node.output())
        return
    # NNAPI's input may have more dimensions, its output has always two.
    rows = 1
    for size in output_sizes(node)[1:-1]:
        rows *= size
    flat = s.emit_rows(CODE.FULLY_CONNECTED, inputs, output, rows)
    s.reshape((flat, output), output, node.output())


def _max_pool(s: Serializer, node: Node) -> None:
    _, kernel, stride, padding, dilation, _ = (s.constant(value) for value in node.inputs())
    window = Window(_pair(kernel), _pair(stride or kernel), _pair(padding), _pair(dilation))
    if window.dilation != (1, 1):
        raise Refused("dilated pooling")
    _pool(s, node, CODE.MAX_POOL_2D, window)


def _avg_pool(s: Serializer, node: Node) -> None:
    _, kernel, stride, padding, _, counts_padding, divisor = (s.constant(value) for value in node.inputs())
    if divisor:
        raise Refused("average pooling with divisor_override")
    if counts_padding and any(padding):
        raise Refused("average pooling that counts its padding; NNAPI leaves padding out (count_include_pad=False)")
    _pool(s, node, CODE.AVERAGE_POOL_2D, Window(_pair(kernel), _pair(stride or kernel), _pair(padding), (1, 1)))


def _adaptive_avg_pool(s: Serializer, node: Node) -> None:
    size, output = s.tensor(node.inputsAt(0))[1].shape[2:], output_sizes(node)[2:]
    if size[0] % output[0] or size[1] % output[1]:
        raise Refused(
            f"adaptive pooling from {size[0]}x{size[1]} to {output[0]}x{output[1]}, which is no even division"
        )
    step = size[0] // output[0], size[1] // output[1]
    _pool(s, node, CODE.AVERAGE_POOL_2D, Window(step, step, (0, 0), (1, 1)))


def _pool(s: Serializer, node: Node, code: int, window: Window) -> None:
    number, image = s.tensor(node.inputsAt(0))
    sizes = output_sizes(node)
    if len(sizes) != 4:
        raise Refused("pooling of a tensor without batch")
    # In ceil mode the last window exceeds the padding. NNAPI rounds down, so the padding is enlarged.
    after = [
        max(pad, (output - 1) * stride + kernel - size - pad)
        for pad, output, stride, kernel, size in zip(
            window.padding, sizes[2:], window.stride, window.kernel, image.shape[2:], strict=True
        )
    ]
    inputs = [number, *window.explicit(s, after=_pair(after)), *s.integers(window.kernel[1], window.kernel[0])]
    inputs += [*s.integers(FUSED.FUSED_NONE), s.add_immediate_bool_scalar(image.use_nchw())]
    s.emit(code, inputs, like(image, sizes), node.output())


WINDOWS: dict[str, Converter] = {
    "aten::_convolution": _convolution,
    "aten::conv2d": _conv2d,
    "quantized::conv2d": _quantized_convolution(FUSED.FUSED_NONE),
    "quantized::conv2d_relu": _quantized_convolution(FUSED.FUSED_RELU),
    "quantized::conv_transpose2d": _quantized_convolution(FUSED.FUSED_NONE),
    "aten::linear": _linear,
    "aten::addmm": _addmm,
    "quantized::linear": _quantized_linear(FUSED.FUSED_NONE),
    "quantized::linear_relu": _quantized_linear(FUSED.FUSED_RELU),
    "aten::max_pool2d": _max_pool,
    "aten::avg_pool2d": _avg_pool,
    "aten::adaptive_avg_pool2d": _adaptive_avg_pool,
}
