# mypy: allow-untyped-calls
"""Slices, concatenations, upsampling and views, for NNAPI. A view costs nothing until an operation reads its values."""

import torch
from torch._C import Node

from workers.runtimes.torchscript.nnapi.serializer import (
    CODE,
    NCHW,
    NHWC,
    QUANT8,
    Converter,
    Refused,
    Serializer,
    axis_of,
    like,
    output_sizes,
    traced_sizes,
)


def _cat(s: Serializer, node: Node) -> None:
    values = s.tensor_sequences[node.inputsAt(0)]
    dimension = s.constant(node.inputsAt(1))
    layouts = {s.tensor(value)[1].dim_order for value in values if s.constant(value) is None}
    order = NHWC if NHWC in layouts and len(output_sizes(node)) == 4 else NCHW
    tensors = [s.tensor(value, order) for value in values]
    first = tensors[0][1]
    if len({operand.op_type for _, operand in tensors}) > 1:
        raise Refused("a concatenation of 8-bit and float tensors")
    output = like(first, output_sizes(node))
    if dimension % len(output.shape) == 0:
        if any(0 in operand.shape for _, operand in tensors):
            raise Refused("a concatenation along a flexible batch")
        output = output._replace(shape=tuple(output_sizes(node)))
    if 0 in output.shape and not all(0 in operand.shape for _, operand in tensors):
        raise Refused("a concatenation of a constant with a flexible batch")
    inputs = [number for number, _ in tensors] + s.integers(axis_of(output, dimension))
    s.emit(CODE.CONCATENATION, inputs, output, node.output())


def _slice(s: Serializer, node: Node) -> None:
    _, dimension, start, stop, step = (s.constant(value) for value in node.inputs())
    operand = s.tensor(node.inputsAt(0))
    size = operand[1].shape[dimension]
    begin, end, step = slice(start, stop, step).indices(size) if size else (start or 0, stop, step)
    if size == 0 and (begin, end, step) not in ((0, None, 1), (0, 2**63 - 1, 1)):
        raise Refused("a slice of the flexible batch")
    if (begin, end, step) in ((0, size, 1), (0, None, 1), (0, 2**63 - 1, 1)):
        _unchanged(s, node)
        return
    s.name(node.output(), s.cut(operand, dimension, begin, end, step))


def _select(s: Serializer, node: Node) -> None:
    _, dimension, index = (s.constant(value) for value in node.inputs())
    operand = s.tensor(node.inputsAt(0))
    dimension %= len(operand[1].shape)
    if dimension == 0:
        raise Refused("the selection of one image of the batch")
    index %= operand[1].shape[dimension]
    cut = s.cut(operand, dimension, index, index + 1, 1)
    s.add_view(node.output(), cut, s.view_of(cut).reshaped(tuple(output_sizes(node))))


def _parts(s: Serializer, node: Node) -> None:
    """Register the node of a chunk or split, which returns a list, for the ListUnpack that unpacks it."""
    s.lists[node.output()] = node


def _unpack(s: Serializer, node: Node) -> None:
    source = s.lists.get(node.input())
    if source is None:
        raise Refused("a list that is computed")
    operand = s.tensor(source.inputsAt(0))
    dimension = s.constant(source.inputsAt(2)) % len(operand[1].shape)
    begin = 0
    for value in node.outputs():
        end = begin + traced_sizes(value)[dimension]
        s.name(value, s.cut(operand, dimension, begin, end, 1))
        begin = end


def _upsample_nearest(s: Serializer, node: Node) -> None:
    number, image = s.tensor(node.inputsAt(0))
    sizes = output_sizes(node)
    # The node has two factors, or one list of them; without factors, PyTorch uses the sizes, as NNAPI does.
    factors = [s.constant(value) for value in list(node.inputs())[2:]]
    height, width = factors if len(factors) == 2 else factors[0] or (None, None)
    for size, target, factor in ((image.shape[2], sizes[2], height), (image.shape[3], sizes[3], width)):
        if not torch.equal(_pixels_read(size, target, factor), _pixels_read_by_nnapi(size, target)):
            raise Refused(
                f"upsampling of {size} pixels to {target} by the factor {factor}: NNAPI goes by the sizes, as PyTorch "
                "does only with recompute_scale_factor=True, and reads other pixels"
            )
    inputs = [number, *s.integers(sizes[3], sizes[2]), s.add_immediate_bool_scalar(image.use_nchw())]
    s.emit(CODE.RESIZE_NEAREST_NEIGHBOR, inputs, like(image, sizes), node.output())


