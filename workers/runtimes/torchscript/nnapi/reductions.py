# mypy: allow-untyped-calls
"""Means, normalization, softmax, matrix products and attention, for NNAPI."""

from collections.abc import Sequence

import torch
from torch._C import Node

from workers.runtimes.torchscript.nnapi.serializer import (
    CODE,
    NCHW,
    NHWC,
    PROBABILITY_STEP,
    QUANT8,
    Converter,
    Refused,
    Serializer,
    Tensor,
    axis_of,
    like,
    output_sizes,
)
from workers.runtimes.torchscript.nnapi.windows import fully_connected

_BATCH_MATMUL = 102
"""The code of an operation that torch's list lacks."""


def _mean(s: Serializer, node: Node) -> None:
    _, *how, dtype = (s.constant(value) for value in node.inputs())
    dimensions, keeps = how or (None, False)  # torch.mean(x) takes neither
    if dtype is not None:
        raise Refused("mean in another type")
    number, operand = s.tensor(node.inputsAt(0))
    rank = len(operand.shape)
    collapsed = {dimension % rank for dimension in dimensions or range(rank)}
    if len(collapsed) == rank and not keeps:
        raise Refused("a mean over all dimensions; an NNAPI tensor has at least one")
    if operand.dim_order is NHWC and not keeps and not collapsed >= {2, 3}:
        number, operand = s.tensor(node.inputsAt(0), NCHW)  # the remaining dimensions would have another order
    shape = tuple(
        1 if at in collapsed else size for at, size in enumerate(operand.shape) if keeps or at not in collapsed
    )
    output = operand._replace(shape=shape, dim_order=operand.dim_order if keeps else NCHW)
    axes = s.add_immediate_int_vector(sorted(axis_of(operand, dimension) for dimension in collapsed))
    s.emit(CODE.MEAN, [number, axes, *s.integers(int(keeps))], output, node.output())


def _batch_norm(s: Serializer, node: Node) -> None:
    _, weight, bias, mean, variance, training, _, eps, _ = (s.constant(value) for value in node.inputs())
    if training or mean is None:
        raise Refused("batch norm in training mode")
    number, operand = s.tensor(node.inputsAt(0))
    factor = (variance + eps).rsqrt() * (1.0 if weight is None else weight)
    shift = (0.0 if bias is None else bias) - mean * factor
    shape = (1, -1) + (1,) * (len(operand.shape) - 2)
    order = operand.dim_order
    scaled = s.combine(CODE.MUL, (number, operand), s.weight(factor.reshape(shape), order))
    s.combine(CODE.ADD, scaled, s.weight(shift.reshape(shape), order), value=node.output())


def _layer_norm(s: Serializer, node: Node) -> None:
    _, shape, weight, bias, eps, _ = (s.constant(value) for value in node.inputs())
    s.name(node.output(), _normalized(s, s.tensor(node.inputsAt(0), NCHW), shape, weight, bias, eps))


def _quantized_layer_norm(s: Serializer, node: Node) -> None:
    """Compute a quantized layer norm in floats, between DEQUANTIZE and QUANTIZE, as PyTorch's kernel does."""
    _, shape, weight, bias, eps, scale, zero_point = (s.constant(value) for value in node.inputs())
    x = s.tensor(node.inputsAt(0), NCHW)
    output, _ = _normalized(s, s.floats(x), shape, weight, bias, eps)
    s.emit(CODE.QUANTIZE, [output], x[1]._replace(scale=scale, zero_point=zero_point), node.output())


def _normalized(
    s: Serializer,
    x: Tensor,
    shape: Sequence[int],
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> Tensor:
    rank = len(x[1].shape)
    axes = list(range(rank - len(shape), rank))
    centered = s.combine(CODE.SUB, x, s.mean(x, axes))
    variance = s.mean(s.times(centered, centered), axes)
    output = s.times(centered, s.apply(CODE.RSQRT, s.plus(variance, eps)))
    for code, parameter in ((CODE.MUL, weight), (CODE.ADD, bias)):
        if parameter is not None:
            wide = parameter.reshape((1,) * (rank - len(shape)) + tuple(shape))
            output = s.combine(code, output, s.weight(wide))
    return output


def _softmax(s: Serializer, node: Node) -> None:
    number, operand = s.tensor(node.inputsAt(0))
    axis = axis_of(operand, s.constant(node.inputsAt(1)))
    output = operand._replace(scale=PROBABILITY_STEP, zero_point=0) if operand.op_type == QUANT8 else operand
    inputs = [number, s.add_immediate_float_scalar(1.0), *s.integers(axis)]
    s.emit(CODE.SOFTMAX, inputs, output, node.output())


def _log_softmax(s: Serializer, node: Node) -> None:
    number, operand = s.tensor(node.inputsAt(0))
    axis = axis_of(operand, s.constant(node.inputsAt(1)))
    s.emit(CODE.LOG_SOFTMAX, [number, s.add_immediate_float_scalar(1.0), *s.integers(axis)], operand, node.output())


def _matmul(s: Serializer, node: Node) -> None:
    left, right = node.inputsAt(0), node.inputsAt(1)
    weight = s.constant(right)
    if weight is not None and weight.ndim == 2:
        fully_connected(s, node, left, weight.t().contiguous(), None)
        return
    s.name(node.output(), _product(s, s.tensor(left, NCHW), s.tensor(right, NCHW), output_sizes(node)))


def _product(s: Serializer, left: Tensor, right: Tensor, sizes: Sequence[int], *, transposed: bool = False) -> Tensor:
    """Return left @ right, or left @ right^T. BATCH_MATMUL needs feature level 6, and supports no unsigned 8-bit
    tensors."""
    if len(left[1].shape) != len(right[1].shape) or left[1].shape[:-2] != right[1].shape[:-2]:
        raise Refused("a product of matrices whose batches differ")
    if QUANT8 in (left[1].op_type, right[1].op_type):
        raise Refused("a product of 8-bit matrices")
    output = like(left[1], sizes)
    inputs = [left[0], right[0], s.add_immediate_bool_scalar(False), s.add_immediate_bool_scalar(transposed)]
    return s.emit(_BATCH_MATMUL, inputs, output), output


def _attention(s: Serializer, node: Node) -> None:
    mask, dropout, causal, scale = (s.constant(node.inputsAt(at)) for at in (3, 4, 5, 6))
    if mask is not None or dropout or causal:
        raise Refused("attention with a mask or dropout")
    query, key, value = (s.tensor(node.inputsAt(at), NCHW) for at in range(3))
    scale = query[1].shape[-1] ** -0.5 if scale is None else scale
    scores = _product(s, s.times(query, scale), key, (*query[1].shape[:-1], key[1].shape[-2]), transposed=True)
    inputs = [scores[0], s.add_immediate_float_scalar(1.0), *s.integers(len(scores[1].shape) - 1)]
    weights = s.emit(CODE.SOFTMAX, inputs, scores[1]), scores[1]
    s.name(node.output(), _product(s, weights, value, output_sizes(node)))


REDUCTIONS: dict[str, Converter] = {
    "aten::mean": _mean,
    "aten::batch_norm": _batch_norm,
    "aten::layer_norm": _layer_norm,
    "quantized::layer_norm": _quantized_layer_norm,
    "aten::softmax": _softmax,
    "aten::log_softmax": _log_softmax,
    "aten::matmul": _matmul,
    "aten::bmm": _matmul,
    "aten::scaled_dot_product_attention": _attention,
}
