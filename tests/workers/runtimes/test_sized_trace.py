"""Graphs of models that compute with sizes, spell their calls otherwise, or write in place."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from sweeps.errors import BuildError
from workers.runtimes.torchscript.fuse import fuse, symbolic
from workers.runtimes.torchscript.sized_trace import is_of_one_size, scales_by_a_size, sized_trace

# torch warns once in a process: which test meets the warning hangs on the order.
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")

SHAPE = (1, 4, 8, 8)


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 3, 3))
        self.wide = nn.Parameter(torch.randn(4, 4, 4, 2))
        self.norm, self.act = nn.BatchNorm2d(4), nn.ReLU(inplace=True)


class Branches(Weighted):
    def forward(self, x):
        return x.flatten(1) if x.dim() == 4 and len(x.shape) == 4 else x


class Made(Weighted):
    def forward(self, x):
        mask = torch.zeros(x.size(0), x.size(1), 1, 1)
        return (x + mask) * torch.arange(x.shape[-1], dtype=x.dtype)


class PadsToEven(Weighted):
    def forward(self, x):
        height = x.size()[-2:][0]
        whole = max((math.ceil(height / 2) - 1) * 2 + 3 - height, 0)
        return functional.pad(x, [whole // 2, whole - whole // 2] * 2)


class Scales(Weighted):
    def forward(self, x):
        return x * (x.numel() // x.size(0)) ** -0.5


class Windows(Weighted):
    def forward(self, x):
        batch, channels, height, width = x.shape
        x = x.view(batch, channels, height // 2, 2, width // 2, 2).permute(0, 2, 4, 1, 3, 5)
        first, second = x.reshape(batch, -1, 2).unbind(2)
        return first - second


class ByValue(Weighted):
    def forward(self, x):
        return x[x > 0] if x.sum() > 0 else x


class Calls(Weighted):
    def forward(self, x):
        x = functional.conv2d(x, self.weight, padding="same")
        x = functional.conv2d(x, self.wide, None, 1, "same", 1)
        return functional.conv2d(torch.conv2d(x, self.weight, padding="valid"), self.weight)


class Writes(Weighted):
    def forward(self, x):
        y = self.norm(x)
        y.add_(1.0).mul_(0.5)
        functional.relu_(y)
        self.act(y)
        torch.sigmoid_(y)
        return y + 1


def model_and_input(kind: type[Weighted]) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return kind().eval().requires_grad_(False), torch.randn(SHAPE)


@pytest.mark.parametrize("kind", [Branches, Made, PadsToEven, Scales, Windows])
def test_a_model_that_computes_with_sizes_has_a_graph_for_one_size(kind: type[Weighted]) -> None:
    model, x = model_and_input(kind)
    graph = sized_trace(model, x)
    assert is_of_one_size(graph)
    assert torch.equal(graph(x), model(x))
    spelled = [str(node.target) for node in graph.graph.nodes]
    assert not {"size", "dim", "numel", "shape"} & set(spelled)


@pytest.mark.parametrize("kind", [Branches, Made, PadsToEven])
def test_what_fx_cannot_trace_for_all_sizes_is_traced_for_one(kind: type[Weighted]) -> None:
    model, x = model_and_input(kind)
    with pytest.raises(BuildError, match=r"torch\.fx cannot trace"):
        symbolic(model)
    assert torch.equal(symbolic(model, x)(x), model(x))


def test_a_branch_on_values_stays_refused() -> None:
    model, x = model_and_input(ByValue)
    with pytest.raises(BuildError) as caught:
        symbolic(model, x)
    assert caught.value.kind == "not_traceable"


def test_only_a_number_that_is_added_or_multiplied_needs_one_size() -> None:
    graphs = {kind: torch.fx.symbolic_trace(model_and_input(kind)[0]).graph for kind in (Scales, Windows, Calls)}
    assert [kind for kind, graph in graphs.items() if scales_by_a_size(graph)] == [Scales]


def test_calls_of_convolutions_get_all_arguments_as_numbers() -> None:
    model, x = model_and_input(Calls)
    graph = symbolic(model)
    calls = [node for node in graph.graph.nodes if "conv" in str(node.target)]
    assert [(node.args[3:], node.kwargs) for node in calls] == [
        (((1, 1), padding, (1, 1), 1), {}) for padding in ((1, 1), (0, 0), (0, 0), (0, 0))
    ]
    torch.testing.assert_close(graph(x), model(x))


def test_what_is_written_in_place_is_not_lost() -> None:
    model, x = model_and_input(Writes)
    expected = model(x.clone())
    assert torch.equal(symbolic(model)(x.clone()), expected)
    torch.testing.assert_close(fuse(symbolic(model))[0](x.clone()), expected)
