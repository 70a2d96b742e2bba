# mypy: allow-untyped-calls
"""Arithmetic, activations, and conversions between float and 8 bits, for NNAPI."""

from typing import Any

import torch
from torch._C import Node, Value

from workers.runtimes.torchscript.nnapi.serializer import (
    CODE,
    FLOAT32,
    FUSED,
    NCHW,
    NHWC,
    PROBABILITY_STEP,
    QUANT8,
    Converter,
    Refused,
    Serializer,
    Tensor,
    output_sizes,
)

_HARD_SWISH = 99
"""The code of an operation that torch's list lacks."""
_QUINT8 = 13
"""The number of torch.quint8 in a graph (c10::ScalarType)."""


def _unary(code: int, **quantized: Any) -> Converter:
    """Return the converter of an operation with one input. `quantized`: the quantization parameters that NNAPI
    prescribes for an 8-bit output."""

    def convert(s: Serializer, node: Node) -> None:
        number, operand = s.tensor(node.inputsAt(0))
        output = operand._replace(**quantized) if operand.op_type == QUANT8 else operand
        s.emit(code, [number], output, node.output())

    return convert


def _binary(code: int, fused: int = FUSED.FUSED_NONE) -> Converter:
    def convert(s: Serializer, node: Node) -> None:
        if node.inputsSize() > 2 and s.constant(node.inputsAt(2)) != 1:
            raise Refused("alpha is not 1")
        left, right = _aligned(s, node)
        if left[1].op_type != FLOAT32 or right[1].op_type != FLOAT32:
            raise Refused("arithmetic on 8-bit tensors outside torch.ops.quantized")
        s.combine(code, left, right, fused, node.output())

    return convert


def _quantized_binary(code: int, fused: int = FUSED.FUSED_NONE) -> Converter:
    def convert(s: Serializer, node: Node) -> None:
        if node.inputsSize() != 4:
            raise Refused("8-bit arithmetic with a number")
        left, right = _aligned(s, node)
        scale, zero_point = s.constant(node.inputsAt(2)), s.constant(node.inputsAt(3))
        if code == CODE.MUL and scale <= left[1].scale * right[1].scale:
            raise Refused("its scale is not above the product of its inputs' scales, as NNAPI requires")
        s.combine(code, left, right, fused, node.output(), scale=scale, zero_point=zero_point)

    return convert


def _aligned(s: Serializer, node: Node) -> tuple[Tensor, Tensor]:
    """Return both inputs with the same number of dimensions and the same layout."""
    values = node.inputsAt(0), node.inputsAt(1)
    rank = len(output_sizes(node))
    computed = [s.tensor(value)[1] for value in values if s.constant(value) is None]
    layouts = {operand.dim_order for operand in computed if len(operand.shape) == 4}
    order = NHWC if NHWC in layouts and rank == 4 else NCHW
    left, right = (_of_rank(s, value, rank, order) for value in values)
    return left, right


def _of_rank(s: Serializer, value: Value, rank: int, order: Any) -> Tensor:
    constant = s.constant(value)
    if constant is not None:
        tensor = constant if isinstance(constant, torch.Tensor) else torch.tensor(float(constant))
        return s.weight(tensor.reshape((1,) * (rank - tensor.ndim) + tuple(tensor.shape)), order)
    source, view = s.view(value)
    missing = rank - len(view.dimensions)
    return s.tensor(value, order) if not missing else s.as_operand(source, view.widened(missing), order)


def _hardtanh(s: Serializer, node: Node) -> None:
    bounds = s.constant(node.inputsAt(1)), s.constant(node.inputsAt(2))
    codes = {(-1, 1): CODE.RELU1, (0, 6): CODE.RELU6}
    if bounds not in codes:
        raise Refused(f"hardtanh from {bounds[0]} to {bounds[1]}; NNAPI has -1 to 1 and 0 to 6")
    _unary(codes[bounds])(s, node)


def _hardsigmoid(s: Serializer, node: Node) -> None:
    """Convert to relu6(x + 3) / 6. Also in 8 bits: a step of 1/256 is 6/256 before the division, so no precision is
    lost."""
    operand = s.tensor(node.inputsAt(0))
    shifted = _shifted_relu6(s, operand, 6 * PROBABILITY_STEP)
    sixth = s.number(1 / 6, shifted[1])
    s.combine(CODE.MUL, shifted, sixth, value=node.output(), scale=PROBABILITY_STEP, zero_point=0)


