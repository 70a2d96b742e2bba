"""Keeps narrow layers of a network, and its pooling, in ONNX Runtime's blocked layout (NCHWc).

On an x86 CPU with AVX-512 a block is 16 channels. A tensor with fewer channels leaves the layout, and the next
convolution converts it back; the same happens at the mean over height and width, as torch's exporter writes it. This
module pads tensors of 8 to 15 channels with zeros to 16 channels, which changes no answer, and replaces such a mean by
a `GlobalAveragePool`, which has a kernel in that layout. Narrower tensors stay, since the next convolution would have
more than twice the work; so do tensors of more than 16 channels, which ONNX Runtime pads itself if their number is a
multiple of 4.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from sweeps.errors import BuildError

BLOCK = 16
FEWEST = 8
"""The fewest channels of a tensor that is padded."""

ACTIVATIONS = frozenset({"Clip", "Relu", "LeakyRelu", "HardSigmoid", "HardSwish", "Sigmoid", "Tanh"})
"""The operators whose result for zero is a finite number."""
POOLINGS = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool"})
BINARY = frozenset({"Add", "Sub", "Mul"})
_HEIGHT_AND_WIDTH = {2, 3}


def blocked(model: bytes) -> bytes:
    """Return a file that computes the same with padded channels. Raises `BuildError("nothing_to_fill")` if nothing
    would change."""
    read = onnx.load_from_string(model)
    if any(attribute.HasField("g") or attribute.graphs for node in read.graph.node for attribute in node.attribute):
        # An inner graph reads tensors of the outer graph without naming them as inputs.
        raise BuildError("nothing_to_fill", "the model has a graph within its graph, so no layer of it is filled up")
    if not _Filling(read.graph).apply():
        raise BuildError(
            "nothing_to_fill", f"the model has no layer of {FEWEST} to {BLOCK - 1} channels, and no mean to pool"
        )
    return bytes(read.SerializeToString(deterministic=True))


class _Filling:
    """The tensors of a graph that can be padded. Tensors that must have equally many channels form a group
    (union-find).

    Only tensors that come from a convolution have a known number of channels; all others stay as they are.
    """

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._graph = graph
        self._weights = {weight.name: weight for weight in graph.initializer}
        self._group: dict[str, str] = {}
        self._channels: dict[str, int] = {}
        self._outputs = {output.name for output in graph.output}
        self._fixed = set(self._outputs)
        self._readers = Counter(name for node in graph.node for name in node.input)
        self._has_new_pooling = False

    def apply(self) -> bool:
        """Change the graph. Returns whether anything was changed."""
        nodes: list[onnx.NodeProto] = []
        for node in self._graph.node:
            nodes += self._pooled(node)
            self._constrain(nodes[-1])
        fixed = {self._head(name) for name in self._fixed if name in self._group}
        filled = {
            name
            for name, channels in self._channels.items()
            if FEWEST <= channels < BLOCK and self._head(name) not in fixed
        }
        if not filled and not self._has_new_pooling:
            return False
        stale = set(filled)
        for node in nodes:
            if node.op_type == "Conv" and (node.input[0] in filled or node.output[0] in filled):
                stale |= self._fill(node, node.input[0] in filled, node.output[0] in filled)
        read = {name for node in nodes for name in node.input} | self._outputs
        _replace(self._graph.node, nodes)
        # The exporter notes the shapes of weights, too; notes that are now wrong are removed.
        _replace(self._graph.value_info, [value for value in self._graph.value_info if value.name not in stale])
        _replace(self._graph.initializer, [weight for weight in self._graph.initializer if weight.name in read])
        return True

    def _pooled(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """Yield the node, or the pooling that replaces it."""
        if node.op_type != "ReduceMean" or node.input[0] not in self._group or self._axes(node) != _HEIGHT_AND_WIDTH:
            yield node
            return
        self._has_new_pooling = True
        keeps_dims = _attribute(node, "keepdims", 1)
        pooled = node.output[0] if keeps_dims else f"{node.output[0]}_pooled"
        yield helper.make_node("GlobalAveragePool", [node.input[0]], [pooled], name=node.name)
        if not keeps_dims:
            self._join(node.input[0], pooled)
            yield helper.make_node("Flatten", [pooled], [node.output[0]], name=f"{node.name}_flat", axis=1)

    def _axes(self, node: onnx.NodeProto) -> set[int]:
        weight = self._weights.get(node.input[1]) if len(node.input) > 1 else None
        return set() if weight is None else {int(axis) % 4 for axis in numpy_helper.to_array(weight).ravel()}

    def _constrain(self, node: onnx.NodeProto) -> None:
        """Record which tensors must have as many channels as others, and which must keep their number of channels."""
        grouped_inputs = [name for name in node.input if name in self._group]
        data = grouped_inputs[:1] == list(node.input[:1]) and len(node.output) == 1 and node.domain == ""
        if node.op_type == "Conv" and node.domain == "" and self._has_own_weights(node):
            outputs, inputs = self._dims(node)[:2]
            groups = _attribute(node, "group", 1)
            if groups == 1:
                self._group[node.output[0]], self._channels[node.output[0]] = node.output[0], outputs
                return
            if grouped_inputs and inputs == 1 and groups == outputs == self._channels[grouped_inputs[0]]:
                self._join(grouped_inputs[0], node.output[0])
                return
        elif data and node.op_type in ACTIVATIONS | POOLINGS:
            self._join(grouped_inputs[0], node.output[0])
            return
        elif (
            data
            and node.op_type in BINARY
            and len({self._channels[name] for name in grouped_inputs}) == 1 < len(grouped_inputs)
        ):
            self._join(*grouped_inputs)
            self._join(grouped_inputs[0], node.output[0])
            return
        self._fixed.update(grouped_inputs)

    def _has_own_weights(self, node: onnx.NodeProto) -> bool:
        """Tell whether a node is a convolution in two dimensions whose weights are known, and used by no other node."""
        has_weights = all(name in self._weights and self._readers[name] == 1 for name in node.input[1:])
        return has_weights and len(self._dims(node)) == 4

    def _dims(self, node: onnx.NodeProto) -> Sequence[int]:
        return tuple(self._weights[node.input[1]].dims)

    def _join(self, first: str, other: str) -> None:
        self._channels.setdefault(other, self._channels[first])
        self._group.setdefault(other, other)
        self._group[self._head(other)] = self._head(first)

    def _head(self, name: str) -> str:
        while self._group[name] != name:
            name = self._group[name]
        return name

    def _fill(self, node: onnx.NodeProto, fills_input: bool, fills_output: bool) -> set[str]:
        """Pad the weights of a node; returns the names of these weights."""
        groups = _attribute(node, "group", 1)
        outputs, inputs = self._dims(node)[:2]
        more = BLOCK - outputs if fills_output else 0
        self._pad(node.input[1], more, BLOCK - inputs if fills_input and groups == 1 else 0)
        for bias in node.input[2:]:
            self._pad(bias, more)
        for attribute in node.attribute:
            if attribute.name == "group" and groups > 1:
                attribute.i += more
        return set(node.input[1:])

    def _pad(self, name: str, *more: int) -> None:
        values = numpy_helper.to_array(self._weights[name])
        widths = [(0, count) for count in more] + [(0, 0)] * (values.ndim - len(more))
        self._weights[name].CopyFrom(numpy_helper.from_array(np.pad(values, widths), name))


def _attribute(node: onnx.NodeProto, name: str, usual: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), usual)


def _replace(field: Any, values: Sequence[Any]) -> None:
    """Replace the content of `field`, a repeated field of protobuf, for which there is no Python type."""
    del field[:]
    field.extend(values)
