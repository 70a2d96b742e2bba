"""`edgesweep run`: builds, measures and ranks a sweep, with progress, Ctrl-C and continuation."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from sweeps.cli.again import disqualified_jobs, tied_jobs
from sweeps.cli.evaluation import more_images
from sweeps.cli.known import batch_spreads
from sweeps.cli.lab import lab_options, lab_or_none
from sweeps.cli.on_end import told_at_the_end
from sweeps.cli.options import (
    EXIT_INTERRUPTED,
    executor_option,
    json_option,
    models_option,
    print_json,
    sweep_file_argument,
    workspace_option,
    yes_option,
)
from sweeps.cli.session import CtrlC, open_executor, show
from sweeps.cli.stored_results import results_of
from sweeps.cli.sweep_file import load_sweep, make_plan, roots_of
from sweeps.errors import RETRIED_KINDS, ModelError, StoreError
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import Complete
from sweeps.journal.salvage import check_whole
from sweeps.launching.live import LiveFile
from sweeps.planning.plan import Plan
from sweeps.planning.planned import planned_job
from sweeps.planning.programs import programs_of
from sweeps.protocol.sentinel import data_for
from sweeps.ranking.document import ranking_document
from sweeps.records import Failed
from sweeps.report.plan import budget_text, race_lines
from sweeps.report.progress import RunProgress
from sweeps.report.ranking import print_ranking
from sweeps.results import SweepResults
from sweeps.spec.inputs import ModelSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.store.copied import result_files
from sweeps.store.lag import read_lag
from sweeps.store.mlflow import Store
from sweeps.store.outbox import Outbox
from sweeps.store.publishing import Publisher
from sweeps.store.read_journal import rank_sweep
from sweeps.text import plain
from sweeps.workspace import Workspace
from workers.artifacts import ArtifactStore
from workers.driver.events import Away
from workers.driver.sharing import Sharing, with_links
from workers.driver.sweep import Driver
from workers.hosts.lab import Lab
from workers.measure.outlook import outlook_here
from workers.models import apart
from workers.models import prepare as models
from workers.models.prepared import PreparedModel
from workers.models.trial import try_models


@click.command()
@sweep_file_argument
@workspace_option
@executor_option
@models_option
@lab_options
@yes_option
@click.option(
    "--retry-failed", is_flag=True, help="Try failed jobs again, and measure again what a trust label disqualified."
)
@click.option(
    "--settle",
    type=click.IntRange(1, 1_000),
    metavar="ROUNDS",
    help="Afterwards, measure this many more rounds of the jobs that are tied for the first place.",
)
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
    with lab_or_none(lab, token_file, spec.name) as hosts, told_at_the_end(spec, workspace):
        run_spec(spec, roots_of(sweep_file, models), workspace, executor, retry_failed, settle or 0, hosts)
    ranked = rank_sweep(result_files(workspace, spec.name).journal, spec.name)
    _attach(workspace, spec.name, ranking_document(ranked))
    if as_json:
        print_json(ranking_document(ranked))
    else:
        print_ranking(ranked, more_images(spec, ranked))
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
) -> SweepResults:
    """Measure all pending jobs, and read the results from the store. Exits the program if it is interrupted.

    `settle`: more rounds for the jobs that are then tied for the first place. `roots`: folders that are searched first
    for the user's own modules. `lab`: its hosts have the phones.
    """
    with workspace.lock(), LiveFile(workspace.live, spec.name) as live:
        check_whole(workspace.journal)
        Store(workspace.tracking_uri, workspace.mlflow_artifacts).check()
        whole = make_plan(spec, roots, workspace, lab)
        with Journal.open(workspace.journal) as journal:
            with journal.together():
                sharing = Sharing(whole, journal)
                sharing.advance(wait=True)
                planned = sharing.plan
                journal.save_plan(planned)
                if retry_failed:
                    journal.retry_failures(spec.name)
                for kind in RETRIED_KINDS:
                    journal.retry_failures(spec.name, kind=kind)
            endings = [journal.ending(planned_job(planned, job)) for job in planned.jobs]
            failed = sum(isinstance(ended, Failed) for ended in endings)
            measured = sum(isinstance(ended, Complete) for ended in endings)
            click.echo(
                f"{spec.name}: {len(planned.jobs)} jobs, {measured} done before, "
                + (f"{failed} failed before (try again with --retry-failed), " if failed else "")
                + f"{len(planned.skipped)} skipped",
                err=True,
            )
            if planned.budget_reason:
                click.echo(plain(budget_text(planned)), err=True)
            for line in sharing.lines():
                click.echo(plain(line), err=True)
            artifacts = ArtifactStore(workspace.artifacts)
            complete = failed + measured == len(endings) and all(
                artifacts.look(job.build_key)
                for job, ended in zip(planned.jobs, endings, strict=True)
                if isinstance(ended, Complete)
            )
            for line in () if complete else outlook_here(planned):
                click.echo(plain(line), err=True)
            away: dict[str, int] = {}
            interrupted = not complete and _drive(planned, roots, workspace, journal, executor, away, live, lab=lab)
            while not interrupted and sharing.advance(wait=False):
                planned, complete = sharing.plan, False
                journal.save_plan(planned)
                for line in sharing.lines():
                    click.echo(plain(line), err=True)
                interrupted = _drive(planned, roots, workspace, journal, executor, away, live, lab=lab)
            if complete:
                with Outbox.of(workspace, journal, spec.name) as outbox:
                    outbox.publish()
            late: dict[str, int] = {}
            if retry_failed and not interrupted and (again := disqualified_jobs(journal, planned)):
                click.echo(f"{len(again)} with a disqualifying label: measured again", err=True)
                interrupted = _drive(
                    planned, roots, workspace, journal, executor, late, live, with_links(planned, again), lab
                )
            if settle and not interrupted:
                more = dict.fromkeys(tied_jobs(results_of(workspace, spec.name)), settle)
                click.echo(f"{len(more)} tied: {settle} more rounds of each" if more else "nothing is tied", err=True)
                interrupted = bool(more) and _drive(
                    planned, roots, workspace, journal, executor, late, live, with_links(planned, more), lab
                )
            pending = sum(journal.ending(planned_job(planned, job)) is None for job in planned.jobs)
            lag = read_lag(workspace, journal, spec.name)
        if interrupted:
            live.end("stopped")
    if lag is not None and lag.jobs:
        click.echo(f"{lag.text}: the next run sends them, or edgesweep journal publish", err=True)
    if interrupted:
        click.echo("Stopped. Nothing is lost: run the same command again to continue.", err=True)
        sys.exit(EXIT_INTERRUPTED)
    for line in _still_to_do(pending, sum(away.values()), sharing.waiting):
        click.echo(line, err=True)
    if late:
        click.echo(
            f"{', '.join(sorted(late))} went away: run the same command again when back, to add the rounds", err=True
        )
    return results_of(workspace, spec.name)


def _still_to_do(pending: int, waiting: int, shared: int) -> Iterator[str]:
    """Messages about the jobs that are pending at the end. `waiting`: how many of them wait for devices. `shared`: how
    many variants wait for units that can be compared."""
    if shared:
        yield f"{shared} variants have no unit yet: none of theirs has measured the common variant; run again"
    if waiting := min(waiting, pending):
        yield f"{waiting} jobs wait for devices that are away: run the same command again when they are back"
    if again := pending - waiting:
        yield f"{again} jobs will be tried again: run the same command again"


def _attach(workspace: Workspace, sweep: str, document: dict[str, Any]) -> None:
    """Attach the ranking to the sweep's run, for people who read MLflow itself."""
    try:
        Store(workspace.tracking_uri, workspace.mlflow_artifacts).attach_ranking(sweep, document)
    except StoreError as error:
        click.echo(f"MLflow did not accept the ranking: {error.message}", err=True)


