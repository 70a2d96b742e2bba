"""The coverage of a model by NNAPI: its operations, and the share of multiply-adds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from torch._C import Node, Value

from workers.runtimes.torchscript.nnapi.model import NnapiModel

_CONVOLUTIONS = (
    "aten::_convolution",
    "aten::conv2d",
    "aten::conv1d",
    "aten::conv3d",
    *(f"quantized::conv{n}d{relu}" for n in (1, 2, 3) for relu in ("", "_relu")),
)
_LINEAR = ("aten::linear", "quantized::linear", "quantized::linear_relu", "quantized::linear_dynamic")
_PRODUCTS = ("aten::matmul", "aten::mm", "aten::bmm", "quantized::matmul")


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The part of a model that runs through NNAPI.

    `operations` counts NNAPI's operations by name. `mult_adds` are those of convolutions, linears and matrix products,
    at the traced shape; `mult_adds_covered` of them run in NNAPI. `feature_level` is the level that a phone needs.
    """

    operations: Mapping[str, int]
    mult_adds: int
    mult_adds_covered: int
    feature_level: int

    @property
    def share(self) -> float:
        """The share of multiply-adds that NNAPI covers, 0 to 1; 1 if there are none."""
        return self.mult_adds_covered / self.mult_adds if self.mult_adds else 1.0


def coverage(model: NnapiModel, mult_adds: int, mult_adds_covered: int) -> Coverage:
    """Return the coverage of a converted model."""
    return Coverage(
        operations=model.counts(),
        mult_adds=mult_adds,
        mult_adds_covered=mult_adds_covered,
        feature_level=model.feature_level(),
    )


def multiply_adds(node: Node, constant: Callable[[Value], Any]) -> int:
    """Return the multiply-adds of one operator of a traced graph; 0 if it has no matrix product, or without a traced
    shape.

    `constant` returns the value of a constant (such as weights), `None` for computed values.
    """
    kind = node.kind()
    if kind in _CONVOLUTIONS:
        weight = _weight(constant(node.inputsAt(1)))
        transposed = kind == "aten::_convolution" and constant(node.inputsAt(6))
        # Each element of the output (if transposed: of the input) uses one filter over the channels of its group.
        elements = _elements(node.inputsAt(0) if transposed else node.output())
        return 0 if weight is None else elements * weight.numel() // weight.shape[0]
    if kind in _LINEAR:
        return _elements(node.output()) * _size(node.inputsAt(0), -1)
    if kind == "aten::addmm":
        return _elements(node.output()) * _size(node.inputsAt(1), -1)
    if kind in _PRODUCTS:
        return _elements(node.output()) * _size(node.inputsAt(0), -1)
    if kind == "aten::scaled_dot_product_attention":
        query, key = node.inputsAt(0), node.inputsAt(1)
        return (_elements(query) + _elements(node.output())) * _size(key, -2)
    if kind == "aten::_native_multi_head_attention":
        # Four products with weights (E, E), then the scores and the weighted sum of the values.
        query = node.inputsAt(0)
        return _elements(query) * (4 * _size(query, -1) + 2 * _size(query, -2))
    return 0


def packed(value: Any) -> tuple[Any, Any, list[int] | None]:
    """Return weight, bias and (for convolutions) the configuration from quantized packed parameters."""
    state = value.__getstate__()[0]
    if len(state) == 2:
        return state[0], state[1], None
    _, (config, weight), (bias,) = state
    return weight, bias, [int(number) for number in config]


def sizes_of(value: Value) -> list[int] | None:
    """Return the sizes of a tensor in the trace; `None` for other values, and if the trace does not have them."""
    kind: Any = value.type()  # torch has no types for it
    sizes = kind.sizes() if kind.kind() == "TensorType" else None
    return None if sizes is None else list(sizes)


def _weight(value: Any) -> Any:
    return value if value is None or hasattr(value, "numel") else packed(value)[0]


def _elements(value: Value) -> int:
    sizes = sizes_of(value)
    return 0 if sizes is None else prod(sizes)


def _size(value: Value, dimension: int) -> int:
    return (sizes_of(value) or [0, 0])[dimension]
