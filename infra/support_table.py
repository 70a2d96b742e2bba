"""The support table as values: the cells of each model, and the part and column of the table in which each cell
stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from sweeps.manifest import Manifest
from sweeps.records import Failed, Skipped
from sweeps.spec import built_in, catalog
from sweeps.variant import Variant

State = Literal["verified", "skipped", "failed"]

Column = tuple[str, str]
"""The two lines of a heading: precision or quantization, and capture or interface."""

_CAPTURES = ("script", "trace", "mixed")

_INTERFACES = ("none", "core", "full", "inside")

_METHODS = ("none", "static", "static_fx", "static_eager", "qat", "dynamic")

_PRECISIONS = ("fp32", "fp16", "int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The outcome of one variant of one model: verified as its manifest says, skipped or failed."""

    variant: Variant
    outcome: Manifest | Skipped | Failed

    @property
    def state(self) -> State:
        match self.outcome:
            case Manifest():
                return "verified"
            case Skipped():
                return "skipped"
            case Failed():
                return "failed"
            case never:
                assert_never(never)

    @property
    def reason(self) -> str:
        """The reason why there is no verified build; empty if there is one."""
        match self.outcome:
            case Manifest():
                return ""
            case Skipped() as skipped:
                return skipped.reason
            case Failed() as failed:
                return f"{failed.stage}, {failed.kind}: {failed.message}"
            case never:
                assert_never(never)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One model with all of its cells."""

    model: str
    source: str
    weights: str
    input_shape: tuple[int, int, int, int]
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportTable:
    """The result of a survey: the outcome of each build, with the date, the machine and the versions."""

    date: str
    machine: str
    versions: Mapping[str, str]
    """The versions of EdgeSweep, its builder and the libraries."""
    references: Mapping[str, str]
    """The reference that checks each backend on this host."""
    rows: tuple[Row, ...]


def group_of(variant: Variant) -> str:
    """Return the heading of the part of the table in which a variant stands."""
    if variant.runtime != built_in.TORCHSCRIPT.name:
        return f"{variant.runtime} {variant.backend}"
    if not catalog.backend_of(variant).support_parts:
        return variant.backend
    return f"{variant.backend} {variant.precision}" + f", engine {variant.qengine}" * (variant.precision != "fp32")


def column_of(variant: Variant) -> Column:
    backend = catalog.backend_of(variant)
    method = f"int8 {variant.quantization}" if variant.precision == "int8" else variant.precision
    axis = backend.support_columns.get(variant.precision, "")
    value = getattr(variant, axis) if axis else ""
    words = [value.replace("_", " ") if isinstance(value, str) else axis.replace("_", " ") * value]
    words += ["not fused"] * (variant.precision == "fp32" and not variant.fuse and "fuse" in backend.chosen_axes)
    return method.removeprefix("int8 ") if backend.support_parts else method, ", ".join(filter(None, words))


def table_order(variant: Variant) -> tuple[int | str | bool, ...]:
    """Return the key that sorts variants as the table shows them; values that are not known here come last."""
    return (
        _place(catalog.values("runtime"), variant.runtime),
        _place(catalog.values("backend"), variant.backend),
        _place(_PRECISIONS, variant.precision),
        variant.qengine,
        _place(_METHODS, variant.quantization),
        variant.granularity,
        _place(_INTERFACES, variant.interface),
        variant.relaxed_fp16,
        not variant.fuse,
        _place(_CAPTURES, variant.capture),
    )


def _place(known: tuple[str, ...], value: str) -> int:
    return known.index(value) if value in known else len(known)
