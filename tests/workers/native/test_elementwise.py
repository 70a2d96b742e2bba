"""Operations on each element, along an axis and between types against a float64 evaluation by torch."""

import ctypes
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workers.native.cases import activated, check, kinds, openness, sizes, tensors
from tests.workers.native.nnapi import HARD_SWISH, Code, Kind, Model, NnapiError, Type, Values, apply

pytestmark = pytest.mark.compiler

cases = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
Compute = Callable[..., torch.Tensor]

UNARY: dict[str, tuple[int, Compute]] = {
    "relu": (Code.RELU, torch.relu),
    "relu1": (Code.RELU1, lambda x: x.clamp(-1, 1)),
    "relu6": (Code.RELU6, lambda x: x.clamp(0, 6)),
    "logistic": (Code.LOGISTIC, torch.sigmoid),
    "tanh": (Code.TANH, torch.tanh),
    "hard swish": (HARD_SWISH, torch.nn.functional.hardswish),
}
FIXED = {Code.LOGISTIC: (1 / 256, 0), Code.TANH: (1 / 128, 128)}
ACTIVATED: dict[str, tuple[int, Compute]] = {
    "add": (Code.ADD, torch.add),
    "sub": (Code.SUB, torch.sub),
    "mul": (Code.MUL, torch.mul),
}


@pytest.mark.parametrize("name", UNARY)
@cases
@given(data=st.data())
def test_elements_one_by_one(library: ctypes.CDLL, name: str, data: st.DataObject) -> None:
    code, compute = UNARY[name]
    quantized = data.draw(st.booleans())
    values = data.draw(tensors(data.draw(sizes()), quantized=quantized))
    result = values.kind
    if quantized and code in FIXED:
        result = Kind(Type.TENSOR_QUANT8_ASYMM, (), *FIXED[code])
    elif code == HARD_SWISH:
        result = data.draw(kinds(values))
    check(library, code, [values], compute(values.real), result, open_sizes=data.draw(openness))


def broadcast_pair(data: st.DataObject, *, quantized: bool) -> tuple[Values, Values]:
    """Two tensors of sizes that broadcast: some 1, one maybe of fewer dimensions."""
    full = data.draw(sizes())
    left = tuple(1 if data.draw(st.booleans()) else size for size in full)
    right = tuple(size if data.draw(st.booleans()) or own == 1 else 1 for size, own in zip(full, left, strict=True))
    right = right[data.draw(st.integers(0, len(right) - 1)) :]
    are_inputs = (data.draw(st.booleans()), data.draw(st.booleans()))
    first = data.draw(tensors(left, quantized=quantized))
    return first, data.draw(tensors(right, quantized=quantized, is_input=are_inputs[1]))


FLOAT: dict[str, tuple[int, Compute]] = {"abs": (38, torch.abs), "exp": (49, torch.exp), "rsqrt": (83, torch.rsqrt)}


@pytest.mark.parametrize("name", FLOAT)
@cases
@given(data=st.data())
def test_elements_that_have_no_8_bit_form(library: ctypes.CDLL, name: str, data: st.DataObject) -> None:
    code, compute = FLOAT[name]
    values = data.draw(tensors(data.draw(sizes()), quantized=False))
    if name == "rsqrt":
        values = Values(values.numbers.abs() + 0.1)
    check(library, code, [values], compute(values.real), Kind(values.kind.type), open_sizes=data.draw(openness))
    quantized = data.draw(tensors((2, 3), quantized=True))
    with pytest.raises(NnapiError, match="does not take"):
        apply(library, code, [quantized], quantized.kind)


@cases
@given(data=st.data())
def test_matrices_multiply_for_each_image(library: ctypes.CDLL, data: st.DataObject) -> None:
    batch = data.draw(st.lists(st.integers(1, 3), min_size=0, max_size=2))
    rows, inner, columns = (data.draw(st.integers(1, 5)) for _ in range(3))
    turned = data.draw(st.booleans()), data.draw(st.booleans())
    left = data.draw(tensors((*batch, *((inner, rows) if turned[0] else (rows, inner))), quantized=False))
    right = data.draw(tensors((*batch, *((columns, inner) if turned[1] else (inner, columns))), quantized=False))
    first = left.real.transpose(-1, -2) if turned[0] else left.real
    second = right.real.transpose(-1, -2) if turned[1] else right.real
    check(library, 102, [left, right, *turned], first @ second, Kind(left.kind.type))


