"""From a sweep file to its plan."""

from collections.abc import Sequence
from pathlib import Path

import click

from sweeps.device_facts import DeviceFacts
from sweeps.journal.journal import Journal
from sweeps.planning.plan import Plan
from sweeps.planning.size import check_size
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
