"""The port of this host's adb server, from the environment. Pure."""

import re
from collections.abc import Mapping

from sweeps.errors import DeviceError

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 5037
SOCKET_VARIABLE, _PORT_VARIABLE = "ADB_SERVER_SOCKET", "ANDROID_ADB_SERVER_PORT"
SERVER_VARIABLES = (SOCKET_VARIABLE, _PORT_VARIABLE, "ADBUTILS_ADB_PATH")
"""The environment variables that name another server or another adb program."""


def server_port(environment: Mapping[str, str]) -> int:
    """Return the port of this host's adb server, from the variables that adb itself reads, in adb's order.

    Raises `DeviceError("adb_server", ...)` if they name no port, or a server that is not on this host's loopback.
    """
    socket_name, port = environment.get(SOCKET_VARIABLE), environment.get(_PORT_VARIABLE)
    if socket_name:
        match = re.fullmatch(r"tcp:(?:(?P<host>[^\s:]{1,255}|\[[0-9a-f:]{2,39}\]):)?(?P<port>[0-9]{1,5})", socket_name)
        if match is None or not _is_port(match["port"]):
            raise _misnamed(SOCKET_VARIABLE, socket_name, "names no port of this computer", "write tcp:5037")
        if match["host"] not in (None, "localhost", LOOPBACK, "[::1]"):
            raise _misnamed(
                SOCKET_VARIABLE,
                socket_name,
                "names a server on another computer, to which EdgeSweep does not talk",
                "run `edgesweep host` on that computer (edgesweep explain lab), or unset the variable",
            )
        return int(match["port"])
    if port and not _is_port(port):
        raise _misnamed(_PORT_VARIABLE, port, "is no port", "write a number from 1 to 65535, or unset it (5037)")
    return int(port or DEFAULT_PORT)


def _is_port(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,5}", text, re.ASCII) is not None and 0 < int(text) < 65536


def _misnamed(variable: str, value: str, why: str, next_step: str) -> DeviceError:
    return DeviceError("adb_server", f"{variable}={value[:60]!r} {why}", next_step)
