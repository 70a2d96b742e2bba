"""What checks NNAPI and Metal artifacts on this host, in place of the phone. Torch-free."""

from workers.native.compiler import shared_library, source_id

_LIBRARIES = {
    "nnapi": ("nnapi_reference.cpp", "libneuralnetworks.so"),
    "metal": ("metal_ops.cpp", "edgesweep_metal_ops.so"),
}


def names() -> dict[str, str]:
    """By backend, what an accuracy that it yields is signed with: `reference:<backend>@<version of its source>`."""
    return {backend: f"reference:{backend}@{source_id(source)}" for backend, (source, _) in _LIBRARIES.items()}


def library(backend: str) -> str:
    """The path of the library that a runner takes as its reference, compiled if need be.

    Raises `BuildError`: `no_compiler` or `not_compilable`.
    """
    return str(shared_library(*_LIBRARIES[backend]))
