"""`edgesweep run`: from a sweep to its results, with progress, Ctrl-C and the way back in.

Like `sweeps.cli`, which it is a part of, it imports upwards, inside its functions.
"""

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any, assert_never

import click

from sweeps.errors import StoreError
from sweeps.text import plain
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from sweeps.journal import Journal
    from sweeps.plan import Plan
    from sweeps.records import DeviceFacts, Failed, Job, Measured
    from sweeps.spec import SweepSpec
    from sweeps.store import SweepResults
    from sweeps.terminal import RunProgress
    from workers.events import Event
    from workers.executor import Executor

EXIT_INTERRUPTED = 130
_LAST_WORD_SECONDS = 1.0
"""A terminal that takes no text holds up no end."""


def run_sweep(
    sweep_file: Path, root: Path, executor: str, yes: bool, retry_failed: bool, as_json: bool, settle: int = 0
) -> None:
    """Run a sweep file, then `settle` rounds more of what is tied, and print the ranking."""
    from sweeps import rank as ranking
    from sweeps import terminal
    from sweeps.store import load_imported

    spec = load_sweep(sweep_file, yes)
    workspace = Workspace.open(root)
    results = run_spec(spec, roots_of(sweep_file), workspace, executor, retry_failed, settle)
    ranked = ranking.rank(
        results.frame, spec.objective, spec.name, imported=load_imported(workspace.tracking_uri, spec.name)
    )
    _attach(workspace, spec.name, ranking.to_json(ranked))
    if as_json:
        print_json(ranking.to_json(ranked))
    else:
        terminal.print_ranking(ranked)
    if not any((*device.ranking, *device.checked) for device in ranked.devices):
        sys.exit(1)  # nothing was measured: a script must notice


def run_spec(
    spec: "SweepSpec", roots: Sequence[Path], workspace: Workspace, executor: str, retry_failed: bool, settle: int = 0
) -> "SweepResults":
    """Measure what is not measured yet, and read all of it from the store. Ends the program where it is interrupted.

    With `settle`, so many rounds more of what is tied in the first place then.

    The user's own modules are looked for in `roots` first.
    """
    from sweeps.journal import MENDED_KINDS, Journal
    from sweeps.records import Failed, Measured
    from sweeps.store import Store, load
    from workers.build import ArtifactStore

    with workspace.lock():
        store = Store(workspace.tracking_uri, workspace.mlflow_artifacts)
        store.check()
        planned = make_plan(spec, roots, workspace)
        with Journal.open(workspace.journal) as journal:
            journal.save_plan(planned)
            if retry_failed:
                journal.retry_failures(spec.name)
            for kind in MENDED_KINDS:
                journal.retry_failures(spec.name, kind=kind)
            outcomes = [outcome_of(journal, planned, job) for job in planned.jobs]
            failed = sum(isinstance(outcome, Failed) for outcome in outcomes)
            measured = sum(isinstance(outcome, Measured) for outcome in outcomes)
            click.echo(
                f"{spec.name}: {len(planned.jobs)} jobs, {measured} done before, "
                + (f"{failed} failed before (once more with --retry-failed), " if failed else "")
                + f"{len(planned.skipped)} skipped",
                err=True,
            )
            artifacts = ArtifactStore(workspace.artifacts)
            complete = failed + measured == len(outcomes) and all(
                artifacts.look(job.build_key)
                for job, outcome in zip(planned.jobs, outcomes, strict=True)
                if isinstance(outcome, Measured)
            )
            away: dict[str, int] = {}
            interrupted = not complete and _drive(planned, roots, workspace, journal, store, executor, away)
            if complete:
                store.publish(journal, spec.name)
            late: dict[str, int] = {}
            if retry_failed and not interrupted and (again := _disqualified(journal, planned)):
                click.echo(f"{len(again)} with a disqualifying label: measured again", err=True)
                interrupted = _drive(planned, roots, workspace, journal, store, executor, late, again)
            if settle and not interrupted:
                more = dict.fromkeys(_tied(load(workspace.tracking_uri, spec.name)), settle)
                click.echo(f"{len(more)} tied: {settle} more rounds of each" if more else "nothing is tied", err=True)
                interrupted = bool(more) and _drive(planned, roots, workspace, journal, store, executor, late, more)
            pending = sum(outcome_of(journal, planned, job) is None for job in planned.jobs)
    if interrupted:
        click.echo("Stopped. Nothing is lost: the same command goes on from here.", err=True)
        sys.exit(EXIT_INTERRUPTED)
    for line in _still_to_do(pending, sum(away.values())):
        click.echo(line, err=True)
    if late:
        click.echo(f"{', '.join(sorted(late))} went away: the same command adds the rounds when it is back", err=True)
    return load(workspace.tracking_uri, spec.name)


