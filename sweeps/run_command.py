"""`edgesweep run`: from a sweep to its results, with progress, Ctrl-C and the way back in.

Like `sweeps.cli`, which it is a part of, it imports upwards, inside its functions.
"""

import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, assert_never

import click

from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from sweeps.journal import Journal
    from sweeps.plan import Plan
    from sweeps.records import Failed, Job, Measured
    from sweeps.spec import SweepSpec
    from sweeps.store import SweepResults
    from sweeps.terminal import RunProgress
    from workers.drive import Event
    from workers.executor import Executor

EXIT_INTERRUPTED = 130


def run_sweep(sweep_file: Path, root: Path, executor: str, yes: bool, retry_failed: bool, as_json: bool) -> None:
    """Run a sweep file and print its ranking."""
    from sweeps import rank as ranking
    from sweeps import terminal

    spec = load_sweep(sweep_file, yes)
    results = run_spec(spec, roots_of(sweep_file), Workspace.open(root), executor, retry_failed)
    ranked = ranking.rank(results.frame, spec.objective, spec.name)
    if as_json:
        print_json(ranking.to_json(ranked))
    else:
        terminal.print_ranking(ranked)
    if not any((*device.ranking, *device.checked) for device in ranked.devices):
        sys.exit(1)  # nothing was measured: a script must notice


def run_spec(
    spec: "SweepSpec", roots: Sequence[Path], workspace: Workspace, executor: str, retry_failed: bool
) -> "SweepResults":
    """Measure what is not measured yet, and read all of it from the store. Ends the program where it is interrupted.

    The user's own modules are looked for in `roots` first.
    """
    from sweeps.journal import Journal
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
            interrupted = not complete and _drive(planned, roots, workspace, journal, store, executor)
            if complete:
                store.publish(journal, spec.name)
    if interrupted:
        click.echo("Stopped. Nothing is lost: the same command goes on from here.", err=True)
        sys.exit(EXIT_INTERRUPTED)
    return load(workspace.tracking_uri, spec.name)


def _drive(
    planned: "Plan", roots: Sequence[Path], workspace: Workspace, journal: "Journal", store: Any, executor_name: str
) -> bool:
    """Run what is pending. Returns whether it was stopped before the end."""
    from sweeps import terminal
    from sweeps.protocol import resolve
    from workers import models
    from workers.build import ArtifactStore
    from workers.drive import Driver

    spec = planned.sweep
    with (
        terminal.RunProgress() as progress,
        open_executor(executor_name, workspace, planned) as executor,
        # After the executor: Ray's start sets signal handlers of its own.
        CtrlC(progress.note) as stop,
    ):
        driver = Driver(
            planned,
            resolve(spec.protocol),
            journal,
            ArtifactStore(workspace.artifacts),
            executor,
            prepare=lambda model: models.prepare(
                model,
                spec.data,
                workspace,
                planned.identities.versions,
                progress.preparing,
                roots,
            ),
            publish=lambda: store.publish(journal, spec.name),
            stop=stop,
        )
        for event in driver.run():
            show(event, progress)
        return stop()


def show(event: "Event", progress: "RunProgress") -> None:
    from workers import drive

    match event:
        case drive.Preparing(model):
            progress.preparing(model, None)
        case drive.Building(done, total, running):
            progress.step("Building", done, total, ", ".join(running))
        case drive.Measuring(device, done, total, running):
            progress.step(f"Measuring on {device}", done, total, running)
        case drive.Attempt(name, failed, final):
            again = "" if final else "; trying again"
            progress.note(f"{name}: {failed.stage} failed ({failed.kind}): {failed.message}{again}")
        case drive.TrackingDown(message):
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

        local = next((facts.device_id for facts in planned.devices if facts.name == "local"), None)
        executor = RayExecutor(workspace.root, local)
    try:
        yield executor
    finally:
        executor.close()


class CtrlC:
    """While it is entered: the first Ctrl-C asks for an orderly end, the second one stops at once."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._asked = False

    def __enter__(self) -> Callable[[], bool]:
        self._before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        return lambda: self._asked

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        self._note("stopping after what runs now; press Ctrl-C again to stop at once")


def load_sweep(sweep_file: Path, yes: bool) -> "SweepSpec":
    from sweeps.plan import check_size
    from sweeps.spec import load

    spec = load(sweep_file)
    check_size(spec, len(spec.devices), yes)
    return spec


def make_plan(spec: "SweepSpec", roots: Sequence[Path], workspace: Workspace) -> "Plan":
    from workers.planner import plan_sweep

    return plan_sweep(spec, workspace.root, roots)


def roots_of(sweep_file: Path) -> tuple[Path, ...]:
    """Where the user's own modules are looked for first."""
    return (sweep_file.resolve().parent,)


def outcome_of(journal: "Journal", planned: "Plan", job: "Job") -> "Measured | Failed | None":
    """How one job of a plan ended so far; `None` while it is pending."""
    from sweeps.protocol import resolve

    fingerprint = next(facts.fingerprint for facts in planned.devices if facts.device_id == job.device_id)
    rounds = resolve(planned.sweep.protocol).rounds
    return journal.outcome(job, rounds, planned.identities.evaluation_id, fingerprint)


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False))
