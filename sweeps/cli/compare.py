"""`edgesweep compare`: compares two sweeps, exported manifests or single results."""

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from sweeps.cli.options import json_option, margin_option, print_json, workspace_option
from sweeps.errors import EdgeSweepError, did_you_mean
from sweeps.journal.sentinel_series import sentinel_series
from sweeps.operations.stored_results import results_of
from sweeps.ranking import comparison as comparing
from sweeps.ranking.comparison_input import Result
from sweeps.ranking.eligibility import in_batches_only
from sweeps.ranking.exported_build import read_shipped
from sweeps.report.comparison_text import print_comparison
from sweeps.results import read_rows
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
    Builds of the same sessions are judged as a set. The last lines say what is left open, and what would settle it.
    Exit code: 0 all is the same, faster or not slower, 3 something is slower, 4 something of A could not be compared,
    5 something is unresolved: neither slower nor within --margin, or slower in one session only (1 or 2: an error).
    Example: edgesweep compare before after
             edgesweep compare shipped/manifest.json "nightly:mobilenet_v2 · cpu fp32 nchw script"
    """
    workspace = Workspace(root)
    left, right = (_side(text, workspace) for text in (a, b))
    sentinels = sentinel_series(workspace.journal, {result.device_id for result in (*left.results, *right.results)})
    comparison = comparing.compare(
        (a, left.results),
        (b, right.results),
        margin_percent,
        named=left.named and right.named,
        sentinels=sentinels,
        in_batches=(*left.in_batches, *right.in_batches),
    )
    if as_json:
        print_json(comparison.document())
    else:
        print_comparison(comparison)
    sys.exit(comparison.exit_code)


@dataclass(frozen=True, slots=True)
class _Side:
    results: list[Result]
    named: bool
    """Whether the user named one variant, and not a whole sweep."""
    in_batches: tuple[str, ...] = ()
    """Names of builds that a race measured in batches only."""


def _side(text: str, workspace: Workspace) -> _Side:
    path = Path(text)
    if path.suffix == ".json" or path.is_file():
        return _Side([read_shipped(path).comparable(path)], named=True)
    # Sweep names have no colon, so the first one separates sweep and job.
    sweep, colon, job = text.partition(":")
    stored = results_of(workspace, sweep)
    rows = [row for row in read_rows(stored.frame, sweep) if row.outcome == "measured"]
    known = [row.name.removeprefix(f"{row.model} · ") for row in rows if row.timed]
    if colon:
        rows = [row for row in rows if job in (row.name, row.name.removeprefix(f"{row.model} · "))]
    results = [Result.of_row(row) for row in rows if row.timed]
    in_batches = tuple(row.name for row in rows if in_batches_only(row))
    if colon and not results:
        if in_batches:
            raise EdgeSweepError(
                f"{job!r} of the sweep {sweep!r} was measured in batches only: it has a ratio to the winner, no time",
                "measure what is tied in processes of its own: edgesweep run SWEEP.yaml --settle 3",
            )
        raise EdgeSweepError(
            f"the sweep {sweep!r} has no timed job called {job!r}{did_you_mean(job, known)}",
            f"find the names with: edgesweep rank {sweep} --all",
        )
    return _Side(results, named=bool(colon), in_batches=() if colon else in_batches)