def _still_to_do(pending: int, waiting: int) -> Iterator[str]:
    """What is said of jobs that are pending at the end; so many of them wait for devices."""
    if waiting := min(waiting, pending):
        yield f"{waiting} jobs wait for devices that are away: the same command measures them then"
    if again := pending - waiting:
        yield f"{again} jobs are to be tried again: run it again"


def _attach(workspace: Workspace, sweep: str, document: "dict[str, Any]") -> None:
    """Who won, who is tied and who was eliminated, for those who look into MLflow itself."""
    from sweeps.store import Store

    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)
    try:
        Store(workspace.tracking_uri, workspace.mlflow_artifacts).attach(sweep, {"ranking.json": text})
    except StoreError as error:
        click.echo(f"MLflow did not take the ranking: {error.message}", err=True)


def _disqualified(journal: "Journal", planned: "Plan") -> dict[str, int]:
    """Jobs whose timing can not win, with the rounds that they are given once more: enough to do without the bad."""
    from sweeps.protocol import protocol_of
    from sweeps.records import Measured
    from sweeps.trust import disqualified

    outcomes = [(job, outcome_of(journal, planned, job)) for job in planned.jobs]
    return {
        job.key: protocol_of(planned.sweep).rounds
        for job, outcome in outcomes
        if isinstance(outcome, Measured) and outcome.timing is not None and disqualified(outcome.timing.labels)
    }


def _tied(results: "SweepResults") -> list[str]:
    """Keys of the jobs that share a first place, on any device."""
    from sweeps import rank as ranking

    ranked = ranking.rank(results.frame, results.spec.objective, results.name)
    tied = [(entry.winner, *entry.tied) for entry in ranked.devices if entry.winner and entry.tied]
    return [candidate.job_key for group in tied for candidate in group if candidate and candidate.timed]


def _drive(
    planned: "Plan",
    roots: Sequence[Path],
    workspace: Workspace,
    journal: "Journal",
    store: Any,
    executor_name: str,
    away: dict[str, int],
    more: Mapping[str, int] | None = None,
) -> bool:
    """Run what is pending. Returns whether it was stopped before the end.

    `away` is given, by the names of devices that went away, how many jobs wait for each.
    """
    from sweeps import terminal
    from sweeps.protocol import protocol_of
    from workers import models
    from workers.build import ArtifactStore
    from workers.drive import Driver
    from workers.events import Away
    from workers.sentinel import data_for

    spec = planned.sweep
    with (
        terminal.RunProgress() as progress,
        open_executor(executor_name, workspace, planned) as executor,
        # After the executor: Ray's start sets signal handlers of its own.
        CtrlC(progress.note) as stop,
    ):
        driver = Driver(
            planned,
            protocol_of(spec),
            journal,
            ArtifactStore(workspace.artifacts),
            executor,
            prepare=lambda model: models.prepare(
                model,
                data_for(model, spec.data),
                workspace,
                planned.identities.versions,
                progress.preparing,
                roots,
            ),
            publish=lambda: store.publish(journal, spec.name),
            stop=stop,
            more=more,
        )
        for event in driver.run():
            show(event, progress)
            if isinstance(event, Away):
                away[event.device] = max(event.pending, away.get(event.device, 0))
        return stop()


