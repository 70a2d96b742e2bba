"""Networks for ONNX Runtime's blocks of 16 channels: the same answers, and no tensor too narrow for a block where one
can be filled up."""

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from sweeps.errors import BuildError

pytestmark = [pytest.mark.runtime("onnxruntime"), pytest.mark.xdist_group("onnxruntime")]


class Network:
    """An ONNX graph that grows. Its weights are the same each time."""

    def __init__(self, channels: int = 3) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.channels = {"input": channels}
        self._random = np.random.default_rng(0)

    def add(self, operator: str, *inputs: str, channels: int = 0, **attributes: Any) -> str:
        from onnx import helper

        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=f"node_{name}", **attributes))
        self.channels[name] = channels or self.channels[inputs[0]]
        return name

    def weight(self, *shape: int) -> str:
        return self.constant(self._random.standard_normal(shape).astype(np.float32))

    def constant(self, values: Any) -> str:
        from onnx import numpy_helper

        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def conv(self, source: str, channels: int, group: int = 1, weights: Sequence[str] = ()) -> str:
        parameters = weights or (self.weight(channels, self.channels[source] // group, 3, 3), self.weight(channels))
        return self.add("Conv", source, *parameters, channels=channels, group=group, pads=[1, 1, 1, 1])

    def mean(self, source: str, keepdims: int = 1, axes: Sequence[int] = (-1, -2)) -> str:
        return self.add("ReduceMean", source, self.constant(np.array(axes, np.int64)), keepdims=keepdims)

    def model(self, output: str) -> bytes:
        import onnx
        from onnx import TensorProto, helper

        input_info = helper.make_tensor_value_info("input", TensorProto.FLOAT, [2, self.channels["input"], 9, 7])
        output_info = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "network", [input_info], [output_info], self.weights)
        model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])
        # With all shapes in it, as the exporter writes them.
        inferred: bytes = onnx.shape_inference.infer_shapes(model, strict_mode=True).SerializeToString()
        return inferred


def narrow(model: bytes) -> list[str]:
    """The convolutions that take fewer than 16 channels, or give fewer, but for the first that takes the image."""
    import onnx

    graph = onnx.load_from_string(model).graph
    dims = {tensor.name: tensor.dims for tensor in graph.initializer}
    names = []
    for node in graph.node:
        if node.op_type == "Conv" and node.input[1] in dims:
            outputs, inputs = dims[node.input[1]][:2]
            grouped = any(attribute.name == "group" and attribute.i > 1 for attribute in node.attribute)
            if outputs < 16 or (inputs < 16 and not grouped and node.input[0] != "input"):
                names.append(str(node.output[0]))
    return names


def operators(model: bytes) -> list[str]:
    import onnx

    return [node.op_type for node in onnx.load_from_string(model).graph.node]


def refused(model: bytes) -> str:
    """Return the reason for which the model is not rewritten."""
    from workers.runtimes.onnxruntime.blocked import blocked

    with pytest.raises(BuildError) as caught:
        blocked(model)
    assert caught.value.kind == "nothing_to_fill"
    return caught.value.message


def changed(model: bytes) -> bytes:
    """Rewrite the model, and compare the answers first."""
    import onnx
    import onnxruntime

    from workers.runtimes.onnxruntime.blocked import blocked

    result = blocked(model)
    onnx.checker.check_model(onnx.load_from_string(result), full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    answers = []
    graph = onnx.load_from_string(result).graph
    # ONNX Runtime warns of weights that no node reads.
    assert {tensor.name for tensor in graph.initializer} <= {name for node in graph.node for name in node.input}
    for content in (model, result):
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        input_info = session.get_inputs()[0]
        images = np.random.default_rng(1).standard_normal(input_info.shape).astype(np.float32)
        answers.append(session.run(None, {input_info.name: images})[0])
    assert answers[0].shape == answers[1].shape
    # Sums in another order: float32 keeps 7 digits of the largest terms.
    np.testing.assert_allclose(answers[1], answers[0], rtol=0, atol=1e-5 * max(1.0, float(np.abs(answers[0]).max())))
    return result


def test_a_mobilenet_stays_in_blocks_to_its_pooling() -> None:
    net = Network()
    stem = net.add("Clip", net.conv("input", 8), net.constant(np.float32(0)), net.constant(np.float32(6)))
    deep = net.add("Relu", net.conv(stem, 8, group=8))
    back = net.add("Add", stem, net.conv(deep, 8))
    gate = net.add("Sigmoid", net.conv(net.mean(back), 8))
    last = net.conv(net.add("Mul", back, gate), 24)
    flat = net.add("Flatten", net.mean(last), axis=1)
    model = net.model(net.add("Gemm", flat, net.weight(24, 10)))
    assert len(narrow(model)) == 5
    result = changed(model)
    assert narrow(result) == []
    assert operators(result).count("GlobalAveragePool") == 2
    assert "ReduceMean" not in operators(result)


def test_a_mean_that_drops_height_and_width_is_a_pooling_too() -> None:
    net = Network()
    model = net.model(net.add("Gemm", net.mean(net.conv("input", 20), keepdims=0), net.weight(20, 4)))
    assert operators(changed(model)) == ["Conv", "GlobalAveragePool", "Flatten", "Gemm"]


def test_other_means_stay() -> None:
    for axes in ((-1,), (2,), (1, 2, 3), ()):
        net = Network()
        refused(net.model(net.mean(net.conv("input", 20), axes=axes)))
    image = Network()
    refused(image.model(image.mean("input")))
    positive = Network()
    assert "GlobalAveragePool" in operators(
        changed(positive.model(positive.mean(positive.conv("input", 20), axes=(2, 3))))
    )


def test_what_keeps_channels_apart_keeps_its_tensors_in_blocks() -> None:
    from workers.runtimes.onnxruntime.blocked import ACTIVATIONS, BINARY, POOLINGS

    for operator in sorted(ACTIVATIONS | BINARY | POOLINGS):
        net = Network()
        blocked_output = net.conv("input", 8)
        kernel = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]} if operator in {"MaxPool", "AveragePool"} else {}
        second = [net.conv(blocked_output, 8)] if operator in BINARY else []
        model = net.model(net.conv(net.add(operator, blocked_output, *second, **kernel), 20))
        assert narrow(model) != narrow(changed(model)) == [], operator


