"""The reports of phones about the accelerators of NNAPI, as values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One of NNAPI's devices, as its driver describes it."""

    name: str
    type: str
    """`accelerator`, `gpu`, `cpu`, `other` or `unknown`."""
    version: str
    feature_level: int
    accepts: tuple[bool, ...]
    """Whether the driver accepts each operation of the model, in the order of `Answer.operations`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The report of one phone about one model in one precision."""

    phone: str
    """The name of the phone in a sweep file."""
    device: str
    """The maker, model and SoC, for people."""
    device_id: str
    model: str
    precision: str
    variant: str = ""
    """The variant about which the phone was asked; empty if it was not asked."""
    operations: tuple[str, ...] = ()
    """The names of the model's operations in NNAPI, one for each operation."""
    accelerators: tuple[Accelerator, ...] = ()
    reference: str = ""
    """`reference:nnapi@<version>` if a library on this host answered instead of the phone; else empty."""
    note: str = ""
    """The reason why the phone itself did not answer; else empty."""
