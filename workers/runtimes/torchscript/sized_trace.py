"""Traces a model for inputs of one shape: all numbers that follow from sizes are computed while the model is traced.

`torch.fx.symbolic_trace` writes sizes, and numbers computed from sizes, into the graph. So it cannot follow a branch on
a size, nor call functions that take only numbers (`torch.zeros(x.size(0), 8)`), and static int8 takes such a number for
a tensor.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node, Proxy, Tracer
from torch.fx.node import map_aggregate
from torch.fx.proxy import Attribute

_OF_SIZES = frozenset(("size", "dim", "ndimension", "numel", "element_size"))
_ONE_SIZE = "edgesweep_one_size"
_ARITHMETIC = frozenset(
    (
        *(operator.add, operator.iadd, operator.mul, operator.imul, operator.matmul),
        *(torch.add, torch.mul, torch.matmul, "add", "add_", "mul", "mul_", "matmul"),
    )
)
"""The operators that static int8 quantizes, with an observer for each operand."""


def sized_trace(model: torch.nn.Module, example: torch.Tensor) -> GraphModule:
    """Return the graph of `model` for inputs of the shape of `example`. Raises the exceptions of the model's code and
    of fx, for instance if a branch depends on values."""
    tracer = _Tracer(example)
    with torch.no_grad():
        graph = tracer.trace(model)
    traced = GraphModule(tracer.root, graph, type(model).__name__)
    graph.eliminate_dead_code(is_impure_node=_writes)
    traced.recompile()
    traced.meta[_ONE_SIZE] = True
    return traced


def is_of_one_size(graph: torch.nn.Module) -> bool:
    """Tell whether a graph was traced for one shape, batch included. Such a graph need not accept another shape."""
    return isinstance(graph, GraphModule) and _ONE_SIZE in graph.meta


def scales_by_a_size(graph: Graph) -> bool:
    """Tell whether a number that is computed from sizes is added to a tensor, or multiplied with one."""
    numbers: set[Node] = set()
    for node in graph.nodes:
        if (
            (node.op == "call_method" and node.target in _OF_SIZES)
            or (node.op == "call_function" and node.target is getattr and node.args[1] in ("shape", "ndim"))
            or (node.all_input_nodes and numbers.issuperset(node.all_input_nodes))
        ):
            numbers.add(node)
        elif node.target in _ARITHMETIC and not numbers.isdisjoint(node.all_input_nodes):
            return True
    return False


def _writes(node: Node) -> bool:
    """Tell whether a node may have an effect although nothing reads it: in-place methods write into their tensor."""
    return bool(node.is_impure()) or (node.op == "call_method" and str(node.target).endswith("_"))


class _Valued(Proxy):
    """A tensor, or a list of tensors, while the model is traced."""

    value: Any

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self.value)))  # type: ignore[index]  # a proxy has each method

    def __len__(self) -> int:
        return len(self.value)

    def __getattr__(self, name: str) -> Any:
        if name == "value":
            raise AttributeError(name)
        attribute = getattr(self.value, name)
        return super().__getattr__(name) if callable(attribute) or _has_tensors(attribute) else attribute


class _Tracer(Tracer):
    """A tracer that runs each step on fake tensors, which have sizes and no values, as it records the step. Results
    without a tensor become constants of the graph."""

    def __init__(self, example: torch.Tensor) -> None:
        super().__init__()
        self._example = example
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        self._forward: Callable[..., Any] | None = None
        self._running = False

    def proxy(self, node: Node) -> Proxy:
        return _Valued(node, self)

    def call_module(
        self, m: torch.nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self._running:
            return forward(*args, **kwargs)
        self._forward = forward
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        return attr_val if self._running else super().getattr(attr, attr_val, parameter_proxy_cache)

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *more: Any, **options: Any) -> Any:
        forward = self._forward
        proxy = super().create_proxy(kind, target, args, kwargs, *more, **options)
        if kind == "output":
            return proxy
        self._running = True
        try:
            with self._fake:
                value = self._result(kind, target, map_aggregate(args, _value), map_aggregate(kwargs, _value), forward)
        finally:
            self._running = False
        if not _has_tensors(value):
            return value
        proxy.value = value  # type: ignore[attr-defined]  # of `_Valued`
        return proxy

    def _result(self, kind: str, target: Any, args: Any, kwargs: Any, forward: Callable[..., Any] | None) -> Any:
        match kind:
            case "placeholder":
                return self._fake.from_tensor(self._example)
            case "get_attr":
                return operator.attrgetter(target)(self.root)
            case "call_module":
                assert forward is not None
                return forward(*args, **kwargs)
            case "call_method":
                return getattr(args[0], target)(*args[1:], **kwargs)
            case _:
                return target(*args, **kwargs)


def _value(traced: Any) -> Any:
    if isinstance(traced, Attribute):
        return getattr(traced.root.value, traced.attr)
    return traced.value if isinstance(traced, _Valued) else traced


def _has_tensors(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_has_tensors, value))
    return isinstance(value, torch.Tensor)
