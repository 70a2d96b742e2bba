"""`edgesweep host`: makes this computer a device host of a lab: the head or a further host."""

import os
import re
import secrets
import socket
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from sweeps.cli.lab import LAB_VARIABLE
from sweeps.cli.session import CtrlC
from sweeps.errors import ClusterError
from sweeps.quarantine import state_folder
from sweeps.spec import lab_names
from sweeps.text import plain
from workers.executors.loopback import LOOPBACK
from workers.hosts.access import DEFAULT_PORT, check_token_file, own_address, resolved, split_address
from workers.hosts.node import NodeOptions
from workers.hosts.ports import DEFAULT_PORTS, Ports, kept_to
from workers.hosts.supervisor import leave as leave_lab
from workers.hosts.supervisor import only_host, serve
from workers.hosts.this_machine import HostConfig, check_units

Command = Callable[..., Any]


class _PortsType(click.ParamType[Ports]):
    name = "ports"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Ports:
        try:
            return value if isinstance(value, Ports) else Ports.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


_state_option = click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="EDGESWEEP_HOST_STATE",
    help="Folder of this host's results, artifacts and token; by default host in EdgeSweep's state folder.",
)


def _host_options(command: Command) -> Command:
    for option in (
        click.option(
            "--device",
            "units",
            multiple=True,
            metavar="DEVICE",
            help="Offer this device too, for example local. Phones are found by themselves.",
        ),
        click.option(
            "--tag", "tags", multiple=True, metavar="NAME", help="Sweep files name the host's devices by it: tag:NAME."
        ),
        click.option("--name", metavar="NAME", help="What the host is called; by default this computer's name."),
        click.option(
            "--ports",
            type=_PortsType(),
            metavar="FIRST-LAST",
            help="What Ray listens on beside the lab's port, for a firewall of your own; by default of Ray's choice.",
        ),
        click.option(
            "--firewall",
            is_flag=True,
            help="While it runs, let others reach these ports over the interface of the address only. Needs nft, and "
            f"sudo for it. Without --ports they are {DEFAULT_PORTS}.",
        ),
        _state_option,
    ):
        command = option(command)
    return command


@click.group()
def host() -> None:
    """Make this computer a device host of a lab: its phones then measure for sweeps on any computer of the lab.

    \b
    Example: edgesweep host up --address 10.0.0.5
    """


@host.command()
@click.option("--address", default=LOOPBACK, show_default=True, metavar="IP", help="Address that others reach it by.")
@click.option("--port", default=DEFAULT_PORT, show_default=True, type=click.IntRange(1, 65535), help="Of the lab.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The lab's token; made if it is missing. By default in the folder of --state.",
)
@_host_options
def up(
    address: str,
    port: int,
    token_file: Path | None,
    state: Path | None,
    name: str | None,
    tags: tuple[str, ...],
    units: tuple[str, ...],
    ports: Ports | None,
    firewall: bool,
) -> None:
    """Start a lab on this computer, which is a device host too. Runs until Ctrl-C.

    \b
    With an address other than 127.0.0.1 Ray listens on all interfaces: use --firewall, or your own.
    edgesweep explain lab tells more.
    Example: edgesweep host up --address 10.0.0.5
    """
    config = _config(state, name, tags, units)
    _check_is_the_lab(f"{address}:{port}")
    with only_host(config.state):
        file = (token_file or config.state / "token").expanduser().resolve()
        new = _make_token(file)
        check_token_file(file)
        head = resolved(f"{address}:{port}")
        # The token is printed only on a terminal, for a person to copy, so that no log gets it.
        shown = new and sys.stderr.isatty()
        token_note = f", made now: {file.read_text(encoding='ascii').strip()}" if shown else ", made now" if new else ""
        click.echo(f"the lab's token is in {file}{token_note}", err=True)
        click.echo(f"other computers: edgesweep host join {head} --token-file COPY_OF_IT", err=True)
        click.echo(f"sweeps: edgesweep run SWEEP --lab {head} --token-file COPY_OF_IT", err=True)
        ip = head.rpartition(":")[0]
        if ip != LOOPBACK and not firewall:
            click.echo(
                "Ray listens on all interfaces of this computer: use --firewall, or your own (edgesweep explain lab)",
                err=True,
            )
        node = NodeOptions(head=head, is_head=True, ip=ip, token_file=file, label="", ports=ports)
        _serve(node, config, firewall=firewall)


