"""`edgesweep plan`: prints every job and every skipped combination, and runs nothing."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sweeps.cli.lab import lab_options, lab_or_none
from sweeps.cli.options import (
    json_option,
    models_option,
    print_json,
    sweep_file_argument,
    workspace_option,
    yes_option,
)
from sweeps.journal.noise_blocks import known_noise
from sweeps.operations.device_noise import batch_spreads, read_per_device
from sweeps.operations.notices import notify
from sweeps.operations.plan_states import plan_with_states
from sweeps.operations.sweep_plan import load_sweep, roots_of
from sweeps.quarantine import quarantines_of
from sweeps.ranking.eligibility import ON_ACCURACY, direction
from sweeps.text import plain
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from workers.models.model_check import Trial

CHECK_S = 5.0
"""Time limit for decoding the images of one folder, in seconds."""


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
    help="Also load models, weights and images, each in a process of its own, and let models answer images that have "
    "labels. Exit code 1 if one cannot be used, or the original is at chance and the objective names accuracy.",
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
    # The modules import pandas and numpy, which `plan --help` does not need.
    from sweeps.report.plan_text import plan_document, print_plan
    from workers.models.model_check import try_all

    spec = load_sweep(sweep_file, yes)
    roots = roots_of(sweep_file, models)
    workspace = Workspace(root)
    with lab_or_none(lab, token_file, "plan") as hosts:
        with_states = plan_with_states(spec, roots, workspace, hosts)
    planned, left = with_states.plan, with_states.left
    noise, _ = read_per_device(planned, workspace, known_noise)
    spreads = batch_spreads(planned, workspace)
    kept_out = quarantines_of(planned.devices)
    checked = try_all(spec.models, spec.data, roots, workspace, CHECK_S) if with_check else iter(())
    if as_json:
        document = plan_document(planned, with_states.states, left, noise, spreads, kept_out) | {
            "machine": with_states.machine
        }
        trials = list(checked)
        print_json(document | ({"check": [asdict(trial) for trial in trials]} if with_check else {}))
    else:
        print_plan(
            planned,
            with_states.states,
            left.seconds,
            noise,
            spreads,
            kept_out,
            with_states.programs,
            with_states.worth_retrying,
        )
        for line in (*with_states.sharing, *with_states.machine):
            notify(line)
        trials = []
        for trial in checked:
            trials.append(trial)
            click.secho(plain(trial.text), fg=_color(trial))
    on_accuracy = {*(bound.metric for bound in spec.objective.constraints), direction(spec.objective)[0]} & ON_ACCURACY
    if any(trial.problem or (trial.doubts_original and on_accuracy) for trial in trials):
        sys.exit(1)


def _color(trial: "Trial") -> str | None:
    if trial.doubts_original:
        return "yellow"
    return "red" if trial.problem else None
