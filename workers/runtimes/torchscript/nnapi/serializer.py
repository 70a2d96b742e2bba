# mypy: allow-untyped-calls
"""PyTorch's NNAPI serializer, extended by more operators, both layouts, ceil mode and a flexible batch.

Torch's serializer stops at the first unknown operator, ignores ceil mode, slices NHWC tensors along the wrong
dimension, quantizes only NHWC, and computes flexible shapes only for a few operators. This one takes each value's shape
from the trace, works in both layouts, continues after an unsupported operator, and collects all of these.

NNAPI feature levels beyond the first two: torch sets the layout flag of convolutions and pooling (3), EXP, RSQRT,
ABS, QUANTIZE, PRELU, LOG_SOFTMAX, RESIZE_NEAREST_NEIGHBOR, GROUPED_CONV_2D, dilation and SOFTMAX over a chosen
dimension (3), HARD_SWISH (4), BATCH_MATMUL (6).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._C import Node, Value
from torch.backends._nnapi.serializer import (
    DimOrder,
    NNAPI_FuseCode,
    NNAPI_OperandCode,
    NNAPI_OperationCode,
    Operand,
    _NnapiSerializer,
)

from workers.runtimes.library_errors import first_words
from workers.runtimes.torchscript.nnapi.coverage import multiply_adds, sizes_of
from workers.runtimes.torchscript.nnapi.views import MOST_DIMENSIONS, Steps, View

NCHW, NHWC = DimOrder.PRESUMED_CONTIGUOUS, DimOrder.CHANNELS_LAST
FLOAT32, QUANT8 = NNAPI_OperandCode.TENSOR_FLOAT32, NNAPI_OperandCode.TENSOR_QUANT8_ASYMM

CODE, FUSED = NNAPI_OperationCode, NNAPI_FuseCode
PROBABILITY_STEP = 1 / 256
"""Scale of quantized sigmoid, hardsigmoid and softmax, in PyTorch as in NNAPI."""

_SIZES = ("aten::size", "prim::NumToTensor", "aten::Int", "aten::ScalarImplicit")
"""Operators on sizes. Converters do not need them, because shapes are in the trace."""

Tensor = tuple[int, Operand]
"""The number of an NNAPI operand, and its type and shape in PyTorch."""


class Refused(Exception):  # noqa: N818  # it never leaves this package
    """The reason why an operator cannot be converted."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An operator of the traced graph that cannot be converted."""

    kind: str
    reason: str


