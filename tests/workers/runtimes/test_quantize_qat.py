"""Quantization-aware training: a short fine-tune that is the same every time and never worse than static int8."""

import io
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from sweeps.variant import DEFAULT_GRANULARITY
from tests.workers.runtimes.int8_cpu import ENGINES, engine_of
from workers.models.accuracy import sqnr_db
from workers.models.eager_model import load_eager
from workers.models.package import BuildInputs
from workers.runtimes.torchscript import capture
from workers.runtimes.torchscript.quantize import Prepared, Scheme, calibrate, convert, prepare, qat
from workers.runtimes.torchscript.torch_state import build_state

BOUNDED = (torch.nn.ReLU6, torch.nn.Hardtanh)


@pytest.fixture(autouse=True)
def state() -> Iterator[None]:
    with build_state("qnnpack"):
        yield


def scheme(method: str = "qat", way: str = "qnnpack") -> Scheme:
    engine, reduced = engine_of(way)
    return Scheme(method=method, engine=engine, granularity=DEFAULT_GRANULARITY[engine], reduced_range=reduced)


def steps(inputs: BuildInputs, wanted: Scheme) -> tuple[Prepared, dict[str, torch.Tensor]]:
    model = load_eager(inputs.package)
    prepared = prepare(model, wanted, torch.from_numpy(inputs.calibration[:1]))
    return prepared, calibrate(prepared, inputs.calibration, wanted, 16, model)


def quality(inputs: BuildInputs, int8: torch.nn.Module) -> float:
    answer = sqnr_db(inputs.verification_logits, int8(torch.from_numpy(inputs.verification)).numpy())
    assert answer is not None
    return answer


@pytest.mark.parametrize("way", ENGINES)
def test_it_is_not_worse_than_static_int8_and_keeps_the_rewrite_of_relu6(tiny: BuildInputs, way: str) -> None:
    with build_state(engine_of(way)[0]):
        static, tuned = (convert(*steps(tiny, one), one) for one in (scheme("static_fx", way), scheme("qat", way)))
        assert quality(tiny, tuned) > quality(tiny, static) - 1.0
        nchw = tuned(torch.from_numpy(tiny.verification))
        nhwc = tuned(torch.from_numpy(tiny.verification).contiguous(memory_format=torch.channels_last))
        torch.testing.assert_close(nhwc, nchw, rtol=0, atol=float(nchw.abs().max()) * 0.02)
        torch.testing.assert_close(capture.script(tuned)(torch.from_numpy(tiny.verification)), nchw)
    assert not any(isinstance(module, BOUNDED) for module in tuned.modules())
    fixed = [m for m in tuned.modules() if getattr(m, "scale", None) == pytest.approx(6 / 255) and m.zero_point == 0]
    assert len(fixed) == 4


@pytest.mark.system
def test_the_weights_move_towards_the_float_models_answers(make_inputs: Callable[..., BuildInputs]) -> None:
    # Four of MobileNetV2's 17 blocks have all of its layers, and train in a fifth of the time.
    blocks = [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 1, 2]]
    small = make_inputs("mobilenet_v2", 64, width_mult=0.35, num_classes=10, inverted_residual_setting=blocks)
    # Each image twice: what is held out is trained on, too. Whether other images gain depends on the CPU's rounding.
    small = replace(small, calibration=np.concatenate([small.calibration] * 2))
    prepared, found = steps(small, scheme())
    parameters = dict(prepared.module.named_parameters())
    moved = [name for name, parameter in parameters.items() if not torch.equal(found[name], parameter)]
    assert len(moved) > len(parameters) / 2
    untrained = {**found, **{name: parameter.detach() for name, parameter in parameters.items()}}
    images = torch.from_numpy(small.calibration)
    wanted = load_eager(small.package)(images)
    better, before = (float((convert(prepared, one, scheme())(images) - wanted).norm()) for one in (found, untrained))
    assert better < before


def test_steps_that_do_not_help_on_images_held_out_are_not_taken(
    tiny: BuildInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = iter((1.0, 1.01))
    monkeypatch.setattr(qat, "_error", lambda *_: next(errors))
    prepared, found = steps(tiny, scheme())
    assert all(torch.equal(found[name], parameter) for name, parameter in prepared.module.named_parameters())
    assert next(errors, None) is None


def test_two_fine_tunes_are_the_same_to_the_bit_also_through_a_file(tiny: BuildInputs) -> None:
    prepared, first = steps(tiny, scheme())
    _, second = steps(tiny, scheme())
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    file = io.BytesIO()
    torch.save(first, file)
    file.seek(0)
    images = torch.from_numpy(tiny.verification)
    stored = torch.load(file, weights_only=True)
    assert torch.equal(convert(prepared, first, scheme())(images), convert(prepared, stored, scheme())(images))


def test_the_model_that_it_learns_from_stays_as_it_was(tiny: BuildInputs) -> None:
    model = load_eager(tiny.package)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    prepared = prepare(model, scheme(), torch.from_numpy(tiny.calibration[:1]))
    calibrate(prepared, tiny.calibration, scheme(), 16, model)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_what_is_fused_is_what_static_int8_fuses(mobilenet: BuildInputs) -> None:
    model, example = load_eager(mobilenet.package), torch.from_numpy(mobilenet.calibration[:1])
    assert prepare(model, scheme(), example).fused == prepare(model, scheme("static_fx"), example).fused


def test_one_calibration_image_is_enough_to_go_on(tiny: BuildInputs) -> None:
    model = load_eager(tiny.package)
    prepared = prepare(model, scheme(), torch.from_numpy(tiny.calibration[:1]))
    found = calibrate(prepared, tiny.calibration[:1], scheme(), 16, model)
    assert quality(tiny, convert(prepared, found, scheme())) > 5