@host.command()
@click.argument("head", metavar="HOST:PORT")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="EDGESWEEP_TOKEN_FILE",
    required=True,
    help="A copy of the token file of the lab's head (or EDGESWEEP_TOKEN_FILE).",
)
@click.option(
    "--address",
    metavar="IP",
    help="Address that the lab reaches this computer by; by default found anew at each start of its node.",
)
@_host_options
def join(
    head: str,
    token_file: Path,
    address: str | None,
    state: Path | None,
    name: str | None,
    tags: tuple[str, ...],
    units: tuple[str, ...],
    ports: Ports | None,
    firewall: bool,
) -> None:
    """Make this computer a device host of the lab at HOST:PORT. Runs until Ctrl-C.

    \b
    Example: edgesweep host join 10.0.0.5:6379 --token-file lab-token --name lab-2
    """
    config = _config(state, name, tags, units)
    with only_host(config.state):
        file = token_file.expanduser().resolve()
        check_token_file(file)
        head = resolved(head)
        node = NodeOptions(head=head, ip=address or "", token_file=file, label="", ports=ports)
        _serve(node, config, firewall=firewall)


@host.command()
@_state_option
def leave(state: Path | None) -> None:
    """Leave the lab: the running blocks end, and the devices are handed back.

    \b
    Example: edgesweep host leave
    """
    folder = _folder(state)
    if not leave_lab(folder):
        raise ClusterError("this computer is no device host now", "edgesweep host up, or edgesweep host join")
    click.echo("left the lab", err=True)


def _serve(options: NodeOptions, config: HostConfig, *, firewall: bool) -> None:
    if firewall:
        options = replace(options, ports=options.ports or DEFAULT_PORTS)
    port = split_address(options.head)[1]
    if options.ports and options.is_head and port in options.ports:
        raise ClusterError(f"the lab's port {port} is one of {options.ports}", "give another --port, or other --ports")
    if (options.ip or own_address(options.head)) != LOOPBACK and os.geteuid() == 0:
        click.echo("this host runs as root: so does whatever the lab's token lets others run here", err=True)
    with CtrlC(_tell) as stop:
        serve(options, config, stop, _tell, _guarded if firewall else nullcontext)
    click.echo(f"{config.name} has left the lab", err=True)


def _check_is_the_lab(head: str) -> None:
    """Check that the environment variable `EDGESWEEP_LAB`, if set, names this lab: otherwise this user's sweeps would
    not see its devices. Raises `ClusterError`."""
    named = os.environ.get(LAB_VARIABLE)
    if named and resolved(named) != resolved(head):
        raise ClusterError(
            f"{LAB_VARIABLE} names the lab at {named}, and this would be the head of a second one",
            f"edgesweep host join {named}, or unset {LAB_VARIABLE} first",
        )


def _guarded(options: NodeOptions) -> AbstractContextManager[None]:
    """Return a context manager that keeps the firewall rules of `--firewall` while the node runs. Raises
    `ClusterError`."""
    if options.ip == LOOPBACK:
        raise ClusterError(
            "on 127.0.0.1 nothing listens beyond this computer, so there is nothing for --firewall to do",
            "give --address, or leave --firewall out",
        )
    assert options.ports is not None
    return kept_to(options.ip, options.ports, split_address(options.head)[1] if options.is_head else None)


def _config(state: Path | None, name: str | None, tags: tuple[str, ...], units: tuple[str, ...]) -> HostConfig:
    name = name or socket.gethostname().partition(".")[0]
    for word, option in ((name, "--name"), *((tag, "--tag") for tag in tags)):
        if not re.fullmatch(lab_names.HOST_NAME, word):
            raise ClusterError(
                f"{option} {word!r} is not of letters, digits, '.', '_' and '-' only", f"give {option} NAME"
            )
    check_units(units)
    return HostConfig(name=name, state=_folder(state), units=units, tags=tags)


def _folder(state: Path | None) -> Path:
    return (state or state_folder() / "host").expanduser().resolve()


def _make_token(file: Path) -> bool:
    """Create the lab's token unless its file exists. Returns whether it was created. Raises `ClusterError`."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise ClusterError(f"the token cannot be written to {file}: {error.strerror}", "give --token-file") from error
    with os.fdopen(descriptor, "w", encoding="ascii") as opened:
        opened.write(secrets.token_hex(32))
    return True


def _tell(message: str) -> None:
    click.echo(plain(message), err=True)
