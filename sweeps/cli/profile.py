"""`edgesweep profile`: times each operator of a build on a device, or records a block with a tool such as perfetto."""

from collections.abc import Sequence
from pathlib import Path

import click

from sweeps.cli.options import json_option, print_json, workspace_option
from sweeps.errors import EdgeSweepError, StoreError, did_you_mean
from sweeps.operations.build_name import build_named
from sweeps.operations.notices import notify
from sweeps.operations.stored_results import connectable, device_id_of, results_of
from sweeps.report.profile import operators_table
from sweeps.report.terminal_tables import open_console
from sweeps.results import ResultRow, read_rows
from sweeps.store.profiles import attach_profiles
from sweeps.stored_profiles import LABEL, ProfileFiles
from sweeps.text import plain
from sweeps.variant import RunAxes
from sweeps.workspace import Workspace
from workers.measure.device_capture import CAPTURES, Capture
from workers.profile_run import Profiled, captured
from workers.profile_run import profile as run_profile


@click.command()
@click.argument("variant")
@click.option("--device", default="local", show_default=True, help="As a sweep file names it, or its id.")
@click.option("--sweep", help="The sweep that built it; the latest if left out.")
@click.option("--iterations", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--warmup", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Iterations before them.")
@click.option(
    "--capture",
    metavar="NAME[=PATH]",
    help=f"Record a block with {', '.join(CAPTURES)} on the phone; PATH is a program of your own for it.",
)
@workspace_option
@json_option
def profile(
    variant: str,
    device: str,
    sweep: str | None,
    iterations: int,
    warmup: int,
    capture: str | None,
    root: Path,
    as_json: bool,
) -> None:
    """Time each operator of a build on a device: where does its time go?

    \b
    VARIANT is a job's name in the ranking; the model's name before it may be left out.
    A profiled run is slower than others: its figures are no latencies, and are never ranked.
    The trace that is written opens in chrome://tracing and ui.perfetto.dev.
    Example: edgesweep profile "executorch cpu fp32 nchw"
             edgesweep profile "executorch cpu fp32 nchw" --device adb:SERIAL --capture perfetto
    """
    recorder = None if capture is None else _capture(capture)
    workspace = Workspace(root)
    results = results_of(workspace, sweep)
    rows = read_rows(results.frame, results.name)
    device = connectable(workspace, device)
    row = build_named(rows, variant, device_id_of(device, results.names) or device)
    if recorder is None:
        done = run_profile(row, device, workspace, iterations=iterations, warmup=warmup)
    else:
        done = captured(row, device, workspace, *recorder, iterations=iterations, warmup=warmup)
    _attach(workspace, rows, done)
    if as_json:
        document = done.profile.model_dump(mode="json", exclude={"suffix"})
        print_json({**document, "label": LABEL, "trace": str(done.file)})
        return
    click.echo(plain(f"{row.name} on {device}, {LABEL}"))
    if recorder is None:
        open_console().print(operators_table(done.profile.operators))
        click.echo(
            plain(f"Own time per iteration, the median of {done.profile.iterations}, told by {done.profile.runner}.")
        )
    else:
        _tell(done, recorder[0])
    click.echo("A profiled run is slower than others: no figure here is a latency.")
    click.echo(str(done.file), err=True)


def _attach(workspace: Workspace, rows: Sequence[ResultRow], done: Profiled) -> None:
    """Attach a profile to the MLflow runs of the jobs with its build, device and run axes. There may be none, because a
    build can be profiled on a device where no job ran it."""
    kept_profile = done.profile
    try:
        for row in rows:
            run = RunAxes(threads=row.threads, cpus=row.cpus, reuse_input=row.reuse_input)
            if kept_profile.is_of(row.build_key, row.device_id, run):
                attach_profiles(workspace, row.sweep, row.job_key, [ProfileFiles(kept_profile, done.file)])
    except StoreError as error:
        notify(f"It is kept in the workspace, and not in MLflow: {error.one_line}")


def _tell(done: Profiled, capture: Capture) -> None:
    size = done.file.stat().st_size / 1e6
    click.echo(plain(f"{capture.name} recorded {done.profile.iterations} iterations, {size:.1f} MB; {capture.opens}."))


def _capture(text: str) -> tuple[Capture, Path | None]:
    name, equals, path = text.partition("=")
    if name not in CAPTURES or (equals and not path):
        raise EdgeSweepError(
            f"there is no capture {text!r}{did_you_mean(name, CAPTURES)}",
            f"give one of {', '.join(CAPTURES)}, or NAME=PATH with a program of your own",
        )
    return CAPTURES[name], Path(path) if path else None