def show(event: "Event", progress: "RunProgress") -> None:
    from workers import events

    match event:
        case events.Preparing(model):
            progress.preparing(model, None)
        case events.Building(done, total, running):
            progress.step("Building", done, total, ", ".join(running))
        case events.Measuring(device, done, total, running):
            progress.step(f"Measuring on {device}", done, total, running, beside="Measuring on ")
        case events.Attempt(name, failed, final):
            again = "" if final else "; trying again"
            progress.note(f"{name}: {failed.stage} failed ({failed.kind}): {failed.message}{again}")
        case events.Waiting(device, lacking, waited):
            progress.note(f"waiting for {device} ({waited:.0f} s): {'; '.join(lacking)}")
        case events.Left(name, settled):
            progress.note(f"{name}: {settled.message}")
        case events.DeviceChanged(device):
            progress.note(f"{device} is not as fast as it was: the sentinel moved by more than 5 %")
        case events.Away(device, failed, pending):
            progress.note(
                f"{device} is away ({failed.kind}): {failed.message}; {pending} of its jobs wait for the next run"
            )
        case events.TrackingDown(message):
            progress.note(f"MLflow does not take results now; the journal keeps them: {message}")
        case never:
            assert_never(never)


@contextmanager
def open_executor(name: str, workspace: Workspace, planned: "Plan") -> "Iterator[Executor]":
    executor: Executor
    if name == "inline":
        from workers.executor import InlineExecutor

        executor = InlineExecutor(workspace.root)
    else:
        from workers.cluster import RayExecutor

        executor = RayExecutor(workspace.root, [facts.device_id for facts in planned.devices])
    try:
        yield executor
    finally:
        executor.close()


class CtrlC:
    """While it is entered: the first Ctrl-C asks for an orderly end, the second one stops at once.

    A thread tells the user. The handler can not: it may run in the middle of a write, which no other may enter. Nor
    can the work that asks for the end, which may take minutes until it asks again.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._asked = False
        self._told: SimpleQueue[str | None] = SimpleQueue()  # its `put` may be interrupted by itself

    def __enter__(self) -> Callable[[], bool]:
        self._teller = threading.Thread(target=self._tell, daemon=True)
        self._teller.start()
        self._before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        return lambda: self._asked

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._told.put(None)
        self._teller.join(_LAST_WORD_SECONDS)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        self._told.put("stopping after what runs now; press Ctrl-C again to stop at once")

    def _tell(self) -> None:
        for message in iter(self._told.get, None):
            self._note(message)


def load_sweep(sweep_file: Path, yes: bool) -> "SweepSpec":
    from sweeps.plan import check_size
    from sweeps.spec import load

    spec = load(sweep_file)
    check_size(spec, len(spec.devices), yes)
    return spec


def make_plan(spec: "SweepSpec", roots: Sequence[Path], workspace: Workspace) -> "Plan":
    from sweeps.journal import Journal
    from workers.planner import plan_sweep

    before: tuple[DeviceFacts, ...] = ()
    if workspace.journal.exists():
        with Journal.open(workspace.journal, read_only=True) as journal:
            if spec.name in {info.name for info in journal.sweeps()}:
                before = journal.devices(spec.name)
    return plan_sweep(spec, workspace.root, roots, before, lambda message: click.echo(plain(message), err=True))


def roots_of(sweep_file: Path) -> tuple[Path, ...]:
    """Where the user's own modules are looked for first."""
    return (sweep_file.resolve().parent,)


def outcome_of(journal: "Journal", planned: "Plan", job: "Job") -> "Measured | Failed | None":
    """How one job of a plan ended so far; `None` while it is pending."""
    from sweeps.protocol import protocol_of

    fingerprint = next(facts.fingerprint for facts in planned.devices if facts.device_id == job.device_id)
    protocol = protocol_of(planned.sweep)
    return journal.outcome(job, protocol, planned.identities.evaluation_id, fingerprint)


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False))
