"""The work that operators are: multiply-adds of an exported graph, and what is said of them."""

import textwrap
import warnings

import torch
from torch import nn

from workers.runtimes.multiply_adds import multiply_adds, operator_of, with_shares


class Mixed(nn.Module):
    """A convolution of 8x8 outputs, a transposed one, a product of two matrices, and a sine."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.up = nn.ConvTranspose2d(4, 2, 2, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raised = self.up(self.conv(x))
        return torch.matmul(raised, raised.transpose(2, 3)).sin()


def graph(decomposed: bool) -> torch.fx.Graph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Mixed().eval(), (torch.randn(1, 4, 8, 8),))
        return (program.run_decompositions() if decomposed else program).graph


def test_multiply_adds_are_the_same_before_and_after_decomposition() -> None:
    # 8x8 outputs of 4 channels by 3x3 of one channel; 8x8 inputs of 4 channels by 2x2 for 2; 16x16 by 16 for 2.
    expected = [4 * 64 * 9, 4 * 64 * 2 * 4, 2 * 16 * 16 * 16]
    for decomposed in (False, True):
        counted = [work for node in graph(decomposed).nodes if (work := multiply_adds(node))]
        assert counted == expected, [operator_of(node) for node in graph(decomposed).nodes]


def test_an_operator_has_its_share_and_one_that_is_not_counted_says_so() -> None:
    shares = with_shares(["aten.bmm.default", "aten.sin.default", "aten::gone"], graph(decomposed=True))
    assert (
        shares
        == "aten.bmm.default (65.3 % of the multiply-adds), aten.sin.default (no multiply-adds are counted), aten::gone"
    )


def test_a_function_is_called_as_in_its_module_and_the_same_in_every_process() -> None:
    graph = torch.fx.Graph()
    assert operator_of(graph.call_function(textwrap.dedent, ("x",))) == "textwrap::dedent"
    assert operator_of(graph.call_function(torch.ops.aten.add.Tensor, (1, 2))) == "aten::add"
