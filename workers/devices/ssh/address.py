"""The part of a board's name after `ssh:`, and the ssh commands that messages tell people to type. Pure."""

from dataclasses import dataclass

from sweeps.errors import DeviceError

DEFAULT_PORT = 22
_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """The address `USER@HOST:PORT`. Omitted parts are as in `~/.ssh/config`, or ssh's default."""

    unit: str
    host: str
    """A host name, an address, or a `Host` of `~/.ssh/config`; an IPv6 address without its brackets."""
    user: str | None
    port: int | None

    @property
    def name(self) -> str:
        """Return the name as sweep files write it."""
        return f"ssh:{self.unit}"

    @property
    def target(self) -> str:
        """Return the arguments for the command `ssh`."""
        where = self.host if self.user is None else f"{self.user}@{self.host}"
        return where if self.port is None else f"-p {self.port} {where}"


def parse(unit: str) -> Address:
    """Return the address in `unit`, which has the pattern of the catalog. Raises `DeviceError("unknown_device",
    ...)`."""
    user, at, where = unit.rpartition("@")
    if where.startswith("["):
        host, _, port = where[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = where.partition(":")
    if port and not (port.isdecimal() and 1 <= int(port) <= _HIGHEST_PORT):
        raise DeviceError(
            "unknown_device", f"ssh:{unit} names port {port}", f"ports are from 1 to {_HIGHEST_PORT}: ssh:USER@BOARD:22"
        )
    if not host or (at and not user):
        raise DeviceError("unknown_device", f"ssh:{unit} names no board", "write ssh:USER@BOARD or ssh:USER@BOARD:PORT")
    return Address(unit, host, user if at else None, int(port) if port else None)


def known_name(host: str, port: int) -> str:
    """Return the name as `known_hosts` has it."""
    return host if port == DEFAULT_PORT else f"[{host}]:{port}"
