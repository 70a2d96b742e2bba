"""Capturing, on models that branch, that fool tracers and that are traced in parts."""

from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch
from torch.ao.quantization import QConfigMapping, get_default_qconfig
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

from sweeps.errors import BuildError
from workers.models.eager_model import load_eager
from workers.models.package import BuildInputs
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
    # That list gets the address of an operator that torch.ao.quantization looked up and dropped.
    _builtins._get_builtin_table()[id(padding)] = "quantized_decomposed::quantize_per_tensor"
    assert capture.script(model)(torch.from_numpy(tiny.verification)).shape == (24, 5)


def test_a_branch_that_no_tried_input_takes_is_found_all_the_same(make_inputs: Callable[..., BuildInputs]) -> None:
    model, calibration, _ = parts(make_inputs("nets:Rare"))
    with pytest.raises(BuildError, match="control flow depends on its data") as caught:
        capture.trace(model, calibration[:1])
    assert caught.value.kind == "data_dependent"
    assert capture.mixed(model, calibration[:1])(calibration[:1] * 1e9).abs().max() == 0


def test_a_decision_by_the_size_of_the_input_is_none_by_its_data(nets: ModuleType) -> None:
    class Sized(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1) * 2 if torch.as_tensor(x.shape[2]) > 8 else x.flatten(1)

    image = torch.randn(1, 3, 32, 32)
    torch.testing.assert_close(capture.trace(Sized(), image)(image), image.flatten(1) * 2)


def inner(whole: torch.jit.ScriptModule, path: str) -> torch.jit.ScriptModule:
    """Return the module that the thin wrapper holds at `path`."""
    return dict(whole.named_modules())[f"0.{path}".rstrip(".")]


def test_mixed_traces_what_it_can_and_scripts_what_decides_by_data(make_inputs: Callable[..., BuildInputs]) -> None:
    model, calibration, images = parts(make_inputs("nets:Gated"))
    with pytest.raises(BuildError) as caught:
        capture.trace(model, calibration[:1])
    assert caught.value.kind in ("trace_differs", "data_dependent")
    captured = capture.mixed(model, calibration[:1])
    answers = []
    for image in (*images.split(1), *(images * 40).split(1), *(images - 3).split(1)):
        answers.append(captured(image))
        torch.testing.assert_close(answers[-1], model(image))
    code = inner(captured, "gate").code
    assert "if " in code
    assert "if " not in inner(captured, "stem").code


def test_mixed_takes_a_model_that_traces_as_a_whole_as_one_trace(tiny: BuildInputs) -> None:
    model, calibration, images = parts(tiny)
    captured = capture.mixed(model, calibration[:1])
    assert inner(captured, "").code != captured.code
    torch.testing.assert_close(captured(images[:1]), model(images[:1]))


def test_mixed_converts_the_layout_outside_of_the_trace(tiny: BuildInputs) -> None:
    model, calibration, images = parts(tiny)
    captured = capture.mixed(capture.ChannelsLast(model), calibration[:1])
    assert "contiguous" in captured.code
    assert "contiguous" not in captured.model.code
    torch.testing.assert_close(captured(images[:1]), model(images[:1]))


def test_mixed_leaves_the_callers_model_as_it_was(make_inputs: Callable[..., BuildInputs]) -> None:
    model, calibration, images = parts(make_inputs("nets:Gated"))
    before = model(images), [type(part) for part in model.modules()]
    capture.mixed(model, calibration[:1])
    torch.testing.assert_close(model(images), before[0])
    assert [type(part) for part in model.modules()] == before[1]
    hooks = (hook for part in model.modules() for hook in (*part._forward_pre_hooks, *part._forward_hooks))
    assert list(hooks) == []


def test_mixed_takes_quantized_graph_modules(tiny: BuildInputs) -> None:
    model, calibration, images = parts(tiny)
    mapping = QConfigMapping().set_global(get_default_qconfig("qnnpack"))
    prepared = prepare_fx(model, mapping, (calibration[:1],))
    prepared(calibration)
    graph = convert_fx(prepared)
    captured = capture.mixed(graph, calibration[:1])
    torch.testing.assert_close(captured(images[:1]), graph(images[:1]))


def test_mixed_names_the_module_that_can_be_neither_traced_nor_scripted(
    make_inputs: Callable[..., BuildInputs],
) -> None:
    model, calibration, _ = parts(make_inputs("nets:Hidden"))
    with pytest.raises(BuildError, match=r"body\.2 \(Moody\) can be neither traced nor scripted") as caught:
        capture.mixed(model, calibration[:1])
    assert caught.value.kind == "not_capturable"


@pytest.mark.parametrize("net", ["Pair", "Named", "Infinite"])
def test_mixed_takes_any_answer_that_torchscript_has(make_inputs: Callable[..., BuildInputs], net: str) -> None:
    model, calibration, images = parts(make_inputs(f"nets:{net}"))
    captured = capture.mixed(model, calibration[:1])
    torch.testing.assert_close(captured(images[:1]), model(images[:1]), equal_nan=True)


def test_mixed_takes_a_transformer(make_inputs: Callable[..., BuildInputs]) -> None:
    model, calibration, images = parts(make_inputs("nets:transformer"))
    captured = capture.mixed(model, calibration[:1])
    torch.testing.assert_close(captured(images[:1] * 3), model(images[:1] * 3))


def test_a_model_with_quantized_ends_is_compared_on_quantized_inputs() -> None:
    class Quantized(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.relu(x).flatten(1)

    class Torn(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1) if bool(x.dequantize().mean() > 0.1) else x.flatten(1)[:, :1]

    image = torch.quantize_per_tensor(torch.rand(1, 3, 8, 8), 1 / 64, 128, torch.quint8)
    for captured in (capture.trace(Quantized(), image), capture.mixed(Quantized(), image)):
        torch.testing.assert_close(captured(image).dequantize(), Quantized()(image).dequantize())
    with pytest.raises(BuildError) as caught:
        capture.trace(Torn(), image)
    assert caught.value.kind == "trace_differs"
