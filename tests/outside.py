"""The calls with which a command and all that it starts send to other computers, as strace sees them."""

import ipaddress
import re
from pathlib import Path

_CALLS = "trace=connect,sendto,sendmsg,sendmmsg"
_ADDRESS = re.compile(r'inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"')
_NAMES = re.compile(r"htons\(53\)")
"""Questions to a server of names: one on this machine would hand them on."""


def traced(trace: Path) -> list[str]:
    """The words that are put before a command to trace it. It ends with the last process that the command has
    started."""
    # A filter in the kernel: all other calls go on at full speed.
    return ["strace", "-f", "--seccomp-bpf", "-qq", "-e", _CALLS, "-o", str(trace)]


def sent_outside(trace: Path) -> list[str]:
    """The calls with an address that is not this machine's loopback, or that ask for a name."""
    return [line for line in trace.read_text(errors="replace").splitlines() if _NAMES.search(line) or _is_far(line)]


def _is_far(line: str) -> bool:
    return any(not _is_loopback(four or six) for four, six in _ADDRESS.findall(line))


def _is_loopback(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback
