"""`edgesweep dashboard`: launch sweeps, watch them and read their results, in the browser."""

import os
import secrets
import stat
from pathlib import Path

import click

from dashboard.arguments import Options
from dashboard.roles import read_roles
from dashboard.web_server import SAYS_VARIABLE, TOKEN_VARIABLE, command
from sweeps.cli.lab import chosen_lab, lab_options
from sweeps.cli.options import workspace_option
from workers.hosts.access import check_private


@click.command()
@workspace_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="Answer to this name too: that of a proxy before it, or of this computer for others.",
)
@click.option(
    "--models",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    metavar="DIR",
    help="Sweeps that are started in the browser may use models' own code from this folder.",
)
@click.option(
    "--auth-secrets",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="People log in: Streamlit's secrets.toml with the section [auth] of an OpenID Connect issuer.",
)
@click.option(
    "--roles",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Who may do what after a login: a YAML file of address: look, launch or operate. Others may look.",
)
@lab_options
def dashboard(
    root: Path,
    host: str,
    port: int,
    names: tuple[str, ...],
    models: tuple[Path, ...],
    auth_secrets: Path | None,
    roles: Path | None,
    lab: str | None,
    token_file: Path | None,
) -> None:
    """Launch sweeps, watch them and read their results in the browser. Listens on this machine only, unless --host says
    otherwise.

    \b
    The printed link lets one browser start and stop sweeps; without it, everybody may only look.
    Example: edgesweep dashboard --port 8600
    """
    if roles is not None and auth_secrets is None:
        raise click.UsageError("--roles are for people who log in: give --auth-secrets too")
    if auth_secrets is not None:  # the file has the client's secret at the issuer, and the key of all logins
        check_private(auth_secrets, stat.S_IMODE(auth_secrets.stat().st_mode), "file of secrets", of_group=True)
    chosen = chosen_lab(lab, token_file)
    options = Options(
        root,
        models,
        None if roles is None else roles.resolve(),
        auth_secrets is not None,
        None if chosen is None else chosen.head,
        None if chosen is None else chosen.token_file,
    )
    argv = command(options, host, port, names=names, auth_secrets=auth_secrets)
    if roles is not None:
        read_roles(roles)
    token = secrets.token_urlsafe(32)
    shown = f"[{host}]" if ":" in host else host
    says = (
        f"EdgeSweep listens on http://{shown}:{port}  (Ctrl-C ends it)\n"
        f"To start and stop sweeps, open this link; it works once: http://{shown}:{port}/enter?token={token}"
    )
    click.echo("The dashboard starts ...", err=True)
    os.execve(argv[0], argv, {**os.environ, TOKEN_VARIABLE: token, SAYS_VARIABLE: says})  # noqa: S606  # it replaces this process
