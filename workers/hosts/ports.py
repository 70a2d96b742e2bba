"""Fixed ports for a Ray node, and nftables rules that keep them to one interface: Ray itself listens on all of them."""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Self

import psutil

from sweeps.errors import ClusterError

_NAMED = (
    "--node-manager-port",
    "--object-manager-port",
    "--runtime-env-agent-port",
    "--dashboard-agent-listen-port",
    "--dashboard-agent-grpc-port",
    "--metrics-export-port",
)
"""What a node listens on beside the ports of its workers, as options of `ray start`."""
_LEAST = len(_NAMED) + 26
"""A process for each device, one for the agent, one for each driver here."""
_NFT_S = 20.0


@dataclass(frozen=True, slots=True)
class Ports:
    """A range, both ends included: everything that a node listens on, but for the lab's own port on the head."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """`FIRST-LAST`. Raises `ValueError` with the reason."""
        found = re.fullmatch(r"(\d{1,5})-(\d{1,5})", text)
        if found is None:
            raise ValueError("write FIRST-LAST, for example 24000-24999")
        first, last = map(int, found.groups())
        if not 1024 <= first <= last < 2**16:
            raise ValueError("ports are from 1024 to 65535, the smaller one first")
        if last - first + 1 < _LEAST:
            raise ValueError(f"a host needs {_LEAST} ports or more")
        return cls(first, last)

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def words(self) -> list[str]:
        """For `ray start`."""
        named = [f"{option}={self.first + number}" for number, option in enumerate(_NAMED)]
        workers = self.first + len(_NAMED)
        return [*named, f"--min-worker-port={workers}", f"--max-worker-port={self.last}"]


DEFAULT_PORTS = Ports(24000, 24999)
"""Below those that Linux gives to outgoing connections."""


@contextmanager
def kept_to(address: str, ports: Ports, lab_port: int | None) -> Iterator[None]:
    """Until the end of the block, who reaches these ports comes over the interface of this address, and names the
    address. Others are refused; all other ports are as they were. `lab_port`: on the head, the lab's own.

    Raises `ClusterError`. The rules stay if this process is killed; the next start replaces them.
    """
    table = f"edgesweep_{ports.first}"
    _nft(_rules(table, address, _interface(address), ports, lab_port))
    try:
        yield
    finally:
        with suppress(ClusterError):
            _nft(f"delete table inet {table}\n")


def _rules(table: str, address: str, interface: str, ports: Ports, lab_port: int | None) -> str:
    guarded = ", ".join(map(str, filter(None, (lab_port, ports))))
    # An empty table first: a table that is not there cannot be deleted.
    return f"""table inet {table} {{}}
delete table inet {table}
table inet {table} {{
  chain input {{
    type filter hook input priority filter; policy accept;
    ct state established,related accept
    tcp dport != {{ {guarded} }} accept
    iif lo accept
    iifname "{interface}" ip daddr {address} accept
    reject with tcp reset
  }}
}}
"""


def _interface(address: str) -> str:
    for name, its in psutil.net_if_addrs().items():
        if any(one.family == socket.AF_INET and one.address == address for one in its):
            if not re.fullmatch(r"[\w.@-]+", name):
                raise ClusterError(f"the interface {name!r} has a name that no rule can have", "rename it")
            return name
    raise ClusterError(f"no interface of this computer has the address {address}", "give another --address")


def _nft(rules: str) -> None:
    program = shutil.which("nft") or shutil.which("nft", path="/usr/sbin:/sbin")
    if program is None:
        raise ClusterError("nft is missing, which --firewall needs", "apt-get install -y nftables")
    try:
        done = subprocess.run(  # noqa: S603  # an argument list; no shell
            [program, "-f", "-"], input=rules, capture_output=True, text=True, errors="replace", timeout=_NFT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"nft cannot be run: {error}") from error
    if done.returncode != 0:
        why = done.stderr.strip().splitlines()[:1] or ["it does not say why"]
        raise ClusterError(f"the rules cannot be installed: {why[0]}", "run it as root, or without --firewall")
