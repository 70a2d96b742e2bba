"""Lowers an exported program to a backend, and counts what the backend takes of it."""

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from sweeps.errors import BuildError
from sweeps.manifest import Coverage
from sweeps.variant import Variant
from workers.models.one_thread import one_thread
from workers.runtimes.executorch.export import quiet
from workers.runtimes.exporting import chain_of
from workers.runtimes.failures import first_words

_NO_KERNEL = re.compile(
    r"Operator (?:torch\._ops\.)?([\w.]+) is not|Missing out variants: \{([^}]*)\}|"
    r"([\w.]+) is not (?:an )?(?:Aten )?Canonical",
    re.IGNORECASE,
)
_NOT_COUNTED = ("getitem", "executorch_call_delegate")


class Lowered:
    """A program in the form for its backend."""

    def __init__(self, edge: Any, file: bytes, coverage: Coverage | None) -> None:
        self._edge = edge
        self.file = file
        self.coverage = coverage

    def runs(self) -> torch.nn.Module:
        """The lowered graph in PyTorch: what a delegate would compute is computed by the operators that it took."""
        module: torch.nn.Module = self._edge.exported_program().module()
        return module


def lower(program: ExportedProgram, variant: Variant) -> Lowered:
    """Raises `BuildError`: `unsupported_operator` with its name, or `not_exportable`."""
    with quiet(), one_thread():
        from executorch.exir import to_edge_transform_and_lower

        _find_flatc()
        try:
            edge = to_edge_transform_and_lower(program, partitioner=_partitioners(variant))
            file = bytes(edge.to_executorch().buffer)
        except Exception as error:  # ExecuTorch raises any exception if it cannot lower
            raise _failure(error) from error
    graph = edge.exported_program().graph_module
    return Lowered(edge, file, None if variant.backend == "portable" else coverage_of(graph))


def version() -> str:
    return f"executorch {metadata.version('executorch')}"


def _partitioners(variant: Variant) -> list[Any]:
    if variant.backend == "portable":
        return []
    if variant.backend == "vulkan":
        from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner

        return [VulkanPartitioner()]
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import (
        XnnpackDynamicallyQuantizedPartitioner,
        XnnpackPartitioner,
    )

    dynamic = [XnnpackDynamicallyQuantizedPartitioner()] if variant.quantization == "dynamic" else []
    return [*dynamic, XnnpackPartitioner()]


def _find_flatc() -> None:
    """ExecuTorch starts `flatc` by its name, which need not be on PATH: its wheel has one."""
    import executorch.data.bin as programs

    flatc = Path(next(iter(programs.__path__))) / "flatc"
    if flatc.is_file():
        os.environ.setdefault("FLATC_EXECUTABLE", str(flatc))


def _failure(error: Exception) -> BuildError:
    text = "\n".join(str(one) for one in chain_of(error))
    names = {name for found in _NO_KERNEL.findall(text) for name in re.findall(r"[\w.:]+", " ".join(found))}
    if names:
        return unsupported(sorted(names))
    return BuildError("not_exportable", f"{version()} cannot lower the model: {first_words(chain_of(error)[-1])}")


def unsupported(operators: list[str]) -> BuildError:
    return BuildError(
        "unsupported_operator",
        f"{version()} has no kernel for {', '.join(operators)}",
        "replace these operators in the model, or ship it with another runtime",
    )


def coverage_of(graph: torch.fx.GraphModule) -> Coverage:
    """How many operators and multiply-adds of the lowered graph are in delegates."""
    taken, left = Counter[str](), Counter[str]()
    covered = whole = 0
    for node, delegated in _nodes(graph):
        name = operator_of(node)
        # Pairs of quantize and dequantize are how a delegate is told of int8: it runs no operator for them.
        if not (delegated and name.startswith("quantized_decomposed::")):
            (taken if delegated else left)[name] += 1
        work = multiply_adds(node)
        whole += work
        covered += work if delegated else 0
    return Coverage(
        operations=dict(sorted(taken.items())),
        left=dict(sorted(left.items())),
        delegates=sum(node.op == "get_attr" for node in graph.graph.nodes if _lowered(graph, node) is not None),
        multiply_adds=whole,
        multiply_adds_covered_percent=100.0 * covered / whole if whole else 0.0,
    )


def _nodes(graph: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.Node, bool]]:
    """Every operator, and whether a delegate has it."""
    for node in graph.graph.nodes:
        if (inner := _lowered(graph, node)) is not None:
            yield from ((one, True) for one in inner.graph.nodes if _counts(one))
        elif _counts(node):
            yield node, False


def _lowered(graph: torch.fx.GraphModule, node: torch.fx.Node) -> Any:
    """The graph that a delegate was made of, if `node` stands for a delegate."""
    if node.op != "get_attr":
        return None
    original = getattr(getattr(graph, str(node.target), None), "original_module", None)
    return None if original is None else original.graph_module


def _counts(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") not in _NOT_COUNTED


def operator_of(node: torch.fx.Node) -> str:
    """With its namespace, without its overload: `aten::convolution`."""
    target: Any = getattr(node.target, "_op", node.target)
    name = target.name() if hasattr(target, "name") and callable(target.name) else str(target)
    return str(name).partition(".")[0]


def multiply_adds(node: torch.fx.Node) -> int:
    """Those of convolutions, linears and matrix products, at the exported shape."""
    count = _COUNTED.get(operator_of(node).partition("::")[2])
    return 0 if count is None else count(node)


def _shape(node: Any) -> tuple[int, ...]:
    value = node.meta["val"]
    return tuple((value[0] if isinstance(value, tuple) else value).shape)


def _convolution(node: torch.fx.Node) -> int:
    transposed = len(node.args) > 6 and bool(node.args[6])
    weight = _shape(node.args[1])
    # Each element of the output (of the input, where transposed) meets one filter.
    return math.prod(_shape(node.args[0] if transposed else node)) * math.prod(weight[1:])


def _product(factor: int) -> Callable[[torch.fx.Node], int]:
    return lambda node: math.prod(_shape(node)) * _shape(node.args[factor])[-1]


_COUNTED: Mapping[str, Callable[[torch.fx.Node], int]] = {
    "convolution": _convolution,
    "conv2d": _convolution,
    "linear": _product(0),
    "mm": _product(0),
    "bmm": _product(0),
    "addmm": _product(1),
}
