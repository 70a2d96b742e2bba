"""The loading of a sweep file, and its plan for the present devices."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.device_facts import DeviceFacts
from sweeps.journal.journal import Journal
from sweeps.journal.noise_blocks import known_noise
from sweeps.operations.device_noise import read_per_device
from sweeps.operations.notices import notify
from sweeps.planning.budget import keep_budget
from sweeps.planning.plan import Plan
from sweeps.planning.size import check_size
from sweeps.protocol.presets import Protocol
from sweeps.protocol.rounds_for_noise import rounds_by_device
from sweeps.spec.sweep import SweepSpec, load
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from workers.hosts.lab import Lab


def load_sweep(sweep_file: Path, yes: bool) -> SweepSpec:
    """Return the sweep of a file. Raises `SpecError`, also if the sweep has too many jobs and `yes` is false."""
    spec = load(sweep_file)
    check_size(spec, len(spec.devices), yes)
    return spec


def roots_of(sweep_file: Path, models: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Return the folders that are searched first for the user's own modules."""
    return (sweep_file.resolve().parent, *(folder.resolve() for folder in models))


def make_plan(spec: SweepSpec, roots: Sequence[Path], workspace: Workspace, lab: "Lab | None" = None) -> Plan:
    """Return the sweep's plan for the present devices. A sweep that was planned before keeps its budget, unless the
    file gives one. A device gets more rounds if its measured noise needs them, and a message says so. `lab`: the lab
    whose hosts have the phones.

    Raises as `plan_sweep` does.
    """
    from workers.plan_inputs import plan_sweep  # the module imports numpy, pillow and psutil: `plan --help` needs none

    before: tuple[DeviceFacts, ...] = ()
    last: Protocol | None = None
    kept_reason = ""
    if workspace.journal.exists():
        with Journal.open(workspace.journal, read_only=True) as journal:
            if spec.name in {info.name for info in journal.sweeps.all()}:
                before, last = journal.plans.devices(spec.name), journal.plans.protocol(spec.name)
                spec, kept_reason = keep_budget(spec, last)
    planned = plan_sweep(spec, workspace.root, roots, before, notify, lab.select if lab is not None else None)
    planned = replace(planned, budget_reason=kept_reason or planned.budget_reason)
    noise, errors = read_per_device(planned, workspace, known_noise)
    for error in errors:
        notify(error.one_line)  # the plan does not need that noise
    own = planned.protocol
    rounds = rounds_by_device(spec.protocol, own, noise, _had(planned, last, before))
    names = {facts.device_id: facts.name for facts in planned.devices}
    for device_id, needed in rounds:
        notify(f"{names[device_id]}: {needed} rounds, not {own.rounds}: edgesweep noise found that it needs more")
    return replace(planned, rounds_on=rounds)


def _had(planned: Plan, last: Protocol | None, before: Sequence[DeviceFacts]) -> Mapping[str, int]:
    """Return the rounds of the sweep's last plan by device id, for devices that needed more than the protocol's and
    whose fingerprint has not changed since."""
    if last is None or last.preset != planned.protocol.preset:
        return {}
    now = {(facts.device_id, facts.fingerprint) for facts in planned.devices}
    unchanged = {facts.device_id for facts in before if (facts.device_id, facts.fingerprint) in now}
    return {device_id: rounds for device_id, rounds in last.rounds_on if device_id in unchanged}
