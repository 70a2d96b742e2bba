"""The results of surveys, as values: support tables, accelerators of devices, simulations of protocols."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from sweeps.manifest import Manifest
from sweeps.records import Failed, Skipped
from sweeps.spec import built_in, catalog
from sweeps.variant import Variant

State = Literal["verified", "skipped", "failed"]

Column = tuple[str, str]
"""Two lines of a heading: numbers or method, and capture or interface."""

_CAPTURES = ("script", "trace", "mixed")

_INTERFACES = ("none", "core", "full", "inside")

_METHODS = ("none", "static", "static_fx", "static_eager", "qat", "dynamic")

_PRECISIONS = ("fp32", "fp16", "int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One method on one phone, over `sweeps` sweeps."""

    method: str
    sweeps: int
    device_minutes: float
    """Of one sweep, the median: pushes, starts, loads, warm-ups and waits counted."""
    measuring_percent: float
    """Share of the device's time in which timed iterations ran."""
    samples: int
    """Of one sweep, the median."""
    best_named: int
    """Sweeps whose best is within 2 % of the true best."""
    best_eliminated: int | None
    """Sweeps in which the true best left the race; `None` without elimination."""
    intervals: int
    """95 % intervals given ..."""
    intervals_with_truth: int
    blocks: int
    """Of all sweeps."""
    marked_blocks: int
    """Kept apart, as throttled or because the phone was not ready in time."""
    throttled_blocks: int
    throttled_unmarked_blocks: int
    """Counted as results all the same."""
    undecided: int | None
    """Races that were not decided when their rounds or their time ended; `None` where there is no race."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhoneFigures:
    """Every method on one phone."""

    phone: str
    about: str
    methods: tuple[Figures, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """How one variant of one model ended: verified as its manifest says, skipped or failed."""

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
        """Why there is no verified build; else empty."""
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
    """What was built and verified, when, where and by what."""

    date: str
    machine: str
    versions: Mapping[str, str]
    """Of EdgeSweep, its builder and the libraries."""
    references: Mapping[str, str]
    """By backend, what checks it on this host."""
    rows: tuple[Row, ...]


def group_of(variant: Variant) -> str:
    """The part of the table that a variant stands in."""
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
    """Sorts variants as the table shows them: values that are not known here last."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One of NNAPI's devices, as its driver describes it."""

    name: str
    type: str
    """`accelerator`, `gpu`, `cpu`, `other` or `unknown`."""
    version: str
    feature_level: int
    accepts: tuple[bool, ...]
    """For each operation of the model, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one phone said of one model in one precision."""

    phone: str
    """As a sweep file names it."""
    device: str
    """Maker, model and SoC, for people."""
    device_id: str
    model: str
    precision: str
    variant: str = ""
    """That it was asked with; empty where it was not asked."""
    operations: tuple[str, ...] = ()
    """NNAPI's names, one for each operation of the model."""
    accelerators: tuple[Accelerator, ...] = ()
    reference: str = ""
    """`reference:nnapi@<version>` where a library on this host answered, and not the phone; else empty."""
    note: str = ""
    """Why the phone itself did not answer; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """One run of `edgesweep simulate`."""

    variants: int
    base_ms: float
    sigma: float
    seeds: int
    methods: Mapping[str, str]
    """Name to what is done, in words."""
    phones: tuple[PhoneFigures, ...]

    @property
    def about(self) -> str:
        return (
            f"{self.seeds} sweeps of {self.variants} variants each; their true latencies are lognormal around "
            f"{self.base_ms:g} ms (sigma {self.sigma:g}). Builds, accuracy passes and the sentinel are not counted"
        )
