"""A model rewritten for NNAPI answers as before, and has nothing left that NNAPI's converter refuses."""

import operator

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.workers.runtimes import nnapi_nets
from workers.runtimes.torchscript.fuse import symbolic
from workers.runtimes.torchscript.nnapi.rewrite import fit

pytestmark = pytest.mark.usefixtures("no_gradients")


@pytest.fixture
def no_gradients() -> object:
    with torch.no_grad():
        yield


def images(count: int = 3) -> torch.Tensor:
    return torch.randn(count, nnapi_nets.CHANNELS, nnapi_nets.SIZE, nnapi_nets.SIZE)


@pytest.mark.parametrize("name", nnapi_nets.FLOAT_NETS)
def test_a_rewritten_network_answers_as_before_and_leaves_the_user_s_alone(name: str) -> None:
    torch.manual_seed(0)
    net = nnapi_nets.settled(nnapi_nets.FLOAT_NETS[name]())
    x = images()
    expected = net(x.clone())
    torch.testing.assert_close(fit(symbolic(net))(x.clone()), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(net(x.clone()), expected, rtol=0, atol=0)


def test_nothing_is_left_in_place_and_no_dropout() -> None:
    net = nnapi_nets.settled(nnapi_nets.InPlace())
    graph = fit(symbolic(net))
    x = images()
    before = x.clone()
    graph(x)
    assert torch.equal(x, before)
    assert not any(getattr(module, "inplace", False) for module in graph.modules())
    assert not any(isinstance(module, nn.Dropout) for module in graph.modules())
    targets = [node.target for node in graph.graph.nodes]
    assert not any(target is operator.iadd or str(target).endswith("_") for target in targets)
    with torch.no_grad():
        kinds = {node.kind() for node in torch.jit.trace(graph, x).inlined_graph.nodes()}
    assert not any(kind.endswith("_") for kind in kinds)


def test_batch_norm_that_cannot_be_folded_becomes_a_depthwise_convolution() -> None:
    graph = fit(symbolic(nnapi_nets.settled(nnapi_nets.Norms())))
    assert sum(isinstance(module, nn.BatchNorm2d) for module in graph.modules()) == 1
    assert sum(isinstance(module, nn.Conv2d) and module.groups == 6 for module in graph.modules()) == 2


def test_clamps_become_what_quantization_and_nnapi_know() -> None:
    targets = [node.target for node in fit(symbolic(nnapi_nets.Activations().eval())).graph.nodes]
    assert targets.count(functional.hardtanh) == 2
    assert targets.count(functional.relu) == 1
    assert functional.silu not in targets


class Attention(nn.Module):
    def __init__(self, *, bias: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, bias=bias, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer, _ = self.attention(x, x, x, need_weights=False)
        return x + answer


@pytest.mark.parametrize("bias", [True, False])
def test_self_attention_becomes_linears_around_the_heads(bias: bool) -> None:
    net = Attention(bias=bias).eval()
    graph = fit(symbolic(net))
    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(graph(x), net(x), rtol=1e-5, atol=1e-5)
    assert sum(isinstance(module, nn.Linear) for module in graph.modules()) == 2
    assert not any(isinstance(module, nn.MultiheadAttention) for module in graph.modules())


class Weights(Attention):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer, weights = self.attention(x, x, x)
        return answer * weights.mean()


def test_attention_whose_weights_are_read_stays_as_it_is() -> None:
    net = Weights(bias=True).eval()
    graph = fit(symbolic(net))
    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(graph(x), net(x))
    assert any(isinstance(module, nn.MultiheadAttention) for module in graph.modules())
