# mypy: allow-untyped-calls
"""How each operator of a traced graph becomes NNAPI operations. `CONVERTERS` is the list of what is known.

Every converter takes the serializer and the node. It raises `Refused`, or anything else, where the operator can not
be converted as it is used; the serializer names both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._C import Node, Value
from torch.backends._nnapi.serializer import NNAPI_FuseCode, NNAPI_OperationCode, Operand

from workers.runtimes.torchscript.nnapi_coverage import packed, sizes_of
from workers.runtimes.torchscript.nnapi_serializer import (
    FLOAT32,
    NCHW,
    NHWC,
    QUANT8,
    Converter,
    Refused,
    Serializer,
    Tensor,
)

_CODE, _FUSED = NNAPI_OperationCode, NNAPI_FuseCode
_HARD_SWISH, _BATCH_MATMUL = 99, 102
"""Operations that torch's list does not know."""
_PROBABILITY_STEP = 1 / 256
"""Scale of quantized sigmoid, hardsigmoid and softmax, in PyTorch as in NNAPI."""


def _sizes(node: Node) -> list[int]:
    return _traced_sizes(node.output())


def _traced_sizes(value: Value) -> list[int]:
    sizes = sizes_of(value)
    if sizes is None:
        raise Refused("a shape is not in the trace")
    return sizes


def _like(operand: Operand, sizes: Sequence[int], **changes: Any) -> Operand:
    """`operand` in the traced shape `sizes`, its batch as flexible as before."""
    return operand._replace(shape=(operand.shape[0], *sizes[1:]), **changes)


# Convolutions and linears


@dataclass(frozen=True, slots=True)
class _Window:
    """Kernel, stride, padding and dilation of a convolution or pooling, each (height, width)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    def explicit(self, s: Serializer, after: tuple[int, int]) -> list[int]:
        """NNAPI's operands: padding left, right, top, bottom, then stride horizontal, vertical."""
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
    window = _Window(_pair(weight.shape[2:]), _pair(stride), _pair(padding), _pair(dilation))
    _convolve(s, node, weight, bias, window, groups, transposed=transposed, changes={}, fused=_FUSED.FUSED_NONE)


def _conv2d(s: Serializer, node: Node) -> None:
    _, weight, bias, stride, padding, dilation, groups = (s.constant(value) for value in node.inputs())
    if weight is None or isinstance(padding, str):
        raise Refused("its weight is computed" if weight is None else f"padding {padding!r}")
    bias = torch.zeros(weight.shape[0]) if bias is None else bias
    window = _Window(_pair(weight.shape[2:]), _pair(stride), _pair(padding), _pair(dilation))
    _convolve(s, node, weight, bias, window, groups, transposed=False, changes={}, fused=_FUSED.FUSED_NONE)


def _quantized_convolution(fused: int) -> Converter:
    def convert(s: Serializer, node: Node) -> None:
        weight, bias, config = packed(s.constant(node.inputsAt(1)))
        # Torch's format 2: dimensions; stride, padding, dilation, output padding (a pair each); groups; transposed.
        assert config is not None
        stride, padding, dilation, output_padding = (_pair(config[at : at + 2]) for at in (1, 3, 5, 7))
        groups, transposed = config[9], bool(config[10])
        if any(output_padding):
            raise Refused("a transposed convolution with output padding")
        window = _Window(_pair(weight.shape[2:]), stride, padding, dilation)
        image = s.tensor(node.inputsAt(0))[1]
        weight, bias, changes = _quantized(s, node, image, weight, bias)
        _convolve(s, node, weight, bias, window, groups, transposed=transposed, changes=changes, fused=fused)

    return convert


