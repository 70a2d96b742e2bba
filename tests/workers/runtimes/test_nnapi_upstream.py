"""Cases of PyTorch's own tests of NNAPI (test/test_nnapi.py), through EdgeSweep's converter."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.backends._nnapi.serializer import _NnapiSerializer

from sweeps.errors import BuildError
from tests.workers.runtimes import nnapi_nets
from workers.runtimes.torchscript.fuse import symbolic
from workers.runtimes.torchscript.interfaces import Core, QParams
from workers.runtimes.torchscript.nnapi.lower import Options, lower
from workers.runtimes.torchscript.nnapi.model import parse
from workers.runtimes.torchscript.nnapi.multi_tensor import lower_several
from workers.runtimes.torchscript.nnapi.operators import CONVERTERS
from workers.runtimes.torchscript.torch_state import build_state

EPSILON = torch.finfo(torch.float32).eps

LAYOUTS = pytest.mark.parametrize("nhwc", [False, True], ids=["nchw", "nhwc"])
BATCHES = pytest.mark.parametrize("flexible", [False, True], ids=["fixed", "flexible"])
RESIZES = pytest.mark.parametrize(
    "resize",
    [
        nn.UpsamplingNearest2d(size=(16, 20)),
        nn.UpsamplingNearest2d(size=(24, 32)),
        nn.UpsamplingNearest2d(size=(36, 48)),
        nn.UpsamplingNearest2d(scale_factor=(1.5, 1.5)),
        nn.UpsamplingNearest2d(scale_factor=(2.0, 2.0)),
        nn.UpsamplingNearest2d(scale_factor=(3.0, 3.0)),
    ],
    ids=str,
)


@pytest.fixture(autouse=True)
def state() -> Iterator[None]:
    torch.manual_seed(29)
    with build_state("qnnpack"):
        yield


def options(*, nhwc: bool, flexible: bool) -> Options:
    return Options(nhwc=nhwc, preference="sustained_speed", relaxed_fp16=False, flexible_batch=flexible)


def answer(net: nn.Module, x: torch.Tensor, *, nhwc: bool = False, flexible: bool = False) -> torch.Tensor:
    lowered = lower(net.eval(), x, options(nhwc=nhwc, flexible=flexible), "none", None)
    result: torch.Tensor = lowered.module(x)
    return result


def test_every_operator_of_pytorch_s_converter_is_converted() -> None:
    kinds = {kind for kind in _NnapiSerializer.ADDER_MAP if not kind.startswith("prim::")}
    assert {"aten::conv2d", "aten::prelu"} <= kinds
    assert kinds - CONVERTERS.keys() == {"aten::size"}  # sizes are in the trace


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@LAYOUTS
@BATCHES
@pytest.mark.parametrize("slopes", [[0.25], [0.1, 0.2, 0.3, 0.4]])
def test_prelu(slopes: list[float], flexible: bool, nhwc: bool) -> None:
    net = nn.PReLU(len(slopes))
    net.weight.copy_(torch.tensor(slopes))
    for x in (torch.tensor([1.0, -1.0, 2.0, -2.0]).reshape(1, 4, 1, 1), torch.randn(2, 4, 3, 3)):
        assert torch.equal(answer(net, x, nhwc=nhwc, flexible=flexible), net(x))


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@LAYOUTS
@BATCHES
@RESIZES
def test_upsampling_reads_the_same_pixels(resize: nn.Module, flexible: bool, nhwc: bool) -> None:
    x = torch.randn(2, 3, 12, 16)
    assert torch.equal(answer(resize, x, nhwc=nhwc, flexible=flexible), resize(x))


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@LAYOUTS
@BATCHES
@RESIZES
def test_upsampling_of_8_bits_reads_the_same_pixels(resize: nn.Module, flexible: bool, nhwc: bool) -> None:
    x = torch.randn(2, 3, 12, 16)
    ends = QParams(scale=0.03, zero_point=128, dtype=torch.quint8)
    core = Core(core=symbolic(resize.eval()), input=ends, output=ends)
    module = lower(core.core, x, options(nhwc=nhwc, flexible=flexible), "full", core).module
    quantized = torch.quantize_per_tensor(x, ends.scale, ends.zero_point, ends.dtype)
    upsampled, right = module(quantized), resize(quantized)
    assert (upsampled.q_scale(), upsampled.q_zero_point()) == (right.q_scale(), right.q_zero_point())
    assert torch.equal(upsampled.int_repr(), right.int_repr())


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@BATCHES
@pytest.mark.parametrize("dimension", [0, 1])
def test_log_softmax(dimension: int, flexible: bool) -> None:
    net, x = nn.LogSoftmax(dimension), torch.randn(3, 10)
    # A sum of at most ten exponentials, its logarithm, and two differences of numbers below 8.
    torch.testing.assert_close(answer(net, x, flexible=flexible), net(x), rtol=0, atol=(10 + 2 * 8) * EPSILON)


class Mean(nn.Module):
    def __init__(self, dimensions: Sequence[int], *, keeps: bool = False) -> None:
        super().__init__()
        self.dimensions, self.keeps = list(dimensions), keeps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mean(x, dim=self.dimensions, keepdim=self.keeps)


def assert_means_match(net: Mean, x: torch.Tensor, *, nhwc: bool, flexible: bool) -> None:
    right = net(x)
    # Each addition of either sum rounds by at most half an epsilon of the sum.
    tolerance = x.numel() / right.numel() * EPSILON * float(x.abs().max())
    result = answer(net, x, nhwc=nhwc, flexible=flexible)
    torch.testing.assert_close(result, right, rtol=0, atol=tolerance)


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@BATCHES
@pytest.mark.parametrize("dimension", [0, 1])
def test_mean_of_a_matrix(dimension: int, flexible: bool) -> None:
    assert_means_match(Mean([dimension]), torch.randn(2, 3), nhwc=False, flexible=flexible)


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@LAYOUTS
@BATCHES
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("dimensions", [(2, 3), (-1, -2), (0,), (0, 1), (0, 2, 3), (-4, 2)])
def test_mean_of_images(dimensions: tuple[int, ...], keeps: bool, flexible: bool, nhwc: bool) -> None:
    assert_means_match(Mean(dimensions, keeps=keeps), torch.randn(2, 3, 6, 6), nhwc=nhwc, flexible=flexible)


# Models with two inputs


class Cat(nn.Module):
    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def forward(self, left: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return torch.cat([left, other], self.dimension)


class Binary(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, left: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = getattr(torch, self.name)(left, other)
        return result


class QuantizedSum(nn.Module):
    def __init__(self, *, relu: bool) -> None:
        super().__init__()
        self.relu = relu
        self.functional = torch.ao.nn.quantized.QFunctional()
        self.functional.scale, self.functional.zero_point = 0.5, 120

    def forward(self, left: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        add = self.functional.add_relu if self.relu else self.functional.add
        result: torch.Tensor = add(left, other)
        return result


class SumAndDifference(nn.Module):
    def forward(self, left: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return left + other, left - other


def answers(net: nn.Module, *x: torch.Tensor, nhwc: bool = False, flexible: bool = False) -> torch.jit.ScriptModule:
    """The converted model, which answers `x` as `net` does."""
    module = lower_several(net.eval(), x, options(nhwc=nhwc, flexible=flexible)).module
    torch.testing.assert_close(module(*x), net(*x), rtol=0, atol=0)
    return module


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@LAYOUTS
def test_two_inputs_are_joined(nhwc: bool) -> None:
    answers(Cat(0), torch.randn(1, 2, 3, 3), torch.randn(2, 2, 3, 3), nhwc=nhwc)
    answers(Cat(1), torch.randn(1, 2, 3, 3), torch.randn(1, 4, 3, 3), nhwc=nhwc)
    module = answers(Cat(1), torch.randn(2, 2, 3, 3), torch.randn(2, 4, 3, 3), nhwc=nhwc, flexible=True)
    for count in (1, 3):
        x = torch.randn(count, 2, 3, 3), torch.randn(count, 4, 3, 3)
        assert torch.equal(module(*x), torch.cat(x, 1))
    with pytest.raises(torch.jit.Error, match="different batch sizes"):
        module(torch.randn(2, 2, 3, 3), torch.randn(3, 4, 3, 3))


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@BATCHES
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_arithmetic_of_two_inputs(name: str, flexible: bool) -> None:
    answers(Binary(name), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    answers(Binary(name), torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    # PyTorch's own converter refuses this.
    answers(Binary(name), torch.tensor([1.0, 2.0]), torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    answers(Binary(name), torch.randn(3, 4), torch.rand(3, 4) + 1, flexible=flexible)


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@BATCHES
@pytest.mark.parametrize("relu", [False, True])
def test_a_sum_of_two_inputs_of_8_bits(relu: bool, flexible: bool) -> None:
    net = QuantizedSum(relu=relu)
    for rows in (([1.0, 2.0], [3.0, -4.0]), ([[1.0, 2.0], [-7.0, 4.5]], [[3.0, 4.0], [2.0, -9.0]])):
        left, other = (torch.quantize_per_tensor(torch.tensor(row), 0.25, 128, torch.quint8) for row in rows)
        result = answers(net, left, other, flexible=flexible)(left, other)
        assert (result.q_scale(), result.q_zero_point()) == (0.5, 120)
        assert torch.equal(result.int_repr(), net(left, other).int_repr())


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@LAYOUTS
@BATCHES
def test_a_factor_for_each_channel_is_an_input(flexible: bool, nhwc: bool) -> None:
    net = Binary("mul")
    module = answers(net, torch.randn(2, 3, 4, 4), torch.randn(1, 3, 1, 1), nhwc=nhwc, flexible=flexible)
    if flexible:
        x = torch.randn(5, 3, 4, 4), torch.randn(1, 3, 1, 1)
        assert torch.equal(module(*x), net(*x))


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
def test_two_answers_are_a_tuple_also_after_saving_and_loading(tmp_path: Path) -> None:
    x = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0])
    answers(SumAndDifference(), *x)
    module = lower_several(SumAndDifference().eval(), x, options(nhwc=False, flexible=False)).module
    assert parse(nnapi_nets.serialized_model(module)).counts() == {"ADD": 1, "SUB": 1}
    module.save(str(tmp_path / "model.pt"))
    total, difference = torch.jit.load(str(tmp_path / "model.pt"))(*x)
    assert total.tolist() == [2.0, 5.0]
    assert difference.tolist() == [0.0, -1.0]


def test_operators_that_nnapi_has_not_are_named_for_two_inputs_too() -> None:
    with pytest.raises(BuildError) as caught:
        lower_several(Binary("atan2"), [torch.randn(2, 3), torch.randn(2, 3)], options(nhwc=False, flexible=False))
    assert caught.value.kind == "unsupported_operator"
    assert "aten::atan2" in caught.value.message
    with pytest.raises(BuildError, match="aten::cat: a concatenation along a flexible batch"):
        lower_several(Cat(0), [torch.randn(2, 3), torch.randn(2, 3)], options(nhwc=False, flexible=True))


# Operators that NNAPI lacks


class OwnSlope(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.prelu(x, x.mean((0, 2, 3)))


class MeanOfAll(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean()


class LinearOfOneDimension(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.mean((0, 2, 3)))


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (nn.UpsamplingNearest2d(scale_factor=(1.3, 2.0)), "aten::upsample_nearest2d: upsampling of 12 pixels to 15"),
        (OwnSlope(), "aten::prelu: its slope is computed"),
        (MeanOfAll(), "aten::mean: a mean over all dimensions"),
        (Mean([0, 1, 2, 3]), "aten::mean: a mean over all dimensions"),
        (LinearOfOneDimension(), "aten::linear: a linear layer on a tensor of one dimension"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_what_nnapi_has_not_is_refused_with_its_reason(net: nn.Module, reason: str) -> None:
    with pytest.raises(BuildError) as caught:
        lower(net.eval(), torch.randn(2, 3, 12, 16), options(nhwc=False, flexible=False), "none", None)
    assert caught.value.kind == "unsupported_operator"
    assert reason in caught.value.message
