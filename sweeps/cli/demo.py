"""`edgesweep demo`: a complete sweep that needs no network, phone or file."""

from pathlib import Path

import click

from sweeps.cli.options import executor_option, json_option, retry_option, settle_option, workspace_option
from sweeps.cli.run import run
from sweeps.launching.sweep_commands import DEMO, command_hints
from sweeps.workspace import Workspace


@click.command()
@workspace_option
@executor_option
@retry_option
@settle_option
@json_option
@click.pass_context
def demo(
    context: click.Context, root: Path, executor: str, retry_failed: bool, settle: int | None, as_json: bool
) -> None:
    """Train MobileNetV2 on handwritten digits, build its variants, measure them on this CPU, rank them.

    \b
    Needs no network. Example: edgesweep demo
    """
    options = {"retry_failed": retry_failed, "settle": settle, "as_json": as_json}
    context.invoke(run, sweep_file=DEMO, root=root, executor=executor, **options)
    if not as_json:
        where = command_hints(Workspace(root)).workspace
        click.echo(
            f"\nLook at it in the browser:  edgesweep dashboard{where}   (in a checkout: make dashboard)", err=True
        )
        click.echo("Sweep your own model:       edgesweep init   (writes its sweep file)", err=True)
