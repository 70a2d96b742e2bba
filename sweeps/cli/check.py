"""`edgesweep check`: measures an exported winner again."""

import sys
from pathlib import Path

import click

from sweeps.cli.options import json_option, margin_option, print_json, workspace_option
from sweeps.operations.stored_results import connectable
from sweeps.protocol.clock import figure_ns
from sweeps.ranking.exported_build import read_shipped
from sweeps.text import plain
from sweeps.workspace import Workspace
from workers.winner_check import check as measure_again

_ROUNDS = 3, 10
"""Least and most rounds by default; in between, the default is the manifest's number."""


@click.command()
@click.argument("manifest", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--device", default="local", show_default=True, help="Where to measure: as a sweep file names it, or its id."
)
@click.option("--rounds", type=click.IntRange(2, 100), help="New processes; default: as in the manifest (3 to 10).")
@margin_option
@workspace_option
@json_option
def check(manifest: Path, device: str, rounds: int | None, margin_percent: float, root: Path, as_json: bool) -> None:
    """Measure an exported winner again: does it still hold what its manifest says?

    \b
    The file beside the manifest is checked by its hash first. Accuracy is not measured again.
    Exit code: 0 it holds: not resolved as slower, and slower by less than --margin at most, 3 it is slower,
    4 not comparable, 5 unresolved: neither is shown, or slower in one session only (1 or 2: an error).
    A check is one session: it cannot tell a slower build from a device that is slower today.
    Example: edgesweep check shipped/manifest.json --rounds 5
    """
    shipped = read_shipped(manifest)
    least, most = _ROUNDS
    count = rounds or min(max(shipped.expected.rounds, least), most)
    workspace = Workspace.open(root)
    device = connectable(workspace, device)
    click.echo(f"{plain(shipped.expected.job)} on {plain(device)}: {count} rounds", err=True)
    with workspace.lock():
        checked = measure_again(
            shipped,
            manifest,
            device,
            workspace,
            count,
            margin_percent,
            tell=lambda block: click.echo(
                f"  round {block.round + 1}: {figure_ns(block.samples_ns) / 1e6:.3f} ms", err=True
            ),
        )
    if as_json:
        print_json(checked.document())
    else:
        interval = (
            "" if checked.ratio_low is None else f" ({checked.ratio_low:.3f} to {checked.ratio_high:.3f} at 95 %)"
        )
        click.echo(f"{checked.finding}: p50 {checked.p50_ms:.3f} ms now, {checked.expected_p50_ms:.3f} ms then")
        if checked.ratio is not None:
            means = f"{checked.mean_ms:.3f} ms now, {checked.expected_mean_ms:.3f} ms then"
            click.echo(f"geometric means of blocks: {means}: {checked.ratio:.3f} times as long{interval}")
        if checked.why:
            click.echo(plain(checked.why))
        click.echo(f"the interval contains a spread between sessions of {checked.session_spread_percent:.1f} %")
        if checked.trust:
            click.echo(f"trust labels: {plain(', '.join(checked.trust))}")
        click.echo(checked.note)
    sys.exit(checked.exit_code)
