"""Operands for tests of NNAPI operations, and what "right" and "refused" mean."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.workers.native.nnapi import Argument, Code, Kind, Model, NnapiError, Type, Values, apply

UNEXPECTED_NULL, BAD_DATA, BAD_STATE, UNMAPPABLE, INSUFFICIENT = 3, 4, 6, 7, 8
FLOATS = Kind(Type.TENSOR_FLOAT32, (2, 3))
ACTIVATIONS = ((None, None), (0.0, None), (-1.0, 1.0), (0.0, 6.0))


def sizes(least: int = 1, most: int = 4) -> SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(1, 6), min_size=least, max_size=most).map(tuple)


@st.composite
def tensors(
    draw: DrawFn, shape: tuple[int, ...], *, quantized: bool, spread: float = 4.0, is_input: bool = True
) -> Values:
    """float32 around 0, or 8-bit numbers over their whole range with any zero point."""
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    if not quantized:
        return Values(torch.randn(shape, generator=random) * spread, is_input=is_input)
    numbers = torch.randint(0, 256, shape, generator=random, dtype=torch.uint8)
    scale = draw(st.floats(0.001, 0.1)) * spread / 4
    return Values(numbers, scale, draw(st.integers(0, 255)), is_input=is_input)


@st.composite
def kinds(draw: DrawFn, like: Values) -> Kind:
    """A result of the type of `like`: 8-bit with any quantization."""
    if like.kind.type != Type.TENSOR_QUANT8_ASYMM:
        return Kind(like.kind.type)
    return Kind(like.kind.type, (), draw(st.floats(0.01, 0.2)), draw(st.integers(0, 255)))


def activated(values: torch.Tensor, activation: int) -> torch.Tensor:
    low, high = ACTIVATIONS[activation]
    return values if low is None else values.clamp(low, high)


def declared(expected: torch.Tensor, openness: int) -> tuple[int, ...]:
    """The sizes of a result as a model may declare them: all, all but the first, or not even how many."""
    full = tuple(expected.shape)
    return (full, (0, *full[1:]), ())[openness]


openness = st.integers(0, 2)


def check(
    library: ctypes.CDLL,
    code: int,
    arguments: Sequence[Argument],
    expected: torch.Tensor,
    result: Kind,
    *,
    open_sizes: int = 0,
) -> None:
    """The operation gives `expected` (real values, float64) on all outputs.

    float32: within 1e-5 of the largest. 8-bit: the step that is nearest to each (half a unit, where 1 is allowed).
    """
    kind = replace(result, sizes=declared(expected, open_sizes))
    got = apply(library, code, arguments, kind, sizes=tuple(expected.shape))
    if result.type == Type.TENSOR_QUANT8_ASYMM:
        scale = torch.tensor(result.scale, dtype=torch.float32).double()
        nearest = (expected / scale + result.zero_point).clamp(0, 255)
        assert (got.double() - nearest).abs().max() <= 0.5 + 1e-6
    else:
        assert (got.double() - expected).abs().max() <= 1e-5 * expected.abs().max()


def nchw(values: torch.Tensor, is_nchw: bool) -> torch.Tensor:
    return values if is_nchw else values.permute(0, 3, 1, 2)


def laid_out(values: torch.Tensor, is_nchw: bool) -> torch.Tensor:
    return values if is_nchw else values.permute(0, 2, 3, 1)


def values(*sizes: int) -> Values:
    """An input -2, -1, 0, 1, ..."""
    return Values(torch.arange(float(torch.Size(sizes).numel())).reshape(sizes) - 2, is_input=True)


def relu_of(model: Model, argument: Values, result: Kind | None = None) -> None:
    """Finish `model` as one RELU."""
    model.finish([model.operation(Code.RELU, [model.argument(argument)], result or argument.kind)])


def refused(code: int, message: str, call: Callable[[], object]) -> None:
    """`call` ends with this result code and a sentence that matches `told`."""
    with pytest.raises(NnapiError, match=message) as error:
        call()
    assert error.value.code == code