def _hardswish(s: Serializer, node: Node) -> None:
    """Convert to x relu6(x + 3) / 6. Floats use operations that every phone has, 8 bits use HARD_SWISH (feature level
    4).

    In 8 bits the three operations round three times: then 91 to 99 % of a small network's logits equal those of the x86
    engine, with HARD_SWISH 99.7 to 100 %.
    """
    operand = s.tensor(node.inputsAt(0))
    if operand[1].op_type == QUANT8:
        output = operand[1]._replace(scale=s.constant(node.inputsAt(1)), zero_point=s.constant(node.inputsAt(2)))
        s.emit(_HARD_SWISH, [operand[0]], output, node.output())
        return
    product = s.combine(CODE.MUL, operand, _shifted_relu6(s, operand, 0.0))
    s.combine(CODE.MUL, product, s.number(1 / 6, product[1]), value=node.output())


def _shifted_relu6(s: Serializer, operand: Tensor, scale: float) -> Tensor:
    three = s.number(3.0, operand[1])
    return s.combine(CODE.ADD, operand, three, FUSED.FUSED_RELU6, scale=scale, zero_point=0)


def _gelu(s: Serializer, node: Node) -> None:
    """Convert to relu(x) - |x| erfc(|x| / sqrt 2) / 2, with erfc by 7.1.26 of Abramowitz and Stegun: the error is at
    most 5e-7."""
    x = s.tensor(node.inputsAt(0))
    if s.constant(node.inputsAt(1)) == "tanh":
        cube = s.times(s.times(x, x), x)
        inner = s.times(s.combine(CODE.ADD, x, s.times(cube, 0.044715)), (2 / torch.pi) ** 0.5)
        s.combine(CODE.MUL, s.times(x, 0.5), s.plus(s.apply(CODE.TANH, inner), 1.0), value=node.output())
        return
    size = s.apply(CODE.ABS, x)
    t = s.combine(CODE.DIV, s.number(1.0, x[1]), s.plus(s.times(size, 0.3275911 / 2**0.5), 1.0))
    sum_ = s.times(t, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        sum_ = s.times(s.plus(sum_, coefficient), t)
    bell = s.apply(CODE.EXP, s.times(s.times(x, x), -0.5))
    tail = s.times(s.times(s.times(sum_, bell), size), 0.5)
    s.combine(CODE.SUB, s.apply(CODE.RELU, x), tail, value=node.output())


def _prelu(s: Serializer, node: Node) -> None:
    """Convert a PReLU with one slope, or one for each channel. Only on floats: quantization keeps PReLU float (see
    `has_wrong_kernel`)."""
    number, operand = s.tensor(node.inputsAt(0))
    slope = s.constant(node.inputsAt(1))
    if slope is None:
        raise Refused("its slope is computed")
    shape = [1] * len(operand.shape)
    shape[min(1, len(shape) - 1)] = -1
    s.emit(CODE.PRELU, [number, s.weight(slope.reshape(shape), operand.dim_order)[0]], operand, node.output())


def _quantize(s: Serializer, node: Node) -> None:
    number, operand = s.tensor(node.inputsAt(0))
    scale, zero_point, dtype = (s.constant(node.inputsAt(at)) for at in (1, 2, 3))
    if scale is None or zero_point is None or dtype != _QUINT8:
        raise Refused("quantization with computed parameters, or to another type than quint8")
    output = operand._replace(op_type=QUANT8, scale=float(scale), zero_point=int(zero_point))
    s.emit(CODE.QUANTIZE, [number], output, node.output())


def _dequantize(s: Serializer, node: Node) -> None:
    s.floats(s.tensor(node.inputsAt(0)), node.output())


ELEMENTS: dict[str, Converter] = {
    "aten::relu": _unary(CODE.RELU),
    "aten::hardtanh": _hardtanh,
    "aten::relu6": _unary(CODE.RELU6),
    "aten::sigmoid": _unary(CODE.LOGISTIC, scale=PROBABILITY_STEP, zero_point=0),
    "aten::tanh": _unary(CODE.TANH, scale=2 * PROBABILITY_STEP, zero_point=128),
    "aten::hardsigmoid": _hardsigmoid,
    "aten::hardswish": _hardswish,
    "quantized::hardswish": _hardswish,
    "aten::gelu": _gelu,
    "aten::prelu": _prelu,
    "aten::add": _binary(CODE.ADD),
    "aten::sub": _binary(CODE.SUB),
    "aten::mul": _binary(CODE.MUL),
    "aten::div": _binary(CODE.DIV),
    "quantized::add": _quantized_binary(CODE.ADD),
    "quantized::add_relu": _quantized_binary(CODE.ADD, FUSED.FUSED_RELU),
    "quantized::mul": _quantized_binary(CODE.MUL),
    "quantized::mul_relu": _quantized_binary(CODE.MUL, FUSED.FUSED_RELU),
    "aten::quantize_per_tensor": _quantize,
    "aten::dequantize": _dequantize,
}
