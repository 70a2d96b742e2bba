"""How much work the operators of an exported graph are: multiply-adds, which is what most of a model's time follows."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


def operator_of(node: torch.fx.Node) -> str:
    """With its namespace, without its overload: `aten::convolution`."""
    target: Any = getattr(node.target, "_op", node.target)
    name = target.name() if hasattr(target, "name") and callable(target.name) else str(target)
    return str(name).partition(".")[0]


def multiply_adds(node: torch.fx.Node) -> int:
    """Those of convolutions, linears and matrix products, at the exported shape."""
    count = _COUNTED.get(operator_of(node).partition("::")[2])
    return 0 if count is None else count(node)


def with_shares(operators: Sequence[str], graph: torch.fx.Graph) -> str:
    """The operators, each with its share of the graph's: `aten.bmm.default (12 % of the multiply-adds)`."""
    work: dict[str, int] = {}
    for node in graph.nodes:
        if node.op == "call_function":
            name = operator_of(node)
            work[name] = work.get(name, 0) + multiply_adds(node)
    whole = sum(work.values())
    return ", ".join(
        f"{name} ({100.0 * work.get(_bare(name), 0) / whole if whole else 0.0:.3g} % of the multiply-adds)"
        for name in operators
    )


def _bare(name: str) -> str:
    """As `operator_of` writes it, of `aten.bmm.default`, `aten::bmm.out` or `torch.ops.aten.bmm`."""
    words = name.replace("::", ".").removeprefix("torch.").removeprefix("_ops.").removeprefix("ops.").split(".")
    return "::".join(words[:2])


def _shape(node: Any) -> tuple[int, ...]:
    value = node.meta["val"]
    return tuple((value[0] if isinstance(value, tuple) else value).shape)


def _convolution(node: torch.fx.Node) -> int:
    transposed = len(node.args) > 6 and bool(node.args[6])
    weight = _shape(node.args[1])
    # Each element of the output (of the input, where transposed) meets one filter.
    return math.prod(_shape(node.args[0] if transposed else node)) * math.prod(weight[1:])


def _attention(node: torch.fx.Node) -> int:
    """Two products: queries with keys, and their weights with values."""
    queries, keys = _shape(node.args[0]), _shape(node.args[1])
    return math.prod(queries) * keys[-2] + math.prod(_shape(node)) * keys[-2]


def _product(factor: int) -> Callable[[torch.fx.Node], int]:
    return lambda node: math.prod(_shape(node)) * _shape(node.args[factor])[-1]


_COUNTED: Mapping[str, Callable[[torch.fx.Node], int]] = {
    "convolution": _convolution,
    "conv2d": _convolution,
    "linear": _product(0),
    "mm": _product(0),
    "bmm": _product(0),
    "matmul": _product(0),
    "addmm": _product(1),
    "scaled_dot_product_attention": _attention,
}
