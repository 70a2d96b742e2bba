"""`edgesweep dashboard`: results in the browser."""

import os
from pathlib import Path

import click

from dashboard.launch import command
from sweeps.cli.options import workspace_option


@click.command()
@workspace_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True)
def dashboard(root: Path, host: str, port: int) -> None:
    """Review results in the browser. Listens on this machine only, unless --host says otherwise.

    \b
    Example: edgesweep dashboard --port 8600
    """
    argv = command(root, host=host, port=port)
    click.echo(f"EdgeSweep listens on http://{host}:{port}  (Ctrl-C ends it)", err=True)
    os.execv(argv[0], argv)  # noqa: S606  # our own argument list; the dashboard replaces this process
