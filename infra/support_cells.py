"""The cells of the support table: which variants of every model `write_support.py` builds."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from sweeps.planning.axes import free_axes
from sweeps.spec import catalog
from sweeps.spec.grid import GridSpec

METHODS = ("static_fx", "static_eager", "qat", "dynamic")
_EXPORTED = {"quantization": ("static", "dynamic"), "granularity": ("per_channel", "per_tensor")}
"""The quantizations and granularities of the runtimes other than PyTorch Mobile."""
CAPTURES = ("script", "trace", "mixed")

_OF_PYTORCH_MOBILE: tuple[dict[str, Any], ...] = (
    {"backend": "cpu", "precision": "fp32", "capture": CAPTURES},
    # The only builds of a model that torch.fx cannot trace.
    {"backend": "cpu", "precision": "fp32", "fuse": (False,)},
    {"backend": "cpu", "precision": "int8", "quantization": METHODS, "capture": CAPTURES} | {"qengine": ("qnnpack",)},
    {"backend": "nnapi", "precision": "fp32", "relaxed_fp16": (False, True)},
    {"backend": "nnapi", "precision": "int8", "interface": ("core", "full", "inside")},
    {"backend": "nnapi", "precision": "int8", "quantization": METHODS[1:]},
    {"backend": "metal", "precision": "fp32", "capture": CAPTURES, "layout": ("nchw",)},
    {"backend": "metal", "precision": "int8", "quantization": METHODS, "layout": ("nchw",)},
)
_OF_OTHERS: tuple[dict[str, Any], ...] = (
    {"runtime": "executorch", "backend": "cpu", "precision": "fp32", "layout": ("nchw",)},
    {"runtime": "executorch", "backend": "cpu", "precision": "int8", "layout": ("nchw",), **_EXPORTED},
    *({"runtime": "executorch", "backend": backend, "precision": "fp32"} for backend in ("portable", "vulkan")),
    *({"runtime": "onnxruntime", "backend": "cpu", "precision": precision} for precision in ("fp32", "fp16")),
    {"runtime": "onnxruntime", "backend": "cpu", "precision": "int8", **_EXPORTED},
)
_MOBILE: dict[str, Any] = {"runtime": "torchscript", "layout": ("nhwc",)}
_WRITTEN = (*(_MOBILE | grid for grid in _OF_PYTORCH_MOBILE), *_OF_OTHERS)


def known_runtimes() -> tuple[str, ...]:
    """Return the runtimes that a survey may be about: all runtimes that can ship."""
    return tuple(name for name, entry in catalog.runtimes().items() if not entry.unshippable)


def known_backends() -> tuple[str, ...]:
    """Return the backends of the grids of all these runtimes."""
    return tuple(dict.fromkeys(str(grid["backend"]) for grid in _all_grids()))


def _all_grids() -> tuple[dict[str, Any], ...]:
    """Return the grids that are written above, and for a runtime without any the grids of its catalog entry."""
    written = {grid["runtime"] for grid in _WRITTEN}
    return (*_WRITTEN, *(grid for name in known_runtimes() if name not in written for grid in _of_entry(name)))


def _of_entry(name: str) -> Iterator[dict[str, Any]]:
    """Yield the grids of a runtime's catalog entry: each backend in each precision, int8 by each of its methods, and of
    all other axes the first value."""
    entry = catalog.runtimes()[name]
    precisions = entry.values.get("precision", ("fp32",)) if "precision" in entry.axes else ("fp32",)
    for backend, precision in itertools.product(entry.backends, precisions):
        free = free_axes(name, backend.name, precision, "static") - {"backend", "precision"}
        known = {
            axis: [word for word in words if word != "auto"] for axis, words in entry.values.items() if axis in free
        }
        chosen = {axis: tuple(words if axis in _EXPORTED else words[:1]) for axis, words in known.items()}
        yield {"runtime": name, "backend": backend.name, "precision": precision, **chosen}


def grids(
    backends: Sequence[str] = (), precisions: Sequence[str] = (), runtimes: Sequence[str] = ()
) -> tuple[GridSpec, ...]:
    """Return the grids with which each model is built: the cells of the table. An empty sequence means all values;
    without `runtimes`, only those of PyTorch Mobile."""
    chosen = runtimes or ("torchscript",)
    single = ("runtime", "backend", "precision")
    return tuple(
        GridSpec(**grid | {axis: (grid[axis],) for axis in single})
        for grid in _all_grids()
        if grid["runtime"] in chosen
        and (not backends or grid["backend"] in backends)
        and (not precisions or grid["precision"] in precisions)
    )
