"""Work is spared while ExecuTorch builds: only then, and with the same answers. `test_executorch` compares files."""

import copy
import importlib

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram, default_decompositions, export
from torch.fx import GraphModule, symbolic_trace
from torch.fx.traceback import NodeSource

from workers.runtimes.executorch import tracing

pytestmark = pytest.mark.runtime("executorch")


def test_nodes_share_their_origins_only_while_a_model_is_built() -> None:
    origin = [NodeSource(None, "a pass")]
    with tracing.quick():
        with tracing.quick():
            assert copy.deepcopy(origin)[0] is origin[0]
        assert copy.deepcopy(origin)[0] is origin[0]
    assert copy.deepcopy(origin)[0] is not origin[0]


def remembered(times: int) -> int:
    """Count the equal calls of torch's quantization that are answered from memory."""
    importlib.import_module("torchao.quantization.pt2e.quantize_pt2e")  # the import registers the operators
    with FakeTensorMode() as mode:
        x = mode.from_tensor(torch.zeros(2, 3))
        before = FakeTensorMode.cache_info().hits
        for _ in range(times):
            y = torch.ops.quantized_decomposed.quantize_per_tensor.default(x, 0.5, 3, -128, 127, torch.int8)
            assert (tuple(y.shape), y.dtype) == ((2, 3), torch.int8)
        return FakeTensorMode.cache_info().hits - before


def test_shapes_that_quantization_gives_are_remembered_only_while_a_model_is_built() -> None:
    remembered(1)  # torch remembers that of ATen's which makes the answer
    usual = remembered(4)
    with tracing.quick():
        assert remembered(4) - usual == 3
        assert remembered(4) - usual == 4
    assert remembered(4) == usual


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def test_graphs_are_compiled_when_they_are_called_only_while_a_model_is_built() -> None:
    traced = symbolic_trace(Twice())
    with tracing.quick():
        late = GraphModule(Twice(), traced.graph)
        copied = copy.deepcopy(late)
    x = torch.ones(2)
    for module in (late, copied):
        assert "_code" not in vars(module)
        assert torch.equal(module(x), 2 * x)
        assert "_code" in vars(module)
    assert "_code" in vars(GraphModule(Twice(), traced.graph))


def test_a_graph_that_is_compiled_late_knows_its_changes() -> None:
    with tracing.quick():
        late = GraphModule(Twice(), symbolic_trace(Twice()).graph)
        assert torch.equal(late(torch.ones(2)), torch.full((2,), 2.0))
        (node,) = (node for node in late.graph.nodes if node.op == "call_function")
        node.target = torch.mul
        late.recompile()
        assert torch.equal(late(torch.full((2,), 3.0)), torch.full((2,), 9.0))


def test_what_is_exported_meanwhile_has_its_ends() -> None:
    x = torch.ones(2)
    with tracing.quick():
        program = export(Twice(), (x,), strict=True)
        assert torch.equal(program.module()(x), 2 * x)


# torch's own code warns of itself.
OF_TORCH = pytest.mark.filterwarnings("ignore::FutureWarning")


def operators(program: ExportedProgram) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


@OF_TORCH
def test_a_program_is_decomposed_again_only_for_what_is_left_of_it() -> None:
    table = {torch.ops.aten.hardswish.default: lambda x: x * torch.clamp(x + 3, 0, 6) / 6}
    usual = export(torch.nn.Hardswish(), (torch.ones(2),)).run_decompositions({})
    assert usual.run_decompositions({}) is not usual
    with tracing.quick():
        program = export(torch.nn.Hardswish(), (torch.ones(2),))
        functional = program.run_decompositions({})
        assert functional is not program, "it was never decomposed"
        assert functional.run_decompositions({}) is functional
        assert operators(functional) == operators(usual) == ["aten.hardswish.default"]
        rest = functional.run_decompositions(table)
        assert "aten.hardswish.default" not in operators(rest)
        assert operators(rest) == operators(usual.run_decompositions(table))
        assert rest.run_decompositions(table) is rest


@OF_TORCH
def test_what_a_backend_takes_whole_is_decomposed_if_it_is_not_taken() -> None:
    """The two tables are ExecuTorch's: first without `linear`, then with it."""
    first = default_decompositions()
    first.pop(torch.ops.aten.linear.default)
    with tracing.quick():
        functional = export(torch.nn.Linear(2, 3), (torch.ones(1, 2),)).run_decompositions({})
        decomposed_first = functional.run_decompositions(first)
        assert "aten.linear.default" in operators(decomposed_first)
        decomposed = decomposed_first.run_decompositions(default_decompositions())
        assert "aten.addmm.default" in operators(decomposed)
        assert decomposed.run_decompositions(default_decompositions()) is decomposed


class Either(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, torch.nn.functional.hardswish, (x,))


@OF_TORCH
def test_what_is_left_in_a_branch_is_decomposed() -> None:
    table = {torch.ops.aten.hardswish.default: lambda x: x * torch.clamp(x + 3, 0, 6) / 6}
    with tracing.quick():
        functional = export(Either(), (torch.ones(2),)).run_decompositions({})
        rest = functional.run_decompositions(table)
        assert rest is not functional
        assert rest.run_decompositions(table) is rest
