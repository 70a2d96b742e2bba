"""Some CPUs add 8-bit products right; exact arithmetic stands in where this one does not."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.ao.nn import quantized as nnq

from sweeps.manifest import Manifest
from sweeps.variant import Variant
from tests.workers.runtimes.int8_cpu import VNNI, here_sums_are_exact, printed_as_avx2
from tests.workers.runtimes.runs import asking_for, evaluating, refused, run
from workers.models.package import BuildInputs
from workers.runtimes.finishing import EXACT_INT8
from workers.runtimes.torchscript.exact_int8 import engine_saturates, exact_int8
from workers.runtimes.torchscript.torch_state import build_state

FULL = Variant(precision="int8", quantization="static_fx", interface="core", qengine="onednn", fuse=True, optimize=True)
Layer = Callable[[], torch.nn.Module]
LAYERS: dict[str, tuple[Layer, tuple[int, ...]]] = {
    "pointwise": (lambda: nnq.Conv2d(64, 32, 1), (2, 64, 9, 9)),
    "3x3": (lambda: nnq.Conv2d(16, 24, 3, 2, 1), (2, 16, 9, 9)),
    "grouped": (lambda: nnq.Conv2d(16, 24, 3, padding=1, groups=4), (2, 16, 9, 9)),
    "depthwise": (lambda: nnq.Conv2d(32, 32, 3, padding=1, groups=32), (2, 32, 9, 9)),
    "dilated": (lambda: nnq.Conv2d(16, 24, 3, padding=2, dilation=2), (2, 16, 9, 9)),
    "1-D": (lambda: nnq.Conv1d(32, 24, 3, 2, 1), (2, 32, 9)),
    "linear": (lambda: nnq.Linear(64, 10), (2, 64)),
    "linear of tokens": (lambda: nnq.Linear(64, 10), (2, 5, 64)),
}
"""Each with the shape of its input."""

SATURATES = """
import torch
from workers.runtimes.torchscript.exact_int8 import engine_saturates
for engine in ("onednn", "x86", "qnnpack"):
    torch.backends.quantized.engine = engine
    print(engine_saturates())
"""
WORST = """
import torch
from tests.workers.runtimes.test_exact_int8 import LAYERS, worst_error
torch.backends.quantized.engine = "onednn"
for name in LAYERS:
    print(worst_error(name, 64))
"""


def worst_error(name: str, largest_weight: int) -> int:
    """Measure how far the engine in force is from exact arithmetic, in units of the answer, with the largest sums that
    weights so large allow: every product of a channel has the same sign."""
    make, shape = LAYERS[name]
    layer, random = make(), torch.Generator().manual_seed(0)
    shape_of_weights = layer.weight().shape
    signs = 1 - 2 * (torch.arange(shape_of_weights[0]) % 2).double().reshape(-1, *(1 for _ in shape_of_weights[1:]))
    weights = (signs * largest_weight).expand(shape_of_weights).float().contiguous()
    layer.set_weight_bias(torch.quantize_per_tensor(weights, 1.0, 0, torch.qint8), torch.zeros(shape_of_weights[0]))
    layer.scale, layer.zero_point = float(weights[0].numel() * largest_weight * 2), 128
    units = torch.randint(250, 256, shape, generator=random).float()
    x = torch.quantize_per_tensor(units, 1.0, 0, torch.quint8)
    with exact_int8():
        right = layer(x).int_repr().int()
    return int((layer(x).int_repr().int() - right).abs().max())


def test_the_plan_knows_whether_the_engine_of_this_machine_saturates() -> None:
    with build_state("onednn"):
        assert engine_saturates() == (not here_sums_are_exact())
    with build_state("qnnpack"):
        assert not engine_saturates()


def test_without_vnni_full_ranges_saturate_and_phones_engines_do_not() -> None:
    # The reduced range is for this. When this fails, torch is repaired, and it only costs a bit of the weights.
    assert printed_as_avx2(SATURATES) == ["True", "True", "False"]


def test_without_vnni_a_reduced_range_is_exact_for_the_largest_sums() -> None:
    assert {int(error) for error in printed_as_avx2(WORST)} <= {0, 1}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("largest", [64, pytest.param(127, marks=VNNI)], ids=["reduced range", "full range"])
def test_onednn_is_exact_in_the_range_that_a_plan_gives_it(name: str, largest: int) -> None:
    with build_state("onednn"):
        assert worst_error(name, largest) <= 1


@pytest.mark.parametrize("name", LAYERS)
def test_exact_arithmetic_is_what_qnnpack_answers_in_the_full_range(name: str) -> None:
    with build_state("qnnpack"):
        assert worst_error(name, 127) <= 1


@pytest.mark.parametrize("relu", [False, True])
def test_exact_arithmetic_takes_scales_per_channel_zero_points_and_biases(relu: bool) -> None:
    torch.manual_seed(0)
    make = torch.ao.nn.intrinsic.quantized.ConvReLU2d if relu else nnq.Conv2d
    x, weight, bias = torch.rand(2, 8, 5, 5) - 0.5, torch.randn(6, 8, 3, 3), torch.randn(6)
    with build_state("onednn"):
        layer = make(8, 6, 3, padding=1)
        scales = weight.abs().amax((1, 2, 3)) / 127
        int8 = torch.quantize_per_channel(weight, scales.double(), torch.zeros(6, dtype=torch.long), 0, torch.qint8)
        layer.set_weight_bias(int8, bias)
        layer.scale, layer.zero_point = 0.05, 100
        quantized = torch.quantize_per_tensor(x, 1 / 255, 128, torch.quint8)
        with exact_int8():
            units = layer(quantized).int_repr()
    right = torch.nn.functional.conv2d(
        quantized.dequantize().double(), int8.dequantize().double(), bias.double(), padding=1
    )
    expected = ((right.relu() if relu else right) / 0.05).round().add(100).clamp(0, 255)
    assert int((units.double() - expected).abs().max()) <= 1
    assert float((units.double() == expected).double().mean()) > 0.99  # a tie may fall to either side


def test_the_engine_is_back_when_exact_arithmetic_ends() -> None:
    kernels = [torch._C._dispatch_dump(f"quantized::{name}") for name in ("conv2d.new", "linear", "linear_relu")]
    with exact_int8():
        assert torch._C._dispatch_dump("quantized::linear") != kernels[1]
    restored = [torch._C._dispatch_dump(f"quantized::{name}") for name in ("conv2d.new", "linear", "linear_relu")]
    assert restored == kernels


@pytest.mark.parametrize("engine", ["x86", "onednn"])
def test_dynamic_int8_saturates_on_no_cpu(engine: str) -> None:
    # torch gives its activations 7 bits, asked or not: no reduced range is needed.
    linear = torch.nn.Linear(64, 8, bias=False)
    linear.weight.data.fill_(1.0)
    with build_state(engine):
        int8 = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(linear).eval(), {torch.nn.Linear})
        torch.testing.assert_close(int8(torch.ones(1, 64)), torch.full((1, 8), 64.0), rtol=0.01, atol=0)


BUILDS = """
import pickle, sys, tempfile
from pathlib import Path
from workers.runtimes.torchscript.runtime import TorchScript
inputs, variants = pickle.loads(Path({given!r}).read_bytes())
for variant in variants:
    found = TorchScript().build(variant, "b" * 64, inputs, Path(tempfile.mkdtemp(dir={folder!r}))).verification
    print(found.engine, round(found.sqnr_db), found.executor.replace(" ", "-") or "the-CPU")
