"""Gathers what a plan is made from: facts of devices, identities of models and data, what each runtime supports."""

from collections.abc import Sequence
from pathlib import Path

from sweeps.plan import Identities, Plan, expand
from sweeps.records import DeviceFacts, Variant
from sweeps.spec import SweepSpec
from workers import data, models
from workers.devices import registry as devices
from workers.runtimes import registry as runtimes


def plan_sweep(spec: SweepSpec, folder: Path, roots: Sequence[Path] = ()) -> Plan:
    """The plan of a sweep on the devices that are there. Trains, downloads and builds nothing.

    `folder` is where devices may keep files on this host; the user's own modules are looked for in `roots`.
    Raises `DeviceError`, `ModelError`, `DataError`.
    """
    facts = tuple(devices.connect(name, folder).facts() for name in dict.fromkeys(spec.devices))
    used = sorted({name for grid in spec.grids for name in grid.runtime})
    calibration, evaluation = data.manifests(spec.data)
    versions: dict[str, str] = {}
    for name in used:
        versions |= runtimes.get(name).versions()
    identities = Identities(
        models={model.name: models.identify(model, roots) for model in spec.models},
        calibration_id=calibration.id,
        evaluation_id=evaluation.id,
        versions=versions,
        runners={name: runtimes.get(name).runner() for name in used},
    )
    return expand(spec, facts, _supports, identities)


def _supports(variant: Variant, facts: DeviceFacts) -> str | None:
    return runtimes.get(variant.runtime).supports(variant, facts)
