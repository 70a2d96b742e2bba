"""The algebra of views, against torch's own reshape and permute."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sweeps.errors import BuildError
from workers.runtimes.torchscript.nnapi.views import MOST_DIMENSIONS, View

SHAPES = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=5).map(tuple)


def applied(memory: torch.Tensor, view: View, order: tuple[int, ...]) -> torch.Tensor:
    steps = view.steps(order)
    assert not steps.transposes or len(steps.before) <= MOST_DIMENSIONS
    moved = memory.reshape(steps.before).permute(steps.permutation)
    return moved.reshape([size for index in order for size in [view.shape[index]]])


@st.composite
def factorizations(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    sizes = []
    while count > 1:
        size = draw(st.sampled_from([n for n in range(2, count + 1) if count % n == 0]))
        sizes.append(size)
        count //= size
    return (*sizes, 1) if draw(st.booleans()) else tuple(sizes)


@given(data=st.data(), shape=SHAPES)
def test_any_chain_that_is_taken_answers_as_torch(data: st.DataObject, shape: tuple[int, ...]) -> None:
    tensor = torch.arange(math.prod(shape)).reshape(shape)
    memory, view = tensor.flatten(), View.of(shape, tuple(range(len(shape))), flexible_batch=False)
    for _ in range(data.draw(st.integers(0, 3))):
        if data.draw(st.booleans()):
            order = tuple(data.draw(st.permutations(range(tensor.ndim))))
            tensor, view = tensor.permute(order), view.permuted(order)
        else:
            sizes = data.draw(factorizations(tensor.numel()))
            try:
                view = view.reshaped(sizes)
            except BuildError:
                continue  # cuts a dimension unevenly
            tensor = tensor.reshape(sizes)
    order = tuple(data.draw(st.permutations(range(tensor.ndim))))
    try:
        answer = applied(memory, view, order)
    except BuildError as error:
        assert "NNAPI takes four" in error.message  # noqa: PT017  # either this or the right answer
        return
    assert torch.equal(answer, tensor.permute(order))


def test_a_channel_shuffle_of_five_dimensions_needs_four() -> None:
    for order in ((0, 1, 2, 3), (0, 2, 3, 1)):
        view = View.of((2, 6, 5, 7), order, flexible_batch=False)
        shuffled = view.reshaped((2, 2, 3, 5, 7)).permuted((0, 2, 1, 3, 4)).reshaped((2, 6, 5, 7))
        assert shuffled.steps(order).transposes
        assert len(shuffled.steps(order).before) <= MOST_DIMENSIONS


def test_a_permutation_into_the_order_of_memory_moves_nothing() -> None:
    view = View.of((2, 6, 5, 7), (0, 2, 3, 1), flexible_batch=False).permuted((0, 2, 3, 1))
    assert view.shape == (2, 5, 7, 6)
    assert not view.steps((0, 1, 2, 3)).transposes


def test_a_flexible_batch_passes_through_as_it_is() -> None:
    view = View.of((2, 6, 5, 7), (0, 1, 2, 3), flexible_batch=True).reshaped((2, 210))
    assert view.shape == (0, 210)
    assert view.steps((0, 1)).before == (-1, 210)


@pytest.mark.parametrize("shape", [(420,), (1, 2, 210), (12, 35)])
def test_a_flexible_batch_is_neither_joined_nor_cut(shape: tuple[int, ...]) -> None:
    view = View.of((2, 6, 5, 7), (0, 1, 2, 3), flexible_batch=True)
    if shape == (1, 2, 210):
        assert view.reshaped(shape).shape == (1, 0, 210)  # only moved
        return
    with pytest.raises(BuildError, match="with a flexible batch"):
        view.reshaped(shape)
