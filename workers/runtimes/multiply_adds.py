"""Counts the multiply-adds of the operators of an exported graph, on which most of a model's time depends."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from workers.runtimes.library_errors import place_in


def operator_of(node: torch.fx.Node) -> str:
    """Return the operator's name with its namespace, without its overload: `aten::convolution`; for a function, with
    its module: `memory::view`."""
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload):
        target = getattr(target, "_op", target)  # ExecuTorch wraps the operators of its graphs.
    if isinstance(target, torch._ops.OpOverload):
        return str(target.name()).partition(".")[0]  # type: ignore[no-untyped-call]
    if callable(target):
        return f"{target.__module__.rpartition('.')[2]}::{target.__name__}"
    return str(target).partition(".")[0]


def multiply_adds(node: torch.fx.Node) -> int:
    """Return the multiply-adds of convolutions, linears, matrix products and attention, at the exported shape; 0 for
    all other operators."""
    count = _COUNTED.get(operator_of(node).partition("::")[2])
    return 0 if count is None else count(node)


def with_shares(operators: Sequence[str], graph: torch.fx.Graph) -> str:
    """Return the operators, each with its share of the graph's multiply-adds: `aten.bmm.default (12 % of the
    multiply-adds)`.

    An operator that is not in the graph gets no share.
    """
    work = Counter[str]()
    for node in graph.nodes:
        if node.op == "call_function":
            work[operator_of(node)] += multiply_adds(node)
    return ", ".join(with_share(name, work.get(_bare(name)), work.total()) for name in operators)


def with_share(operator: str, own: int | None, whole: int) -> str:
    """Return the operator with its share of the model's multiply-adds; without a share if `own` is `None`."""
    if own is None:
        return operator
    share = f"{100.0 * own / whole:.3g} % of the multiply-adds" if own else "no multiply-adds are counted"
    return f"{operator} ({share})"


def lines_of(operator: str, graph: torch.fx.Graph, files: Collection[str]) -> list[tuple[str, int]]:
    """Return the lines of the user's files that an operator comes from, each once, in order. `operator`: a name that
    `_bare` accepts; it may be an operator into which others were decomposed, whose names are parts of its name
    (`aten::pad`, `aten::constant_pad_nd`)."""
    bare = _bare(operator).rpartition("::")[2]
    lines = []
    for node in graph.nodes:
        own = operator_of(node).rpartition("::")[2] if node.op == "call_function" else ""
        if own and (own in bare or bare in own):
            lines.append(place_in(str(node.meta.get("stack_trace", "")), files))
    return [*dict.fromkeys(filter(None, lines))]


def _bare(name: str) -> str:
    """Return the name as `operator_of` writes it, for `aten.bmm.default`, `aten::bmm.out` or `torch.ops.aten.bmm`."""
    words = name.replace("::", ".").removeprefix("torch.").removeprefix("_ops.").removeprefix("ops.").split(".")
    return "::".join(words[:2])


def _shape(node: Any) -> tuple[int, ...]:
    value = node.meta["val"]
    return tuple((value[0] if isinstance(value, tuple) else value).shape)


def _convolution(node: torch.fx.Node) -> int:
    """Return the multiply-adds of `aten::convolution`, whose seventh argument says whether it is transposed."""
    return _transposed(node) if len(node.args) > 6 and node.args[6] else _forward(node)


def _forward(node: torch.fx.Node) -> int:
    """Return the multiply-adds of a convolution: each element of the output uses one filter."""
    return math.prod(_shape(node)) * math.prod(_shape(node.args[1])[1:])


def _transposed(node: torch.fx.Node) -> int:
    """Return the multiply-adds of a transposed convolution: each element of the input uses one filter."""
    return math.prod(_shape(node.args[0])) * math.prod(_shape(node.args[1])[1:])


def _attention(node: torch.fx.Node) -> int:
    """Return the multiply-adds of two products: of queries with keys, and of the attention weights with values."""
    queries, keys = _shape(node.args[0]), _shape(node.args[1])
    return math.prod(queries) * keys[-2] + math.prod(_shape(node)) * keys[-2]


def _product(factor: int) -> Callable[[torch.fx.Node], int]:
    return lambda node: math.prod(_shape(node)) * _shape(node.args[factor])[-1]


_COUNTED: Mapping[str, Callable[[torch.fx.Node], int]] = {
    "convolution": _convolution,
    "conv1d": _forward,
    "conv2d": _forward,
    "conv3d": _forward,
    "conv_transpose1d": _transposed,
    "conv_transpose2d": _transposed,
    "conv_transpose3d": _transposed,
    "linear": _product(0),
    "mm": _product(0),
    "bmm": _product(0),
    "matmul": _product(0),
    "addmm": _product(1),
    "baddbmm": _product(1),
    "scaled_dot_product_attention": _attention,
}
