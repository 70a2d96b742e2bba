"""What checks NNAPI and Metal artifacts on this host, in place of the phone. Torch-free."""

import hashlib
from pathlib import Path

from workers.native.compiler import shared_library, source_id

_LIBRARIES = {
    "nnapi": ("nnapi_reference.cpp", "libneuralnetworks.so"),
    "metal": ("metal_ops.cpp", "edgesweep_metal_ops.so"),
}
_ALSO = {"metal": "metal.py"}
"""Python that takes part: what rounds to fp16 between Metal's operators."""


def names() -> dict[str, str]:
    """By backend, what an accuracy that it yields is signed with: `reference:<backend>@<version of its source>`."""
    return {backend: f"reference:{backend}@{_version(backend)}" for backend in _LIBRARIES}


def library(backend: str) -> str:
    """The path of the library that a runner takes as its reference, compiled if need be.

    Raises `BuildError`: `no_compiler` or `not_compilable`.
    """
    return str(shared_library(*_LIBRARIES[backend]))


def _version(backend: str) -> str:
    native = source_id(_LIBRARIES[backend][0])
    if backend not in _ALSO:
        return native
    python = Path(__file__).with_name(_ALSO[backend]).read_bytes()
    return hashlib.sha256(native.encode() + python).hexdigest()[: len(native)]
