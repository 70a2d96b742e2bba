"""`edgesweep compare`: two sweeps, exported manifests or single results, one against the other.

Like `sweeps.cli.main`, which it is a part of, it imports upwards, inside its functions.
"""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sweeps.cli.session import print_json
from sweeps.errors import EdgeSweepError
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    from sweeps.ranking.compare import Result


def _percent(_context: click.Context, _option: click.Parameter, percent: float) -> float:
    # NaN is within every range.
    if math.isnan(percent):
        raise click.BadParameter("nan is no number of percent")
    return percent


margin_option = click.option(
    "--margin",
    "margin_percent",
    type=click.FloatRange(0, 100, min_open=True),
    callback=_percent,
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    help="The same is only what is shown to differ by less; rounds of one build that agree within 5 % are stable. "
    "What is resolved as slower by 2 % or more is slower, whatever the margin.",
)


def run_compare(a: str, b: str, margin_percent: float, root: Path, as_json: bool) -> None:
    """Print what is faster and what is slower; ends the program with `Comparison.exit_code`."""
    from sweeps.ranking.compare import compare
    from sweeps.report import comparison as comparison_text

    workspace = Workspace(root)
    (left, left_named), (right, right_named) = (_side(text, workspace) for text in (a, b))
    comparison = compare((a, left), (b, right), margin_percent, named=left_named and right_named)
    if as_json:
        print_json(comparison.document())
    else:
        comparison_text.print_comparison(comparison)
    sys.exit(comparison.exit_code)


def _side(text: str, workspace: Workspace) -> "tuple[list[Result], bool]":
    """What `text` names, and whether that is one variant."""
    from sweeps.ranking.export import read_shipped

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
            f"the sweep {sweep!r} has no timed job called {job!r}", f"names stand in: edgesweep rank {sweep}"
        )
    return found, True


def _measured(sweep: str, workspace: Workspace) -> "list[Result]":
    from sweeps.ranking.compare import Result
    from sweeps.results import read_rows
    from sweeps.store.mlflow import load

    stored = load(workspace.tracking_uri, sweep)
    return [Result.of_row(row) for row in read_rows(stored.frame, sweep) if row.outcome == "measured" and row.timed]
