"""Keeps a network in ONNX Runtime's blocked layout (NCHWc), from its first convolution to its pooling.

On a CPU with AVX-512 a block is 16 channels. A tensor with fewer leaves the layout, and the next convolution brings it
back; so does the mean over height and width, as torch's exporter writes it. Here such tensors get channels of zeros up
to 16, which change no answer, and the mean becomes a `GlobalAveragePool`, which has a kernel in that layout.

What it costs where a block is 8 channels: DECISIONS 247.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

BLOCK = 16
_BY_CHANNEL = {"Clip", "Relu", "LeakyRelu", "HardSigmoid", "HardSwish", "Sigmoid", "Tanh"} | {
    "MaxPool",
    "AveragePool",
    "GlobalAveragePool",
}
"""Operators that keep channels apart, and make a finite number of a zero."""
_OF_TWO = {"Add", "Sub", "Mul"}
_HEIGHT_AND_WIDTH = {2, 3}


def blocked(model: bytes) -> bytes:
    """The same function, in `BLOCK` channels at least wherever that changes nothing else."""
    read = onnx.load_from_string(model)
    if any(attribute.HasField("g") or attribute.graphs for node in read.graph.node for attribute in node.attribute):
        # An inner graph reads tensors of this one without naming them as inputs.
        return model
    _Filled(read.graph).apply()
    return bytes(read.SerializeToString(deterministic=True))


class _Filled:
    """Which tensors of a graph can be filled up. Tensors that must have the same channels are a family.

    Only what comes from a convolution has known channels; all others stay as they are.
    """

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._graph = graph
        self._weights = {one.name: one for one in graph.initializer}
        self._family: dict[str, str] = {}
        self._channels: dict[str, int] = {}
        self._fixed: set[str] = {one.name for one in graph.output}
        self._readers = Counter(name for node in graph.node for name in node.input)
        self._changed: set[str] = set()

    def apply(self) -> None:
        nodes: list[onnx.NodeProto] = []
        for node in self._graph.node:
            nodes += self._pooled(node)
            self._look_at(nodes[-1])
        fixed = {self._head(name) for name in self._fixed if name in self._family}
        filled = {name for name in self._family if self._channels[name] < BLOCK and self._head(name) not in fixed}
        for node in nodes:
            if node.op_type == "Conv":
                self._fill(node, node.input[0] in filled, node.output[0] in filled)
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        # What the exporter notes of weights, too.
        kept = [one for one in self._graph.value_info if one.name not in filled | self._changed]
        del self._graph.value_info[:]
        self._graph.value_info.extend(kept)

    def _pooled(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """The node, or the pooling that it is."""
        if node.op_type != "ReduceMean" or node.input[0] not in self._family or self._axes(node) != _HEIGHT_AND_WIDTH:
            yield node
            return
        kept = _attribute(node, "keepdims", 1)
        pooled = node.output[0] if kept else f"{node.output[0]}_pooled"
        yield helper.make_node("GlobalAveragePool", [node.input[0]], [pooled], name=node.name)
        if not kept:
            self._join(node.input[0], pooled)
            yield helper.make_node("Flatten", [pooled], [node.output[0]], name=f"{node.name}_flat", axis=1)

    def _axes(self, node: onnx.NodeProto) -> set[int]:
        weight = self._weights.get(node.input[1]) if len(node.input) > 1 else None
        return set() if weight is None else {int(axis) % 4 for axis in numpy_helper.to_array(weight).ravel()}

    def _look_at(self, node: onnx.NodeProto) -> None:
        """Notes which tensors its inputs and outputs must be like."""
        known = [name for name in node.input if name in self._family]
        if node.op_type == "Conv" and self._is_own(node):
            outputs, inputs = self._dims(node)[:2]
            groups = _attribute(node, "group", 1)
            if groups == 1:
                self._family[node.output[0]], self._channels[node.output[0]] = node.output[0], outputs
                return
            if known and inputs == 1 and groups == outputs == self._channels[known[0]]:
                self._join(known[0], node.output[0])
                return
        elif node.domain == "" and known[:1] == list(node.input[:1]) and len(node.output) == 1:
            if node.op_type in _BY_CHANNEL:
                self._join(known[0], node.output[0])
                return
            if node.op_type in _OF_TWO and len(known) == 2 and len({self._channels[name] for name in known}) == 1:
                self._join(*known)
                self._join(known[0], node.output[0])
                return
        self._fixed.update(known)

    def _is_own(self, node: onnx.NodeProto) -> bool:
        """Whether it is a convolution in two dimensions whose weights are known, and nobody else's."""
        weights = node.input[1:]
        known = all(name in self._weights and self._readers[name] == 1 for name in weights)
        return known and len(self._dims(node)) == 4

    def _dims(self, node: onnx.NodeProto) -> Sequence[int]:
        return tuple(self._weights[node.input[1]].dims)

    def _join(self, known: str, other: str) -> None:
        self._channels.setdefault(other, self._channels[known])
        self._family.setdefault(other, other)
        self._family[self._head(other)] = self._head(known)

    def _head(self, name: str) -> str:
        while self._family[name] != name:
            name = self._family[name]
        return name

    def _fill(self, node: onnx.NodeProto, takes: bool, gives: bool) -> None:
        groups = _attribute(node, "group", 1)
        outputs, inputs = self._dims(node)[:2]
        more = BLOCK - outputs if gives else 0
        self._pad(node.input[1], more, BLOCK - inputs if takes and groups == 1 else 0)
        for bias in node.input[2:]:
            self._pad(bias, more)
        for attribute in node.attribute:
            if attribute.name == "group" and groups > 1:
                attribute.i += more

    def _pad(self, name: str, *more: int) -> None:
        if any(more):
            self._changed.add(name)
            values = numpy_helper.to_array(self._weights[name])
            widths = [(0, count) for count in more] + [(0, 0)] * (values.ndim - len(more))
            self._weights[name].CopyFrom(numpy_helper.from_array(np.pad(values, widths), name))


def _attribute(node: onnx.NodeProto, name: str, usual: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), usual)