def _pixels_read(size: int, target: int, factor: float | None) -> torch.Tensor:
    """Return the index of the pixel that PyTorch reads for each of the `target` pixels."""
    indices = torch.arange(size, dtype=torch.float32).reshape(1, 1, size)
    read: torch.Tensor = torch.ops.aten.upsample_nearest1d.default(indices, [target], factor)
    return read.flatten()


def _pixels_read_by_nnapi(size: int, target: int) -> torch.Tensor:
    """Return the index of the pixel that Android's CPU implementation reads for each of the `target` pixels, with its
    precision."""
    step = torch.tensor(size, dtype=torch.float32) / torch.tensor(target, dtype=torch.float32)
    return (torch.arange(target, dtype=torch.float32) * step).floor().clamp(max=size - 1)


# Views


def _unchanged(s: Serializer, node: Node) -> None:
    source, view = s.view(node.inputsAt(0))
    s.add_view(node.output(), source, view)


def _expand(s: Serializer, node: Node) -> None:
    constant = s.constant(node.inputsAt(0))
    if constant is None and traced_sizes(node.inputsAt(0)) == output_sizes(node):
        _unchanged(s, node)
    elif constant is None:
        raise Refused("a tensor that is repeated to a larger size")
    elif s.flexible_batch:
        _for_each_image(s, node, constant)
    else:
        s.add_constant_value(node.output(), node.output().type(), constant.expand(output_sizes(node)))


def _for_each_image(s: Serializer, node: Node, constant: torch.Tensor) -> None:
    """Repeat a constant (1, ...) for each image of a flexible batch: it is added to zeros computed from the images."""
    rank = constant.ndim
    if list(constant.shape[1:]) != output_sizes(node)[1:]:
        raise Refused("a constant that is repeated for a flexible batch, and along another dimension")
    images = s.tensor(s.images)
    if images[1].op_type == QUANT8:
        images = s.floats(images)
    zeros = s.times(s.mean(images, list(range(1, len(images[1].shape)))), 0.0)
    flat = s.as_operand(zeros, s.view_of(zeros).reshaped((output_sizes(node)[0],) + (1,) * (rank - 1)), NCHW)
    s.name(node.output(), s.combine(CODE.ADD, flat, s.weight(constant)))


def _same_type(s: Serializer, node: Node) -> None:
    if node.inputsAt(0).type().dtype() != node.output().type().dtype():
        raise Refused("a conversion to another type")
    _unchanged(s, node)


def _dropout(s: Serializer, node: Node) -> None:
    if s.constant(node.inputsAt(2)):
        raise Refused("dropout in training mode")
    _unchanged(s, node)


def _reshape(s: Serializer, node: Node) -> None:
    source, view = s.view(node.inputsAt(0))
    s.add_view(node.output(), source, view.reshaped(tuple(output_sizes(node))))


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
    sizes = output_sizes(node)
    grouped = view.reshaped((sizes[0], groups, sizes[1] // groups, *sizes[2:]))
    order = (0, 2, 1, *range(3, len(sizes) + 1))
    s.add_view(node.output(), source, grouped.permuted(order).reshaped(tuple(sizes)))


SHAPES: dict[str, Converter] = {
    "aten::cat": _cat,
    "aten::slice": _slice,
    "aten::select": _select,
    "aten::chunk": _parts,
    "aten::split": _parts,
    "aten::split_with_sizes": _parts,
    "prim::ListUnpack": _unpack,
    "aten::upsample_nearest2d": _upsample_nearest,
    "aten::detach": _unchanged,
    "aten::contiguous": _unchanged,
    "aten::clone": _unchanged,
    "aten::alias": _unchanged,
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
