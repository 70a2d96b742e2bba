"""From a sweep file to its plan, and to how each of its jobs ended so far."""

from collections.abc import Sequence
from pathlib import Path

import click

from sweeps.journal.journal import Journal
from sweeps.planning.plan import Plan, check_size
from sweeps.protocol.presets import protocol_of
from sweeps.records import DeviceFacts, Failed, Job, Measured
from sweeps.spec.sweep import SweepSpec, load
from sweeps.text import plain
from sweeps.workspace import Workspace


def load_sweep(sweep_file: Path, yes: bool) -> SweepSpec:
    """Raises `SpecError`, also where the sweep has too many jobs for one that was not confirmed with `yes`."""
    spec = load(sweep_file)
    check_size(spec, len(spec.devices), yes)
    return spec


def roots_of(sweep_file: Path) -> tuple[Path, ...]:
    """Where the user's own modules are looked for first."""
    return (sweep_file.resolve().parent,)


def make_plan(spec: SweepSpec, roots: Sequence[Path], workspace: Workspace) -> Plan:
    """The plan on the devices that are there. Raises as `plan_sweep` does."""
    from workers.plan import plan_sweep  # numpy, pillow and psutil, which `plan --help` does without

    before: tuple[DeviceFacts, ...] = ()
    if workspace.journal.exists():
        with Journal.open(workspace.journal, read_only=True) as journal:
            if spec.name in {info.name for info in journal.sweeps()}:
                before = journal.devices(spec.name)
    return plan_sweep(spec, workspace.root, roots, before, lambda message: click.echo(plain(message), err=True))


def outcome_of(journal: Journal, planned: Plan, job: Job) -> Measured | Failed | None:
    """How one job of a plan ended so far; `None` while it is pending."""
    fingerprint = next(facts.fingerprint for facts in planned.devices if facts.device_id == job.device_id)
    protocol = protocol_of(planned.sweep)
    return journal.outcome(job, protocol, planned.identities.evaluation_id, fingerprint)
