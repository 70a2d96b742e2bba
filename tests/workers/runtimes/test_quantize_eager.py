"""Static int8 in eager mode: stubs, observed arithmetic and ReLU6, put into the user's own network."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.ao.nn import quantized as nnq

from sweeps.errors import BuildError
from sweeps.variant import DEFAULT_GRANULARITY
from tests.workers.runtimes.int8_cpu import ENGINES, engine_of
from workers.models.accuracy import sqnr_db
from workers.models.eager_model import load_eager
from workers.models.package import BuildInputs
from workers.runtimes.torchscript import capture
from workers.runtimes.torchscript.quantize import Scheme, calibrate, convert, prepare
from workers.runtimes.torchscript.torch_state import build_state


@pytest.fixture(autouse=True)
def state() -> Iterator[None]:
    torch.manual_seed(0)
    with build_state("qnnpack"):
        yield


def scheme(way: str) -> Scheme:
    engine, reduced = engine_of(way)
    return Scheme(method="static_eager", engine=engine, granularity=DEFAULT_GRANULARITY[engine], reduced_range=reduced)


def built(model: torch.nn.Module, images: torch.Tensor, way: str = "qnnpack") -> torch.nn.Module:
    int8_scheme = scheme(way)
    prepared = prepare(model, int8_scheme, images[:1])
    return convert(prepared, calibrate(prepared, images.numpy(), int8_scheme, 16, None), int8_scheme)


def quality(model: torch.nn.Module, int8: torch.nn.Module, images: torch.Tensor) -> float:
    answer = sqnr_db(model(images).numpy(), int8(images).numpy())
    assert answer is not None
    return answer


def kinds(model: torch.nn.Module) -> list[str]:
    return [type(module).__name__ for module in model.modules()]


def _is_int8(module: torch.nn.Module) -> bool:
    return ".quantized" in type(module).__module__


@pytest.mark.parametrize("way", ENGINES)
def test_relu6_stays_within_its_bound_and_is_fused(tiny: BuildInputs, way: str) -> None:
    model, images = load_eager(tiny.package), torch.from_numpy(tiny.verification)
    with build_state(engine_of(way)[0]):
        int8 = built(model, torch.from_numpy(tiny.calibration), way)
        for layout in (torch.contiguous_format, torch.channels_last):
            assert quality(model, int8, images.contiguous(memory_format=layout)) > 30
    fixed = [m for m in int8.modules() if getattr(m, "scale", None) == pytest.approx(6 / 255) and m.zero_point == 0]
    # The stem, the depthwise, the addition, Hardtanh and clamp.
    assert [type(m).__name__ for m in fixed].count("ConvReLU2d") == 4
    assert [type(m) for m in fixed].count(nnq.QFunctional) == 1
    assert kinds(int8).count("Quantize") == 1
    assert kinds(int8).count("DeQuantize") == 1


def test_a_relu6_that_nothing_can_be_fused_with_is_computed_in_float() -> None:
    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3)
            self.conv.weight.data.mul_(20)
            self.relu6 = torch.nn.ReLU6()
            self.head = torch.nn.Conv2d(8, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.relu6(torch.nn.functional.max_pool2d(self.conv(x), 2))
            y: torch.Tensor = self.head(x).mean((2, 3))
            return y

    model, images = Pooled().eval(), torch.randn(24, 3, 16, 16)
    int8 = built(model, images)
    assert quality(model, int8, images) > 20
    assert kinds(int8).count("Hardtanh") == 1


class Attention(torch.nn.Module):
    """Everything that eager mode cannot make int8, between things that it can."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = torch.nn.Conv2d(3, 16, 4, 4)
        self.position = torch.nn.Parameter(torch.randn(1, 16, 16))
        self.norm = torch.nn.LayerNorm(16)
        self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.hidden = torch.nn.Linear(16, 32)
        self.silu = torch.nn.SiLU()
        self.last = torch.nn.Linear(32, 16)
        self.head = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.position
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.last(self.silu(self.hidden(x)))
        first, second = x.chunk(2, 1)[0], x.chunk(2, 1)[1]
        x = torch.cat([first * second, second], 1).reshape(x.shape[0], -1, 16)
        logits: torch.Tensor = self.head(x.softmax(2).mean(1))
        return logits


@pytest.mark.parametrize("way", ENGINES)
def test_operators_without_an_int8_form_get_float_and_the_rest_is_int8(way: str) -> None:
    model, images = Attention().eval(), torch.randn(24, 3, 16, 16)
    with build_state(engine_of(way)[0]):
        int8 = built(model, images, way)
        assert quality(model, int8, images) > 20
        answers = int8(images)
        torch.testing.assert_close(capture.script(int8)(images), answers)
        torch.testing.assert_close(capture.trace(int8, images)(images), answers)
    linears = [name for name, module in int8.named_modules() if isinstance(module, nnq.Linear)]
    assert linears == ["hidden", "last", "head"]
    assert {"MultiheadAttention", "LayerNorm", "SiLU"} <= set(kinds(int8))
    assert not {"Add", "Multiply", "Concatenate"} & set(kinds(int8))  # one side of each is float


REAL = [("mobilenet_v3_small", "Multiply", 9), ("shufflenet_v2_x0_5", "Concatenate", 16), ("resnet18", "AddReLU", 8)]


@pytest.mark.parametrize(("source", "arithmetic", "count"), REAL)
def test_real_networks_keep_their_answers_with_arithmetic_in_int8(
    make_inputs: Callable[..., BuildInputs], source: str, arithmetic: str, count: int
) -> None:
    inputs = make_inputs(source, size=64)
    model, images = load_eager(inputs.package), torch.from_numpy(inputs.verification)
    int8 = built(model, torch.from_numpy(inputs.calibration))
    assert quality(model, int8, images) > 15
    assert kinds(int8).count(arithmetic) == count
    assert not {"BatchNorm2d", "Conv2d", "Linear"} & {type(m).__name__ for m in int8.modules() if not _is_int8(m)}


def test_an_operator_that_takes_several_int8_tensors_is_named() -> None:
    class Stacked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack(self.conv(x).chunk(2, 1)).mean((0, 3, 4))

    with pytest.raises(BuildError, match=r"stack takes several int8 tensors of chunk") as caught:
        prepare(Stacked().eval(), scheme("qnnpack"), torch.zeros(1, 3, 8, 8))
    assert caught.value.kind == "not_quantizable"
    assert "static_fx" in caught.value.next_step