def _quantized(
    s: Serializer, node: Node, image: Operand, weight: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """Weight as unsigned bytes, bias in units of input scale times weight scale, and the answer's parameters."""
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
    window: _Window,
    groups: int,
    *,
    transposed: bool,
    changes: dict[str, Any],
    fused: int,
) -> None:
    number, image = s.tensor(node.inputsAt(0))
    sizes = _sizes(node)
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
        code, order = _CODE.TRANSPOSE_CONV_2D, (1, 2, 3, 0)
    elif depthwise:
        code, order, extra = _CODE.DEPTHWISE_CONV_2D, (1, 2, 3, 0), s.integers(weight.shape[0] // groups)
    elif groups > 1:
        code, order, extra = _CODE.GROUPED_CONV_2D, (0, 2, 3, 1), s.integers(groups)
    else:
        code, order = _CODE.CONV_2D, (0, 2, 3, 1)
    inputs = [number, s.weight(weight.permute(order).contiguous())[0], s.weight(bias)[0]]
    inputs += window.explicit(s, after=window.padding) + extra + s.integers(fused)
    inputs.append(s.add_immediate_bool_scalar(image.use_nchw()))
    if dilated:
        inputs += s.integers(window.dilation[1], window.dilation[0])
    s.emit(code, inputs, _like(image, sizes, **changes), node.output())


def _linear(s: Serializer, node: Node) -> None:
    _, weight, bias = (s.constant(value) for value in node.inputs())
    _fully_connected(s, node, node.inputsAt(0), weight, bias)


def _addmm(s: Serializer, node: Node) -> None:
    bias, _, weight, beta, alpha = (s.constant(value) for value in node.inputs())
    if weight is None or beta != 1 or alpha != 1:
        raise Refused("its weight is computed" if weight is None else "alpha or beta is not 1")
    _fully_connected(s, node, node.inputsAt(1), weight.t().contiguous(), bias)


def _fully_connected(
    s: Serializer, node: Node, features: Value, weight: torch.Tensor | None, bias: torch.Tensor | None
) -> None:
    if weight is None:
        raise Refused("its weight is computed")
    bias = torch.zeros(weight.shape[0]) if bias is None else bias
    _connect(s, node, s.tensor(features, NCHW), weight, bias, {}, _FUSED.FUSED_NONE)


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
    answer = _like(operand, _sizes(node), **changes)
    inputs = [number, s.weight(weight.contiguous())[0], s.weight(bias)[0], *s.integers(fused)]
    if len(answer.shape) == 2:
        s.emit(_CODE.FULLY_CONNECTED, inputs, answer, node.output())
        return
    # NNAPI takes more dimensions, and answers two.
    rows = 1
    for size in _sizes(node)[1:-1]:
        rows *= size
    flat = s.emit_rows(_CODE.FULLY_CONNECTED, inputs, answer, rows)
    s.reshape((flat, answer), answer, node.output())


# Pooling


def _max_pool(s: Serializer, node: Node) -> None:
    _, kernel, stride, padding, dilation, _ = (s.constant(value) for value in node.inputs())
    window = _Window(_pair(kernel), _pair(stride or kernel), _pair(padding), _pair(dilation))
    if window.dilation != (1, 1):
        raise Refused("dilated pooling")
    _pool(s, node, _CODE.MAX_POOL_2D, window)


def _avg_pool(s: Serializer, node: Node) -> None:
    _, kernel, stride, padding, _, counts_padding, divisor = (s.constant(value) for value in node.inputs())
    if divisor:
        raise Refused("average pooling with a divisor of its own")
    if counts_padding and any(padding):
        raise Refused("average pooling that counts its padding; NNAPI leaves padding out (count_include_pad=False)")
    _pool(s, node, _CODE.AVERAGE_POOL_2D, _Window(_pair(kernel), _pair(stride or kernel), _pair(padding), (1, 1)))


def _adaptive_avg_pool(s: Serializer, node: Node) -> None:
    size, answer = s.tensor(node.inputsAt(0))[1].shape[2:], _sizes(node)[2:]
    if size[0] % answer[0] or size[1] % answer[1]:
        raise Refused(
            f"adaptive pooling from {size[0]}x{size[1]} to {answer[0]}x{answer[1]}, which is no even division"
        )
    step = size[0] // answer[0], size[1] // answer[1]
    _pool(s, node, _CODE.AVERAGE_POOL_2D, _Window(step, step, (0, 0), (1, 1)))


def _pool(s: Serializer, node: Node, code: int, window: _Window) -> None:
    number, image = s.tensor(node.inputsAt(0))
    sizes = _sizes(node)
    if len(sizes) != 4:
        raise Refused("pooling of a tensor without batch")
    # In ceil mode the last window reaches beyond the padding: NNAPI, which rounds down, gets that as padding.
    after = [
        max(pad, (answer - 1) * stride + kernel - size - pad)
        for pad, answer, stride, kernel, size in zip(
            window.padding, sizes[2:], window.stride, window.kernel, image.shape[2:], strict=True
        )
    ]
    inputs = [number, *window.explicit(s, after=_pair(after)), *s.integers(window.kernel[1], window.kernel[0])]
    inputs += [*s.integers(_FUSED.FUSED_NONE), s.add_immediate_bool_scalar(image.use_nchw())]
    s.emit(code, inputs, _like(image, sizes), node.output())


def _mean(s: Serializer, node: Node) -> None:
    _, dimensions, keeps, dtype = (s.constant(value) for value in node.inputs())
    if dtype is not None:
        raise Refused("mean in another type")
    number, operand = s.tensor(node.inputsAt(0))
    rank = len(operand.shape)
    collapsed = {dimension % rank for dimension in (range(rank) if dimensions is None else dimensions)}
    if 0 in collapsed:
        raise Refused("mean over the batch")
    if operand.dim_order is NHWC and not keeps and not collapsed >= {2, 3}:
        number, operand = s.tensor(node.inputsAt(0), NCHW)  # what is left would lie in another order
    answer = _like(operand, _sizes(node), dim_order=operand.dim_order if keeps else NCHW)
    axes = s.add_immediate_int_vector(sorted(_axis(operand, dimension) for dimension in collapsed))
    s.emit(_CODE.MEAN, [number, axes, *s.integers(int(keeps))], answer, node.output())


def _axis(operand: Operand, dimension: int) -> int:
    """PyTorch's dimension as NNAPI counts it."""
    dimension %= len(operand.shape)
    return (0, 3, 1, 2)[dimension] if operand.dim_order is NHWC else dimension


# Element by element


def _unary(code: int, **quantized: Any) -> Converter:
    """`quantized` are the parameters that NNAPI fixes for the answer in 8 bits."""

    def convert(s: Serializer, node: Node) -> None:
        number, operand = s.tensor(node.inputsAt(0))
        answer = operand._replace(**quantized) if operand.op_type == QUANT8 else operand
        s.emit(code, [number], answer, node.output())

    return convert


def _binary(code: int, fused: int = _FUSED.FUSED_NONE) -> Converter:
    def convert(s: Serializer, node: Node) -> None:
        if node.inputsSize() > 2 and s.constant(node.inputsAt(2)) != 1:
            raise Refused("alpha is not 1")
        left, right = _aligned(s, node)
        if left[1].op_type != FLOAT32 or right[1].op_type != FLOAT32:
            raise Refused("arithmetic on 8-bit tensors outside torch.ops.quantized")
        s.combine(code, left, right, fused, node.output())

    return convert


def _quantized_binary(code: int, fused: int = _FUSED.FUSED_NONE) -> Converter:
    def convert(s: Serializer, node: Node) -> None:
        if node.inputsSize() != 4:
            raise Refused("8-bit arithmetic with a number")
        left, right = _aligned(s, node)
        scale, zero_point = s.constant(node.inputsAt(2)), s.constant(node.inputsAt(3))
        if code == _CODE.MUL and scale <= left[1].scale * right[1].scale:
            raise Refused("its scale is not above the product of its inputs' scales, which NNAPI asks for")
        s.combine(code, left, right, fused, node.output(), scale=scale, zero_point=zero_point)

    return convert


def _aligned(s: Serializer, node: Node) -> tuple[Tensor, Tensor]:
    """Both inputs with as many dimensions, in one layout."""
    values = node.inputsAt(0), node.inputsAt(1)
    rank = len(_sizes(node))
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
    return s.tensor(value, order) if not missing else s.seen(source, view.widened(missing), order)


def _hardtanh(s: Serializer, node: Node) -> None:
    bounds = s.constant(node.inputsAt(1)), s.constant(node.inputsAt(2))
    codes = {(-1, 1): _CODE.RELU1, (0, 6): _CODE.RELU6}
    if bounds not in codes:
        raise Refused(f"hardtanh from {bounds[0]} to {bounds[1]}; NNAPI has -1 to 1 and 0 to 6")
    _unary(codes[bounds])(s, node)


def _hardsigmoid(s: Serializer, node: Node) -> None:
    """relu6(x + 3) / 6. In 8 bits too: 1/256 of the answer is 6/256 before the division, so nothing is lost."""
    operand = s.tensor(node.inputsAt(0))
    shifted = _shifted_relu6(s, operand, 6 * _PROBABILITY_STEP)
    sixth = s.number(1 / 6, shifted[1])
    s.combine(_CODE.MUL, shifted, sixth, value=node.output(), scale=_PROBABILITY_STEP, zero_point=0)


def _hardswish(s: Serializer, node: Node) -> None:
    """x relu6(x + 3) / 6: for floats of operations that every phone has, in 8 bits HARD_SWISH (feature level 4).

    In 8 bits the three operations round three times: 91 to 99 % of a small network's logits are those of the x86
    engine then, and 99.7 to 100 % with HARD_SWISH.
    """
    operand = s.tensor(node.inputsAt(0))
    if operand[1].op_type == QUANT8:
        answer = operand[1]._replace(scale=s.constant(node.inputsAt(1)), zero_point=s.constant(node.inputsAt(2)))
        s.emit(_HARD_SWISH, [operand[0]], answer, node.output())
        return
    product = s.combine(_CODE.MUL, operand, _shifted_relu6(s, operand, 0.0))
    s.combine(_CODE.MUL, product, s.number(1 / 6, product[1]), value=node.output())


def _shifted_relu6(s: Serializer, operand: Tensor, scale: float) -> Tensor:
    three = s.number(3.0, operand[1])
    return s.combine(_CODE.ADD, operand, three, _FUSED.FUSED_RELU6, scale=scale, zero_point=0)


def _gelu(s: Serializer, node: Node) -> None:
    """relu(x) - |x| erfc(|x| / sqrt 2) / 2, where erfc is 7.1.26 of Abramowitz and Stegun: within 5e-7 of exact."""
    x = s.tensor(node.inputsAt(0))
    if s.constant(node.inputsAt(1)) == "tanh":
        cube = s.times(s.times(x, x), x)
        inner = s.times(s.combine(_CODE.ADD, x, s.times(cube, 0.044715)), (2 / torch.pi) ** 0.5)
        s.combine(_CODE.MUL, s.times(x, 0.5), s.plus(s.apply(_CODE.TANH, inner), 1.0), value=node.output())
        return
    size = s.apply(_CODE.ABS, x)
    t = s.combine(_CODE.DIV, s.number(1.0, x[1]), s.plus(s.times(size, 0.3275911 / 2**0.5), 1.0))
    sum_ = s.times(t, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        sum_ = s.times(s.plus(sum_, coefficient), t)
    bell = s.apply(_CODE.EXP, s.times(s.times(x, x), -0.5))
    tail = s.times(s.times(s.times(sum_, bell), size), 0.5)
    s.combine(_CODE.SUB, s.apply(_CODE.RELU, x), tail, value=node.output())


def _quantize(s: Serializer, node: Node) -> None:
    number, operand = s.tensor(node.inputsAt(0))
    scale, zero_point, dtype = (s.constant(node.inputsAt(at)) for at in (1, 2, 3))
    if scale is None or zero_point is None or dtype != _QUINT8:
        raise Refused("quantization with computed parameters, or to another type than quint8")
    answer = operand._replace(op_type=QUANT8, scale=float(scale), zero_point=int(zero_point))
    s.emit(_CODE.QUANTIZE, [number], answer, node.output())


_QUINT8 = 13
"""torch.quint8 in a graph (c10::ScalarType)."""


def _dequantize(s: Serializer, node: Node) -> None:
    _floats(s, s.tensor(node.inputsAt(0)), node.output())


def _floats(s: Serializer, x: Tensor, value: Value | None = None) -> Tensor:
    answer = x[1]._replace(op_type=FLOAT32, scale=0.0, zero_point=0)
    return s.emit(_CODE.DEQUANTIZE, [x[0]], answer, value), answer


# Normalization, attention


def _batch_norm(s: Serializer, node: Node) -> None:
    _, weight, bias, mean, variance, training, _, eps, _ = (s.constant(value) for value in node.inputs())
    if training or mean is None:
        raise Refused("batch norm in training mode")
    number, operand = s.tensor(node.inputsAt(0))
    factor = (variance + eps).rsqrt() * (1.0 if weight is None else weight)
    shift = (0.0 if bias is None else bias) - mean * factor
    shape = (1, -1) + (1,) * (len(operand.shape) - 2)
    order = operand.dim_order
    scaled = s.combine(_CODE.MUL, (number, operand), s.weight(factor.reshape(shape), order))
    s.combine(_CODE.ADD, scaled, s.weight(shift.reshape(shape), order), value=node.output())


def _layer_norm(s: Serializer, node: Node) -> None:
    _, shape, weight, bias, eps, _ = (s.constant(value) for value in node.inputs())
    s.name(node.output(), _normalized(s, s.tensor(node.inputsAt(0), NCHW), shape, weight, bias, eps))


def _quantized_layer_norm(s: Serializer, node: Node) -> None:
    """In floats, between DEQUANTIZE and QUANTIZE, as PyTorch's own computes it."""
    _, shape, weight, bias, eps, scale, zero_point = (s.constant(value) for value in node.inputs())
    x = s.tensor(node.inputsAt(0), NCHW)
    answer, _ = _normalized(s, _floats(s, x), shape, weight, bias, eps)
    s.emit(_CODE.QUANTIZE, [answer], x[1]._replace(scale=scale, zero_point=zero_point), node.output())


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
    centered = s.combine(_CODE.SUB, x, s.mean(x, axes))
    variance = s.mean(s.times(centered, centered), axes)
    answer = s.times(centered, s.apply(_CODE.RSQRT, s.plus(variance, eps)))
    for code, parameter in ((_CODE.MUL, weight), (_CODE.ADD, bias)):
        if parameter is not None:
            wide = parameter.reshape((1,) * (rank - len(shape)) + tuple(shape))
            answer = s.combine(code, answer, s.weight(wide))
    return answer


def _softmax(s: Serializer, node: Node) -> None:
    number, operand = s.tensor(node.inputsAt(0))
    axis = _axis(operand, s.constant(node.inputsAt(1)))
    answer = operand._replace(scale=_PROBABILITY_STEP, zero_point=0) if operand.op_type == QUANT8 else operand
    inputs = [number, s.add_immediate_float_scalar(1.0), *s.integers(axis)]
    s.emit(_CODE.SOFTMAX, inputs, answer, node.output())


def _matmul(s: Serializer, node: Node) -> None:
    left, right = node.inputsAt(0), node.inputsAt(1)
    weight = s.constant(right)
    if weight is not None and weight.ndim == 2:
        _fully_connected(s, node, left, weight.t().contiguous(), None)
        return
    s.name(node.output(), _product(s, s.tensor(left, NCHW), s.tensor(right, NCHW), _sizes(node)))


def _product(s: Serializer, left: Tensor, right: Tensor, sizes: Sequence[int], *, transposed: bool = False) -> Tensor:
    """left @ right, or left @ right^T. BATCH_MATMUL is feature level 6, and knows no unsigned 8-bit tensors."""
    if len(left[1].shape) != len(right[1].shape) or left[1].shape[:-2] != right[1].shape[:-2]:
        raise Refused("a product of matrices whose batches differ")
    if QUANT8 in (left[1].op_type, right[1].op_type):
        raise Refused("a product of 8-bit matrices")
    answer = _like(left[1], sizes)
    inputs = [left[0], right[0], s.add_immediate_bool_scalar(False), s.add_immediate_bool_scalar(transposed)]
    return s.emit(_BATCH_MATMUL, inputs, answer), answer


def _attention(s: Serializer, node: Node) -> None:
    mask, dropout, causal, scale = (s.constant(node.inputsAt(at)) for at in (3, 4, 5, 6))
    if mask is not None or dropout or causal:
        raise Refused("attention with a mask or dropout")
    query, key, value = (s.tensor(node.inputsAt(at), NCHW) for at in range(3))
    scale = query[1].shape[-1] ** -0.5 if scale is None else scale
    scores = _product(s, s.times(query, scale), key, (*query[1].shape[:-1], key[1].shape[-2]), transposed=True)
    inputs = [scores[0], s.add_immediate_float_scalar(1.0), *s.integers(len(scores[1].shape) - 1)]
    weights = s.emit(_CODE.SOFTMAX, inputs, scores[1]), scores[1]
    s.name(node.output(), _product(s, weights, value, _sizes(node)))


# Slices and concatenation


def _cat(s: Serializer, node: Node) -> None:
    values = s.tensor_sequences[node.inputsAt(0)]
    dimension = s.constant(node.inputsAt(1))
    layouts = {s.tensor(value)[1].dim_order for value in values if s.constant(value) is None}
    order = NHWC if NHWC in layouts and len(_sizes(node)) == 4 else NCHW
    tensors = [s.tensor(value, order) for value in values]
    first = tensors[0][1]
    if len({operand.op_type for _, operand in tensors}) > 1:
        raise Refused("a concatenation of 8-bit and float tensors")
    answer = _like(first, _sizes(node))
    if dimension % len(answer.shape) == 0:
        raise Refused("a concatenation along the batch")
    if 0 in answer.shape and not all(0 in operand.shape for _, operand in tensors):
        raise Refused("a concatenation of a constant with a flexible batch")
    inputs = [number for number, _ in tensors] + s.integers(_axis(answer, dimension))
    s.emit(_CODE.CONCATENATION, inputs, answer, node.output())


def _slice(s: Serializer, node: Node) -> None:
    _, dimension, start, stop, step = (s.constant(value) for value in node.inputs())
    operand = s.tensor(node.inputsAt(0))
    size = operand[1].shape[dimension]
    begin, end, step = slice(start, stop, step).indices(size) if size else (start or 0, stop, step)
    if size == 0 and (begin, end, step) not in ((0, None, 1), (0, 2**63 - 1, 1)):
        raise Refused("a slice of the flexible batch")
    if (begin, end, step) in ((0, size, 1), (0, None, 1), (0, 2**63 - 1, 1)):
        _same(s, node)
        return
    s.name(node.output(), s.cut(operand, dimension, begin, end, step))


def _select(s: Serializer, node: Node) -> None:
    _, dimension, index = (s.constant(value) for value in node.inputs())
    operand = s.tensor(node.inputsAt(0))
    dimension %= len(operand[1].shape)
    if dimension == 0:
        raise Refused("one image of the batch")
    index %= operand[1].shape[dimension]
    cut = s.cut(operand, dimension, index, index + 1, 1)
    s.add_view(node.output(), cut, s.view_of(cut).reshaped(tuple(_sizes(node))))


def _parts(s: Serializer, node: Node) -> None:
    """chunk and split, whose answers are lists that ListUnpack takes apart."""
    s.lists[node.output()] = node


def _unpack(s: Serializer, node: Node) -> None:
    made = s.lists.get(node.input())
    if made is None:
        raise Refused("a list that is computed")
    operand = s.tensor(made.inputsAt(0))
    dimension = s.constant(made.inputsAt(2)) % len(operand[1].shape)
    begin = 0
    for value in node.outputs():
        end = begin + _traced_sizes(value)[dimension]
        s.name(value, s.cut(operand, dimension, begin, end, 1))
        begin = end


# Views


def _same(s: Serializer, node: Node) -> None:
    source, view = s.view(node.inputsAt(0))
    s.add_view(node.output(), source, view)


def _expand(s: Serializer, node: Node) -> None:
    constant = s.constant(node.inputsAt(0))
    if constant is None and _traced_sizes(node.inputsAt(0)) == _sizes(node):
        _same(s, node)
    elif constant is None:
        raise Refused("a tensor that is repeated to a larger size")
    elif s.flexible_batch:
        _for_each_image(s, node, constant)
    else:
        s.add_constant_value(node.output(), node.output().type(), constant.expand(_sizes(node)))


def _for_each_image(s: Serializer, node: Node, constant: torch.Tensor) -> None:
    """A constant (1, ...) as often as there are images: added to 0 for each, made of the images themselves."""
    rank = constant.ndim
    if list(constant.shape[1:]) != _sizes(node)[1:]:
        raise Refused("a constant that is repeated for a flexible batch, and along another dimension")
    images = s.tensor(s.images)
    if images[1].op_type == QUANT8:
        images = _floats(s, images)
    zeros = s.times(s.mean(images, list(range(1, len(images[1].shape)))), 0.0)
    flat = s.seen(zeros, s.view_of(zeros).reshaped((_sizes(node)[0],) + (1,) * (rank - 1)), NCHW)
    s.name(node.output(), s.combine(_CODE.ADD, flat, s.weight(constant)))


def _same_type(s: Serializer, node: Node) -> None:
    if node.inputsAt(0).type().dtype() != node.output().type().dtype():
        raise Refused("a conversion to another type")
    _same(s, node)


def _dropout(s: Serializer, node: Node) -> None:
    if s.constant(node.inputsAt(2)):
        raise Refused("dropout in training mode")
    _same(s, node)


def _reshape(s: Serializer, node: Node) -> None:
    source, view = s.view(node.inputsAt(0))
    s.add_view(node.output(), source, view.reshaped(tuple(_sizes(node))))


def _permute(s: Serializer, node: Node) -> None:
    source, view = s.view(node.inputsAt(0))
    rank = len(view.dimensions)
    s.add_view(node.output(), source, view.permuted(tuple(index % rank for index in s.constant(node.inputsAt(1)))))


def _transpose(s: Serializer, node: Node) -> None:
    source, view = s.view(node.inputsAt(0))
    rank = len(view.dimensions)
    first, second = (0, 1) if node.kind() == "aten::t" else (s.constant(node.inputsAt(at)) % rank for at in (1, 2))
    order = list(range(rank))
    order[first], order[second] = second, first
    s.add_view(node.output(), source, view.permuted(tuple(order)))


def _channel_shuffle(s: Serializer, node: Node) -> None:
    source, view = s.view(node.inputsAt(0))
    groups = s.constant(node.inputsAt(1))
    sizes = _sizes(node)
    apart = view.reshaped((sizes[0], groups, sizes[1] // groups, *sizes[2:]))
    order = (0, 2, 1, *range(3, len(sizes) + 1))
    s.add_view(node.output(), source, apart.permuted(order).reshaped(tuple(sizes)))


CONVERTERS: dict[str, Converter] = {
    "aten::_convolution": _convolution,
    "aten::conv2d": _conv2d,
    "quantized::conv2d": _quantized_convolution(_FUSED.FUSED_NONE),
    "quantized::conv2d_relu": _quantized_convolution(_FUSED.FUSED_RELU),
    "quantized::conv_transpose2d": _quantized_convolution(_FUSED.FUSED_NONE),
    "aten::linear": _linear,
    "aten::addmm": _addmm,
    "quantized::linear": _quantized_linear(_FUSED.FUSED_NONE),
    "quantized::linear_relu": _quantized_linear(_FUSED.FUSED_RELU),
    "aten::max_pool2d": _max_pool,
    "aten::avg_pool2d": _avg_pool,
    "aten::adaptive_avg_pool2d": _adaptive_avg_pool,
    "aten::mean": _mean,
    "aten::relu": _unary(_CODE.RELU),
    "aten::hardtanh": _hardtanh,
    "aten::relu6": _unary(_CODE.RELU6),
    "aten::sigmoid": _unary(_CODE.LOGISTIC, scale=_PROBABILITY_STEP, zero_point=0),
    "aten::tanh": _unary(_CODE.TANH, scale=2 * _PROBABILITY_STEP, zero_point=128),
    "aten::hardsigmoid": _hardsigmoid,
    "aten::hardswish": _hardswish,
    "quantized::hardswish": _hardswish,
    "aten::gelu": _gelu,
    "aten::add": _binary(_CODE.ADD),
    "aten::sub": _binary(_CODE.SUB),
    "aten::mul": _binary(_CODE.MUL),
    "aten::div": _binary(_CODE.DIV),
    "quantized::add": _quantized_binary(_CODE.ADD),
    "quantized::add_relu": _quantized_binary(_CODE.ADD, _FUSED.FUSED_RELU),
    "quantized::mul": _quantized_binary(_CODE.MUL),
    "quantized::mul_relu": _quantized_binary(_CODE.MUL, _FUSED.FUSED_RELU),
    "aten::quantize_per_tensor": _quantize,
    "aten::dequantize": _dequantize,
    "aten::batch_norm": _batch_norm,
    "aten::layer_norm": _layer_norm,
    "quantized::layer_norm": _quantized_layer_norm,
    "aten::softmax": _softmax,
    "aten::matmul": _matmul,
    "aten::bmm": _matmul,
    "aten::scaled_dot_product_attention": _attention,
    "aten::cat": _cat,
    "aten::slice": _slice,
    "aten::select": _select,
    "aten::chunk": _parts,
    "aten::split": _parts,
    "aten::split_with_sizes": _parts,
    "prim::ListUnpack": _unpack,
    "aten::detach": _same,
    "aten::contiguous": _same,
    "aten::clone": _same,
    "aten::alias": _same,
    "aten::to": _same_type,
    "aten::dropout": _dropout,
    "aten::expand": _expand,
    "aten::view": _reshape,
    "aten::reshape": _reshape,
    "aten::flatten": _reshape,
    "aten::unflatten": _reshape,
    "aten::squeeze": _reshape,
    "aten::unsqueeze": _reshape,
    "aten::permute": _permute,
    "aten::transpose": _transpose,
    "aten::t": _transpose,
    "aten::channel_shuffle": _channel_shuffle,
    "aten::native_channel_shuffle": _channel_shuffle,
}
"""Operators of a traced graph that become NNAPI operations, by kind."""
