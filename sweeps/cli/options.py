"""What the commands of `sweeps.cli.main` have in common: options, arguments, and how an error is told."""

from pathlib import Path
from typing import Any

import click

from sweeps.cli.session import EXIT_INTERRUPTED
from sweeps.errors import EdgeSweepError
from sweeps.text import plain


class Group(click.Group):
    """Prints an expected error as one red line and its next step; a traceback is for bugs only."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except EdgeSweepError as error:
            click.secho(f"edgesweep: {plain(error.message)}", fg="red", err=True)
            if error.next_step:
                click.echo(f"  next: {plain(error.next_step)}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("Stopped at once. What was measured is kept: the same command goes on from there.", err=True)
            ctx.exit(EXIT_INTERRUPTED)


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