def test_one_operand_may_stand_in_more_places_than_the_model_has_operands(library: ctypes.CDLL) -> None:
    model = Model(library)
    values = model.argument(Values(torch.randn(1, 4, 4, 2), is_input=True))
    unit, two, zero = (model.argument(number) for number in (1, 2, 0))
    padding, stride, size = [zero] * 4, [unit] * 2, [two] * 2
    result = Kind(Type.TENSOR_FLOAT32, (1, 3, 3, 2))
    model.finish([model.operation(Code.AVERAGE_POOL_2D, [values, *padding, *stride, *size, zero], result)])
    model.free()


@pytest.mark.parametrize("name", ACTIVATED)
@cases
@given(data=st.data())
def test_arithmetic_broadcasts(library: ctypes.CDLL, name: str, data: st.DataObject) -> None:
    code, compute = ACTIVATED[name]
    left, right = broadcast_pair(data, quantized=data.draw(st.booleans()))
    activation = data.draw(st.integers(0, 3))
    expected = activated(compute(left.real, right.real), activation)
    check(library, code, [left, right, activation], expected, data.draw(kinds(left)), open_sizes=data.draw(openness))


@cases
@given(data=st.data())
def test_division(library: ctypes.CDLL, data: st.DataObject) -> None:
    left, right = broadcast_pair(data, quantized=False)
    right = Values(right.numbers.sign() * (right.numbers.abs() + 0.5), is_input=right.is_input)
    activation = data.draw(st.integers(0, 3))
    check(library, Code.DIV, [left, right, activation], activated(left.real / right.real, activation), left.kind)


@pytest.mark.parametrize("name", ["maximum", "minimum", "prelu"])
@cases
@given(data=st.data())
def test_pairs_without_activation(library: ctypes.CDLL, name: str, data: st.DataObject) -> None:
    code = {"maximum": Code.MAXIMUM, "minimum": Code.MINIMUM, "prelu": Code.PRELU}[name]
    left, right = broadcast_pair(data, quantized=data.draw(st.booleans()))
    if name == "prelu":
        expected = torch.where(left.real >= 0, left.real, left.real * right.real)
    else:
        expected = getattr(torch, name)(left.real, right.real)
    check(library, code, [left, right], expected, data.draw(kinds(left)), open_sizes=data.draw(openness))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (Code.ADD, [9, -9, 10]),
        (Code.SUB, [5, -5, 0]),
        (Code.MUL, [14, 14, 25]),
        (Code.DIV, [3, 3, 1]),
        (Code.MAXIMUM, [7, -2, 5]),
        (Code.MINIMUM, [2, -7, 5]),
    ],
)
def test_integers_are_computed_as_integers(library: ctypes.CDLL, code: int, expected: list[int]) -> None:
    left = Values(torch.tensor([7, -7, 5], dtype=torch.int32), is_input=True)
    right = Values(torch.tensor([2, -2, 5], dtype=torch.int32), is_input=True)
    activation = [] if code in (Code.MAXIMUM, Code.MINIMUM) else [0]
    got = apply(library, code, [left, right, *activation], Kind(Type.TENSOR_INT32, (3,)))
    assert got.tolist() == expected


def test_integers_are_not_divided_by_0(library: ctypes.CDLL) -> None:
    left = Values(torch.tensor([7], dtype=torch.int32), is_input=True)
    zero = Values(torch.tensor([0], dtype=torch.int32))
    with pytest.raises(NnapiError, match="DIV"):
        apply(library, Code.DIV, [left, zero, 0], Kind(Type.TENSOR_INT32, (1,)))


