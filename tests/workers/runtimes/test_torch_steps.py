"""Capturing, on models that branch and fool tracers."""

from collections.abc import Callable, Iterator

import pytest
import torch

from sweeps.errors import BuildError
from workers.models import load_eager
from workers.runtimes.interface import BuildInputs
from workers.runtimes.torchscript import capture
from workers.runtimes.torchscript.torch_state import build_state


@pytest.fixture(autouse=True)
def state() -> Iterator[None]:
    with build_state("qnnpack"):
        yield


def parts(inputs: BuildInputs) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    images = torch.from_numpy(inputs.verification)
    return load_eager(inputs.package), torch.from_numpy(inputs.calibration), images


def test_a_trace_with_a_branch_on_the_data_is_refused(make_inputs: Callable[..., BuildInputs]) -> None:
    model, calibration, _ = parts(make_inputs("nets:Branch"))
    with pytest.raises(BuildError, match="Converting a tensor to a Python boolean") as caught:
        capture.trace(model, calibration[:1])
    assert caught.value.kind == "trace_differs"


def test_a_scripted_branch_on_the_data_still_branches(make_inputs: Callable[..., BuildInputs]) -> None:
    model, _, images = parts(make_inputs("nets:Branch"))
    scripted = capture.script(model)
    for image in (images[:1], -images[:1]):
        torch.testing.assert_close(scripted(image), model(image))


def test_a_trace_whose_own_check_torch_fails_is_taken_where_its_answers_are_right() -> None:
    from torchvision.models import VisionTransformer

    torch.manual_seed(0)
    model = VisionTransformer(32, 16, 2, 2, 16, 32, num_classes=4).eval()
    torch.nn.init.normal_(model.heads[0].weight)
    image = torch.randn(1, 3, 32, 32)
    torch.testing.assert_close(capture.trace(model, image)(image * 2), model(image * 2))


def test_scripting_survives_operators_that_died_in_torchs_table_of_builtins(tiny: BuildInputs) -> None:
    from torch.jit import _builtins

    model = load_eager(tiny.package)
    padding = model.get_submodule("point")._reversed_padding_repeated_twice
    # As if that list had got the address of an operator that torch.ao.quantization looked up and dropped.
    _builtins._get_builtin_table()[id(padding)] = "quantized_decomposed::quantize_per_tensor"
    assert capture.script(model)(torch.from_numpy(tiny.verification)).shape == (24, 5)


def test_engine_threads_and_gradients_are_put_back_even_after_an_error() -> None:
    before = torch.backends.quantized.engine, torch.get_num_threads(), torch.is_grad_enabled()
    inside: tuple[str, int, bool] | None = None
    try:
        with build_state("onednn"):
            inside = torch.backends.quantized.engine, torch.get_num_threads(), torch.is_grad_enabled()
            raise KeyError
    except KeyError:
        pass
    assert inside == ("onednn", 1, False)
    assert (torch.backends.quantized.engine, torch.get_num_threads(), torch.is_grad_enabled()) == before