"""


@pytest.mark.system
def test_a_build_for_a_cpu_with_vnni_is_checked_by_exact_arithmetic_on_one_without(
    mobilenet: BuildInputs, tmp_path: Path
) -> None:
    pickled = tmp_path / "given"
    variants = [FULL, replace(FULL, format="ptl"), replace(FULL, reduced_range=True), replace(FULL, qengine="qnnpack")]
    pickled.write_bytes(pickle.dumps((mobilenet, variants)))
    words = printed_as_avx2(BUILDS.format(given=str(pickled), folder=str(tmp_path)))
    full, lite, reduced, qnnpack = (words[start : start + 3] for start in range(0, 12, 3))
    executor = EXACT_INT8.replace(" ", "-")
    assert [(build[0], build[2]) for build in (full, lite, reduced, qnnpack)] == [
        *(("onednn", executor), ("onednn", executor), ("onednn", "the-CPU"), ("qnnpack", "the-CPU"))
    ]
    # Saturated, the full range has 10 dB.
    assert full[1] == lite[1]
    assert int(full[1]) >= int(reduced[1]) >= 14


@VNNI
def test_a_build_for_a_cpu_with_vnni_is_checked_by_its_engine_where_that_is_right(
    mobilenet: BuildInputs, build: Callable[[BuildInputs, Variant], tuple[Path, Manifest]]
) -> None:
    _, manifest = build(mobilenet, FULL)
    assert (manifest.verification.engine, manifest.verification.executor) == ("onednn", "")
    assert manifest.verification.sqnr_db is not None
    assert manifest.verification.sqnr_db > 14


def test_exact_arithmetic_answers_and_is_never_timed(
    tiny: BuildInputs, build: Callable[[BuildInputs, Variant], tuple[Path, Manifest]]
) -> None:
    folder, manifest = build(tiny, replace(FULL, reduced_range=True))
    request = replace(asking_for(manifest, folder), exact_int8=True)
    assert refused(request).kind == "emulated"
    images = torch.from_numpy(tiny.verification)
    report = run(replace(request, **evaluating(folder, images)))  # type: ignore[arg-type]  # paths
    assert (report.reference, report.engine_ran, report.samples_ns) == (True, "onednn", ())
    without = refused(replace(request, engine="none", **evaluating(folder, images)))  # type: ignore[arg-type]  # paths
    assert without.kind == "bad_arguments"
