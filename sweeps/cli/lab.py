"""Shared parts of the commands that use a lab: options for its address and token, and the connection to it."""

import getpass
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import click

from sweeps.errors import ClusterError
from sweeps.text import plain
from workers.executors.loopback import LOOPBACK
from workers.hosts.access import check_head, check_token, check_token_file, environment_of_driver, own_address, resolved
from workers.hosts.node import Node, NodeOptions, listening_on, node_of_head

if TYPE_CHECKING:
    from workers.hosts.lab import Lab

Command = Callable[..., Any]
LAB_VARIABLE = "EDGESWEEP_LAB"


@dataclass(frozen=True, slots=True)
class LabOptions:
    """Lab that a command uses: the address of its head, and the file with its token."""

    head: str
    token_file: Path


def lab_options(command: Command) -> Command:
    """Add the options `--lab` and `--token-file` to a command, passed as `lab` and `token_file`."""
    token = click.option(
        "--token-file",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar="EDGESWEEP_TOKEN_FILE",
        help="A copy of the token file of the lab's head (or EDGESWEEP_TOKEN_FILE).",
    )
    lab = click.option(
        "--lab",
        metavar="HOST:PORT",
        envvar=LAB_VARIABLE,
        help=f"Use the devices of a lab: the address that `edgesweep host up` has printed (or {LAB_VARIABLE}).",
    )
    return lab(token(command))


def chosen_lab(lab: str | None, token_file: Path | None) -> LabOptions | None:
    """Return the lab that a command's options name; `None` if they name none. Raises `ClusterError` if the token is
    missing."""
    if lab is None:
        return None
    if token_file is None:
        raise ClusterError(f"the lab at {lab} needs a token", "copy the token file of its head, and give --token-file")
    return LabOptions(resolved(lab), token_file.expanduser().resolve())


def needed_lab(lab: str | None, token_file: Path | None) -> LabOptions:
    """Return the lab that a command's options name. Raises `ClusterError` if they name none, or if the token is
    missing."""
    options = chosen_lab(lab, token_file)
    if options is None:
        raise ClusterError("no lab is named", "--lab HOST:PORT, as `edgesweep host up` has printed it")
    return options


@contextmanager
def open_lab(options: LabOptions, task: str, *, tells_ports: bool = False) -> "Iterator[Lab]":
    """Connect to a lab's hosts for the `with` block. `task`: what this driver does, for people at the hosts.
    `tells_ports`: print which ports of this computer others can reach meanwhile.

    A Ray node is started on this machine unless the lab's head runs here, and ended with the block. Raises
    `ClusterError`.
    """
    check_token_file(options.token_file)
    check_head(options.head)
    ip = LOOPBACK if options.head.startswith(f"{LOOPBACK}:") else own_address(options.head)
    node = NodeOptions(head=options.head, ip=ip, token_file=options.token_file, label=token_hex(4))
    check_token(options.head, options.token_file, ip)
    with ExitStack() as stack:
        folder = node_of_head(options.head)
        if folder is None:
            own = Node(node)
            stack.callback(own.end)
            if tells_ports and ip != LOOPBACK:
                _tell(f"this computer's node in the lab, until this ends, {listening_on(own)}")
            folder = own.folder
        os.environ.update(environment_of_driver(options.token_file, ip))
        # Ray reads the environment when it is imported; the other modules import numpy, which `plan --help` does not
        # need.
        from workers.hosts import cluster
        from workers.hosts.lab import Lab
        from workers.hosts.this_machine import versions

        cluster.connect(options.head, options.token_file, folder)
        stack.callback(cluster.disconnect)
        driver_name = f"{_user()}@{socket.gethostname()} {task} {token_hex(2)}"
        lab = Lab(cluster.Hosts().find, driver_name, versions(), time.monotonic, _tell)
        stack.callback(lab.close)
        yield lab


@contextmanager
def lab_or_none(
    lab: str | None, token_file: Path | None, task: str, *, tells_ports: bool = False
) -> "Iterator[Lab | None]":
    """Connect to a lab as `open_lab` does, or yield `None` if no lab is named."""
    options = chosen_lab(lab, token_file)
    if options is None:
        yield None
    else:
        with open_lab(options, task, tells_ports=tells_ports) as opened:
            yield opened


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container the user may have no name
        return str(os.getuid())


def _tell(message: str) -> None:
    click.echo(plain(message), err=True)
