"""`edgesweep noise`: measures what a device can tell apart, from processes of one build that differ by noise alone."""

import math
import sys
from pathlib import Path

import click

from sweeps.cli.options import EXIT_INTERRUPTED, json_option, print_json, workspace_option
from sweeps.cli.session import CtrlC, show
from sweeps.errors import EdgeSweepError, StoreError
from sweeps.protocol.clock import figure_ns
from sweeps.protocol.noise import calibrate
from sweeps.records import Block
from sweeps.report.noise import document, print_noise
from sweeps.report.progress import RunProgress
from sweeps.spec.inputs import ModelSpec
from sweeps.workspace import Workspace
from workers.devices.fake.traces import trace_text
from workers.executors.inline import InlineExecutor
from workers.models.prepared import PreparedModel
from workers.noise import NoiseRun


@click.command()
@click.argument("device", default="local")
@click.option(
    "--minutes",
    type=click.FloatRange(0, 600),
    default=3.0,
    show_default=True,
    help="Device time to measure for; 0: only show what is known.",
)
@click.option(
    "--traces",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write all samples to FILE, for edgesweep simulate --traces.",
)
@workspace_option
@json_option
def noise(device: str, minutes: float, traces: Path | None, root: Path, as_json: bool) -> None:
    """Measure the noise of a device: how far must two builds differ to be told apart?

    \b
    Times one small built-in model in process after process. The workspace keeps the blocks: later calls add
    to them, and plan says what they mean for the rounds of a sweep. After Ctrl-C what was measured counts.
    Example: edgesweep noise adb:R58M12ABCDE --minutes 5
    """
    if math.isnan(minutes):  # click's range check accepts it
        raise click.BadParameter("nan is no time", param_hint="--minutes")
    workspace = Workspace.open(root)
    with workspace.lock(), RunProgress() as progress:
        run = NoiseRun(device, workspace, progress.note)
        interrupted = minutes > 0 and _measure(run, workspace, 60 * minutes, progress)
        blocks = run.blocks()
    if traces is not None:
        _write(traces, blocks)
    try:
        found = calibrate(blocks)
    except EdgeSweepError:
        if not interrupted:
            raise
        click.echo(f"Stopped after {len(blocks)} blocks, which are kept: too few to show the noise.", err=True)
    else:
        if as_json:
            print_json(document(run.facts, blocks, found))
        else:
            print_noise(run.facts, blocks, found)
    if interrupted:
        sys.exit(EXIT_INTERRUPTED)


def _measure(run: NoiseRun, workspace: Workspace, seconds: float, progress: RunProgress) -> bool:
    """Returns whether it was stopped before the end."""
    executor = InlineExecutor(workspace.root)
    try:
        with CtrlC(progress.note) as stop:
            for event in run.build(executor, lambda model: _prepared(run, model, workspace, progress), stop):
                show(event, progress)
            title, spent_s = f"Measuring on {run.facts.name}", 0.0
            progress.step(title, 0, math.ceil(seconds), "")
            for found in run.measure(executor.lane(run.facts), seconds, stop):
                if not isinstance(found, Block):
                    show(found, progress)
                    continue
                spent_s += found.device_seconds + found.conditions.waited_seconds
                done = f"{figure_ns(found.samples_ns) / 1e6:.3f} ms"
                progress.step(title, min(math.ceil(spent_s), math.ceil(seconds)), math.ceil(seconds), done)
            return stop()
    finally:
        executor.close()


def _prepared(run: NoiseRun, model: ModelSpec, workspace: Workspace, progress: RunProgress) -> PreparedModel:
    from workers.models import prepare as models  # imports torch, which a model that is built already does not need

    versions = run.plan.identities.versions
    return models.prepare(model, run.plan.sweep.data, workspace, versions, progress.preparing)


def _write(path: Path, blocks: list[Block]) -> None:
    try:
        path.write_text(trace_text(blocks), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error
