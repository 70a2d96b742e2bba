"""Operations that move numbers against torch: what they give is what was there, exactly."""

import ctypes
import itertools

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional

from tests.workers.native.cases import check, declared, kinds, openness, sizes, tensors
from tests.workers.native.nnapi import Argument, Code, NnapiError, Values, apply

pytestmark = pytest.mark.compiler

cases = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def some(data: st.DataObject, shape: tuple[int, ...] | None = None) -> Values:
    shape = data.draw(sizes()) if shape is None else shape
    return data.draw(tensors(shape, quantized=data.draw(st.booleans())))


def moves(
    library: ctypes.CDLL, code: int, arguments: list[Argument], expected: torch.Tensor, data: st.DataObject
) -> None:
    """The stored numbers of the result are `expected`; its quantization is that of operand 0."""
    values = arguments[0]
    assert isinstance(values, Values)
    kind = values.kind
    result = type(kind)(kind.type, declared(expected, data.draw(openness)), kind.scale, kind.zero_point)
    got = apply(library, code, arguments, result, sizes=tuple(expected.shape))
    assert torch.equal(got, expected)


@cases
@given(data=st.data())
def test_reshape(library: ctypes.CDLL, data: st.DataObject) -> None:
    values = some(data)
    cuts = data.draw(st.permutations([*values.numbers.shape]))
    target = [*cuts, 1][: data.draw(st.integers(len(cuts), min(4, len(cuts) + 1)))]
    expected = values.numbers.reshape(target)
    if data.draw(st.booleans()):
        target[data.draw(st.integers(0, len(target) - 1))] = -1
    moves(library, Code.RESHAPE, [values, target], expected, data)


@cases
@given(data=st.data())
def test_transpose(library: ctypes.CDLL, data: st.DataObject) -> None:
    values = some(data)
    order = data.draw(st.permutations(range(values.numbers.dim())))
    moves(library, Code.TRANSPOSE, [values, list(order)], values.numbers.permute(order), data)
    reverse = values.numbers.permute(tuple(reversed(range(values.numbers.dim()))))
    moves(library, Code.TRANSPOSE, [values], reverse, data)


@cases
@given(data=st.data())
def test_squeeze_and_expand(library: ctypes.CDLL, data: st.DataObject) -> None:
    values = some(data, data.draw(st.lists(st.sampled_from([1, 1, 3]), min_size=2, max_size=4).map(tuple)))
    ones = [i for i, size in enumerate(values.numbers.shape) if size == 1]
    assume(len(ones) < values.numbers.dim())
    moves(library, Code.SQUEEZE, [values], values.numbers.squeeze(), data)
    if ones:
        moves(library, Code.SQUEEZE, [values, ones[:1]], values.numbers.squeeze(ones[0]), data)
    axis = data.draw(st.integers(-values.numbers.dim() - 1, values.numbers.dim()))
    moves(library, Code.EXPAND_DIMS, [values, axis], values.numbers.unsqueeze(axis), data)


@cases
@given(data=st.data())
def test_concatenation_requantizes_what_differs(library: ctypes.CDLL, data: st.DataObject) -> None:
    quantized = data.draw(st.booleans())
    shape = data.draw(sizes())
    axis = data.draw(st.integers(0, len(shape) - 1))
    parts = []
    for _ in range(data.draw(st.integers(1, 4))):
        own = (*shape[:axis], data.draw(st.integers(1, 4)), *shape[axis + 1 :])
        parts.append(data.draw(tensors(own, quantized=quantized)))
    expected = torch.cat([part.real for part in parts], axis)
    result = data.draw(st.sampled_from([parts[0].kind, data.draw(kinds(parts[0]))]))
    check(library, Code.CONCATENATION, [*parts, axis], expected, result, open_sizes=data.draw(openness))


@cases
@given(data=st.data())
def test_pad(library: ctypes.CDLL, data: st.DataObject) -> None:
    values = some(data)
    amounts = [(data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))) for _ in values.numbers.shape]
    around = list(itertools.chain(*reversed(amounts)))
    table = Values(torch.tensor(amounts, dtype=torch.int32))
    moves(library, Code.PAD, [values, table], functional.pad(values.numbers, around, value=values.zero_point), data)


