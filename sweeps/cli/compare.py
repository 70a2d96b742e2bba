"""`edgesweep compare`: compares two sweeps, exported manifests or single results."""

import sys
from pathlib import Path

import click

from sweeps.cli.options import json_option, margin_option, print_json, workspace_option
from sweeps.errors import EdgeSweepError
from sweeps.journal.sentinels import sentinel_series
from sweeps.ranking import compare as comparing
from sweeps.ranking.comparable import Result
from sweeps.ranking.export import read_shipped
from sweeps.report.comparison import print_comparison
from sweeps.results import read_rows
from sweeps.store.reading import load
from sweeps.workspace import Workspace


@click.command()
@click.argument("a")
@click.argument("b")
@margin_option
@workspace_option
@json_option
def compare(a: str, b: str, margin_percent: float, root: Path, as_json: bool) -> None:
    """Is B slower than A? Each a sweep, SWEEP:JOB NAME, or the manifest.json of an export.

    \b
    Only results of both under the same conditions are compared; conditions that differ are named.
    A device may have another speed on another day: differences between sessions need two sessions of each or more.
    Exit code: 0 all is the same or faster, 3 something is slower, 4 something of A could not be compared,
    5 something is unresolved: neither slower nor the same is shown, or slower in one session only (1 or 2: an error).
    Example: edgesweep compare before after
             edgesweep compare shipped/manifest.json "nightly:mobilenet_v2 · cpu fp32 nchw script"
    """
    workspace = Workspace(root)
    (left, left_named), (right, right_named) = (_side(text, workspace) for text in (a, b))
    sentinels = sentinel_series(workspace.journal, {one.device_id for one in (*left, *right)})
    comparison = comparing.compare(
        (a, left), (b, right), margin_percent, named=left_named and right_named, sentinels=sentinels
    )
    if as_json:
        print_json(comparison.document())
    else:
        print_comparison(comparison)
    sys.exit(comparison.exit_code)


def _side(text: str, workspace: Workspace) -> tuple[list[Result], bool]:
    """The results that `text` names, and whether it names one variant."""
    path = Path(text)
    if path.suffix == ".json" or path.is_file():
        return [read_shipped(path).comparable(path)], True
    # The name of a sweep has no colon.
    sweep, colon, job = text.partition(":")
    results = _measured(sweep, workspace)
    if not colon:
        return results, False
    found = [result for result in results if job in (result.name, result.name.removeprefix(f"{result.model} · "))]
    if not found:
        raise EdgeSweepError(
            f"the sweep {sweep!r} has no timed job called {job!r}", f"find the names with: edgesweep rank {sweep}"
        )
    return found, True


def _measured(sweep: str, workspace: Workspace) -> list[Result]:
    stored = load(workspace.tracking_uri, sweep)
    return [Result.of_row(row) for row in read_rows(stored.frame, sweep) if row.outcome == "measured" and row.timed]
