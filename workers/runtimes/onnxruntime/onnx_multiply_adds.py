"""Counts the multiply-adds of an ONNX file's operators, as `workers.runtimes.multiply_adds` does for a graph."""

import math
from collections import Counter
from collections.abc import Callable, Mapping

import onnx

from workers.runtimes.multiply_adds import with_share

_Shapes = list[tuple[int, ...]]


def share_of(operator: str, model: onnx.ModelProto) -> str:
    """Return the operator (`Conv`) with its share of the file's multiply-adds, if the shapes in the file tell it."""
    try:
        shapes = _shapes(onnx.shape_inference.infer_shapes(model).graph)
        work = Counter[str]()
        for node in model.graph.node:
            work[node.op_type] += _multiply_adds(node, shapes)
    except (onnx.shape_inference.InferenceError, KeyError, IndexError):
        return operator
    return with_share(operator, work.get(operator), work.total())


def _multiply_adds(node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]]) -> int:
    count = _COUNTED.get(node.op_type)
    return 0 if count is None else count(node, [shapes[name] for name in node.input if name], shapes[node.output[0]])


def _shapes(graph: onnx.GraphProto) -> Mapping[str, tuple[int, ...]]:
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.output, *graph.value_info):
        shapes[value.name] = tuple(size.dim_value for size in value.type.tensor_type.shape.dim)
    return shapes


def _convolution(_node: onnx.NodeProto, inputs: _Shapes, output: tuple[int, ...]) -> int:
    """Return the multiply-adds of a convolution: each element of the output uses one filter."""
    return math.prod(output) * math.prod(inputs[1][1:])


def _transposed(_node: onnx.NodeProto, inputs: _Shapes, _output: tuple[int, ...]) -> int:
    """Return the multiply-adds of a transposed convolution: each element of the input uses one filter."""
    return math.prod(inputs[0]) * math.prod(inputs[1][1:])


def _product(node: onnx.NodeProto, inputs: _Shapes, output: tuple[int, ...]) -> int:
    transposed = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
    return math.prod(output) * inputs[0][-2 if transposed else -1]


def _attention(_node: onnx.NodeProto, inputs: _Shapes, output: tuple[int, ...]) -> int:
    """Return the multiply-adds of two products: of queries with keys, and of the attention weights with values."""
    queries, keys = inputs[:2]
    return math.prod(queries) * keys[-2] + math.prod(output) * keys[-2]


_COUNTED: Mapping[str, Callable[[onnx.NodeProto, _Shapes, tuple[int, ...]], int]] = {
    "Conv": _convolution,
    "ConvInteger": _convolution,
    "ConvTranspose": _transposed,
    "Gemm": _product,
    "MatMul": _product,
    "MatMulInteger": _product,
    "Attention": _attention,
}
