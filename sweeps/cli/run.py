"""`edgesweep run`: builds, measures and ranks a sweep, with progress, an orderly end by Ctrl-C, and continuation."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from sweeps.cli.lab import lab_options, lab_or_none
from sweeps.cli.options import (
    EXIT_INTERRUPTED,
    executor_option,
    json_option,
    models_option,
    print_json,
    retry_option,
    settle_option,
    sweep_file_argument,
    workspace_option,
    yes_option,
)
from sweeps.cli.session import CtrlC
from sweeps.journal.remaining_jobs import waiting
from sweeps.launching.sweep_commands import command_hints
from sweeps.operations.notices import notify
from sweeps.operations.run import Watch, rank_and_attach, run_sweep
from sweeps.operations.stored_results import names_of, results_of
from sweeps.operations.sweep_plan import load_sweep, roots_of
from sweeps.operations.which_sweep import open_journal
from sweeps.ranking.document import ranking_document
from sweeps.report.evaluation import images_document, more_images
from sweeps.report.ranking_text import print_ranking
from sweeps.results import SweepResults
from sweeps.spec.sweep import SweepSpec
from sweeps.workspace import Workspace
from workers.hosts.lab import Lab


@click.command()
@sweep_file_argument
@workspace_option
@executor_option
@models_option
@lab_options
@yes_option
@retry_option
@settle_option
@json_option
def run(
    sweep_file: Path,
    root: Path,
    executor: str,
    models: tuple[Path, ...],
    lab: str | None,
    token_file: Path | None,
    yes: bool,
    retry_failed: bool,
    settle: int | None,
    as_json: bool,
) -> None:
    """Build, measure and rank. After an interruption, run the same command again to continue.

    \b
    Ctrl-C once finishes the running work and stops; twice stops at once.
    Exit code: 0 something was measured (even without a winner), 1 nothing was, 2 a bad sweep file, 130 stopped.
    Example: edgesweep run sweep.yaml --workspace results
    """
    spec = load_sweep(sweep_file, yes)
    workspace = Workspace.open(root)
    with lab_or_none(lab, token_file, spec.name, tells_ports=True) as hosts:
        run_spec(spec, roots_of(sweep_file, models), workspace, executor, retry_failed, settle or 0, hosts, sweep_file)
    ranked = rank_and_attach(workspace, spec.name)
    if as_json:
        print_json(ranking_document(ranked) | {"evaluation_images": images_document(spec, ranked)})
    else:
        with open_journal(workspace) as journal:
            notes = (*more_images(spec, ranked), *waiting(journal, spec.name))
            names = names_of(journal, spec.name)
        print_ranking(ranked, notes, hints=command_hints(workspace, spec.name, sweep_file), names=names)
    if not any((*device.ranking, *device.checked) for device in ranked.devices):
        sys.exit(1)  # nothing was measured: a script must notice


def run_spec(
    spec: SweepSpec,
    roots: Sequence[Path],
    workspace: Workspace,
    executor: str,
    retry_failed: bool,
    settle: int = 0,
    lab: Lab | None = None,
    file: Path | None = None,
) -> SweepResults:
    """Run a sweep as `run_sweep` does, until Ctrl-C requests its end. Returns the results; if the run was interrupted,
    the program exits instead. `file`: the path of the sweep file, for commands in advice."""
    watch = Watch(asking=CtrlC, file=file)
    ended = run_sweep(spec, roots, workspace, executor, retry_failed=retry_failed, settle=settle, lab=lab, watch=watch)
    for line in ended.still_to_do:
        notify(line)
    if ended.interrupted:
        sys.exit(EXIT_INTERRUPTED)
    return results_of(workspace, spec.name)
