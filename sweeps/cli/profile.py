"""`edgesweep profile`: the time of each operator of a build, on a device."""

from collections.abc import Sequence
from pathlib import Path

import click

from sweeps.cli.options import json_option, print_json, workspace_option
from sweeps.errors import EdgeSweepError, did_you_mean
from sweeps.operations.stored_results import results_of
from sweeps.report.profile import operators_table
from sweeps.report.tables import open_console
from sweeps.results import ResultRow, read_rows
from sweeps.text import plain
from sweeps.workspace import Workspace
from workers.profiling import profile as run_profile


@click.command()
@click.argument("variant")
@click.option("--device", default="local", show_default=True, help="As a sweep file names it.")
@click.option("--sweep", help="The sweep that built it; the latest if left out.")
@click.option("--iterations", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--warmup", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Iterations before them.")
@workspace_option
@json_option
def profile(
    variant: str, device: str, sweep: str | None, iterations: int, warmup: int, root: Path, as_json: bool
) -> None:
    """Time each operator of a build on a device: where does its time go?

    \b
    VARIANT is a job's name in the ranking; the model's name before it may be left out.
    A profiled run is slower than others: its figures are no latencies, and are never ranked.
    The trace that is written opens in chrome://tracing and ui.perfetto.dev.
    Example: edgesweep profile "executorch cpu fp32 nchw"
    """
    workspace = Workspace(root)
    results = results_of(workspace, sweep)
    row = _row(read_rows(results.frame, results.name), variant, device)
    done = run_profile(row, device, workspace, iterations=iterations, warmup=warmup)
    if as_json:
        print_json({**done.document, "trace": str(done.trace)})
        return
    found = done.profile
    click.echo(plain(f"{row.name} on {device}, profiled"))
    open_console().print(operators_table(found.operators()))
    click.echo(plain(f"Own time per iteration, the median of {len(found.iteration_ns)}, told by {found.runner}."))
    click.echo("A profiled run is slower than others: no figure here is a latency.")
    click.echo(str(done.trace), err=True)


def _row(rows: Sequence[ResultRow], variant: str, device: str) -> ResultRow:
    """Its build on that device, else on whichever has one."""
    built = [row for row in rows if row.outcome == "measured"]
    found = [row for row in built if variant in (row.name, row.variant, row.name.removeprefix(f"{row.model} · "))]
    if not found:
        known = [name for row in built for name in (row.name.removeprefix(f"{row.model} · "), row.name)]
        raise EdgeSweepError(
            f"no measured job is called {variant!r}{did_you_mean(variant, known)}",
            "find the names with: edgesweep rank --all",
        )
    found = [row for row in found if device in (row.device, row.device_id)] or found
    # One build that was run in several ways or on several devices is one build.
    if len({row.build_key for row in found}) > 1:
        raise EdgeSweepError(
            f"{len(found)} jobs are called {variant!r}", f"give one whole: {'; '.join(row.name for row in found)}"
        )
    return found[0]
