"""Lowers an exported program to a backend, and counts the operators that the backend takes."""

import functools
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from sweeps.errors import BuildError
from sweeps.manifest import Coverage
from sweeps.variant import Variant
from workers.models.one_thread import one_thread
from workers.runtimes.executorch.export import version
from workers.runtimes.executorch.runner import library
from workers.runtimes.executorch.tracing import quick, quiet
from workers.runtimes.exporting import values_decide
from workers.runtimes.library_errors import chain_of, first_words
from workers.runtimes.multiply_adds import multiply_adds, operator_of, with_shares

_NO_KERNEL = re.compile(
    r"Operator (?:torch\._ops\.)?([\w.]+) is not|Missing out variants: \{([^}]*)\}|"
    r"([\w.]+) is not (?:an )?(?:Aten )?Canonical",
    re.IGNORECASE,
)
_NOT_COUNTED = ("getitem", "executorch_call_delegate", "alloc")


class Lowered:
    """A program in the form for its backend."""

    def __init__(self, edge: Any, file: bytes, coverage: Coverage) -> None:
        self._edge = edge
        self.file = file
        self.coverage = coverage

    def runs(self) -> torch.nn.Module:
        """Return the lowered graph as a PyTorch module: the operators that a delegate took compute its results."""
        module: torch.nn.Module = self._edge.exported_program().module()
        for part in module.modules():
            # Otherwise ExecuTorch makes the delegate's graph a module again in each call.
            if (original := getattr(part, "original_module", None)) is not None:
                original.module = functools.partial(_itself, original.module())
        return module


def _itself(module: torch.nn.Module) -> torch.nn.Module:
    return module


def lower(program: ExportedProgram, variant: Variant) -> Lowered:
    """Lower `program`, which loses the constants that a delegate takes. Raises `BuildError`: `unsupported_operator`
    with the operator's name, or `not_exportable`."""
    with quiet(), quick(), one_thread():
        from executorch.exir import to_edge_transform_and_lower

        _find_flatc()
        # The library is loaded first: without it, quantized operators have no variants that write into given memory.
        library()
        try:
            edge = to_edge_transform_and_lower(program, partitioner=_partitioners(variant))
            file = bytes(edge.to_executorch().buffer)
        except Exception as error:  # ExecuTorch raises any exception if it cannot lower
            raise _failure(error, program.graph) from error
    return Lowered(edge, file, coverage_of(edge.exported_program().graph_module))


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
    """Set the path of `flatc`, which ExecuTorch starts by its name: its wheel has one, but not on PATH."""
    import executorch.data.bin as programs

    flatc = Path(next(iter(programs.__path__))) / "flatc"
    if flatc.is_file():
        os.environ.setdefault("FLATC_EXECUTABLE", str(flatc))


def _failure(error: Exception, graph: torch.fx.Graph) -> BuildError:
    text = "\n".join(str(error) for error in chain_of(error))
    names = {name for groups in _NO_KERNEL.findall(text) for name in re.findall(r"[\w.:]+", " ".join(groups))}
    if names:
        return unsupported(sorted(names), graph)
    why = first_words(chain_of(error)[-1])
    return values_decide(error, version()) or BuildError("not_exportable", f"{version()} cannot lower the model: {why}")


def unsupported(operators: list[str], graph: torch.fx.Graph) -> BuildError:
    """Return the error for operators without a kernel. `graph`: the model's graph before it was lowered."""
    return BuildError(
        "unsupported_operator",
        f"{version()} has no kernel for {with_shares(operators, graph)}",
        "replace these operators in the model, or ship it with another runtime",
        operator=operators[0],
    )


def coverage_of(graph: torch.fx.GraphModule) -> Coverage:
    """Count the operators and multiply-adds of the lowered graph, and how many of them are in delegates."""
    in_delegates, left, left_work = Counter[str](), Counter[str](), Counter[str]()
    covered = whole = 0
    for node, delegated in _nodes(graph):
        name = operator_of(node)
        # Pairs of quantize and dequantize only tell a delegate that data is int8: it runs no operator for them.
        if not (delegated and name.startswith("quantized_decomposed::")):
            (in_delegates if delegated else left)[name] += 1
        work = multiply_adds(node)
        whole += work
        if delegated:
            covered += work
        elif work:
            left_work[name] += work
    return Coverage(
        operations=dict(sorted(in_delegates.items())),
        left=dict(sorted(left.items())),
        left_percent={name: 100.0 * work / whole for name, work in sorted(left_work.items())},
        delegates=sum(node.op == "get_attr" for node in graph.graph.nodes if _lowered(graph, node) is not None),
        multiply_adds=whole,
        multiply_adds_covered_percent=100.0 * covered / whole if whole else 0.0,
    )


def _nodes(graph: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.Node, bool]]:
    """Yield every operator that counts, and whether it is in a delegate."""
    for node in graph.graph.nodes:
        if (inner := _lowered(graph, node)) is not None:
            yield from ((node, True) for node in inner.graph.nodes if _counts(node))
        elif _counts(node):
            yield node, False


def _lowered(graph: torch.fx.GraphModule, node: torch.fx.Node) -> Any:
    """Return the graph that became a delegate, if `node` stands for one; else `None`."""
    if node.op != "get_attr":
        return None
    original = getattr(getattr(graph, str(node.target), None), "original_module", None)
    return None if original is None else original.graph_module


def _counts(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") not in _NOT_COUNTED
