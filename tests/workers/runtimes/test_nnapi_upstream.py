"""Cases of PyTorch's own tests of NNAPI (test/test_nnapi.py), through EdgeSweep's converter."""

from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import nn
from torch.backends._nnapi.serializer import _NnapiSerializer

from sweeps.errors import BuildError
from workers.runtimes.torchscript.fuse import symbolic
from workers.runtimes.torchscript.interfaces import Core, QParams
from workers.runtimes.torchscript.nnapi.lower import Options, lower
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
    found: torch.Tensor = lowered.module(x)
    return found


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
    given = torch.quantize_per_tensor(x, ends.scale, ends.zero_point, ends.dtype)
    found, right = module(given), resize(given)
    assert (found.q_scale(), found.q_zero_point()) == (right.q_scale(), right.q_zero_point())
    assert torch.equal(found.int_repr(), right.int_repr())


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
    found = answer(net, x, nhwc=nhwc, flexible=flexible)
    torch.testing.assert_close(found, right, rtol=0, atol=tolerance)


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


# What NNAPI has not


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
