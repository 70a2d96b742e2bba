"""Answers of phones about the accelerators of NNAPI, as values."""

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
