"""`edgesweep noise`: measures a device's noise: how far times of the same build differ between processes."""

import math
import sys
from pathlib import Path

import click

from sweeps.cli.options import EXIT_INTERRUPTED, json_option, print_json, workspace_option
from sweeps.cli.session import CtrlC
from sweeps.errors import EdgeSweepError, StoreError
from sweeps.journal.noise_blocks import known_batch_spread
from sweeps.operations.event_output import show
from sweeps.protocol.batch_noise import PairedRound
from sweeps.protocol.clock import figure_ns
from sweeps.protocol.resolvable_difference import Calibration, calibrate
from sweeps.records import Block
from sweeps.report.noise_text import batch_document, batch_text, document, print_noise, trace_text
from sweeps.report.progress import RunProgress
from sweeps.spec.model_inputs import ModelSpec
from sweeps.text import plain
from sweeps.workspace import Workspace
from workers.executors.inline import InlineExecutor
from workers.models import prepare as models
from workers.models.prepared_model import PreparedModel
from workers.noise_run import BatchNoiseRun, NoiseRun

MINUTES = 3.0
BATCH_MINUTES = 25.0
"""Device time of about 30 rounds of 12 builds, at 3 s for a process."""


@click.command()
@click.argument("device", default="local")
@click.option(
    "--minutes",
    type=click.FloatRange(0, 600),
    help=f"Device time to measure for; {MINUTES:g} if left out, {BATCH_MINUTES:g} with --batches; 0: only show what "
    "is known.",
)
@click.option(
    "--batches",
    is_flag=True,
    help="Measure whether builds keep their ratios in a process that they share, as races time them first.",
)
@click.option(
    "--traces",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write all samples to FILE, for the simulator of a checkout.",
)
@workspace_option
@json_option
def noise(device: str, minutes: float | None, batches: bool, traces: Path | None, root: Path, as_json: bool) -> None:
    """Measure the noise of a device: how far must two builds differ to be told apart?

    \b
    Times one small built-in model in process after process. The workspace keeps the blocks: later calls add
    to them, and plan says what they mean for the rounds of a sweep. After Ctrl-C what was measured counts.
    Example: edgesweep noise adb:R58M12ABCDE --minutes 5
    """
    if minutes is None:
        minutes = BATCH_MINUTES if batches else MINUTES
    if math.isnan(minutes):  # click's range check accepts nan
        raise click.BadParameter("nan is no time", param_hint="--minutes")
    workspace = Workspace.open(root)
    with workspace.lock(), RunProgress() as progress:
        run = NoiseRun(device, workspace, progress.note)
        measured = BatchNoiseRun(device, workspace, progress.note) if batches else run
        interrupted = minutes > 0 and _measure(measured, workspace, 60 * minutes, progress)
        blocks = run.blocks()
        together = known_batch_spread(workspace, run.facts)
    if traces is not None:
        _write(traces, blocks)
    calibration = _calibration(blocks, needed=not batches and not interrupted)
    if batches and together is None and not interrupted:
        raise EdgeSweepError("no two rounds of batches that differ: they show nothing", "measure longer: --minutes")
    if calibration is None and together is None:
        click.echo(f"Stopped after {len(blocks)} blocks, which are kept: too few to show the noise.", err=True)
    elif as_json:
        shown = {"device": run.facts.name} if calibration is None else document(run.facts, blocks, calibration)
        print_json({**shown, "batches": batch_document(together)})
    else:
        if calibration is not None:
            print_noise(run.facts, blocks, calibration)
        if together is not None:
            click.echo(plain(batch_text(run.facts.name, together)))
    if interrupted:
        sys.exit(EXIT_INTERRUPTED)


def _calibration(blocks: list[Block], *, needed: bool) -> Calibration | None:
    """Return the noise that the blocks show; `None` if they are too few. Raises `EdgeSweepError` instead if it is
    `needed`."""
    try:
        return calibrate(blocks)
    except EdgeSweepError:
        if needed:
            raise
        return None


def _measure(run: NoiseRun | BatchNoiseRun, workspace: Workspace, seconds: float, progress: RunProgress) -> bool:
    """Measure for this number of seconds of device time. Returns whether an end was requested."""
    executor = InlineExecutor(workspace.root)
    try:
        with CtrlC(progress.note) as stop:
            for event in run.build(executor, lambda model: _prepared(run, model, workspace, progress), stop):
                show(event, progress)
            title, spent_s, total = f"Measuring on {run.facts.name}", 0.0, math.ceil(seconds)
            progress.step(title, 0, total, "", unit="s")
            for record in run.measure(executor.lane(run.facts), seconds, stop):
                match record:
                    case Block():
                        spent_s += record.device_seconds + record.conditions.waited_seconds
                        running = f"{figure_ns(record.samples_ns) / 1e6:.3f} ms"
                    case PairedRound():
                        spent_s += record.device_seconds
                        running = f"round {record.round + 1}"
                    case noted:
                        show(noted, progress)
                        continue
                progress.step(title, min(math.ceil(spent_s), total), total, running, unit="s")
            return stop()
    finally:
        executor.close()


def _prepared(
    run: NoiseRun | BatchNoiseRun, model: ModelSpec, workspace: Workspace, progress: RunProgress
) -> PreparedModel:
    versions = run.plan.identities.versions
    return models.prepare(model, run.plan.sweep.data, workspace, versions, progress.preparing)


def _write(path: Path, blocks: list[Block]) -> None:
    try:
        path.write_text(trace_text(blocks), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error
