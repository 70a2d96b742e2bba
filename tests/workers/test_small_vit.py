"""The small ViT is a model that every step of a build can take, and that learns the digits."""

import pytest
import torch
from torch.ao.quantization import quantize_dynamic

from workers.small_vit import small_vit

SHAPE = (1, 3, 64, 64)


@pytest.fixture
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return small_vit().eval()


def _images(batch: int) -> torch.Tensor:
    return torch.randn(batch, 3, 64, 64, generator=torch.Generator().manual_seed(batch))


def test_its_size_is_what_is_said_of_it(model: torch.nn.Module) -> None:
    assert model(_images(2)).shape == (2, 10)
    assert 0.14e6 < sum(parameter.numel() for parameter in model.parameters()) < 0.16e6
    assert small_vit(num_classes=7, image_size=32)(torch.zeros(1, 3, 32, 32)).shape == (1, 7)


@pytest.mark.parametrize("capture", ["script", "trace", "fx"])
def test_every_capture_answers_any_batch_as_the_model_does(model: torch.nn.Module, capture: str) -> None:
    with torch.no_grad():
        match capture:
            case "script":
                captured = torch.jit.script(model)
            case "trace":
                captured = torch.jit.trace(model, _images(1))
            case _:
                captured = torch.fx.symbolic_trace(model)
        for batch in (1, 3):
            torch.testing.assert_close(captured(_images(batch)), model(_images(batch)))


@pytest.mark.filterwarnings("ignore:.*quantiz.*:DeprecationWarning", "ignore:.*quantiz.*:UserWarning")
def test_its_linears_quantize_dynamically(model: torch.nn.Module) -> None:
    quantized = quantize_dynamic(model, {torch.nn.Linear})
    names = [type(part).__module__ for part in quantized.modules() if type(part).__name__ == "Linear"]
    assert len(names) == 4 * 6 + 1
    assert all("quantized.dynamic" in name for name in names)
    with torch.no_grad():
        noise = quantized(_images(4)) - model(_images(4))
        assert noise.abs().max() < 0.1 * model(_images(4)).abs().max()
