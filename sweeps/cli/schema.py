"""`edgesweep schema`: the JSON Schema of sweep files, for editors."""

import click

from sweeps.cli.options import print_json
from sweeps.spec.sweep import json_schema


@click.command()
def schema() -> None:
    """Print the JSON Schema of sweep files, for completion and checks in editors.

    \b
    Example: edgesweep schema > sweep.schema.json
    """
    print_json(json_schema())