def _drive(
    planned: Plan,
    roots: Sequence[Path],
    workspace: Workspace,
    journal: Journal,
    executor_name: str,
    away: dict[str, int],
    live: LiveFile,
    more: Mapping[str, int] | None = None,
    lab: Lab | None = None,
) -> bool:
    """Run the pending jobs. Returns whether it was stopped before the end.

    `away` is filled with the number of waiting jobs, by the names of devices that went away.
    """
    # The first of all: while one imports MLflow, the other imports torch.
    publisher = Publisher(workspace, planned.sweep.name)
    apart.start()
    spec = planned.sweep
    spreads = batch_spreads(planned, workspace)
    for line in () if more else race_lines(planned, spreads, programs_of(planned, journal.artifact)):
        click.echo(line, err=True)
    pending = {job.model for job in planned.jobs if journal.ending(planned_job(planned, job)) is None}
    with (
        publisher,
        RunProgress() as progress,
        open_executor(executor_name, workspace, planned, lab) as executor,
        # After the executor: Ray's start sets signal handlers of its own.
        CtrlC(progress.note, live.stopping) as stop,
    ):
        # All are told of before the first one is prepared, which may take long.
        tried = try_models([one for one in spec.models if one.name in pending], roots, workspace, apart.LIMITS.silent_s)
        unusable = {model.name: error for model, error, _ in tried if isinstance(error, ModelError)}
        for name, error in unusable.items():
            progress.note(f"{name} cannot be used: {error.one_line}")

        def prepare(model: ModelSpec) -> PreparedModel:
            if model.name in unusable:
                raise unusable[model.name]
            data = data_for(model, spec.data)
            return models.prepare(model, data, workspace, planned.identities.versions, progress.preparing, roots)

        driver = Driver(
            planned,
            journal,
            ArtifactStore(workspace.artifacts),
            executor,
            prepare=prepare,
            publishing=publisher,
            stop=stop,
            more=more,
            batches_decide={device_id: spread.noise for device_id, spread in spreads.items() if spread.decide},
        )
        for event in driver.run():
            show(event, progress, live)
            if isinstance(event, Away):
                away[event.device] = max(event.pending, away.get(event.device, 0))
        return stop()
