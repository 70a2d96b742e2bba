"""The build axes that have a choice for a runtime, backend and precision. An axis without a choice there gets its only
value.

So two combinations of a grid that give the same artifact are one variant, and a grid over backends needs no exceptions.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from sweeps.spec import catalog, toolchains
from sweeps.spec.entries import BackendEntry, RuntimeEntry
from sweeps.spec.grid import GridSpec
from sweeps.variant import DEFAULT_GRANULARITY, RunAxes, Variant

BUILD_AXES = tuple(axis.name for axis in fields(Variant) if axis.name in GridSpec.model_fields)
RUN_AXES = tuple(axis.name for axis in fields(RunAxes))
_DECIDING = ("runtime", "backend", "precision", "quantization")
"""Axes whose values decide which of the other axes have a choice. They are the first of `BUILD_AXES`."""

_RELEASES = ("toolchain", "runner_toolchain")
_ANY = {"auto", "all"}
"""Words in sweep files that leave an axis's value open."""

_DEFAULTS: dict[str, Any] = {axis.name: axis.default for axis in fields(Variant)}
_UNCALIBRATED = frozenset({"dynamic"})
_ENGINE_OF_ABI = {"arm": "qnnpack", "x86": "x86"}
_EXACT_INT8 = frozenset({"avx_vnni", "avx512_vnni", "amx_int8"})
"""x86 instruction sets that sum 8-bit products in 32 bits. Without them, oneDNN sums pairs of products in 16 bits
(VPMADDUBSW): 255 * 127 * 2 saturates, 255 * 64 * 2 does not."""


def free_axes(runtime: str, backend: str, precision: str, quantization: str) -> frozenset[str]:
    """Return the build axes that have a choice for this runtime, backend, precision and (int8 only) quantization
    method."""
    entry = catalog.runtimes()[runtime]
    axes = entry.axes | {"runtime"}
    where = entry.backend(backend)
    if where is None:
        return axes
    if precision == "int8":
        calibrated = where.int8_axes - ({"calibration_images"} if quantization in _UNCALIBRATED else set())
        return axes | where.axes | calibrated
    return axes | where.axes | where.float_axes


def choices(grid: GridSpec) -> Iterator[tuple[tuple[Any, ...], ...]]:
    """Yield the parts of a grid, in its order. A part has the values of each of `BUILD_AXES`; all their combinations
    are planned.

    An axis without a choice has only one value in a part, so that equal variants are not generated several times.
    """
    for name, backend, precision in itertools.product(*(getattr(grid, axis) for axis in _DECIDING[:3])):
        entry = catalog.runtimes()[name]
        # An axis on which a runtime has no choice keeps only its first value.
        if ("backend" not in entry.axes and backend != grid.backend[0]) or (
            "precision" not in entry.axes and precision != grid.precision[0]
        ):
            continue
        where = backend if "backend" in entry.axes else entry.backends[0].name
        numbers = precision if "precision" in entry.axes else _DEFAULTS["precision"]
        for quantization in grid.quantization:
            free = free_axes(name, where, numbers, quantization)
            if "quantization" not in free and quantization != grid.quantization[0]:
                continue
            rest = BUILD_AXES[len(_DECIDING) :]
            swept = (_values(grid, axis, name) if axis in free else getattr(grid, axis)[:1] for axis in rest)
            yield ((name,), (backend,), (precision,), (quantization,), *swept)


def without_choice(grid: GridSpec) -> dict[str, tuple[str, ...]]:
    """Return the axes of a grid that have no effect: by runtime, or by runtime and backend, the axes without a choice
    there to which the grid gives another value than the only one. Releases are left out, because each concerns only its
    own runtime."""
    unused: dict[str, tuple[str, ...]] = {}
    for name in grid.runtime:
        entry = catalog.runtimes()[name]
        backends = [backend for backend in entry.backends if backend.name in grid.backend] or list(entry.backends[:1])
        ignored = {where.name: _ignored(grid, entry, where) for where in backends}
        everywhere = frozenset.intersection(*ignored.values())
        parts = {name: everywhere} | {f"{name} {where}": axes - everywhere for where, axes in ignored.items()}
        for part, axes in parts.items():
            if axes:
                unused[part] = tuple(axis for axis in BUILD_AXES if axis in axes)
    return unused


