"""The reference NNAPI, compiled once for all tests of this folder."""

import ctypes

import pytest
import torch

from tests.workers.native import nnapi

# Tiny tensors: on a busy machine, threads would only wait for each other.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    return nnapi.load()
