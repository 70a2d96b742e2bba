"""`edgesweep doctor`: shows what this machine can do, and what to install for the rest."""

import sys
from pathlib import Path

import click

from sweeps.cli.options import json_option, print_json, workspace_option
from sweeps.report.devices_text import print_checks
from workers.machine_checks import examine


@click.command()
@workspace_option
@json_option
def doctor(root: Path, as_json: bool) -> None:
    """Show what this machine can build and measure, and what to install for the rest.

    \b
    Example: edgesweep doctor
    """
    checks = examine(root)
    if as_json:
        print_json({"checks": [check.document() for check in checks]})
    else:
        print_checks([(check.name, check.ok, check.found, check.fix) for check in checks])
    if any(check.needed and not check.ok for check in checks):
        sys.exit(1)
