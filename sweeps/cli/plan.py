"""`edgesweep plan`: prints every job and every skipped combination; runs nothing."""

import sys
from collections.abc import Hashable
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import click

from sweeps.cli.known import batch_spreads, known
from sweeps.cli.lab import lab_options, lab_or_none
from sweeps.cli.options import (
    json_option,
    models_option,
    print_json,
    sweep_file_argument,
    workspace_option,
    yes_option,
)
from sweeps.cli.sweep_file import load_sweep, make_plan, roots_of
from sweeps.journal.calibrations import known_noise
from sweeps.journal.journal import Journal
from sweeps.planning.planned import planned_job
from sweeps.planning.programs import programs_of
from sweeps.planning.size import estimate
from sweeps.quarantine import quarantines_of
from sweeps.records import Failed
from sweeps.text import plain
from sweeps.workspace import Workspace
from workers.driver.sharing import Sharing
from workers.measure.outlook import outlook_here

CHECK_S = 5.0
"""For decoding the images of one folder."""


@click.command()
@sweep_file_argument
@workspace_option
@models_option
@lab_options
@yes_option
@click.option(
    "--check",
    "with_check",
    is_flag=True,
    help="Also load models, weights and images, each in a process of its own. Exit code 1 if one cannot be used.",
)
@json_option
def plan(
    sweep_file: Path,
    root: Path,
    models: tuple[Path, ...],
    lab: str | None,
    token_file: Path | None,
    yes: bool,
    with_check: bool,
    as_json: bool,
) -> None:
    """Print every job and every skipped combination; run nothing.

    \b
    Only --check runs the model's code.
    Example: edgesweep plan sweep.yaml --check
    """
    # Imports pandas and numpy, which `plan --help` does not need.
    from sweeps.report.plan import plan_document, print_plan
    from workers.artifacts import ArtifactStore
    from workers.models.trial import try_all

    spec = load_sweep(sweep_file, yes)
    workspace = Workspace(root)
    with lab_or_none(lab, token_file, "plan") as hosts:
        planned = make_plan(spec, roots_of(sweep_file, models), workspace, hosts)
    with Journal.open(workspace.journal, read_only=True) if workspace.journal.exists() else nullcontext() as before:
        sharing = Sharing(planned, before, record=False)
        sharing_lines = list(sharing.lines())
        sharing.propose()
        planned = sharing.plan
    store = ArtifactStore(workspace.artifacts)
    built = {key for key in {job.build_key for job in planned.jobs} if store.look(key) is not None}
    states = {job.key: "built" if job.build_key in built else "to build" for job in planned.jobs}
    programs: dict[str, Hashable] = {}
    if workspace.journal.exists():
        with Journal.open(workspace.journal, read_only=True) as journal:
            programs = programs_of(planned, journal.artifact)
            ended = {job.key: journal.ending(planned_job(planned, job)) for job in planned.jobs}
        states |= {key: "failed" if isinstance(ending, Failed) else "done" for key, ending in ended.items() if ending}
    finished = {key for key, state in states.items() if state in ("done", "failed")}
    left = estimate(planned, planned.protocol, finished, built)
    noise, _ = known(planned, workspace, known_noise)
    spreads = batch_spreads(planned, workspace)
    kept_out = quarantines_of(planned.devices)
    machine = outlook_here(planned) if left.seconds else []
    roots = roots_of(sweep_file, models)
    checked = try_all(spec.models, spec.data, roots, workspace, CHECK_S) if with_check else iter(())
    if as_json:
        document = plan_document(planned, states, left, noise, spreads, kept_out) | {"machine": machine}
        tried = list(checked)
        print_json(document | ({"check": [asdict(one) for one in tried]} if with_check else {}))
    else:
        print_plan(planned, states, left.seconds, noise, spreads, kept_out, programs)
        for line in (*sharing_lines, *machine):
            click.echo(plain(line), err=True)
        tried = []
        for one in checked:
            tried.append(one)
            click.secho(plain(one.text), fg="red" if one.problem else None)
    if any(one.problem for one in tried):
        sys.exit(1)
