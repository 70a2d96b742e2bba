"""The reference NNAPI, compiled once for all tests of this folder."""

import ctypes
from collections.abc import Iterator

import pytest
import torch

from tests.workers.native.nnapi import Model, load

# Tiny tensors: on a busy machine, threads would only wait for each other.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    return load()


@pytest.fixture
def model(library: ctypes.CDLL) -> Iterator[Model]:
    new_model = Model(library)
    yield new_model
    new_model.free()
