"""`edgesweep demo`: a complete sweep that needs no network, phone or file."""

from pathlib import Path

import click

from sweeps.cli.options import executor_option, json_option, workspace_option
from sweeps.cli.run import run

SPECS = Path(__file__).parents[1] / "specs"


@click.command()
@workspace_option
@executor_option
@json_option
@click.pass_context
def demo(context: click.Context, root: Path, executor: str, as_json: bool) -> None:
    """Train MobileNetV2 on handwritten digits, build its variants, measure them on this CPU, rank them.

    \b
    Needs no network. Example: edgesweep demo
    """
    context.invoke(run, sweep_file=SPECS / "demo.yaml", root=root, executor=executor, as_json=as_json)
    if not as_json:
        click.echo("\nLook at it in the browser:  edgesweep dashboard   (in a checkout: make dashboard)", err=True)
        click.echo("Sweep your own model:       edgesweep init   (writes its sweep file)", err=True)