class Serializer(_NnapiSerializer):
    """A serializer for a traced graph of tensors. `refusals`: the operators that are not converted."""

    def __init__(self, converters: Mapping[str, "Converter"], *, nhwc: bool, flexible_batch: bool) -> None:
        super().__init__(config=None)
        self._converters = converters
        self.refusals: list[Refusal] = []
        self.mult_adds = 0
        self.mult_adds_refused = 0
        self._preferred = NHWC if nhwc else NCHW
        self.flexible_batch = flexible_batch
        self._views: dict[Value, tuple[Tensor, View]] = {}
        self._read: dict[tuple[Value, DimOrder], Tensor] = {}
        self._sizes: set[Value] = set()
        self.lists: dict[Value, Node] = {}

    def serialize_traced(self, module: torch.jit.ScriptModule, templates: Sequence[torch.Tensor]) -> Any:
        """Like `serialize_model`, but does not freeze the graph, which would lose the traced shapes.

        `templates`: one per input. The size of a flexible batch is that of the first input.
        """
        traced = _Traced(module)
        answer = traced.graph.return_node().inputsAt(0)
        answers = answer.node().inputs() if answer.node().kind() == "prim::TupleConstruct" else [answer]
        self._output_names = {value.debugName() for value in answers}
        self.images = list(traced.graph.inputs())[1]
        self._batch = (sizes_of(self.images) or [0])[0]
        return self.serialize_model(traced, list(templates))

    # Walking the graph

    def add_node(self, node: Node) -> None:
        kind = node.kind()
        if kind in ("prim::Constant", "prim::GetAttr"):
            super().add_node(node)
            return
        inputs, outputs = list(node.inputs()), list(node.outputs())
        cost = multiply_adds(node, self.constant)
        self.mult_adds += cost
        try:
            if kind in _SIZES or (self._sizes.intersection(inputs) and not self._reads_tensor(node)):
                self._sizes.update(outputs)
            elif kind in ("prim::ListConstruct", "prim::TupleConstruct"):
                self._add_list(node)
            elif all(value in self.constants for value in inputs):
                self.add_constant_value(outputs[0], outputs[0].type(), _computed(node, map(self.constant, inputs)))
            elif (convert := self._converters.get(kind)) is None:
                raise Refused("PyTorch's converter has no NNAPI operation for it")
            else:
                convert(self, node)
                self._add_graph_output(outputs)
        except Exception as error:  # noqa: BLE001  # any error becomes the reason of one operator
            self.refusals.append(Refusal(kind, first_words(error)))
            self.mult_adds_refused += cost
            for output in outputs:
                self._add_placeholder(output)

    def _reads_tensor(self, node: Node) -> bool:
        """Tell whether `node` reads a tensor in addition to sizes: view does, arithmetic on sizes does not."""
        first = node.inputsAt(0)
        return (
            first in self.jitval_operand_map
            or first in self._views
            or (isinstance(self.constant(first), torch.Tensor) and bool(sizes_of(node.output())))
        )

    def _add_list(self, node: Node) -> None:
        values, output = list(node.inputs()), node.output()
        if all(value in self.constants for value in values):
            self.add_constant_value(output, output.type(), [self.constant(value) for value in values])
        else:
            self.add_tensor_sequence(output, values)

    def _add_graph_output(self, outputs: list[Value]) -> None:
        """Make each output of the graph a separate operand, with PyTorch's shape."""
        for output in outputs:
            if output.debugName() not in self._output_names:
                continue
            if output in self._views:
                number, operand = self.tensor(output)
                if self.operands[number] != operand:
                    number = self.reshape((number, operand), operand)
                self.jitval_operand_map[output] = number

    def _add_placeholder(self, value: Value) -> None:
        """Add an operand for the output of a refused operator, so that operators that read it are checked too."""
        sizes = sizes_of(value)
        if not sizes or value in self.jitval_operand_map:
            self._sizes.add(value)
            return
        quantized = value.type().dtype() is torch.quint8
        order = self._preferred if len(sizes) == MOST_DIMENSIONS else NCHW
        shape = (0 if self.flexible_batch else sizes[0], *sizes[1:])
        self.add_tensor_operand(value, Operand(QUANT8 if quantized else FLOAT32, shape, order, 1.0, 0))

    def constant(self, value: Value) -> Any:
        return self.constants[value][1] if value in self.constants else None

    # Operands

    def add_tensor_operand(self, jitval: Value, oper: Operand) -> int:
        return self._batch_computed(super().add_tensor_operand(jitval, oper), oper)

    def add_anonymous_tensor_operand(self, oper: Operand) -> int:
        return self._batch_computed(super().add_anonymous_tensor_operand(oper), oper)

    def _batch_computed(self, number: int, operand: Operand) -> int:
        if len(operand.shape) > MOST_DIMENSIONS:
            raise Refused(f"a tensor of {len(operand.shape)} dimensions; NNAPI takes four")
        for index, size in enumerate(operand.shape):
            if size == 0:
                self.compute_operand_shape(number, index, "args[0].shape[0]")
        return number

    def get_tensor_operand_by_jitval(self, jitval: Value) -> Tensor:
        return self.tensor(jitval)

    def get_tensor_operand_by_jitval_fixed_size(self, jitval: Value) -> Tensor:
        # Only the batch is flexible, and `_batch_computed` handles it.
        return self.tensor(jitval)

    def tensor(self, value: Value, order: DimOrder | None = None) -> Tensor:
        """Return the operand of `value` in the layout `order` (`None`: in any layout)."""
        if value in self.constants:
            return self.weight(self.constant(value), order or NCHW)
        if value in self._views:
            source, view = self._views[value]
        elif value not in self.jitval_operand_map:
            raise Refused("it reads a value that is computed from sizes")
        else:
            number = self.jitval_operand_map[value]
            source = number, self.operands[number]
            if order is None or source[1].dim_order == order:
                return source
            view = self.view_of(source)
        orders = [order] if order else [NCHW, NHWC][: 1 + (len(view.dimensions) == MOST_DIMENSIONS)]
        for candidate in orders:
            if (value, candidate) in self._read:
                return self._read[value, candidate]
        # Prefer a layout without a transpose, then the artifact's own.
        chosen = min(orders, key=lambda o: (_steps(view, o).transposes, o is not self._preferred))
        self._read[value, chosen] = self.as_operand(source, view, chosen)
        return self._read[value, chosen]

    def weight(self, tensor: torch.Tensor, order: DimOrder = NCHW) -> Tensor:
        """Return a constant operand."""
        if not tensor.is_quantized and tensor.dtype != torch.int32:
            tensor = tensor.float()
        if order is NHWC and tensor.ndim != MOST_DIMENSIONS:
            order = NCHW
        number = self.add_tensor_operand_for_weight(tensor.detach(), order)
        return number, self.operands[number]

    def view_of(self, source: Tensor) -> View:
        shape = tuple(self._batch if size == 0 else size for size in source[1].shape)
        return View.of(shape, _nnapi_order(source[1].dim_order, len(shape)), flexible_batch=0 in source[1].shape)

    def as_operand(self, source: Tensor, view: View, order: DimOrder) -> Tensor:
        """Return the `view` of `source` as an operand in the layout `order`."""
        steps = _steps(view, order)
        target = source[1]._replace(shape=view.shape, dim_order=order)
        if not steps.transposes:
            if _nnapi_shape(source[1]) == _nnapi_shape(target):
                return source[0], target
            return self.reshape(source, target), target
        now = source
        before = tuple(0 if size == -1 else size for size in steps.before)
        if _nnapi_shape(now[1]) != before:
            reshaped = target._replace(shape=before, dim_order=NCHW)
            now = self.reshape(now, reshaped), reshaped
        transposed = now[1]._replace(shape=tuple(before[index] for index in steps.permutation), dim_order=NCHW)
        permutation = self.add_immediate_int_vector(list(steps.permutation))
        if transposed.shape == _nnapi_shape(target):
            return self.emit(CODE.TRANSPOSE, [now[0], permutation], target), target
        now = self.emit(CODE.TRANSPOSE, [now[0], permutation], transposed), transposed
        return self.reshape(now, target), target

    def reshape(self, source: Tensor, target: Operand, value: Value | None = None) -> int:
        """Add a RESHAPE of `source` to the shape of `target`; returns the number of the new operand."""
        sizes = [-1 if size == 0 else size for size in _nnapi_shape(target)]
        return self.emit(CODE.RESHAPE, [source[0], self.add_immediate_int_vector(sizes)], target, value)

    def emit(self, code: int, inputs: list[int], like: Operand, value: Value | None = None) -> int:
        """Add an operation with one output operand like `like`, for `value` or as an intermediate result."""
        number = self.add_anonymous_tensor_operand(like) if value is None else self.add_tensor_operand(value, like)
        self.add_operation(code, inputs, [number])
        return number

    def emit_rows(self, code: int, inputs: list[int], like: Operand, rows: int) -> int:
        """Add an operation whose output joins all but the last dimension of `like`: `rows` for each image."""
        batch, features = like.shape[0], like.shape[-1]
        number = self.emit(code, inputs, like._replace(shape=(batch * rows, features), dim_order=NCHW))
        if batch == 0:
            self.compute_operand_shape(number, 0, f"args[0].shape[0] * {rows}")
        return number

    def integers(self, *values: int) -> list[int]:
        return [self.add_immediate_int_scalar(value) for value in values]

    # Operations that several converters use

    def combine(
        self,
        code: int,
        left: Tensor,
        right: Tensor,
        fused: int = FUSED.FUSED_NONE,
        value: Value | None = None,
        *,
        scale: float = 0.0,
        zero_point: int = 0,
    ) -> Tensor:
        """Add ADD, SUB, MUL or DIV with broadcasting; `scale` and `zero_point` are those of an 8-bit output."""
        shape = tuple(map(_broadcast, left[1].shape, right[1].shape))
        output = left[1]._replace(shape=shape)
        if output.op_type == QUANT8:
            output = output._replace(scale=scale, zero_point=zero_point)
        return self.emit(code, [left[0], right[0], *self.integers(fused)], output, value), output

    def number(self, number: float, like: Operand) -> Tensor:
        """Return a constant of one element with the type and rank of `like`. It is exact in 8 bits too."""
        constant = torch.full((1,) * len(like.shape), number)
        if like.op_type == QUANT8:
            constant = torch.quantize_per_tensor(constant, number / 255, 0, torch.quint8)
        return self.weight(constant, like.dim_order)

    def plus(self, x: Tensor, number: float) -> Tensor:
        return self.combine(CODE.ADD, x, self.number(number, x[1]))

    def times(self, x: Tensor, factor: float | Tensor) -> Tensor:
        other = factor if isinstance(factor, tuple) else self.number(factor, x[1])
        return self.combine(CODE.MUL, x, other)

    def apply(self, code: int, x: Tensor) -> Tensor:
        return self.emit(code, [x[0]], x[1]), x[1]

    def mean(self, x: Tensor, axes: list[int]) -> Tensor:
        """Return the mean over `axes`, which stay as dimensions of size 1."""
        shape = tuple(1 if index in axes else size for index, size in enumerate(x[1].shape))
        output = x[1]._replace(shape=shape)
        inputs = [x[0], self.add_immediate_int_vector(axes), *self.integers(1)]
        return self.emit(CODE.MEAN, inputs, output), output

    def floats(self, x: Tensor, value: Value | None = None) -> Tensor:
        """Return an 8-bit tensor as floats."""
        output = x[1]._replace(op_type=FLOAT32, scale=0.0, zero_point=0)
        return self.emit(CODE.DEQUANTIZE, [x[0]], output, value), output

    def cut(self, x: Tensor, dimension: int, begin: int, end: int, step: int) -> Tensor:
        """Return x[begin:end:step] along PyTorch's `dimension`."""
        number, operand = x
        dimension %= len(operand.shape)
        cut = tuple(len(range(begin, end, step)) if i == dimension else n for i, n in enumerate(operand.shape))
        order = _nnapi_order(operand.dim_order, len(cut))
        begins = [begin if index == dimension else 0 for index in order]
        ends = [end if index == dimension else operand.shape[index] for index in order]
        steps = [step if index == dimension else 1 for index in order]
        open_ends = sum(1 << at for at, size in enumerate(ends) if size == 0)
        inputs = [number, *map(self.add_immediate_int_vector, (begins, ends, steps)), *self.integers(0, open_ends, 0)]
        output = operand._replace(shape=cut)
        return self.emit(CODE.STRIDED_SLICE, inputs, output), output

    # Views

    def name(self, value: Value, tensor: Tensor) -> None:
        """Register `tensor` as the operand of `value`."""
        self.add_view(value, tensor, self.view_of(tensor))

    def view(self, value: Value) -> tuple[Tensor, View]:
        """Return the operand that contains `value`, and the view of it."""
        if value in self._views:
            return self._views[value]
        source = self.tensor(value)
        return source, self.view_of(source)

    def add_view(self, value: Value, source: Tensor, view: View) -> None:
        """Register `value` as a view of `source`. Adds no operation until an operator other than a view reads it."""
        self._views[value] = source, view


