"""Fixed ports for a Ray node, and nftables rules that open these ports to one interface only: Ray itself listens on all
interfaces."""

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, Self

import psutil

from sweeps.errors import ClusterError
from sweeps.retry import tries

_NAMED = (
    "--node-manager-port",
    "--object-manager-port",
    "--runtime-env-agent-port",
    "--dashboard-agent-listen-port",
    "--dashboard-agent-grpc-port",
    "--metrics-export-port",
)
"""The options of `ray start` for the ports that a node listens on besides those of its workers."""
_CLIENTS = "--ray-client-server-port"
"""The option for the port for clients of a head. If grpcio is installed, Ray opens that port."""
_LEAST = len(_NAMED) + 1 + 25
"""The least number of ports: besides the named ones, one for the agent, one for its keeper, one for each driver
here."""
_NFT_S = 20.0
_KILL_S = 5.0
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Ports:
    """A range of ports, both ends included, for everything that a node listens on, except for the lab's own port on the
    head."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the range of a text `FIRST-LAST`. Raises `ValueError` with the reason."""
        match = re.fullmatch(r"(\d{1,5})-(\d{1,5})", text)
        if match is None:
            raise ValueError("write FIRST-LAST, for example 24000-24999")
        first, last = map(int, match.groups())
        if not 1024 <= first <= last < 2**16:
            raise ValueError("ports are from 1024 to 65535, the smaller one first")
        if last - first + 1 < _LEAST:
            raise ValueError(f"a host needs {_LEAST} ports or more")
        return cls(first, last)

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def __contains__(self, port: int) -> bool:
        return self.first <= port <= self.last

    def words(self, *, head: bool) -> list[str]:
        """Return the options for `ray start`."""
        options = [*_NAMED, *_of_clients(head=head)]
        named = [f"{option}={self.first + number}" for number, option in enumerate(options)]
        workers = self.first + len(options)
        return [*named, f"--min-worker-port={workers}", f"--max-worker-port={self.last}"]


def any_ports(lab_port: int, *, head: bool) -> list[str]:
    """Return the options for `ray start` of a node without a range: its workers listen on any port that the system has
    free. Ray's own choice for the other ports is fixed, and Ray refuses to start if one of them is the lab's port."""
    fixed = dict.fromkeys(_of_clients(head=head), 10001) | {"--dashboard-agent-listen-port": 52365}
    moved = [f"{option}={port - 1}" for option, port in fixed.items() if port == lab_port]
    return ["--min-worker-port=0", "--max-worker-port=0", *moved]


def _of_clients(*, head: bool) -> list[str]:
    return [_CLIENTS] if head and importlib.util.find_spec("grpc") else []


DEFAULT_PORTS = Ports(24000, 24999)
"""The default range is below the ports that Linux gives to outgoing connections."""


@contextmanager
def kept_to(address: str, ports: Ports, lab_port: int | None) -> Iterator[None]:
    """Guard the ports until the end of the block: they are reached only over the interface of this address, and at this
    address. Other connections to them are refused; other ports are unaffected. `lab_port`: on the head, the lab's own
    port.

    The table of rules belongs to an `nft` process that waits meanwhile: nobody else can change the table, and the
    kernel removes it when that process ends, which it does when this process ends for any reason. Raises
    `ClusterError`.
    """
    table = f"edgesweep_{os.getpid()}"
    rules = _rules(table, address, _interface(address), ports, lab_port)
    nft = _nft()
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
        _started([*nft, "-i"], errors) as holder,
    ):
        assert holder.stdin is not None
        try:
            with suppress(BrokenPipeError):  # the program has ended then, and says why
                holder.stdin.write(rules)
                holder.stdin.flush()
            _await(holder, [*nft, "list", "table", "inet", table], errors)
            yield
        finally:
            with suppress(BrokenPipeError):
                holder.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                holder.wait(_NFT_S)
            _kill(holder)


def _rules(table: str, address: str, interface: str, ports: Ports, lab_port: int | None) -> str:
    """Return the rules in one line: `nft -i` reads a command from each line."""
    guarded = ", ".join(map(str, filter(None, (lab_port, ports))))
    return (
        f"table inet {table} {{ flags owner; chain input {{ "
        "type filter hook input priority filter; policy accept; "
        "ct state established,related accept; "
        f"tcp dport != {{ {guarded} }} accept; "
        "iif lo accept; "
        f'iifname "{interface}" ip daddr {address} accept; '
        "reject with tcp reset; }; }\n"
    )


def _interface(address: str) -> str:
    for name, addresses in psutil.net_if_addrs().items():
        if any(entry.family == socket.AF_INET and entry.address == address for entry in addresses):
            name = name.partition(":")[0]  # an address may have a label, which is no interface
            if not re.fullmatch(r"[\w.@-]+", name):
                raise ClusterError(f"the interface {name!r} has a name that no rule can have", "rename it")
            return name
    raise ClusterError(f"no interface of this computer has the address {address}", "give another --address")


def _nft() -> list[str]:
    program = shutil.which("nft") or shutil.which("nft", path="/usr/sbin:/sbin")
    if program is None:
        raise ClusterError("nft is missing, which --firewall needs", "apt-get install -y nftables")
    if os.geteuid() == 0:
        return [program]
    # Only nft runs as root: Ray and whatever a token lets others run stay this user's.
    if (sudo := shutil.which("sudo")) is None:
        raise ClusterError("--firewall needs sudo, for nft alone", "apt-get install -y sudo, or use your own firewall")
    return [sudo, "-n", program]


def _started(argv: Sequence[str], errors: IO[str]) -> "subprocess.Popen[str]":
    try:
        return subprocess.Popen(  # noqa: S603  # an argument list; no shell
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            text=True,
            # Without this, nft keeps a history of what it reads in the home folder.
            env=os.environ | {"HOME": os.devnull},
            # Ctrl-C ends Ray first.
            start_new_session=True,
        )
    except OSError as error:
        raise ClusterError(f"nft cannot be run: {error}") from error


def _await(holder: "subprocess.Popen[str]", look: Sequence[str], errors: IO[str]) -> None:
    """Wait until the table of rules exists."""
    deadline = time.monotonic() + _NFT_S
    for is_last in tries(_NFT_S, _LOOK_S):
        if _succeeds(look, deadline - time.monotonic()):
            return
        errors.seek(0)
        words = errors.read().split("\n")[0]
        if words or is_last or holder.poll() is not None:
            step = "run `sudo -v` first" if os.geteuid() else "leave --firewall out, and use your own"
            raise ClusterError(f"the rules cannot be installed: {words or 'nft does not say why'}", step)


def _succeeds(argv: Sequence[str], timeout_s: float) -> bool:
    """Tell whether a program ends with exit code 0 in time."""
    null = subprocess.DEVNULL
    process = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null)  # noqa: S603  # an argument list; no shell
    try:
        return process.wait(max(0.0, timeout_s)) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        _kill(process)


def _kill(process: "subprocess.Popen[Any]") -> None:
    with suppress(PermissionError):  # sudo is root's
        process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILL_S)
