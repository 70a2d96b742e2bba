"""What commands share: options, arguments, the document that `--json` prints, and the exit code of a Ctrl-C."""

import json
import math
from pathlib import Path
from typing import Any

import click

EXIT_INTERRUPTED = 130

workspace_option = click.option(
    "--workspace",
    "root",
    type=click.Path(file_okay=False, path_type=Path),
    callback=lambda _context, _option, root: root.expanduser().resolve(),
    default=Path("edgesweep-data"),
    envvar="EDGESWEEP_WORKSPACE",
    show_default=True,
    help="Folder of results, artifacts and logs (or EDGESWEEP_WORKSPACE).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
sweep_file_argument = click.argument("sweep_file", type=click.Path(dir_okay=False, path_type=Path))
yes_option = click.option("--yes", is_flag=True, help="Allow more than 10,000 jobs.")
executor_option = click.option(
    "--executor",
    type=click.Choice(["ray", "inline"]),
    default="ray",
    show_default=True,
    help="Where builds and measurements run; inline needs no Ray.",
)
sweep_argument = click.argument("sweep", required=False)


def _percent(_context: click.Context, _option: click.Parameter, percent: float) -> float:
    if math.isnan(percent):  # which is within every range
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


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False))
