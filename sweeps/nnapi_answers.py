"""The answers of phones about the accelerators of NNAPI, as values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One of NNAPI's devices, as its driver describes it."""

    name: str
    type: str
    """The type is `accelerator`, `gpu`, `cpu`, `other` or `unknown`."""
    version: str
    feature_level: int
    accepts: tuple[bool, ...]
    """The driver accepts or refuses each operation of the model, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of one phone about one model in one precision."""

    phone: str
    """The name of the phone in a sweep file."""
    device: str
    """The maker, model and SoC, for people."""
    device_id: str
    model: str
    precision: str
    variant: str = ""
    """The variant that the phone was asked about; empty where it was not asked."""
    operations: tuple[str, ...] = ()
    """The names of the model's operations in NNAPI, one for each operation."""
    accelerators: tuple[Accelerator, ...] = ()
    reference: str = ""
    """The reference is `reference:nnapi@<version>` where a library on this host answered, and not the phone; else
    empty."""
    note: str = ""
    """The reason why the phone itself did not answer; else empty."""