Converter = Callable[[Serializer, Node], None]


def output_sizes(node: Node) -> list[int]:
    """Return the traced shape of an operator's output."""
    return traced_sizes(node.output())


def traced_sizes(value: Value) -> list[int]:
    sizes = sizes_of(value)
    if sizes is None:
        raise Refused("a shape is not in the trace")
    return sizes


def like(operand: Operand, shape: Sequence[int], **changes: Any) -> Operand:
    """Return `operand` with the traced `shape`, but its own batch size, which may be flexible."""
    return operand._replace(shape=(operand.shape[0], *shape[1:]), **changes)


def axis_of(operand: Operand, dimension: int) -> int:
    """Return the index of PyTorch's `dimension` in NNAPI."""
    dimension %= len(operand.shape)
    return (0, 3, 1, 2)[dimension] if operand.dim_order is NHWC else dimension


class _Traced:
    """A traced module with one inlined graph: `ScriptModule.inlined_graph` creates a new one at every access."""

    def __init__(self, module: torch.jit.ScriptModule) -> None:
        self._module = module
        self.graph = module.inlined_graph

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _computed(node: Node, inputs: Iterable[Any]) -> Any:
    """Return the result of an operator that reads only constants."""
    space, _, name = node.kind().partition("::")
    return getattr(getattr(torch.ops, space), name)(*inputs)


def _nnapi_order(order: DimOrder, dimensions: int) -> tuple[int, ...]:
    """Return PyTorch's dimensions in NNAPI's order."""
    return (0, 2, 3, 1) if order is NHWC else tuple(range(dimensions))


def _steps(view: View, order: DimOrder) -> Steps:
    return view.steps(_nnapi_order(order, len(view.dimensions)))


def _nnapi_shape(operand: Operand) -> tuple[int, ...]:
    return tuple(operand.shape[index] for index in _nnapi_order(operand.dim_order, len(operand.shape)))


def _broadcast(left: int, right: int) -> int:
    """Return the broadcast size of one dimension; 0 is the flexible batch."""
    if left != right and 1 not in (left, right):
        raise Refused("tensors of a flexible and of a fixed batch together")
    return right if left == 1 else left
