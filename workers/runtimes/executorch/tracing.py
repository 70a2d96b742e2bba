"""A build calls torch and ExecuTorch without their warnings, and without what their passes do again and again.

A build has a hundred passes, and most trace the whole model anew. The file is the same bytes without what is spared.
torch has no switches for this, so its methods are replaced while a build runs. `patch` puts them back as they were,
also a static method and one that torch does not define.
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
    """Without the warnings of torch's and ExecuTorch's own code about its own deprecations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def quick() -> Iterator[None]:
    """Let torch's passes share what they would make again, and leave out what nobody asks for."""
    with sharing_origins(), remembering_shapes(), compiling_late(), decomposing_what_is_left():
        yield


@contextmanager
def sharing_origins() -> Iterator[None]:
    """Let nodes share the notes of where they came from.

    torch copies them in each pass, back to the first graph, and changes none of them: a sixth of the time that
    lowering takes.
    """
    # `copy` looks for this method first; torch defines none.
    with patch.object(NodeSource, "__deepcopy__", lambda self, _memo: self, create=True):
        yield


@contextmanager
def remembering_shapes() -> Iterator[None]:
    """Let torch remember the shapes that quantizing and dequantizing give, as it does for ATen's operators.

    An int8 model asks for some ten thousand. They are forgotten at the end: scales are part of what is asked, so each
    model has its own.
    """
    usual = FakeTensorMode._validate_cache_key

    def validate(self: FakeTensorMode, func: OpOverload, args: Any, kwargs: Any) -> None:
        if not _quantizes(func) or func._schema.is_mutable:
            usual(self, func, args, kwargs)

    # torch also remembers what it was not to remember.
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
    """Let graphs become Python code when they are called, and not when they are made.

    Each pass makes one or more, and most are only traced again: a fifth of the time that lowering takes.
    """
    usual = GraphModule.__new__

    def quick_new(cls: type[GraphModule], *args: Any, **kwargs: Any) -> Any:
        return usual(_CompiledLate if cls is GraphModule else cls, *args, **kwargs)

    with patch.object(GraphModule, "__new__", quick_new):
        yield


@contextmanager
def decomposing_what_is_left() -> Iterator[None]:
    """Let a program that was decomposed be decomposed again only if it has an operator of the table.

    ExecuTorch decomposes twice for each partitioner, to find out what its backend takes whole, and mostly nothing is
    left for the second time.
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
    """torch's own, which its compiler uses, but for graphs whose structure of inputs and outputs is known: compiling
    notes it, and an export reads it."""

    def recompile(self) -> Any:  # type: ignore[override]  # torch's is of the class, and none
        return self._real_recompile() if isinstance(self.graph._codegen, _PyTreeCodeGen) else super().recompile()
