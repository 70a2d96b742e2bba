"""Opens ssh connections. Host keys are checked against the `known_hosts` of this computer, and no new one is accepted.

Only keys and the agent authenticate: no password is requested, read or sent.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from sweeps.errors import DeviceError, in_one_line
from workers.devices.ssh.address import DEFAULT_PORT, Address, known_name
from workers.devices.ssh.connection import Connection

_GLOBAL_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")
_KEEPALIVE_S, _KEEPALIVES = 5.0, 2
"""A board that answers nothing for 10 to 15 s counts as gone."""


async def connect(address: Address, seconds: float) -> Connection:
    """Open a connection. Raises `DeviceError`: `offline`, `unauthorized`, `unknown_host_key`, `changed_host_key`,
    `os_error`."""
    try:
        settings = await _settings(address)
    except (ValueError, OSError, asyncssh.Error) as error:
        raise DeviceError(
            "os_error",
            f"{address.name}: the settings of ssh on this computer cannot be read: {in_one_line(error)}",
            f"correct ~/.ssh/config; this command must work: ssh {address.target} true",
        ) from error
    try:
        async with asyncio.timeout(seconds):
            return Connection(await _connected(address, settings.known))
    except asyncssh.PermissionDenied as error:
        raise DeviceError(
            "unauthorized",
            f"{address.name} accepts none of the keys of this user ({in_one_line(error)})",
            f"put a key there: ssh-copy-id {address.target}; a key with a passphrase goes into the agent: ssh-add",
        ) from error
    except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
        raise _host_key_error(address, settings, error) from error
    except TimeoutError as error:
        raise _offline(address, f"it did not answer within {seconds:.0f} s") from error
    except (OSError, asyncssh.Error, ValueError) as error:
        raise _offline(address, in_one_line(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """The ssh settings of this computer for the board."""

    name: str
    """The board's name in `known_hosts`."""
    known: asyncssh.SSHKnownHosts
    is_known: bool
    """Tells whether `known` has a key of the board."""


async def _settings(address: Address) -> _Settings:
    options = await asyncssh.SSHClientConnectionOptions.construct(
        config=(), host=address.host, **_who(address), client_keys=None, agent_path=None
    )
    # asyncssh's own reading of the option is never used: `UserKnownHostsFile none` would switch its checks off.
    own = options.known_hosts if isinstance(options.known_hosts, list) else []
    files = [Path(file).expanduser() for file in own or ["~/.ssh/known_hosts"] if isinstance(file, str)]
    known = asyncssh.read_known_hosts([str(file) for file in (*files, _GLOBAL_KNOWN_HOSTS) if file.is_file()])
    host, port = options.host_key_alias or options.host, options.port
    keys = known.match(host, "", None if port == DEFAULT_PORT else port)
    return _Settings(name=known_name(host, port), known=known, is_known=bool(keys[0] or keys[1]))


async def _connected(address: Address, known: asyncssh.SSHKnownHosts) -> asyncssh.SSHClientConnection:
    return await asyncssh.connect(
        address.host,
        **_who(address),
        known_hosts=known,
        ignore_encrypted=True,
        preferred_auth="publickey",
        password_auth=False,
        kbdint_auth=False,
        host_based_auth=False,
        gss_auth=False,
        gss_kex=False,
        agent_forwarding=False,
        keepalive_interval=_KEEPALIVE_S,
        keepalive_count_max=_KEEPALIVES,
    )


def _who(address: Address) -> dict[str, Any]:
    """Return the port and user in the board's name; all other settings are as in `~/.ssh/config`."""
    parts = {"port": address.port, "username": address.user}
    return {name: value for name, value in parts.items() if value is not None}


def _host_key_error(address: Address, settings: _Settings, error: Exception) -> DeviceError:
    name = settings.name
    if settings.is_known:
        return DeviceError(
            "changed_host_key",
            f"{address.name} has another host key than known_hosts has for {name}: the board was set up anew, or "
            "another computer answers in its place",
            f"if you know why: ssh-keygen -R '{name}', then ssh {address.target}, and compare the fingerprint",
        )
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return _offline(address, in_one_line(error))
    return DeviceError(
        "unknown_host_key",
        f"{address.name}: this computer does not know the host key of {name}, and accepts none by itself",
        f"ssh {address.target} shows its fingerprint; if the board has the same (there: ssh-keygen -lf "
        "/etc/ssh/ssh_host_ed25519_key.pub), answer yes",
    )


def _offline(address: Address, why: str) -> DeviceError:
    return DeviceError(
        "offline",
        f"{address.name} cannot be reached: {why[:300]}",
        f"switch it on, connect it to the network; this command must work: ssh {address.target} true",
    )