@pytest.mark.parametrize("name", ["softmax", "log softmax"])
@cases
@given(data=st.data())
def test_softmax_along_any_axis(library: ctypes.CDLL, name: str, data: st.DataObject) -> None:
    quantized = name == "softmax" and data.draw(st.booleans())
    values = data.draw(tensors(data.draw(sizes()), quantized=quantized))
    beta = data.draw(st.sampled_from([0.5, 1.0, 2.0]))
    axis = data.draw(st.integers(-values.numbers.dim(), values.numbers.dim() - 1))
    compute = torch.softmax if name == "softmax" else torch.log_softmax
    expected = compute(values.real * beta, axis)
    result = Kind(Type.TENSOR_QUANT8_ASYMM, (), 1 / 256, 0) if quantized else values.kind
    code = Code.SOFTMAX if name == "softmax" else Code.LOG_SOFTMAX
    left_out = name == "softmax" and axis == -1
    arguments = [values, beta] if left_out else [values, beta, axis]
    check(library, code, arguments, expected, result, open_sizes=data.draw(openness))


@cases
@given(data=st.data())
def test_mean(library: ctypes.CDLL, data: st.DataObject) -> None:
    values = data.draw(tensors(data.draw(sizes()), quantized=data.draw(st.booleans())))
    count = values.numbers.dim()
    axes = data.draw(st.lists(st.integers(-count, count - 1), min_size=1, unique_by=lambda axis: axis % count))
    keep = data.draw(st.integers(0, 1))
    expected = values.real.mean(axes, bool(keep))
    expected = expected.reshape(1) if expected.dim() == 0 else expected
    check(library, Code.MEAN, [values, axes, keep], expected, values.kind, open_sizes=data.draw(openness))


@cases
@given(data=st.data())
def test_quantize_and_dequantize(library: ctypes.CDLL, data: st.DataObject) -> None:
    shape = data.draw(sizes())
    real = data.draw(tensors(shape, quantized=False))
    stored = data.draw(tensors(shape, quantized=True))
    check(library, Code.QUANTIZE, [real], real.real, data.draw(kinds(stored)), open_sizes=data.draw(openness))
    check(library, Code.DEQUANTIZE, [stored], stored.real, Kind(Type.TENSOR_FLOAT32))


def test_dequantize_knows_the_scale_of_each_channel(library: ctypes.CDLL) -> None:
    numbers = torch.arange(-6, 6, dtype=torch.int8).reshape(2, 3, 2)
    values = Values(numbers, channel_scales=(0.5, 1.0, 0.25), channel_dimension=1)
    check(library, Code.DEQUANTIZE, [values], values.real, Kind(Type.TENSOR_FLOAT32))


def test_quantize_rounds_ties_away_from_zero_and_saturates(library: ctypes.CDLL) -> None:
    values = Values(torch.tensor([0.5, 1.5, -0.5, -1.5, 1e30, -torch.inf, torch.nan]), is_input=True)
    got = apply(library, Code.QUANTIZE, [values], Kind(Type.TENSOR_QUANT8_ASYMM, (7,), 1.0, 100))
    assert got.tolist() == [101, 102, 99, 98, 255, 0, 100]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Type.TENSOR_FLOAT32, [-1.75, 2.5, 300.0]),
        (Type.TENSOR_INT32, [-1, 2, 300]),
        (Type.TENSOR_QUANT8_ASYMM, [0, 2, 255]),
    ],
)
def test_cast_counts_stored_numbers(library: ctypes.CDLL, kind: int, expected: list[float]) -> None:
    values = Values(torch.tensor([-1.75, 2.5, 300.0]), is_input=True)
    result = Kind(kind, (3,), 0.5, 7) if kind == Type.TENSOR_QUANT8_ASYMM else Kind(kind, (3,))
    assert apply(library, Code.CAST, [values], result).tolist() == expected


def test_relaxed_float_rounds_operands_and_result_to_fp16(library: ctypes.CDLL) -> None:
    random = torch.Generator().manual_seed(0)
    left = Values(torch.randn(500, generator=random), is_input=True)
    right = Values(torch.randn(500, generator=random) * 100)
    got = apply(library, Code.MUL, [left, right, 0], Kind(Type.TENSOR_FLOAT32, (500,)), relaxed=True)
    assert torch.equal(got, (left.numbers.half().float() * right.numbers.half().float()).half().float())