def test_tensors_of_less_than_half_a_block_stay() -> None:
    net = Network()
    model = net.model(net.conv(net.conv(net.conv("input", 4), 12), 20))
    assert [name for name in narrow(changed(model)) if name in narrow(model)] == ["Conv_0", "Conv_1"]


def _concat(net: Network, source: str) -> str:
    return net.add("Concat", source, source, axis=1, channels=16)


def _computed(net: Network, source: str) -> str:
    weights = net.add("Mul", net.weight(8, 8, 3, 3), net.constant(np.float32(2)), channels=8)
    return net.conv(source, 8, weights=(weights, net.weight(8)))


def _normed(net: Network, source: str) -> str:
    return net.add("BatchNormalization", source, *(net.constant(np.ones(8, np.float32)) for _ in range(4)))


def _shared(net: Network, source: str) -> str:
    weights = net.weight(8, 8, 3, 3), net.weight(8)
    return net.conv(net.conv(source, 8, weights=weights), 8, weights=weights)


@pytest.mark.parametrize(
    "add",
    [
        _concat,
        _shared,
        _computed,
        lambda net, source: net.add("ConvTranspose", source, net.weight(8, 8, 3, 3), pads=[1, 1, 1, 1]),
        _normed,
        lambda net, source: source,
        lambda net, source: net.conv(source, 8, group=2),
        lambda net, source: net.conv(source, 16, group=8),
        lambda net, source: net.add("Add", source, net.weight(8, 1, 1)),
        lambda net, source: net.add("Exp", source),
        lambda net, source: net.add("Reshape", source, net.constant(np.array([2, 4, 9, 14]))),
        lambda net, source: net.add("Softmax", source, axis=1),
    ],
    ids=["concat", "shared", "computed", "transposed", "batch norm", "alone", "groups", "depth times two",
         "a channel's number", "exp", "shape", "over channels"],
)  # fmt: skip
def test_a_tensor_stays_narrow_where_something_else_reads_it(add: Any) -> None:
    net = Network()
    read = add(net, net.add("Relu", net.conv("input", 8)))
    refused(net.model(read))
    # The tensor stays narrow also where something else is changed.
    parts = [net.add("Flatten", reader, axis=1) for reader in (read, net.mean(net.conv("input", 20)))]
    model = net.model(net.add("Concat", *parts, axis=1))
    assert narrow(changed(model)) == narrow(model) != []


def test_a_graph_within_the_graph_reads_what_it_likes() -> None:
    from onnx import TensorProto, helper

    net = Network()
    source = net.conv("input", 8)
    shape = helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)
    branch = helper.make_graph([helper.make_node("Identity", [source], ["inner"])], "branch", [], [shape])
    chosen = net.add("If", net.constant(np.array(True)), channels=8, then_branch=branch, else_branch=branch)
    model = net.model(net.conv(chosen, 20))
    assert "a graph within its graph" in refused(model)


def _some(net: Network, tensors: Sequence[str], random: Random) -> str:
    """Any operator, of any of the last tensors."""
    source = random.choice(tensors[-3:])
    count = net.channels[source]
    match random.choice(["conv", "conv", "by channel", "grouped", "of one", "of two", "pool"]):
        case "conv":
            return net.conv(source, random.choice([4, 8, 24]))
        case "by channel":
            return net.conv(source, count, group=count)
        case "grouped":
            return net.conv(source, count, group=2)
        case "of one":
            return net.add(random.choice(["Relu", "Sigmoid", "HardSwish", "Exp", "Tanh"]), source)
        case "of two":
            alike = [tensor for tensor in tensors if net.channels[tensor] == count]
            return net.add(random.choice(["Add", "Sub", "Mul"]), source, random.choice(alike))
        case _:
            return net.add("MaxPool", source, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def test_answers_stay_whatever_the_network() -> None:
    unchanged = 0
    for seed in range(40):
        random = Random(seed)
        net = Network()
        tensors = [net.conv("input", random.choice([8, 8, 24]))]
        for _ in range(random.randint(3, 12)):
            # A growing tensor is brought back, so that float32 has the digits to compare.
            tensors.append(net.add("Tanh", _some(net, tensors, random)))
        try:
            changed(net.model(net.mean(tensors[-1], keepdims=random.choice([0, 1]))))
        except BuildError:
            unchanged += 1
    assert unchanged < 20
