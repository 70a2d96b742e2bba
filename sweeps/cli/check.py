"""`edgesweep check`: an exported winner, measured again.

Like `sweeps.cli.main`, which it is a part of, it imports upwards, inside its functions.
"""

import sys
from pathlib import Path

import click

from sweeps.cli.session import print_json
from sweeps.text import plain
from sweeps.workspace import Workspace

_ROUNDS = 3, 10
"""As many as the manifest has, within these."""


def run_check(
    manifest: Path, device: str, rounds: int | None, margin_percent: float, root: Path, as_json: bool
) -> None:
    """Print whether it still holds; ends the program with `Check.exit_code`."""
    from sweeps.ranking.export import read_shipped
    from sweeps.stats import median
    from workers.check import check

    shipped = read_shipped(manifest)
    least, most = _ROUNDS
    wanted = rounds or min(max(shipped.expected.rounds, least), most)
    workspace = Workspace.open(root)
    click.echo(f"{plain(shipped.expected.job)} on {plain(device)}: {wanted} rounds", err=True)
    with workspace.lock():
        found = check(
            shipped,
            manifest,
            device,
            workspace,
            wanted,
            margin_percent,
            tell=lambda block: click.echo(
                f"  round {block.round + 1}: {median(block.samples_ns) / 1e6:.3f} ms", err=True
            ),
        )
    if as_json:
        print_json(found.document())
    else:
        interval = "" if found.ratio_low is None else f" ({found.ratio_low:.3f} to {found.ratio_high:.3f} at 95 %)"
        ratio = "" if found.ratio is None else f", {found.ratio:.3f} times as long{interval}"
        click.echo(f"{found.finding}: p50 {found.p50_ms:.3f} ms now, {found.expected_p50_ms:.3f} ms then{ratio}")
        if found.why:
            click.echo(plain(found.why))
        if found.trust:
            click.echo(f"trust labels: {plain(', '.join(found.trust))}")
        click.echo(found.note)
    sys.exit(found.exit_code)
