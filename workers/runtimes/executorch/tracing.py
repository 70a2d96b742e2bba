"""How a build calls torch and ExecuTorch: without their warnings, and without work that their passes repeat.

A build has a hundred passes, and most trace the whole model anew. The file has the same bytes without the repeated
work. torch has no switches for this, so its methods are replaced while a build runs. `patch` restores them, also a
static method and one that torch does not define.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch
from weakref import WeakSet

from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.graph import _PyTreeCodeGen
from torch.fx.traceback import NodeSource


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings in the block: torch and ExecuTorch warn about deprecations in their own code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def quick() -> Iterator[None]:
    """Let torch's passes in the block share results that they would compute again, and skip results that nobody
    uses."""
    with sharing_origins(), remembering_shapes(), compiling_late(), decomposing_what_is_left():
        yield


@contextmanager
def sharing_origins() -> Iterator[None]:
    """Let nodes share the notes of the nodes that they came from.

    torch copies these notes in each pass, back to the first graph, and changes none of them: a sixth of the time that
    lowering takes.
    """
    # `copy` looks for this method first; torch defines none.
    with patch.object(NodeSource, "__deepcopy__", lambda self, _memo: self, create=True):
        yield


@contextmanager
def remembering_shapes() -> Iterator[None]:
    """Let torch cache the output shapes of quantize and dequantize operators, as it does for ATen's operators.

    An int8 model needs some ten thousand of these shapes. They are removed from the cache at the end, because scales
    are part of the key: no two models share an entry.
    """
    usual = FakeTensorMode._validate_cache_key

    def validate(self: FakeTensorMode, func: OpOverload, args: Any, kwargs: Any) -> None:
        if not _quantizes(func) or func._schema.is_mutable:
            usual(self, func, args, kwargs)

    # torch also caches that a result must not be cached, so such entries are removed first.
    _forget()
    with patch.object(FakeTensorMode, "_validate_cache_key", validate):
        try:
            yield
        finally:
            _forget()


def _forget() -> None:
    remembered = FakeTensorMode.cache
    for call in [call for call in remembered if _quantizes(call.key[0])]:
        del remembered[call]


def _quantizes(operator: object) -> bool:
    return getattr(operator, "namespace", None) == "quantized_decomposed"


@contextmanager
def compiling_late() -> Iterator[None]:
    """Compile graphs to Python code when they are called, and not when they are created.

    Each pass creates one or more graphs, and most are only traced again: a fifth of the time that lowering takes.
    """
    usual = GraphModule.__new__

    def quick_new(cls: type[GraphModule], *args: Any, **kwargs: Any) -> Any:
        return usual(_CompiledLate if cls is GraphModule else cls, *args, **kwargs)

    with patch.object(GraphModule, "__new__", quick_new):
        yield


@contextmanager
def decomposing_what_is_left() -> Iterator[None]:
    """Decompose a program that was decomposed before only if it has an operator of the decomposition table.

    ExecuTorch decomposes twice for each partitioner, to find out which operators its backend takes whole, and mostly
    nothing is left for the second time.
    """
    usual: Any = ExportedProgram.run_decompositions
    decomposed: WeakSet[ExportedProgram] = WeakSet()

    def run(self: ExportedProgram, decomp_table: Any = None, **options: Any) -> ExportedProgram:
        if self in decomposed and decomp_table is not None and not _has_any(self, decomp_table):
            return self
        program: ExportedProgram = usual(self, decomp_table, **options)
        decomposed.add(program)
        return program

    with patch.object(ExportedProgram, "run_decompositions", run):
        yield


def _has_any(program: ExportedProgram, operators: Any) -> bool:
    graphs = (part.graph for part in program.graph_module.modules() if isinstance(part, GraphModule))
    return any(node.op == "call_function" and node.target in operators for graph in graphs for node in graph.nodes)


class _CompiledLate(_LazyGraphModule):
    """torch's lazily compiled graph, which its compiler uses. Graphs whose structure of inputs and outputs is known are
    compiled at once: compiling notes the structure, and an export reads it."""

    def recompile(self) -> Any:  # type: ignore[override]  # torch's is of the class, and none
        return self._real_recompile() if isinstance(self.graph._codegen, _PyTreeCodeGen) else super().recompile()
