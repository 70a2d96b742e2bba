"""Whole models, converted by PyTorch and run by PyTorch's own runtime on the reference."""

import copy
import ctypes
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torchvision
from torch import nn
from torch.ao.quantization import HistogramObserver, QConfig, QConfigMapping, default_weight_observer
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
from torch.backends._nnapi import serializer
from torch.backends._nnapi.prepare import convert_model_to_nnapi
from torch.fx import GraphModule, symbolic_trace
from torch.fx.experimental.optimization import fuse

from tests.workers.native.nnapi import HARD_SWISH, Code, Kind, Model, NnapiError, Type
from tests.workers.native.whole_biases import with_whole_biases

pytestmark = pytest.mark.compiler

IMAGES = 16


def images(seed: int, count: int = IMAGES) -> torch.Tensor:
    """Smooth images (N, 3, 64, 64), in which scrambled channels or rows would show."""
    random = torch.Generator().manual_seed(seed)
    coarse = torch.randn((count, 3, 5, 5), generator=random)
    return torch.nn.functional.interpolate(coarse, size=(64, 64), mode="bicubic")


def mobilenet(blocks: list[list[int]] | None = None) -> GraphModule:
    """MobileNetV2 at width 0.35 with settled statistics, as the converter wants it: nothing in place, norms fused."""
    torch.manual_seed(0)
    net = torchvision.models.mobilenet_v2(width_mult=0.35, num_classes=10, inverted_residual_setting=blocks)
    net.classifier = nn.Sequential(nn.Identity(), net.classifier[1])
    with torch.no_grad():
        for seed in range(8):
            net(images(100 + seed))
    for module in net.modules():
        if hasattr(module, "inplace"):
            module.inplace = False
    fused: GraphModule = fuse(net.eval())
    return fused


@pytest.fixture(scope="module")
def network() -> GraphModule:
    return mobilenet()


def as_nhwc(example: torch.Tensor) -> torch.Tensor:
    example = example.contiguous(memory_format=torch.channels_last)
    example.nnapi_nhwc = True  # type: ignore[attr-defined]  # how the converter is told
    return example


def converted(
    module: nn.Module, example: torch.Tensor, *, nhwc: bool, relaxed: bool = False, flexible: bool = False
) -> Callable[[torch.Tensor], torch.Tensor]:
    traced = torch.jit.trace(module, example)
    if flexible:
        example = torch.zeros(0, *example.shape[1:])
    example = as_nhwc(example) if nhwc else example
    return convert_model_to_nnapi(traced, [example], relax_f32_to_f16=relaxed)


def one_by_one(run: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor) -> torch.Tensor:
    return torch.cat([run(image[None]) for image in batch])


def sqnr(right: torch.Tensor, got: torch.Tensor) -> float:
    return float(10 * torch.log10(right.square().sum() / (right - got).square().sum()))


@pytest.mark.parametrize("nhwc", [False, True])
def test_float_models_match_eager(library: ctypes.CDLL, network: GraphModule, nhwc: bool) -> None:
    batch = images(1)
    with torch.no_grad():
        run = converted(network, batch[:1], nhwc=nhwc)
        assert sqnr(network(batch), one_by_one(run, batch)) >= 100


@pytest.mark.parametrize("nhwc", [False, True])
def test_relaxed_models_lose_what_fp16_loses(library: ctypes.CDLL, network: GraphModule, nhwc: bool) -> None:
    batch = images(1)
    with torch.no_grad():
        run = converted(network, batch[:1], nhwc=nhwc, relaxed=True)
        assert 45 <= sqnr(network(batch), one_by_one(run, batch)) <= 80


class FlexibleNet(nn.Module):
    """Every operation in it that the converter lets have an open batch."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, groups=8))
        self.pool = nn.AvgPool2d(31)
        self.classifier = nn.Linear(8, 10)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        features = self.features(batch)
        pooled = self.pool(features + torch.sigmoid(features))
        return self.classifier(torch.flatten(pooled, 1)).softmax(1)


@pytest.mark.parametrize("nhwc", [False, True])
def test_a_flexible_batch_is_settled_by_the_first_run(library: ctypes.CDLL, nhwc: bool) -> None:
    torch.manual_seed(0)
    net = FlexibleNet().eval()
    with torch.no_grad():
        for count in (1, 5):
            run = converted(net, images(2, 1), nhwc=nhwc, flexible=True)
            batch = images(2, count)
            assert torch.allclose(run(batch), net(batch), atol=1e-6)
            with pytest.raises(RuntimeError):
                run(images(2, count + 1))
            assert b"sizes" in library.edgesweep_reference_last_error()


def with_numbers(module: GraphModule) -> GraphModule:
    """Scales and zero points as numbers in the graph, where the converter looks for them."""
    for node in list(module.graph.nodes):
        if node.op == "get_attr" and ("_scale_" in node.target or "_zero_point_" in node.target):
            value = getattr(module, node.target).item()
            for user in list(node.users):
                user.args = tuple(value if argument is node else argument for argument in user.args)
            module.graph.erase_node(node)
    module.recompile()
    return module


@pytest.fixture
def x86() -> Iterator[None]:
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "x86"
    yield
    torch.backends.quantized.engine = before


def quantized(network: GraphModule) -> GraphModule:
    """In 8 bit, with activations of 7: those on which the x86 engine's own sums do not saturate."""
    qconfig = QConfig(HistogramObserver.with_args(reduce_range=True), default_weight_observer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mapping = QConfigMapping().set_global(qconfig)
        prepared = prepare_fx(symbolic_trace(copy.deepcopy(network)), mapping, (images(3, 1),))
        for seed in range(4):
            prepared(images(200 + seed))
        return with_whole_biases(with_numbers(convert_fx(prepared)), images(3, 1))


def test_8_bit_models_match_the_x86_engine(library: ctypes.CDLL, x86: None) -> None:
    batch = images(4, 100)
    # Few blocks: in a deep network of chance weights, one output rounded otherwise changes every logit.
    network = mobilenet([[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 2, 2]])
    with torch.no_grad():
        model = quantized(network)
        right = model(batch)
        got = one_by_one(converted(model, batch[:1], nhwc=True), batch)
        assert sqnr(network(batch), got) >= 20
    units = ((got - right) / model.get_submodule("classifier.1").scale).round().abs()
    assert (units <= 1).float().mean() >= 0.995


def test_every_operation_of_the_serializer_is_known(library: ctypes.CDLL) -> None:
    source = Path(serializer.__file__).read_text()
    emitted = set(re.findall(r"NNAPI_OperationCode\.([A-Z0-9_]+)", source))
    assert {"CONV_2D", "TRANSPOSE", "MEAN"} <= emitted
    for code in [*(getattr(Code, name) for name in emitted), HARD_SWISH]:
        model = Model(library)
        with pytest.raises(NnapiError) as refused:
            model.operation(code, [], Kind(Type.TENSOR_FLOAT32, (1,)))
        assert "knows no operation" not in str(refused.value)
        model.free()


def test_executions_of_one_model_run_at_once(library: ctypes.CDLL, network: GraphModule) -> None:
    batch = images(5, 8)
    with torch.no_grad():
        run = converted(network, batch[:1], nhwc=False)
        right = one_by_one(run, batch)
        got: dict[int, torch.Tensor] = {}

        def work(i: int) -> None:
            with torch.no_grad():
                got[i] = run(batch[i][None])

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(batch))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert torch.equal(torch.cat([got[i] for i in range(len(batch))]), right)
