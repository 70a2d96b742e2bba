"""A sweep file, and the plan that is made from it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.device_facts import DeviceFacts
from sweeps.journal.journal import Journal
from sweeps.journal.noise_blocks import known_noise
from sweeps.operations.device_noise import known
from sweeps.operations.notices import tell
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
    """The sweep of a file. Raises `SpecError`, also if the sweep has too many jobs and `yes` was not given."""
    spec = load(sweep_file)
    check_size(spec, len(spec.devices), yes)
    return spec


def roots_of(sweep_file: Path, models: Sequence[Path] = ()) -> tuple[Path, ...]:
    """The folders to search first for the user's own modules."""
    return (sweep_file.resolve().parent, *(folder.resolve() for folder in models))


def make_plan(spec: SweepSpec, roots: Sequence[Path], workspace: Workspace, lab: "Lab | None" = None) -> Plan:
    """The plan for the present devices. A sweep that was planned before keeps its budget, unless the file gives one.
    There are more rounds where the noise of a device was measured and needs them, which is said. `lab`: phones are
    those of its hosts.

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
    planned = plan_sweep(spec, workspace.root, roots, before, tell, lab.select if lab is not None else None)
    planned = replace(planned, budget_reason=kept_reason or planned.budget_reason)
    noise, errors = known(planned, workspace, known_noise)
    for error in errors:
        tell(error.one_line)  # the plan does not need that noise
    own = planned.protocol
    rounds = rounds_by_device(spec.protocol, own, noise, _had(planned, last, before))
    names = {facts.device_id: facts.name for facts in planned.devices}
    for device_id, needed in rounds:
        tell(f"{names[device_id]}: {needed} rounds, not {own.rounds}: edgesweep noise found that it needs more")
    return replace(planned, rounds_on=rounds)


def _had(planned: Plan, last: Protocol | None, before: Sequence[DeviceFacts]) -> Mapping[str, int]:
    """The rounds that devices needed by the sweep's last plan, by device id, for the devices that have not changed
    since."""
    if last is None or last.preset != planned.protocol.preset:
        return {}
    now = {(facts.device_id, facts.fingerprint) for facts in planned.devices}
    unchanged = {facts.device_id for facts in before if (facts.device_id, facts.fingerprint) in now}
    return {device_id: rounds for device_id, rounds in last.rounds_on if device_id in unchanged}
