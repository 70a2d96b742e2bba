"""Shared parts of commands: options, arguments, JSON output, and the exit code after Ctrl-C."""

import json
import math
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from sweeps.sqlite_file import BRIEF_S, connect
from sweeps.workspace import DEFAULT_ROOT, ROOT_VARIABLE

EXIT_INTERRUPTED = 130

ROOT = "edgesweep.root"
"""Key in the `meta` of click's context for the workspace that a command was given: advice after an error names it,
too."""
SWEEP = "edgesweep.sweep"
"""Key in the same `meta` for the sweep that a command was given, if any."""
JSON = "edgesweep.json"
"""Key in the same `meta` that marks a command with `--json`: its errors are printed as a JSON document, too."""


def _resolved(context: click.Context, _option: click.Parameter, root: Path) -> Path:
    context.meta[ROOT] = path = root.expanduser().resolve()
    return path


workspace_option = click.option(
    "--workspace",
    "root",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    callback=_resolved,
    default=Path(DEFAULT_ROOT),
    envvar=ROOT_VARIABLE,
    show_default=True,
    help="Folder of results, artifacts and logs (or EDGESWEEP_WORKSPACE).",
)
json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON document on stdout; of an error: {error: {kind, message, next_step}}.",
)
DEVICE_NAMES = "as the sweep file names it, its id, or a part of its name"
"""Forms of `--device` for commands that read results (`sweeps.operations.stored_results.device_id_of`), for help texts.
"""
sweep_file_argument = click.argument("sweep_file", type=click.Path(path_type=Path))
yes_option = click.option("--yes", is_flag=True, help="Allow more than 10,000 jobs.")
executor_option = click.option(
    "--executor",
    type=click.Choice(["ray", "inline"]),
    default="ray",
    show_default=True,
    help="Where builds and measurements run; inline needs no Ray.",
)
retry_option = click.option(
    "--retry-failed", is_flag=True, help="Try failed jobs again, and measure again what a trust label disqualified."
)
settle_option = click.option(
    "--settle",
    type=click.IntRange(1, 1_000),
    metavar="ROUNDS",
    help="Afterwards, measure this many more rounds of the jobs that are tied for the first place.",
)
models_option = click.option(
    "--models",
    type=click.Path(file_okay=False, path_type=Path),
    multiple=True,
    envvar="EDGESWEEP_MODELS",
    metavar="DIR",
    help="Search this folder too for a model's own code, after that of the sweep file.",
)


class ListingGroup(click.Group):
    """Group that lists its objects when called without a subcommand. An option before a subcommand is passed on to the
    subcommand, which refuses an option that it does not have."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand, with the group's options put in front of its arguments, so that the same options of
        the subcommand override them."""
        name, command, rest = super().resolve_command(ctx, args)
        group_options: list[str] = []
        for option in self.params:
            if ctx.get_parameter_source(option.name or "") is not ParameterSource.COMMANDLINE:
                continue
            is_flag = isinstance(option, click.Option) and option.is_flag
            group_options += option.opts[:1] if is_flag else [option.opts[0], str(ctx.params[option.name])]
        return name, command, [*group_options, *rest]


def known_sweeps(context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    """Return the names of the workspace's sweeps that begin with `begun`, for a shell's completion."""
    root = Path(context.params.get("root") or os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT)
    path = root.expanduser() / "journal.sqlite"
    try:
        with closing(connect(path, read_only=True, busy_s=BRIEF_S)) as db:
            names = [str(name) for (name,) in db.execute("SELECT name FROM sweeps ORDER BY updated DESC")]
    except sqlite3.Error:
        return []
    return [name for name in names if name.startswith(begun) and name.isprintable()]


def _named(context: click.Context, _argument: click.Parameter, sweep: str | None) -> str | None:
    context.meta[SWEEP] = sweep
    return sweep


sweep_argument = click.argument("sweep", required=False, callback=_named, shell_complete=known_sweeps)


def _percent(_context: click.Context, _option: click.Parameter, percent: float) -> float:
    if math.isnan(percent):  # click's range check accepts nan
        raise click.BadParameter("nan is not a percentage")
    return percent


margin_option = click.option(
    "--margin",
    "margin_percent",
    type=click.FloatRange(0, 100, min_open=True),
    callback=_percent,
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    help="Results are the same only if they are shown to differ by less. The default is the limit for stable rounds of "
    "one build. A result that is resolved as slower by 2 % or more is slower for every margin.",
)


def print_json(document: Any) -> None:
    # Without UTF-8, characters are escaped: those that the locale's encoding lacks would become question marks.
    is_whole = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    click.echo(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=not is_whole))
