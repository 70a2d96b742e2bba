"""Gathers what a plan is made from: facts of devices, identities of models and data, what each runtime supports."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sweeps.plan import Identities, Plan, expand
from sweeps.records import DeviceFacts, Variant
from sweeps.spec import SweepSpec
from workers import data, models
from workers.devices import registry as devices
from workers.native.compiler import compiler
from workers.runtimes import registry as runtimes


def plan_sweep(spec: SweepSpec, folder: Path, roots: Sequence[Path] = ()) -> Plan:
    """The plan of a sweep on the devices that are there. Trains, downloads and builds nothing.

    `folder` is where devices may keep files on this host; the user's own modules are looked for in `roots`.
    Raises `DeviceError`, `ModelError`, `DataError`.
    """
    used = sorted({name for grid in spec.grids for name in grid.runtime})
    calibration, evaluation = data.manifests(spec.data)
    versions: dict[str, str] = {}
    builders: dict[str, str] = {}
    references: dict[str, str] = {}
    for name in used:
        own = runtimes.get(name).versions()
        versions |= own
        builders[name] = own["builder"]
        references |= runtimes.get(name).references()
    facts = tuple(device_facts(name, folder, references) for name in dict.fromkeys(spec.devices))
    identities = Identities(
        models={model.name: models.identify(model, roots) for model in spec.models},
        calibration_id=calibration.id,
        evaluation_id=evaluation.id,
        versions=versions,
        builders=builders,
        runners={name: runtimes.get(name).runner() for name in used},
        references=references,
    )
    return expand(spec, facts, _supports, identities)


def device_facts(name: str, folder: Path, references: Mapping[str, str]) -> DeviceFacts:
    """Facts of a device; of this host, with the backends that it can check although it does not have them."""
    facts = devices.connect(name, folder).facts()
    if facts.name != "local" or compiler() is None:
        return facts
    return replace(facts, emulates=tuple(sorted(references)))


def _supports(variant: Variant, facts: DeviceFacts) -> str | None:
    return runtimes.get(variant.runtime).supports(variant, facts)
