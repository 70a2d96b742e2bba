"""`edgesweep constraints`: the pinned versions that this EdgeSweep is tested with."""

import click

from sweeps.pages import constraints as pinned


@click.command()
def constraints() -> None:
    """Print the versions that EdgeSweep is tested with, for pip's --constraint.

    Where nothing is installed yet: unzip -p THE.whl sweeps/carried/constraints.txt

    \b
    Example: edgesweep constraints > constraints.txt
             pip install -c constraints.txt "edgesweep[workers,dashboard] @ file:///path/to/the.whl"
    """
    click.echo(pinned(), nl=False)
