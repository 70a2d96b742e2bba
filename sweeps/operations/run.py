"""The run of a sweep: it builds and measures, and continues a sweep that was interrupted."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from sweeps.errors import RETRIED_KINDS, EdgeSweepError, StoreError
from sweeps.failure_kinds import another_try
from sweeps.journal.journal import Journal
from sweeps.journal.outcomes import Complete
from sweeps.journal.salvage import check_whole
from sweeps.launching.live_report import LiveFile
from sweeps.launching.sweep_commands import command_hints
from sweeps.operations.device_noise import batch_spreads
from sweeps.operations.event_output import show
from sweeps.operations.executor_choice import open_executor
from sweeps.operations.newcomers import Newcomers, missed_devices
from sweeps.operations.notices import notify
from sweeps.operations.on_end import told_at_the_end
from sweeps.operations.precheck import unusable
from sweeps.operations.remeasure import disqualified_jobs, tied_jobs
from sweeps.operations.stored_results import results_of
from sweeps.operations.sweep_plan import make_plan
from sweeps.planning.plan import Plan
from sweeps.planning.planned_job import planned_job
from sweeps.planning.program_identity import programs_of
from sweeps.protocol.sentinel_rules import data_for
from sweeps.ranking.document import ranking_document
from sweeps.ranking.values import Ranking
from sweeps.records import Failed
from sweeps.report.plan_text import budget_text, race_lines
from sweeps.report.progress import RunProgress
from sweeps.spec.model_inputs import ModelSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.store.lag import read_lag
from sweeps.store.mlflow import Store
from sweeps.store.outbox import Outbox
from sweeps.store.publishing import Publisher
from sweeps.store.read_journal import rank_sweep
from sweeps.workspace import Workspace
from workers.artifacts import ArtifactStore
from workers.driver.driver_events import Away, Event
from workers.driver.sharing import Sharing, with_links
from workers.driver.sweep_driver import Driver
from workers.hosts.lab import Lab
from workers.hosts.shared_quarantine import ToldBook
from workers.measure.outlook import outlook_here
from workers.models import model_process
from workers.models import prepare as models
from workers.models.prepared_model import PreparedModel

Stop = Callable[[], bool]  # returns whether an orderly end was requested


def _nobody(note: Callable[[str], None], on_request: Callable[[], None]) -> AbstractContextManager[Stop]:
    return nullcontext(lambda: False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Callbacks of a run's caller, by which it follows the run and may request its end. By default no end is requested,
    and no signal handler is set."""

    event: Callable[[Event], object] = lambda _: None
    """Function that is called with each event, in the thread of the run, after the event's results are in the
    journal."""
    asking: Callable[[Callable[[str], None], Callable[[], None]], AbstractContextManager[Stop]] = _nobody
    """Context manager around the work. It gets two functions, one that shows a message and one to call when the end is
    requested, and yields a `Stop`."""
    quiet: bool = False
    """Whether the run shows no progress."""
    file: Path | None = None
    """Path of the sweep file, for commands in advice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended."""

    interrupted: bool
    still_to_do: tuple[str, ...]
    """Lines of text that say what is left for the next run."""


def run_sweep(
    spec: SweepSpec,
    roots: Sequence[Path],
    workspace: Workspace,
    executor: str,
    *,
    retry_failed: bool = False,
    settle: int = 0,
    lab: Lab | None = None,
    watch: Watch | None = None,
) -> RunEnd:
    """Build and measure all pending jobs of a sweep.

    `settle`: number of extra rounds for the jobs that are tied for the first place at the end. `roots`: folders that
    are searched first for the user's own modules. `lab`: the lab whose hosts have the phones.
    """
    watch = watch or Watch()
    with told_at_the_end(spec, workspace) as end:
        ended = _run(spec, roots, workspace, executor, retry_failed, settle, lab, watch)
        end.stopped = ended.interrupted
    return ended


def rank_and_attach(workspace: Workspace, sweep: str) -> Ranking:
    """The ranking after a run; it is attached to the sweep's run, for people who read MLflow itself."""
    ranked = rank_sweep(workspace.journal, sweep)
    try:
        Store(workspace.tracking_uri, workspace.mlflow_artifacts).attach_ranking(sweep, ranking_document(ranked))
    except StoreError as error:
        notify(f"MLflow did not accept the ranking: {error.message}")
    return ranked


