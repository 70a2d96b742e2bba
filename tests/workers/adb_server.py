"""An adb server of the tests' own."""

import socket
import subprocess
from contextlib import suppress

from workers.devices.adb.adb_host import AdbHost


def kill_server(port: int) -> None:
    _tell(port, "kill-server")


def forget_phones(port: int) -> None:
    """Forget the phones of the network, those that are gone among them. A server that does not run is not started for
    it."""
    with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=5):
        _tell(port, "disconnect")


def _tell(port: int, command: str) -> None:
    adb = AdbHost(port).adb
    subprocess.run([adb, "-P", str(port), command], capture_output=True, timeout=20, check=False)
