"""Metal on a machine without one: what is exported, what it answers, and what iOS would refuse."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.jit.mobile import _load_for_lite_interpreter
from torch.nn import functional

from sweeps.errors import BuildError
from workers.models.accuracy import sqnr_db
from workers.models.eager_model import load_eager
from workers.models.package import BuildInputs
from workers.runtimes.torchscript import metal
from workers.runtimes.torchscript.capture import script, trace
from workers.runtimes.torchscript.torch_state import build_state

pytestmark = [
    pytest.mark.system,
    pytest.mark.compiler,
    pytest.mark.filterwarnings("ignore:Lite Interpreter is deprecated:DeprecationWarning"),
]

CONVOLUTION = "metal_prepack::conv2d_run"
LINEAR = "metal_prepack::linear_run"
# These are the operators of the guide to iOS GPUs, written for torchvision of 2021. Since then torch has prepacked
# linears too (addmm), a model flattens instead of reshaping by its size, and copy_to_host is left to `.cpu()`.
GUIDE = {"aten::adaptive_avg_pool2d", "aten::add.Tensor", "aten::flatten.using_ints", CONVOLUTION, LINEAR}


@pytest.fixture(autouse=True)
def state() -> Any:
    with build_state("none"):
        yield


@pytest.fixture(autouse=True, scope="module")
def operators() -> str:
    return metal.load_operators()


def parts(inputs: BuildInputs) -> tuple[nn.Module, torch.Tensor]:
    return load_eager(inputs.package), torch.from_numpy(inputs.verification)


def lite(lowered: torch.jit.ScriptModule) -> Any:
    """The lowered model, saved and loaded as a phone would."""
    return _load_for_lite_interpreter(io.BytesIO(lowered._save_to_buffer_for_lite_interpreter()))


def answers(model: Callable[[torch.Tensor], torch.Tensor], images: torch.Tensor) -> np.ndarray:
    return torch.cat([model(image) for image in images.split(1)]).numpy()


def lowered(model: nn.Module) -> torch.jit.ScriptModule:
    return metal.lower(script(model.eval().requires_grad_(False)))


def half(x: torch.Tensor) -> torch.Tensor:
    return x.half().float()


def test_mobilenet_exports_the_operators_that_the_guide_names(mobilenet: BuildInputs) -> None:
    model, images = parts(mobilenet)
    graph = metal.lower(trace(model, images[:1]))
    assert set(torch.jit.export_opnames(graph)) == GUIDE
    assert metal.unsupported(graph) == []


@pytest.mark.parametrize("capture", ["trace", "script"])
@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        ("mobilenet_v2", {"width_mult": 0.35, "num_classes": 10}),
        ("resnet18", {"num_classes": 10}),
        ("squeezenet1_1", {"num_classes": 10}),
        ("mobilenet_v3_small", {"num_classes": 10}),
        ("efficientnet_b0", {"num_classes": 10}),
        ("shufflenet_v2_x0_5", {"num_classes": 10}),
    ],
)
def test_a_model_is_within_30_db_of_its_eager_self_rounded_to_fp16(
    make_inputs: Callable[..., BuildInputs], source: str, arguments: dict[str, int | float], capture: str
) -> None:
    model, images = parts(make_inputs(source, 64, **arguments))
    graph = metal.lower(trace(model, images[:1]) if capture == "trace" else script(model))
    assert metal.unsupported(graph) == []
    answered = answers(metal.round_to_half(lite(graph)), images)
    expected = answers(metal.round_to_half(model), images)
    assert np.array_equal(expected, answered) or (sqnr_db(expected, answered) or 0.0) >= 30.0
    # fp16 and nothing else: neither the fp32 model itself nor another one.
    assert 35.0 <= (sqnr_db(answers(model, images), answered) or 0.0) <= 80.0


@pytest.mark.parametrize("capture", ["trace", "script"])
@pytest.mark.parametrize("biased", [True, False])
def test_the_bias_that_folding_makes_is_not_lost(biased: bool, capture: str) -> None:
    class Branched(nn.Module):
        """Control flow around Conv+BN, after which the CPU's passes lose the bias (pytorch issue 76807)."""

        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(3, 8, 3, bias=biased)
            self.norm = nn.BatchNorm2d(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.norm(self.convolution(x))
            if x.dim() > 4:
                return x.relu()
            return x

    torch.manual_seed(0)
    model = Branched().eval().requires_grad_(False)
    model.norm.running_mean.normal_()
    model.norm.bias.normal_()
    x = torch.randn(1, 3, 9, 9)
    graph = metal.lower(trace(model, x) if capture == "trace" else script(model))
    assert not any("batch_norm" in name for name in torch.jit.export_opnames(graph))
    assert (sqnr_db(model(x).numpy(), graph(x).numpy()) or 0.0) > 50.0


shapes = st.tuples(*(st.integers(1, 9) for _ in range(4)))


@settings(max_examples=150, deadline=None)
@given(
    shapes,
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([(None, None), (0, None), (0.0, 6.0), (-1.0, 0.5)]),
    st.sampled_from([1e-6, 1.0, 300.0]),
    st.integers(0, 2**31),
)
def test_a_convolution_is_torchs_on_rounded_operands(
    shape: tuple[int, int, int, int],
    outputs: int,
    kernel: int,
    padding: int,
    stride: int,
    biased: bool,
    bounds: tuple[float | None, float | None],
    scale: float,
    seed: int,
) -> None:
    batch, channels, height, width = shape
    height, width = height + 2, width + 2
    random = torch.Generator().manual_seed(seed)
    groups = channels if seed % 2 else 1
    x = torch.randn((batch, channels, height, width), generator=random) * scale
    weight = torch.randn((outputs * groups, channels // groups, kernel, kernel), generator=random)
    bias = torch.randn(outputs * groups, generator=random) if biased else None
    strides, paddings = [stride, 1], [padding, 0]
    packed = torch.ops.metal_prepack.conv2d_prepack(weight, bias, strides, paddings, [1, 1], groups, *bounds)
    answered = torch.ops.metal_prepack.conv2d_run(x, packed)
    rounded_bias = None if bias is None else half(bias).double()
    exact = functional.conv2d(half(x).double(), half(weight).double(), rounded_bias, strides, paddings, 1, groups)
    assert torch.equal(answered, half(answered))
    _assert_rounded(exact if bounds == (None, None) else exact.clamp(*bounds), answered)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 9), st.booleans(), st.booleans(), st.integers(0, 2**31))
def test_a_linear_is_torchs_on_rounded_operands(
    batch: int, features: int, outputs: int, biased: bool, relu: bool, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    x, weight = torch.randn((batch, features), generator=random), torch.randn((outputs, features), generator=random)
    bias = torch.randn(outputs, generator=random) if biased else None
    packed = torch.ops.metal_prepack.linear_prepack(weight, bias, 0.0 if relu else None, None)
    answered = torch.ops.metal_prepack.linear_run(x, packed)
    exact = functional.linear(half(x).double(), half(weight).double(), None if bias is None else half(bias).double())
    assert torch.equal(answered, half(answered))
    _assert_rounded(exact.relu() if relu else exact, answered)


def _assert_rounded(exact: torch.Tensor, answered: torch.Tensor) -> None:
    """Sums in fp32 may fall to the other side of a rounding boundary: at most one unit in the last place of fp16."""
    assert answered.shape == exact.shape
    rounded = exact.half().double()
    unit = torch.maximum(rounded.abs() * 2.0**-10, torch.tensor(2.0**-24))
    near_zero = exact.abs().max() * 1e-6  # cancellation: the error of the sum in fp32, not of its result
    finite = rounded.isfinite()
    assert torch.equal(finite, answered.isfinite())
    assert ((answered.double() - rounded).abs() <= unit + near_zero)[finite].all()


def test_only_what_fp16_cannot_hold_is_lost_on_the_way_to_the_host() -> None:
    x = torch.tensor([[1.0, 1 + 2**-11, 1 + 3 * 2**-11, 65519.0, 65520.0, 2**-24, 2**-26]])
    expected = [[1.0, 1.0, 1 + 2**-9, 65504.0, float("inf"), 2**-24, 0.0]]
    assert torch.ops.metal.copy_to_host(x).tolist() == expected


CONV = {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "groups": 1}
WEIGHT = torch.ones(4, 2, 3, 3)


@pytest.mark.parametrize(
    ("weight", "bias", "changed", "message"),
    [
        (torch.ones(4, 2, 3), None, {}, "4 dimensions, not 3"),
        (WEIGHT.double(), None, {}, "float32"),
        (WEIGHT.to_sparse(), None, {}, "SparseCPU"),
        (torch.ones(0, 2, 3, 3), None, {}, "empty"),
        (WEIGHT, torch.ones(3), {}, "bias"),
        (WEIGHT, torch.ones(4, 1), {}, "1 dimensions"),
        (WEIGHT, None, {"groups": 3}, "3 groups"),
        (WEIGHT, None, {"groups": 0}, "0 groups"),
        (WEIGHT, None, {"groups": -(2**63)}, "groups"),
        (WEIGHT, None, {"stride": [0, 1]}, "stride"),
        (WEIGHT, None, {"stride": [1]}, "two numbers"),
        (WEIGHT, None, {"padding": [-1, 0]}, "padding"),
        (WEIGHT, None, {"padding": [2**62, 0]}, "padding"),
        (WEIGHT, None, {"dilation": []}, "two numbers"),
        (WEIGHT, None, {"output_min": 1.0, "output_max": 0.0}, "activation"),
        (WEIGHT, None, {"output_max": 6.0}, "activation"),
        (WEIGHT, None, {"output_min": float("nan"), "output_max": 1.0}, "activation"),
    ],
)
def test_a_malformed_convolution_is_refused(
    weight: torch.Tensor, bias: torch.Tensor | None, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.ops.metal_prepack.conv2d_prepack(weight, bias, **{**CONV, **changed})


@pytest.mark.parametrize(
    ("weight", "bias", "message"),
    [
        (torch.ones(3), None, "2 dimensions, not 1"),
        (torch.ones(3, 4, 1, 1), None, "2 dimensions, not 4"),
        (torch.ones(3, 4).half(), None, "float32"),
        (torch.ones(0, 4), None, "empty"),
        (torch.ones(3, 4), torch.ones(4), "bias"),
    ],
)
def test_a_malformed_linear_is_refused(weight: torch.Tensor, bias: torch.Tensor | None, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.ops.metal_prepack.linear_prepack(weight, bias)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(2, 8, 8), "4 dimensions, not 3"),
        (torch.ones(1, 3, 8, 8), "3 channels"),
        (torch.ones(1, 2, 8, 8).int(), "float32"),
        (torch.ones(1, 2, 0, 0), "calculated|output size|Kernel size"),
    ],
)
def test_an_input_that_does_not_fit_is_refused(x: torch.Tensor, message: str) -> None:
    packed = torch.ops.metal_prepack.conv2d_prepack(WEIGHT, None, **{**CONV, "padding": [0, 0]})
    with pytest.raises(RuntimeError, match=message):
        torch.ops.metal_prepack.conv2d_run(x, packed)


def test_a_dilated_convolution_is_refused_because_ios_would_leave_the_dilation_out() -> None:
    packed = torch.ops.metal_prepack.conv2d_prepack(WEIGHT, None, **{**CONV, "dilation": [2, 2]})
    with pytest.raises(RuntimeError, match="dilated"):
        torch.ops.metal_prepack.conv2d_run(torch.ones(1, 2, 8, 8), packed)
    assert metal.unsupported(lowered(nn.Conv2d(3, 4, 3, dilation=2))) == [f"{CONVOLUTION} (dilated)"]


numbers = st.integers(-2, 5) | st.sampled_from([2**31, 2**62, -(2**63)])
lists = st.lists(numbers, max_size=3) | st.just([1, 1])
bounds = st.none() | st.sampled_from([0, 0.0, 6.0, -1, float("nan"), float("inf"), 1e30])
dtypes = st.sampled_from([torch.float32] * 4 + [torch.float64, torch.float16, torch.int64, torch.bool, torch.complex64])
tensors = st.builds(torch.ones, st.lists(st.integers(0, 4), max_size=5) | st.just([4, 2, 3, 3]), dtype=dtypes)


@settings(max_examples=1000, deadline=None)
@given(tensors, tensors, st.none() | tensors, lists, lists, lists, numbers, bounds, bounds)
def test_any_operands_are_an_answer_or_an_error_and_no_crash(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    low: float | None,
    high: float | None,
) -> None:
    operators = torch.ops.metal_prepack
    for prepack, run, rest in (
        (operators.conv2d_prepack, operators.conv2d_run, (stride, padding, dilation, groups)),
        (operators.linear_prepack, operators.linear_run, ()),
    ):
        try:
            answered = run(x, prepack(weight, bias, *rest, low, high))
        except RuntimeError:
            continue
        assert answered.dtype == torch.float32


def test_contexts_damaged_in_the_file_are_an_error_and_no_crash() -> None:
    """In a process that a crash would end: all of the pickled contexts, byte by byte.

    Nothing before them: damaged class names crash torch's own reader, for models of the CPU too.
    """
    code = """
import io, torch
from torch.jit.mobile import _load_for_lite_interpreter
from workers.runtimes.torchscript import metal
metal.load_operators()
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16, 2))
content = metal.lower(torch.jit.script(model.eval().requires_grad_(False)))._save_to_buffer_for_lite_interpreter()
first = content.index(b"Conv2dOpContext") + len(b"Conv2dOpContext")
last = content.index(b"optimized_for_metal")
refused = tried = 0
for place in range(first, last, 3):
    damaged = bytearray(content)
    damaged[place] ^= 0x15
    tried += 1
    try:
        _load_for_lite_interpreter(io.BytesIO(bytes(damaged)))(torch.ones(1, 3, 4, 4))
    except Exception:
        refused += 1
print(tried, refused)
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-2000:]
    loaded, refused = map(int, ended.stdout.split())
    assert loaded > 50
    assert refused > loaded // 4


def test_the_pickled_contexts_hold_fp32_and_the_shapes_that_ios_unpacks() -> None:
    graph = lowered(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU6(), nn.Flatten(), nn.Linear(16, 2)))
    contexts = [graph._c.getattr(name) for name in _context_names(graph)]
    convolution, linear = (context._get_method("__getstate__")() for context in contexts)
    weight, bias, *rest = convolution
    assert (weight.dtype, weight.shape, bias.shape) == (torch.float32, (4, 3, 3, 3), (4,))
    assert rest == [[1, 1], [0, 0], [1, 1], 1, 0.0, 6.0]
    weight, bias, *rest = linear
    assert (weight.dtype, weight.shape, bias.shape, rest) == (torch.float32, (2, 16), (2,), [None, None])


def _context_names(graph: torch.jit.ScriptModule) -> list[str]:
    runs = [node for node in graph.graph.nodes() if node.kind() in (CONVOLUTION, LINEAR)]
    return [list(node.inputs())[1].node().s("name") for node in runs]


class Plus(nn.Module):
    """A convolution, and what `rest` makes of its result."""

    def __init__(self, rest: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3)
        self.rest = rest

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(self.convolution(x))


@pytest.mark.parametrize(
    ("rest", "named"),
    [
        (lambda x: functional.gelu(x), ["aten::gelu"]),
        (lambda x: x.permute(0, 2, 3, 1), ["aten::permute"]),
        (lambda x: x + 1.0, ["aten::add.Tensor (a constant without channels)"]),
        (
            lambda x: 2.0 - torch.ones(8, 1, 1) * x,
            ["aten::mul.Tensor (a constant as first operand)", "aten::rsub.Scalar"],
        ),
        (lambda x: x * torch.tensor(2.0), ["aten::mul.Tensor (a constant without channels)"]),
        (lambda x: torch.add(x, x, alpha=2), ["aten::add.Tensor (alpha)"]),
        (lambda x: functional.adaptive_avg_pool2d(x, 2), ["aten::adaptive_avg_pool2d (to another size than 1x1)"]),
        (lambda x: functional.max_pool2d(x, 2, dilation=2), ["aten::max_pool2d (dilated)"]),
        (lambda x: torch.cat([x, x], 2), ["aten::cat (neither of batches nor of channels)"]),
        (lambda x: x.chunk(4, 1)[0], ["aten::chunk (other than two halves of the channels)"]),
        (lambda x: x.mean([-2, -1]), ["aten::mean.dim (of the batch, or with dimensions below 0)"]),
        (lambda x: x.clamp(min=0.5), ["aten::clamp (with one bound)"]),
        (lambda x: functional.hardsigmoid(x) * x, ["aten::hardsigmoid"]),
        (lambda x: functional.silu(x) + functional.hardsigmoid(x.relu().sigmoid() * x), ["aten::hardsigmoid"]),
        (lambda x: functional.silu(x) * functional.hardswish(x).mean([2, 3], True), []),
        (lambda x: functional.max_pool2d(x, 3, 2, ceil_mode=True).flatten(1).softmax(1), []),
        (lambda x: functional.hardsigmoid(x), []),
        (lambda x: x.view(x.size(0), 2, x.size(1) // 2, 6, 6).transpose(1, 2).contiguous().view(1, 8, 6, 6), []),
    ],
)
def test_what_ios_cannot_run_is_named(rest: Callable[[torch.Tensor], torch.Tensor], named: list[str]) -> None:
    graph = metal.lower(trace(Plus(rest).eval().requires_grad_(False), torch.rand(1, 3, 8, 8)))
    assert metal.unsupported(graph) == named


def test_a_list_that_is_filled_step_by_step_is_followed() -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(3, 8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            parts = [self.convolution(x)]
            for _ in range(x.size(0)):
                parts.append(parts[-1].relu())
            return torch.cat(parts, 3)

    assert metal.unsupported(lowered(Listed())) == ["aten::cat (neither of batches nor of channels)"]


def test_arithmetic_with_numbers_is_named_in_a_scripted_model_too() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(3, 8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.convolution(x).relu() * 2.0 + 1.0

    assert metal.unsupported(lowered(Shifted())) == ["aten::add.Scalar", "aten::mul.Scalar"]


@pytest.mark.parametrize(
    ("convolution", "named"),
    [
        (nn.Conv2d(6, 6, 3, groups=2), [f"{CONVOLUTION} (groups of channels that are no multiple of 4)"]),
        (nn.Conv2d(3, 6, 3, groups=3), [f"{CONVOLUTION} (groups of channels that are no multiple of 4)"]),
        (nn.Conv2d(8, 6, 3, groups=2), []),
        (nn.Conv2d(6, 6, 3, groups=6), []),
    ],
)
def test_grouped_convolutions_are_judged_by_their_channels(convolution: nn.Module, named: list[str]) -> None:
    assert metal.unsupported(lowered(convolution)) == named


def test_what_takes_one_image_only_is_named_for_more() -> None:
    graph = lowered(nn.Sequential(nn.Conv2d(3, 8, 3), _Mean()))
    assert metal.unsupported(graph, batch=1) == []
    assert metal.unsupported(graph, batch=2) == ["aten::mean.dim (batch 2)"]


class _Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean([2, 3])


def test_a_rounded_run_rounds_what_every_operator_reads_and_answers(tiny: BuildInputs) -> None:
    model, images = parts(tiny)
    outputs: list[tuple[str, torch.Tensor]] = []
    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda _, __, answer, name=name: outputs.append((name, answer.clone())))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    given_images = images.clone()
    rounded = metal.round_to_half(model)(images)
    assert len(outputs) > 10
    for name, answer in [*outputs, ("the model", rounded)]:
        assert torch.equal(answer, half(answer)), name
    weight, bias = half(model.head.weight), half(model.head.bias)
    features = next(answer for name, answer in outputs if name == "relu")
    assert torch.equal(rounded, half(functional.linear(features, weight, bias)))
    assert torch.equal(images, given_images)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_operators_that_write_in_place_and_views_are_rounded_where_they_are_seen() -> None:
    addend = torch.tensor(1 + 2**-11)

    def model(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.0
        left = y[:, :2]
        left.add_(addend).mul_(1 / 3)
        return y

    x = torch.rand(4, 4)
    expected = half(x)
    expected[:, :2] = half(half(expected[:, :2] + half(addend)) * (1 / 3))
    assert torch.equal(metal.round_to_half(model)(x), expected)


def test_operators_between_the_convolutions_are_rounded_on_the_host_too() -> None:
    graph = lowered(nn.Sequential(nn.Conv2d(3, 8, 3), nn.Sigmoid(), _Mean()))
    x = torch.rand(1, 3, 8, 8)
    loaded = lite(graph)
    assert not torch.equal(loaded(x), half(loaded(x)))
    answered = metal.round_to_half(loaded)(x)
    assert torch.equal(answered, half(answered))


def test_loading_twice_is_harmless(operators: str) -> None:
    assert metal.load_operators() == operators
    metal.load_operators.cache_clear()
    assert metal.load_operators() == operators
    assert Path(operators).is_file()


def test_without_a_compiler_the_build_says_how_to_get_one(tmp_path: Path) -> None:
    code = """
import json
from sweeps.errors import BuildError
from workers.runtimes.torchscript import metal
try:
    metal.load_operators()
except BuildError as error:
    print(json.dumps([error.kind, error.message, error.next_step]))
"""
    environment = {**os.environ, "PATH": str(tmp_path), "EDGESWEEP_CACHE": str(tmp_path), "CXX": "no-such-compiler"}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    kind, message, next_step = json.loads(ended.stdout)
    assert (kind, "metal_ops.cpp" in message, "g++" in next_step) == ("no_compiler", True, True)


def test_a_model_that_cannot_be_optimized_is_a_failed_build() -> None:
    class Formless(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(3, 4, 3)

        @torch.jit.export
        def answer(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.convolution(x)
            return y

    with pytest.raises(BuildError, match="optimize_for_mobile fails for Metal: Method 'forward'") as caught:
        metal.lower(script(Formless().eval()))
    assert caught.value.kind == "not_optimizable"