def _run(
    spec: SweepSpec,
    roots: Sequence[Path],
    workspace: Workspace,
    executor: str,
    retry_failed: bool,
    settle: int,
    lab: Lab | None,
    watch: Watch,
) -> RunEnd:
    with workspace.lock(), LiveFile(workspace.live, spec.name, file=watch.file) as live:
        check_whole(workspace.journal)
        Store(workspace.tracking_uri, workspace.mlflow_artifacts).check()
        whole = make_plan(spec, roots, workspace, lab)
        if lab is not None:
            ToldBook(lab).retell(facts.device_id for facts in whole.devices)
        with Journal.open(workspace.journal) as journal:
            with journal.transaction():
                sharing = Sharing(whole, journal)
                sharing.advance(wait=True)
                planned = sharing.plan
                journal.save_plan(planned)
                if retry_failed:
                    journal.attempts.retry_failures(spec.name)
                for kind in RETRIED_KINDS:
                    journal.attempts.retry_failures(spec.name, kind=kind)
            complete = _begin(planned, sharing, journal, ArtifactStore(workspace.artifacts))
            newcomers = Newcomers(spec.devices, planned.devices, lab)
            drive = _Drive(roots, workspace, journal, executor, live, lab, watch)
            away: dict[str, Away] = {}
            interrupted = not complete and drive.shared(sharing, away)
            while not interrupted and (
                names := newcomers.joining(whole.devices, missed_devices(whole, journal, away.values()))
            ):
                try:
                    new_plan = make_plan(spec, roots, workspace, lab)
                except EdgeSweepError as error:
                    notify(f"{', '.join(names)} came, and cannot be planned: {error.one_line}")
                    break
                if not {facts.name for facts in new_plan.devices} & set(names):
                    continue
                if new_plan.identities != whole.identities:
                    notify(
                        f"{', '.join(names)} came, but models, data or versions are others now: run again to measure"
                    )
                    break
                notify(f"{', '.join(names)} came: measured now")
                whole, sharing, complete = new_plan, Sharing(new_plan, journal), False
                with journal.transaction():
                    sharing.advance(wait=True)
                    journal.save_plan(sharing.plan)
                away.clear()
                interrupted = drive.shared(sharing, away)
            planned = sharing.plan
            if complete:
                with Outbox.of(workspace, journal, spec.name) as outbox:
                    outbox.publish()
            late: dict[str, Away] = {}
            if retry_failed and not interrupted and (untrusted := disqualified_jobs(journal, planned)):
                notify(f"{len(untrusted)} with a disqualifying label: measured again")
                interrupted = drive.run(planned, late, with_links(planned, untrusted))
            if settle and not interrupted:
                more = dict.fromkeys(tied_jobs(results_of(workspace, spec.name)), settle)
                notify(f"{len(more)} tied: {settle} more rounds of each" if more else "nothing is tied")
                interrupted = bool(more) and drive.run(planned, late, with_links(planned, more))
            pending = sum(journal.outcomes.ending(planned_job(planned, job)) is None for job in planned.jobs)
            lag = read_lag(workspace, journal, spec.name)
        if interrupted:
            live.end("stopped")
    if lag is not None and lag.jobs:
        notify(command_hints(workspace).typed(f"{lag.text}: the next run sends them, or edgesweep journal publish"))
    if interrupted:
        stopped = "Stopped. Nothing is lost: run the same command again to continue."
        return RunEnd(interrupted=True, still_to_do=(stopped,))
    left = tuple(_still_to_do(pending, sum(event.pending for event in away.values()), sharing.waiting, late))
    return RunEnd(interrupted=False, still_to_do=left)


def _begin(planned: Plan, sharing: Sharing, journal: Journal, artifacts: ArtifactStore) -> bool:
    """Print what the run has to do. Returns whether everything is done already."""
    endings = [journal.outcomes.ending(planned_job(planned, job)) for job in planned.jobs]
    failed = [ended.kind for ended in endings if isinstance(ended, Failed)]
    measured = sum(isinstance(ended, Complete) for ended in endings)
    notify(
        f"{planned.sweep.name}: {len(planned.jobs)} jobs, {measured} done before, "
        + (f"{len(failed)} failed before ({another_try(failed)}), " if failed else "")
        + f"{len(planned.skipped)} skipped"
    )
    if planned.budget_reason:
        notify(budget_text(planned))
    for line in sharing.lines():
        notify(line)
    complete = len(failed) + measured == len(endings) and all(
        artifacts.look(job.build_key)
        for job, ended in zip(planned.jobs, endings, strict=True)
        if isinstance(ended, Complete)
    )
    for line in () if complete else outlook_here(planned):
        notify(line)
    return complete


