"""Where an int8 model begins and ends."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

from sweeps.errors import BuildError
from tests.workers.runtimes import nnapi_nets
from workers.runtimes.torchscript import capture
from workers.runtimes.torchscript.capture import ChannelsLast
from workers.runtimes.torchscript.fuse import symbolic
from workers.runtimes.torchscript.interfaces import split, with_numbers, wrap_core
from workers.runtimes.torchscript.quantize import Scheme, calibrate, convert, prepare
from workers.runtimes.torchscript.torch_state import build_state


@pytest.fixture(autouse=True)
def state() -> Iterator[None]:
    torch.manual_seed(0)
    with build_state("qnnpack"):
        yield


IMAGES = torch.randn(8, 6, 12, 12, generator=torch.Generator().manual_seed(1))


def int8(net: nn.Module, method: str = "static_fx") -> GraphModule:
    scheme = Scheme(method=method, engine="qnnpack", granularity="per_tensor")
    prepared = prepare(nnapi_nets.settled(net), scheme, IMAGES[:1])
    quantized = convert(prepared, calibrate(prepared, IMAGES.numpy(), scheme, 8, None), scheme)
    assert isinstance(quantized, GraphModule)
    return quantized


@pytest.mark.parametrize("method", ["static_fx", "static_eager"])
def test_a_core_between_its_ends_is_the_whole_model(method: str) -> None:
    graph = int8(nnapi_nets.Int8(), method)
    core = split(graph)
    expected = graph(IMAGES)
    assert torch.equal(wrap_core(core.core, core)(IMAGES), expected)
    answer = core.core(torch.quantize_per_tensor(IMAGES, core.input.scale, core.input.zero_point, core.input.dtype))
    assert core.output is not None
    assert (answer.q_scale(), answer.q_zero_point(), answer.dtype) == (
        core.output.scale,
        core.output.zero_point,
        core.output.dtype,
    )
    assert torch.equal(answer.dequantize(), expected)
    assert torch.equal(graph(IMAGES), expected)  # the graph itself is left whole


def test_a_core_keeps_the_layout_of_its_input_when_scripted_and_when_traced() -> None:
    graph = int8(nnapi_nets.Int8())
    core = split(graph)
    last = ChannelsLast(wrap_core(core.core, core)).eval()
    expected = ChannelsLast(graph).eval()(IMAGES)
    assert torch.equal(capture.script(last)(IMAGES), expected)
    assert torch.equal(capture.trace(last, IMAGES)(IMAGES), expected)
    quantized = torch.quantize_per_tensor(
        IMAGES.contiguous(memory_format=torch.channels_last), core.input.scale, core.input.zero_point, torch.quint8
    )
    assert quantized.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(core.core(quantized).dequantize(), expected)


class FloatTail(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(self.conv(x).mean((2, 3)))


def test_a_model_that_ends_in_floats_has_no_quantized_answer() -> None:
    graph = int8(FloatTail())
    core = split(graph)
    assert core.output is None
    assert torch.equal(wrap_core(core.core, core)(IMAGES), graph(IMAGES))


class Passing(nn.Module):
    """A network whose last operators take over the parameters of the one before them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.flatten(nn.functional.max_pool2d(torch.sigmoid(self.conv(x)), 2), 1)


def test_the_answer_s_parameters_are_found_behind_operators_without_any() -> None:
    core = split(int8(Passing()))
    assert core.output is not None
    answer = core.core(torch.quantize_per_tensor(IMAGES, core.input.scale, core.input.zero_point, core.input.dtype))
    assert (core.output.scale, core.output.zero_point) == (answer.q_scale(), answer.q_zero_point()) == (1 / 256, 0)


class FloatHead(FloatTail):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(torch.exp(x)).mean((2, 3))


def test_an_input_that_is_not_quantized_first_has_no_core() -> None:
    with pytest.raises(BuildError, match="exp reads it as floats") as caught:
        split(int8(FloatHead()))
    assert caught.value.kind == "interface_not_possible"


class Sized(FloatTail):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x).flatten(1).reshape(x.shape[0], 4, x.size(2) - 2, -1)


def test_what_only_reads_the_input_s_shape_is_in_the_way_of_no_core() -> None:
    graph = int8(Sized())
    core = split(graph)
    assert core.output is not None
    assert torch.equal(wrap_core(core.core, core)(IMAGES), graph(IMAGES))


def test_scales_become_numbers_and_other_constants_stay() -> None:
    class Shifted(FloatTail):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("shift", torch.tensor(0.5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + self.get_buffer("shift")

    graph = torch.fx.symbolic_trace(Shifted().eval())
    assert [node.target for node in with_numbers(graph).graph.nodes if node.op == "get_attr"] == ["shift"]
    quantized = with_numbers(int8(nnapi_nets.Int8()))
    assert not any(node.op == "get_attr" for node in quantized.graph.nodes)
    assert symbolic(quantized) is not None
