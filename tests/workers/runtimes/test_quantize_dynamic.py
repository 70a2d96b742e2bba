"""Dynamic int8 of linears, on models that no graph can be made of as well."""

from collections.abc import Iterator

import pytest
import torch

from sweeps.errors import BuildError
from workers.models.accuracy import sqnr_db
from workers.runtimes.torchscript import capture
from workers.runtimes.torchscript.quantize import Scheme, calibrate, convert, prepare
from workers.runtimes.torchscript.torch_state import build_state

ENGINES = ["qnnpack", "x86", "onednn"]


@pytest.fixture(autouse=True)
def state() -> Iterator[None]:
    torch.manual_seed(0)
    with build_state("none"):
        yield


def scheme(engine: str, granularity: str = "per_tensor") -> Scheme:
    return Scheme(method="dynamic", engine=engine, granularity=granularity)


def built(model: torch.nn.Module, images: torch.Tensor, int8_scheme: Scheme) -> torch.nn.Module:
    prepared = prepare(model, int8_scheme, images[:1])
    return convert(prepared, calibrate(prepared, images.numpy(), int8_scheme, 16, None), int8_scheme)


class Branching(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(48, 32)
        self.head = torch.nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.hidden(x.flatten(1)))
        if bool(x.mean() > 1e6):
            x = -x
        y: torch.Tensor = self.head(x)
        return y


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("granularity", ["per_tensor", "per_channel"])
def test_a_model_that_branches_on_its_input_is_quantized(engine: str, granularity: str) -> None:
    model, images = Branching().eval(), torch.randn(8, 3, 4, 4)
    with build_state(engine):
        int8 = built(model, images, scheme(engine, granularity))
        quality = sqnr_db(model(images).numpy(), int8(images).numpy())
    assert quality is not None
    assert quality > 30
    expected = torch.per_tensor_affine if granularity == "per_tensor" else torch.per_channel_affine
    assert {int8.get_submodule(name).weight().qscheme() for name in ("hidden", "head")} == {expected}
    assert isinstance(model.hidden, torch.nn.Linear)  # the user's model is left alone


@pytest.mark.parametrize("engine", ENGINES)
def test_a_vision_transformer_scripts_and_traces_afterwards(engine: str) -> None:
    from torchvision.models import VisionTransformer

    model = VisionTransformer(32, 16, 2, 2, 16, 32, num_classes=4).eval()
    torch.nn.init.normal_(model.heads[0].weight)
    images = torch.randn(4, 3, 32, 32)
    with build_state(engine):
        int8 = built(model, images, scheme(engine))
        answers = int8(images)
        quality = sqnr_db(model(images).numpy(), answers.numpy())
        torch.testing.assert_close(capture.script(int8)(images), answers)
        torch.testing.assert_close(capture.trace(int8, images)(images), answers)
    assert quality is not None
    assert quality > 20


class Encoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2)
        self.head = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.head(self.encoder(x.flatten(1, 2).transpose(1, 2)).mean(1))
        return y


def test_torchs_own_encoder_keeps_off_the_fast_path_that_reads_float_weights() -> None:
    model, images = Encoder().eval().requires_grad_(False), torch.randn(4, 4, 4, 9)
    with build_state("qnnpack"):
        int8 = built(model, images, scheme("qnnpack"))
        quality = sqnr_db(model(images).numpy(), int8(images).numpy())
        torch.testing.assert_close(capture.trace(int8, images)(images), int8(images))
    assert quality is not None
    assert quality > 25


def test_a_model_without_a_linear_has_nothing_to_quantize() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    with pytest.raises(BuildError, match="changes only linears, and Sequential has none") as caught:
        prepare(model, scheme("qnnpack"), torch.zeros(1, 3, 8, 8))
    assert caught.value.kind == "nothing_to_quantize"
    assert "static_fx" in caught.value.next_step
