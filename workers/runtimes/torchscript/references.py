"""Reference libraries that check NNAPI and Metal artifacts on this host instead of a phone. Torch-free."""

import hashlib
from pathlib import Path

from workers.native.compiler import shared_library, source_id

_LIBRARIES = {
    "nnapi": ("nnapi_reference.cpp", "libneuralnetworks.so"),
    "metal": ("metal_ops.cpp", "edgesweep_metal_ops.so"),
}
_PYTHON_SOURCES = {"metal": "metal.py"}
"""Python modules that take part in a reference: the fp16 rounding between Metal's operators."""


def names() -> dict[str, str]:
    """Return the executor of accuracies, by backend: `reference:<backend>@<version of its source>`."""
    return {backend: f"reference:{backend}@{_version(backend)}" for backend in _LIBRARIES}


def library(backend: str) -> str:
    """Return the path of the library for a runner's `--reference`, compiled if necessary.

    Raises `BuildError`: `no_compiler` or `not_compilable`.
    """
    return str(shared_library(*_LIBRARIES[backend]))


def _version(backend: str) -> str:
    native = source_id(_LIBRARIES[backend][0])
    if backend not in _PYTHON_SOURCES:
        return native
    python = Path(__file__).with_name(_PYTHON_SOURCES[backend]).read_bytes()
    return hashlib.sha256(native.encode() + python).hexdigest()[: len(native)]
