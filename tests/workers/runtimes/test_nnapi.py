"""Models converted for NNAPI, run through PyTorch's own runtime on the reference."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.backends._nnapi.serializer import NNAPI_OperandCode
from torch.fx import GraphModule
from torch.jit.mobile import _load_for_lite_interpreter

from sweeps.errors import BuildError
from tests.workers.runtimes import nnapi_nets
from tests.workers.runtimes.int8_cpu import VNNI
from workers.models.accuracy import sqnr_db
from workers.models.eager_model import load_eager
from workers.models.package import BuildInputs
from workers.runtimes.torchscript import capture
from workers.runtimes.torchscript.exact_int8 import exact_int8
from workers.runtimes.torchscript.fuse import fuse, symbolic
from workers.runtimes.torchscript.interfaces import Core, split, with_numbers
from workers.runtimes.torchscript.nnapi.lower import Lowered, Options, lower
from workers.runtimes.torchscript.nnapi.model import parse
from workers.runtimes.torchscript.nnapi.rewrite import fit
from workers.runtimes.torchscript.quantize import Scheme, calibrate, convert, prepare
from workers.runtimes.torchscript.save import save
from workers.runtimes.torchscript.torch_state import build_state

Right = Callable[[GraphModule, torch.Tensor, Path], torch.Tensor]
LAYOUTS = pytest.mark.parametrize("nhwc", [False, True], ids=["nchw", "nhwc"])


@pytest.fixture(autouse=True)
def state() -> Iterator[None]:
    torch.manual_seed(0)
    with build_state("qnnpack"):
        yield


def images(count: int) -> torch.Tensor:
    return torch.randn(count, nnapi_nets.CHANNELS, nnapi_nets.SIZE, nnapi_nets.SIZE)


def options(*, nhwc: bool = False, flexible: bool = False, relaxed: bool = False) -> Options:
    return Options(nhwc=nhwc, preference="sustained_speed", relaxed_fp16=relaxed, flexible_batch=flexible)


def float_graph(net: nn.Module) -> GraphModule:
    return fuse(fit(symbolic(net)))[0]


def int8_graph(net: nn.Module, calibration: torch.Tensor) -> GraphModule:
    scheme = Scheme(method="static_fx", engine="qnnpack", granularity="per_tensor")
    prepared = prepare(fit(symbolic(net)), scheme, calibration[:1])
    quantized = convert(prepared, calibrate(prepared, calibration.numpy(), scheme, 8, None), scheme)
    assert isinstance(quantized, GraphModule)
    return quantized


# Floats


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@LAYOUTS
@pytest.mark.parametrize("name", nnapi_nets.FLOAT_NETS)
def test_every_operator_answers_as_eager_for_any_batch(name: str, nhwc: bool) -> None:
    net = nnapi_nets.settled(nnapi_nets.FLOAT_NETS[name]())
    lowered = lower(float_graph(net), images(1), options(nhwc=nhwc, flexible=True), "none", None)
    for count in (1, 8, 3):
        x = images(count)
        torch.testing.assert_close(lowered.module(x), net(x.clone()), rtol=1e-4, atol=1e-5)
    assert lowered.coverage.share == 1.0


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@LAYOUTS
def test_a_fixed_batch_takes_images_in_either_memory_format(nhwc: bool) -> None:
    net = nnapi_nets.settled(nnapi_nets.Slices())
    module = lower(float_graph(net), images(2), options(nhwc=nhwc), "none", None).module
    x = images(2)
    for layout in (x, x.contiguous(memory_format=torch.channels_last)):
        torch.testing.assert_close(module(layout), net(x), rtol=1e-4, atol=1e-5)


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@LAYOUTS
def test_mobilenet_reaches_60_db_in_floats_and_35_db_in_relaxed_ones(mobilenet: BuildInputs, nhwc: bool) -> None:
    net = load_eager(mobilenet.package)
    x = torch.from_numpy(mobilenet.verification[:8])
    expected = mobilenet.verification_logits[:8]
    for relaxed, needed, most in ((False, 60.0, 200.0), (True, 35.0, 90.0)):
        module = lower(float_graph(net), x, options(nhwc=nhwc, relaxed=relaxed), "none", None).module
        quality = sqnr_db(expected, module(x).numpy())
        assert quality is not None
        assert needed <= quality < most


@LAYOUTS
def test_coverage_counts_operations_and_multiply_adds(nhwc: bool) -> None:
    layers = (nn.Conv2d(6, 8, 3, padding=1, bias=False), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8))
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(800, 4)).eval()
    lowered = lower(float_graph(net), images(2), options(nhwc=nhwc), "none", None).coverage
    expected = {"CONV_2D": 1, "RELU": 1, "DEPTHWISE_CONV_2D": 1, "RESHAPE": 1, "FULLY_CONNECTED": 1}
    # PyTorch flattens height and width of each channel, NHWC has the channels of each pixel.
    assert lowered.operations == ({**expected, "TRANSPOSE": 1, "RESHAPE": 2} if nhwc else expected)
    assert lowered.mult_adds == 2 * (144 * 8 * 6 * 9 + 100 * 8 * 9 + 800 * 4)
    assert lowered.mult_adds_covered == lowered.mult_adds
    assert lowered.feature_level == 3


class Transformer(nn.Module):
    """A class token for each image, attention, layer norm and GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(6, 16, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.norm = nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.hidden, self.head = nn.Linear(16, 32), nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)
        y = self.norm(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        return self.head(nn.functional.gelu(self.hidden(x + y))[:, 0])


@LAYOUTS
@pytest.mark.parametrize("flexible", [False, True])
def test_a_transformer_converts_whole(flexible: bool, nhwc: bool) -> None:
    lowered = lower(
        float_graph(Transformer().eval()), images(2), options(nhwc=nhwc, flexible=flexible), "none", None
    ).coverage
    assert lowered.share == 1.0
    assert lowered.operations["BATCH_MATMUL"] == 2
    assert {"SOFTMAX", "RSQRT", "EXP"} <= lowered.operations.keys()
    assert lowered.feature_level == 6
    # Patches (9 of 96 values), joint and out projections, scores and their sums of values, hidden; then the head.
    tokens = 10 * (16 * 48 + 16 * 16 + 16 * 32)
    assert lowered.mult_adds == 2 * (9 * 96 * 16 + tokens + 2 * 10 * 10 * 16 + 32 * 5)


# 8 bits


def int32_biases(graph: GraphModule, example: torch.Tensor) -> GraphModule:
    """With the biases that NNAPI (and QNNPACK) can hold: whole numbers of input scale times weight scale.

    The x86 engine, and exact arithmetic, keep biases as floats: on these they compute the same model.
    """

    def round_bias(module: nn.Module, inputs: tuple[torch.Tensor]) -> None:
        weight, bias = module._weight_bias()  # type: ignore[operator]  # of a quantized module
        unit = inputs[0].q_scale() * weight.q_scale()
        module.set_weight_bias(weight, (bias / unit).round() * unit)  # type: ignore[operator]  # of a quantized module

    hooks = [m.register_forward_pre_hook(round_bias) for m in graph.modules() if hasattr(m, "_weight_bias")]
    graph(example)
    for hook in hooks:
        hook.remove()
    return graph


def exactly(graph: GraphModule, x: torch.Tensor, folder: Path) -> torch.Tensor:
    with exact_int8():
        answer: torch.Tensor = graph(x)
        return answer


def under_x86(graph: GraphModule, x: torch.Tensor, folder: Path) -> torch.Tensor:
    saved = save(capture.trace(with_numbers(graph), x), folder, "pt")
    with build_state("x86"):  # the engine in force at loading decides
        answer: torch.Tensor = torch.jit.load(str(saved.file))(x)
        return answer


def lowered_as(interface: str, graph: GraphModule, core: Core, x: torch.Tensor, chosen: Options) -> Lowered:
    cut = None if interface == "inside" else core
    return lower(graph if cut is None else cut.core, x, chosen, interface, cut)


def answers(lowered: Lowered, interface: str, core: Core, x: torch.Tensor) -> torch.Tensor:
    if interface != "full":
        answer: torch.Tensor = lowered.module(x)
        assert not answer.is_quantized
        return answer
    quantized = torch.quantize_per_tensor(x, core.input.scale, core.input.zero_point, core.input.dtype)
    answer = lowered.module(quantized)
    assert core.output is not None
    assert (answer.q_scale(), answer.q_zero_point()) == (core.output.scale, core.output.zero_point)
    return answer.dequantize()


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@LAYOUTS
@pytest.mark.parametrize("interface", ["core", "full", "inside"])
@pytest.mark.parametrize("right", [exactly, pytest.param(under_x86, marks=VNNI)])
def test_int8_answers_within_one_unit_of_exact_arithmetic_and_of_the_x86_engine(
    right: Right, interface: str, nhwc: bool, tmp_path: Path
) -> None:
    x = images(64)
    graph = int32_biases(int8_graph(nnapi_nets.settled(nnapi_nets.Int8()), x), x[:1])
    core = split(graph)
    assert core.output is not None
    lowered = lowered_as(interface, graph, core, x[:1], options(nhwc=nhwc, flexible=True))
    difference = (answers(lowered, interface, core, x) - right(graph, x, tmp_path)).abs() / core.output.scale
    assert float((difference < 1.01).double().mean()) >= 0.995
    counts = lowered.coverage.operations
    assert (counts.get("QUANTIZE", 0), counts.get("DEQUANTIZE", 0)) == ((1, 1) if interface == "inside" else (0, 0))
    assert {"HARD_SWISH", "GROUPED_CONV_2D", "CONCATENATION"} <= counts.keys()
    assert lowered.coverage.feature_level == 4


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@LAYOUTS
@pytest.mark.parametrize("flexible", [False, True])
def test_a_resize_and_a_mean_over_the_batch_are_int8_and_prelu_stays_float(
    flexible: bool, nhwc: bool, tmp_path: Path
) -> None:
    x = images(64)
    graph = int32_biases(int8_graph(nnapi_nets.Int8Resize().eval(), x), x[:1])
    core = split(graph)
    assert core.output is not None
    lowered = lower(core.core, x, options(nhwc=nhwc, flexible=flexible), "core", core)
    difference = (lowered.module(x) - exactly(graph, x, tmp_path)).abs() / core.output.scale
    assert float((difference < 1.01).double().mean()) >= 0.995
    model = parse(nnapi_nets.serialized_model(lowered.module))
    types = {operation.name: model.operands[operation.inputs[0]].type for operation in model.operations}
    int8 = NNAPI_OperandCode.TENSOR_QUANT8_ASYMM
    assert (types["RESIZE_NEAREST_NEIGHBOR"], types["MEAN"]) == (int8, int8)
    assert types["PRELU"] == NNAPI_OperandCode.TENSOR_FLOAT32


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@LAYOUTS
def test_int8_mobilenet_is_the_eager_model_to_10_db(mobilenet: BuildInputs, nhwc: bool) -> None:
    graph = int8_graph(load_eager(mobilenet.package), torch.from_numpy(mobilenet.calibration))
    core = split(graph)
    x = torch.from_numpy(mobilenet.verification[:8])
    answer = answers(lowered_as("core", graph, core, x, options(nhwc=nhwc)), "core", core, x)
    quality = sqnr_db(mobilenet.verification_logits[:8], answer.numpy())
    assert quality is not None
    assert quality >= 10


def test_an_answer_in_floats_cannot_be_handed_over_quantized() -> None:
    class Tail(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(6, 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.exp(self.conv(x).mean((2, 3)))

    x = images(8)
    core = split(int8_graph(Tail().eval(), x))
    with pytest.raises(BuildError, match="last operator is not quantized") as caught:
        lower(core.core, x[:1], options(), "full", core)
    assert caught.value.kind == "interface_not_possible"


# Models that cannot be converted


class Unsupported(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 6, 1)
        self.grouped = nn.Conv2d(6, 6, 3, groups=2, dilation=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.erf(self.conv(x)) + torch.erf(x)
        x = self.grouped(functional_hardtanh(x))
        return torch.cumsum(x, 1).mean()


def functional_hardtanh(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.hardtanh(x, -2.0, 2.0)


@pytest.mark.parametrize("flexible", [False, True])
def test_every_operator_that_cannot_be_converted_is_named_with_its_reason(flexible: bool) -> None:
    with pytest.raises(BuildError) as caught:
        lower(float_graph(Unsupported().eval()), images(2), options(flexible=flexible), "none", None)
    assert caught.value.kind == "unsupported_operator"
    for words in (
        "aten::erf (2 times): PyTorch's converter has no NNAPI operation",
        "aten::_convolution: a dilated convolution that is grouped",
        "aten::hardtanh: hardtanh from -2.0 to 2.0",
        "aten::cumsum: PyTorch's converter has no",
        "aten::mean: a mean over all dimensions",
        # The pointwise convolution of 144 pixels is left, of 64 pixels the grouped one is refused.
        f"it can take {144 * 36 / (144 * 36 + 64 * 6 * 27):.1%} of the multiply-adds",
    ):
        assert words in caught.value.message


def test_weights_with_a_scale_per_channel_are_refused() -> None:
    x = images(8)
    scheme = Scheme(method="static_fx", engine="qnnpack", granularity="per_channel")
    prepared = prepare(fit(symbolic(nnapi_nets.settled(nnapi_nets.Int8()))), scheme, x[:1])
    graph = convert(prepared, calibrate(prepared, x.numpy(), scheme, 8, None), scheme)
    with pytest.raises(BuildError, match=r"quantized::conv2d.*one scale for each tensor"):
        lower(graph, x[:1], options(), "inside", None)


class Dictionary(nn.Module):
    def forward(self, x: torch.Tensor) -> object:
        return {"a": x.mean((2, 3))}


class Pair(nn.Module):
    def forward(self, x: torch.Tensor) -> object:
        return x.mean((2, 3)), x


@pytest.mark.parametrize(("net", "kind"), [(Dictionary, "not_traceable"), (Pair, "invalid_output")])
def test_more_than_one_tensor_is_no_answer(net: type[nn.Module], kind: str) -> None:
    with pytest.raises(BuildError) as caught:
        lower(net().eval(), images(2), options(), "none", None)
    assert caught.value.kind == kind


class JoinsBatch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 12)


def test_a_flexible_batch_that_is_joined_with_another_dimension_is_refused() -> None:
    graph = symbolic(JoinsBatch())
    assert lower(graph, images(2), options(), "none", None).coverage.operations == {"RESHAPE": 1}
    with pytest.raises(BuildError, match=r"aten::reshape: a reshape from .* with a flexible batch"):
        lower(graph, images(2), options(flexible=True), "none", None)


# Files

LOADS = """
import sys
import torch
from torch.jit.mobile import _load_for_lite_interpreter
for path in sys.argv[1:]:
    module = (_load_for_lite_interpreter if path.endswith("ptl") else torch.jit.load)(path)
    try:
        module(torch.zeros(1, 6, 12, 12))
    except RuntimeError as error:
        print("libneuralnetworks" in str(error) or "NNAPI" in str(error) or "nnapi" in str(error))
"""


@pytest.mark.compiler
@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("flexible", [False, True])
def test_files_load_where_there_is_no_nnapi_and_run_where_there_is(flexible: bool, tmp_path: Path) -> None:
    net = nnapi_nets.settled(nnapi_nets.Views())
    lowered = lower(float_graph(net), images(1), options(nhwc=True, flexible=flexible), "none", None)
    files = [save(lowered.module, tmp_path, format).file for format in ("pt", "ptl")]
    x = images(1)
    for load, file in zip((torch.jit.load, _load_for_lite_interpreter), files, strict=True):
        torch.testing.assert_close(load(str(file))(x), net(x), rtol=1e-4, atol=1e-5)
    argv = [sys.executable, "-W", "ignore", "-c", LOADS, *map(str, files)]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout.split() == ["True", "True"]


def test_the_serialized_model_is_found_in_a_saved_module(tmp_path: Path) -> None:
    x = images(8)
    core = split(int8_graph(nnapi_nets.settled(nnapi_nets.Int8()), x))
    for interface in ("core", "full"):
        lowered = lower(core.core, x[:1], options(), interface, core)
        torch.jit.save(lowered.module, str(tmp_path / "model.pt"))
        model = parse(nnapi_nets.serialized_model(torch.jit.load(str(tmp_path / "model.pt"))))
        assert model.counts() == dict(lowered.coverage.operations)
        assert model.operands[model.inputs[0]].dimensions == (1, 6, 12, 12)