def _ignored(grid: GridSpec, entry: RuntimeEntry, where: BackendEntry) -> frozenset[str]:
    chosen = entry.axes | where.chosen_axes | {"runtime", *_RELEASES}
    variants = (Variant(runtime=entry.name, backend=where.name, precision=precision) for precision in grid.precision)
    builds = [resolve_variant(variant, "") for variant in variants]
    named = grid.model_fields_set.intersection(BUILD_AXES)
    without = {
        axis for axis in named - chosen if {*getattr(grid, axis)} - _ANY - {getattr(build, axis) for build in builds}
    }
    # Values of other runtimes that are all synonyms of one value here.
    taken_for_one = {
        axis
        for axis in named & chosen & entry.values.keys()
        if {*getattr(grid, axis)} & _synonyms(entry, axis).keys() - {*entry.values[axis]}
        and len(_values(grid, axis, entry.name)) == 1
    }
    return frozenset(without | taken_for_one)


def is_calibrated(variant: Variant) -> bool:
    """Tell whether the artifact depends on calibration data."""
    return variant.precision == "int8" and variant.quantization not in _UNCALIBRATED


def saturates_int8(abi: str, cpu_features: Collection[str]) -> bool:
    """Tell whether oneDNN's sums of 8-bit products may saturate on this CPU: an x86 CPU without an instruction set that
    sums exactly."""
    return abi.startswith("x86") and _EXACT_INT8.isdisjoint(cpu_features)


def resolve_variant(variant: Variant, abi: str, cpu_features: Collection[str] = ()) -> Variant:
    """Return the variant with its only value for every axis without a choice, and with every `auto` replaced for this
    device.

    `qengine` stays `auto` if no engine is known for the ABI. A backend that its runtime lacks stays as it is.
    """
    runtime = catalog.runtimes()[variant.runtime]
    backend = variant.backend if "backend" in runtime.axes else runtime.backends[0].name
    precision = variant.precision if "precision" in runtime.axes else _DEFAULTS["precision"]
    free = free_axes(runtime.name, backend, precision, variant.quantization)
    values = {axis: runtime.synonyms.get(axis, {}).get(value, value) for axis, value in _all(variant) if axis in free}
    variant = Variant(**_DEFAULTS | _fixed(runtime.backend(backend), precision) | values | {"backend": backend})
    if variant.qengine == "auto":
        engines = (engine for family, engine in _ENGINE_OF_ABI.items() if abi.startswith(family))
        variant = replace(variant, qengine=next(engines, "auto"))
    if variant.granularity == "auto":
        variant = replace(variant, granularity=DEFAULT_GRANULARITY.get(variant.qengine, "auto"))
    if variant.runner_toolchain == toolchains.SAME:
        variant = replace(variant, runner_toolchain=variant.toolchain)
    return replace(variant, reduced_range=saturates(variant) and saturates_int8(abi, cpu_features))


def saturates(variant: Variant) -> bool:
    """Tell whether the variant's sums would saturate on an x86 CPU without VNNI if its weights had the full 8 bits."""
    methods = catalog.backend_of(variant).saturating.get(variant.qengine, frozenset())
    return variant.precision == "int8" and variant.quantization in methods


def has_exact_sums(variant: Variant) -> bool:
    """Tell whether the variant needs a CPU that sums 8-bit products exactly, as its device does; this machine's CPU may
    not."""
    return saturates(variant) and not variant.reduced_range


def _values(grid: GridSpec, axis: str, runtime: str) -> tuple[Any, ...]:
    """Return the values of a grid's axis for one runtime. Releases of other runtimes are ignored: if a grid names only
    such releases, the runtime keeps its default."""
    values: tuple[Any, ...] = getattr(grid, axis)
    if axis not in _RELEASES:
        synonyms = _synonyms(catalog.runtimes()[runtime], axis)
        return tuple(dict.fromkeys(synonyms.get(value, value) for value in values))
    usual: tuple[Any, ...] = GridSpec.model_fields[axis].default
    return toolchains.of_runtime(values, runtime) or usual


def _synonyms(entry: RuntimeEntry, axis: str) -> Mapping[str, str]:
    return entry.synonyms.get(axis, {})


def _all(variant: Variant) -> list[tuple[str, Any]]:
    return [(axis.name, getattr(variant, axis.name)) for axis in fields(Variant)]


def _fixed(backend: BackendEntry | None, precision: str) -> dict[str, Any]:
    if backend is None:
        return {}
    return {**backend.fixed, **(backend.int8_fixed if precision == "int8" else {})}
