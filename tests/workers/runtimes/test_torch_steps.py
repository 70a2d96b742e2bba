"""Fusing, quantizing and capturing, on graphs that show what was done."""

from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch

from sweeps.errors import BuildError
from workers.accuracy import sqnr_db
from workers.models import load_eager
from workers.runtimes.interface import BuildInputs
from workers.runtimes.torchscript import capture
from workers.runtimes.torchscript.fuse import fuse, symbolic
from workers.runtimes.torchscript.quantize import quantize
from workers.runtimes.torchscript.torch_state import build_state

BOUNDED = (torch.nn.ReLU6, torch.nn.Hardtanh)


@pytest.fixture(autouse=True)
def state() -> Iterator[None]:
    with build_state("qnnpack"):
        yield


def parts(inputs: BuildInputs) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    images = torch.from_numpy(inputs.verification)
    return load_eager(inputs.package), torch.from_numpy(inputs.calibration), images


def test_what_is_fused_is_listed_and_answers_the_same(tiny: BuildInputs) -> None:
    model, _, images = parts(tiny)
    graph, fused = fuse(symbolic(model))
    assert fused == ("stem.0 + stem.1", "depthwise.0 + depthwise.1", "point + norm", "hidden + relu")
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in graph.modules())
    torch.testing.assert_close(graph(images), model(images))


def test_a_relu_that_is_called_twice_is_fused_at_each_call(make_inputs: Callable[..., BuildInputs]) -> None:
    model, _, images = parts(make_inputs("resnet18", num_classes=5))
    graph, fused = fuse(symbolic(model))
    assert "layer1.0.conv1 + layer1.0.bn1 + layer1.0.relu" in fused
    assert "layer1.0.conv2 + layer1.0.bn2" in fused
    assert len(fused) == 20
    torch.testing.assert_close(graph(images), model(images))


def test_a_convolution_that_something_else_reads_is_not_fused() -> None:
    class Peek(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 3, 1)
            self.norm = torch.nn.BatchNorm2d(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.conv(x)
            y: torch.Tensor = self.norm(x) + x
            return y

    assert fuse(symbolic(Peek().eval()))[1] == ()


def test_control_flow_on_the_input_can_not_be_fused_and_says_so(nets: ModuleType) -> None:
    with pytest.raises(BuildError, match=r"torch\.fx can not trace the model, which fusing and int8 need") as caught:
        symbolic(nets.Branch())
    assert caught.value.kind == "not_traceable"


def test_relu6_in_every_form_becomes_a_relu_whose_scale_is_its_bound(tiny: BuildInputs) -> None:
    model, calibration, images = parts(tiny)
    graph, fused = quantize(symbolic(model), [calibration], "qnnpack")
    assert not any(isinstance(module, BOUNDED) for module in graph.modules())
    assert not any(word in graph.code for word in ("relu6(", "hardtanh(", "clamp("))
    fixed = [m for m in graph.modules() if getattr(m, "scale", None) == pytest.approx(6 / 255) and m.zero_point == 0]
    # The stem, the depthwise, Hardtanh and clamp; the fifth is an addition with ReLU.
    assert [module._get_name() for module in fixed] == ["QuantizedConvReLU2d"] * 4
    assert "add_relu" in graph.code
    assert len(fused) == 6
    quality = sqnr_db(tiny.verification_logits, graph(images).numpy())
    assert quality is not None
    assert quality > 30


def test_a_relu_that_is_called_twice_is_quantized_at_each_call(make_inputs: Callable[..., BuildInputs]) -> None:
    inputs = make_inputs("resnet18", num_classes=5)
    model, calibration, images = parts(inputs)
    graph, fused = quantize(symbolic(model), [calibration], "qnnpack")
    assert len(fused) == 20
    assert [module._get_name() for module in graph.modules()].count("QuantizedConvReLU2d") == 9
    quality = sqnr_db(inputs.verification_logits, graph(images).numpy())
    assert quality is not None
    assert quality > 10


@pytest.mark.parametrize("engine", ["qnnpack", "x86", "onednn"])
def test_a_relu6_that_shares_its_scale_with_larger_values_stays_one(
    make_inputs: Callable[..., BuildInputs], engine: str
) -> None:
    inputs = make_inputs("nets:Mixed")
    model, calibration, images = parts(inputs)
    with build_state(engine):
        graph, _ = quantize(symbolic(model), [calibration], engine)
        answer = graph(images).numpy()
    assert sum(isinstance(module, BOUNDED) for module in graph.modules()) == 1
    quality = sqnr_db(inputs.verification_logits, answer)
    assert quality is not None
    assert quality > 8  # cut at 6, the answers would be others altogether


def test_channels_last_is_not_scrambled_under_qnnpack(mobilenet: BuildInputs) -> None:
    model, calibration, images = parts(mobilenet)
    graph, _ = quantize(symbolic(model), [calibration], "qnnpack")
    nchw, nhwc = graph(images), graph(images.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(nhwc, nchw, rtol=0, atol=float(nchw.abs().max()) * 0.02)


def test_without_the_rewrite_qnnpack_scrambles_channels_last() -> None:
    # What the rewrite is for. When this fails, torch is repaired and the rewrite is only an optimisation.
    x = torch.quantize_per_tensor(torch.randn(1, 16, 8, 8) * 4, 0.1, 60, torch.quint8)
    plain = torch.nn.functional.hardtanh(x, 0.0, 6.0).dequantize()
    last = torch.nn.functional.hardtanh(x.contiguous(memory_format=torch.channels_last), 0.0, 6.0).dequantize()
    assert float((plain - last).abs().max()) > 1.0


def test_nothing_to_calibrate_with_is_refused(tiny: BuildInputs) -> None:
    with pytest.raises(BuildError, match="no calibration image") as caught:
        quantize(symbolic(load_eager(tiny.package)), [], "qnnpack")
    assert caught.value.kind == "not_quantizable"


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
