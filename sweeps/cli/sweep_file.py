"""Reads a sweep file and makes its plan."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from sweeps.device_facts import DeviceFacts
from sweeps.journal.journal import Journal
from sweeps.planning.budget import keep_budget
from sweeps.planning.plan import Plan
from sweeps.planning.size import check_size
from sweeps.spec.sweep import SweepSpec, load
from sweeps.text import plain
from sweeps.workspace import Workspace


def load_sweep(sweep_file: Path, yes: bool) -> SweepSpec:
    """Raises `SpecError`, also if the sweep has too many jobs and `yes` was not given."""
    spec = load(sweep_file)
    check_size(spec, len(spec.devices), yes)
    return spec


def roots_of(sweep_file: Path) -> tuple[Path, ...]:
    """The folders to search first for the user's own modules."""
    return (sweep_file.resolve().parent,)


def make_plan(spec: SweepSpec, roots: Sequence[Path], workspace: Workspace) -> Plan:
    """The plan for the present devices. A sweep that was planned before keeps its budget, unless the file gives one.

    Raises as `plan_sweep` does.
    """
    from workers.plan import plan_sweep  # imports numpy, pillow and psutil: `plan --help` needs none

    before: tuple[DeviceFacts, ...] = ()
    kept = ""
    if workspace.journal.exists():
        with Journal.open(workspace.journal, read_only=True) as journal:
            if spec.name in {info.name for info in journal.sweeps()}:
                before = journal.devices(spec.name)
                spec, kept = keep_budget(spec, journal.protocol(spec.name))
    planned = plan_sweep(spec, workspace.root, roots, before, lambda message: click.echo(plain(message), err=True))
    return replace(planned, budget_reason=kept) if kept else planned
