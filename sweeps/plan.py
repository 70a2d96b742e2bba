"""From a sweep file to jobs and skipped combinations. Pure, deterministic; trains, downloads and builds nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sweeps.records import DeviceFacts, Job, Skipped, Variant
from sweeps.spec import SweepSpec

Supports = Callable[[Variant, DeviceFacts], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """What a build key knows of a model: all of it known before the model is loaded."""

    source: str
    """`torchvision:mobilenet_v2`, or `module:function@<sha256 of its source files>`."""
    weights_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """Everything outside the sweep file that the keys depend on, handed in by the caller."""

    models: Mapping[str, ModelIdentity]
    """By the model's name in the sweep file."""
    calibration_id: str
    """sha256 of the calibration manifest."""
    evaluation_id: str
    versions: Mapping[str, str]
    """Of every library and of the builder: `torch`, `torchvision`, `builder`."""
    runners: Mapping[str, str]
    """Per runtime, the runner and its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The jobs of one sweep in a fixed order, and what was skipped."""

    sweep: SweepSpec
    devices: tuple[DeviceFacts, ...]
    identities: Identities
    jobs: tuple[Job, ...]
    skipped: tuple[Skipped, ...]


def expand(spec: SweepSpec, devices: Sequence[DeviceFacts], supports: Supports, identities: Identities) -> Plan:
    """All combinations of all grids on all devices."""
    raise SystemExit("not written yet")