@cases
@given(data=st.data())
def test_slice(library: ctypes.CDLL, data: st.DataObject) -> None:
    values = some(data)
    begins, counts = [], []
    expected = values.numbers
    for i, size in enumerate(values.numbers.shape):
        begin = data.draw(st.integers(0, size - 1))
        count = data.draw(st.integers(1, size - begin))
        expected = expected.narrow(i, begin, count)
        begins.append(begin)
        counts.append(-1 if begin + count == size and data.draw(st.booleans()) else count)
    moves(library, Code.SLICE, [values, begins, counts], expected, data)


@cases
@given(data=st.data())
def test_strided_slice_is_python_s(library: ctypes.CDLL, data: st.DataObject) -> None:
    values = some(data)
    begins, ends, strides, masks, slices = [], [], [], [0, 0, 0], []
    for i, size in enumerate(values.numbers.shape):
        begin, end = (data.draw(st.integers(-size - 2, size + 2)) for _ in range(2))
        stride = data.draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
        opened = [data.draw(st.booleans()) for _ in range(2)]
        masks[0] |= opened[0] << i
        masks[1] |= opened[1] << i
        # An end below the tensor means "past its first element" to NNAPI, which Python says by leaving it out.
        past = stride < 0 and end < -size
        picked = range(size)[slice(None if opened[0] else begin, None if opened[1] or past else end, stride)]
        assume(len(picked) > 0)
        if stride > 0 and len(picked) == 1 and i > 0:
            masks[2] |= data.draw(st.booleans()) << i
        begins.append(begin)
        ends.append(end)
        strides.append(stride)
        slices.append(torch.tensor(picked))
    expected = values.numbers
    for i, picked_indices in enumerate(slices):
        expected = expected.index_select(i, picked_indices)
    expected = expected.reshape([size for i, size in enumerate(expected.shape) if not (masks[2] >> i) & 1])
    moves(library, Code.STRIDED_SLICE, [values, begins, ends, strides, *masks], expected, data)


@cases
@given(data=st.data())
def test_resize_to_the_nearest_pixel(library: ctypes.CDLL, data: st.DataObject) -> None:
    is_nchw, centered = data.draw(st.booleans()), data.draw(st.booleans())
    height, width = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    image = some(data, (2, 3, height, width))
    target = (data.draw(st.integers(1, 15)), data.draw(st.integers(1, 15)))
    mode = "nearest-exact" if centered else "nearest"
    expected = functional.interpolate(image.numbers.float(), target, mode=mode).to(image.numbers.dtype)
    size: list[Argument] = [target[1], target[0]]
    if target[0] % height == 0 and target[1] % width == 0 and data.draw(st.booleans()):
        size = [target[1] / width, target[0] / height]
    if not is_nchw:
        image = Values(image.numbers.permute(0, 2, 3, 1), image.scale, image.zero_point, is_input=True)
        expected = expected.permute(0, 2, 3, 1)
    options: list[Argument] = [is_nchw, False, True] if centered else [is_nchw]
    moves(library, Code.RESIZE_NEAREST_NEIGHBOR, [image, *size, *options], expected.contiguous(), data)


def test_resize_with_aligned_corners_keeps_the_corners(library: ctypes.CDLL) -> None:
    image = Values(torch.arange(3.0).reshape(1, 1, 1, 3), is_input=True)
    expected = torch.tensor([0.0, 1.0, 1.0, 2.0, 2.0]).reshape(1, 1, 1, 5)  # from 0, 0.5, 1, 1.5 and 2
    kind = type(image.kind)(image.kind.type, (1, 1, 1, 5))
    got = apply(library, Code.RESIZE_NEAREST_NEIGHBOR, [image, 5, 1, True, True], kind)
    assert torch.equal(got, expected)


@cases
@given(data=st.data())
def test_channel_shuffle(library: ctypes.CDLL, data: st.DataObject) -> None:
    groups, each = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    values = some(data, (2, groups * each, 3, 2))
    expected = functional.channel_shuffle(values.numbers.float(), groups).to(values.numbers.dtype)
    moves(library, Code.CHANNEL_SHUFFLE, [values, groups, 1], expected, data)


def test_a_result_of_other_sizes_than_declared_is_refused(library: ctypes.CDLL) -> None:
    values = Values(torch.zeros(2, 6), is_input=True)
    with pytest.raises(NnapiError, match=r"RESHAPE \(operation 0\): its result has sizes \[3, 4\], but operand 2"):
        apply(library, Code.RESHAPE, [values, [3, 4]], type(values.kind)(values.kind.type, (4, 3)))
