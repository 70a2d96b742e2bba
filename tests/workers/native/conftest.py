"""The reference NNAPI, compiled once for all tests of this folder."""

import ctypes

import pytest

from tests.workers.native import nnapi


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    return nnapi.load()