def _still_to_do(pending: int, waiting: int, shared: int, late: Collection[str]) -> Iterator[str]:
    """Yield messages about the jobs that are pending at the end. `waiting`: the number of jobs that wait for absent
    devices. `shared`: the number of variants that no unit could be assigned to yet. `late`: the names of devices that
    went away while extra rounds were measured."""
    if shared:
        yield f"{shared} variants have no unit yet: none of theirs has measured the common variant; run again"
    if waiting := min(waiting, pending):
        yield f"{waiting} jobs wait for devices that are away: run the same command again when they are back"
    if to_retry := pending - waiting:
        yield f"{to_retry} jobs will be tried again: run the same command again"
    if late:
        yield f"{', '.join(sorted(late))} went away: run the same command again when back, to add the rounds"


@dataclass(frozen=True, slots=True)
class _Drive:
    """Parts that a driver of a plan's pending jobs needs."""

    roots: Sequence[Path]
    workspace: Workspace
    journal: Journal
    executor: str
    live: LiveFile
    lab: Lab | None
    watch: Watch

    def shared(self, sharing: Sharing, away: dict[str, Away]) -> bool:
        """Run a whole plan; variants that units share are assigned to units after the units have been compared. `away`
        and the result: as of `run`."""
        interrupted = self.run(sharing.plan, away)
        while not interrupted and sharing.advance(wait=False):
            self.journal.save_plan(sharing.plan)
            for line in sharing.lines():
                notify(line)
            interrupted = self.run(sharing.plan, away)
        return interrupted

    def run(self, planned: Plan, away: dict[str, Away], more: Mapping[str, int] | None = None) -> bool:
        """Run the pending jobs of a plan. Returns whether an end was requested.

        Events of devices that went away are added to `away`, by device name. `more`: extra rounds by job key.
        """
        # The publisher and the model process start first: while one imports MLflow, the other imports torch.
        publisher = Publisher(self.workspace, planned.sweep.name)
        model_process.start()
        spec, journal = planned.sweep, self.journal
        spreads = batch_spreads(planned, self.workspace)
        for line in () if more else race_lines(planned, spreads, programs_of(planned, journal.artifacts.latest)):
            notify(line)
        pending = {job.model for job in planned.jobs if journal.outcomes.ending(planned_job(planned, job)) is None}
        with (
            publisher,
            RunProgress(quiet=self.watch.quiet) as progress,
            open_executor(self.executor, self.workspace, planned, self.lab) as executor,
            self.watch.asking(progress.note, self.live.stopping) as stop,
        ):
            # All models that cannot be used are reported before the first model is prepared, which may take long.
            pending_models = [model for model in spec.models if model.name in pending]
            bad = unusable(pending_models, spec.data, self.roots, self.workspace, progress, self.live, stop)

            def prepare(model: ModelSpec) -> PreparedModel:
                if model.name in bad:
                    raise bad[model.name]
                data = data_for(model, spec.data)
                versions = planned.identities.versions
                prepared = models.prepare(model, data, self.workspace, versions, progress.preparing, self.roots)
                for text in prepared.texts:
                    progress.note(f"{model.name}: {text}")
                return prepared

            driver = Driver(
                planned,
                journal,
                ArtifactStore(self.workspace.artifacts),
                executor,
                prepare=prepare,
                publishing=publisher,
                stop=stop,
                more=more,
                batches_decide={device_id: spread.noise for device_id, spread in spreads.items() if spread.decide},
                book=ToldBook(self.lab) if self.lab else None,
            )
            for event in driver.run():
                show(event, progress, self.live, self.workspace)
                self.watch.event(event)
                if isinstance(event, Away):
                    away[event.device] = max(event, away.get(event.device, event), key=lambda lost: lost.pending)
            return stop()
