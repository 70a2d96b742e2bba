"""The locks of a process that measures on a phone: no other process measures on it, and none restarts the adb server
meanwhile."""

from sweeps.errors import DeviceError
from sweeps.locks import HostLock, LockedError, phone_name

_RESTART_S = 30.0
"""The longest wait for a restart of the server; a restart takes less."""


class PhoneLock:
    """The lock of a phone until `release()` or the end of this process for any reason.

    Raises `DeviceError`: `leased`, after a moment, if another process of this host measures on the phone; `adb_server`
    if a restart of the server does not end.
    """

    def __init__(self, serial: str, device_id: str, port: int) -> None:
        """Take the locks. `port`: the port of the adb server."""
        try:
            self._phone = HostLock(phone_name(device_id))
        except LockedError as error:
            process = f" (process {error.process})" if error.process else ""
            raise DeviceError(
                "leased",
                f"adb:{serial} is being measured by another EdgeSweep{process}",
                "wait until that ends, or remove this phone from the sweep",
            ) from error
        try:
            self._server = _use_server(port)
        except BaseException:
            self._phone.release()
            raise

    def release(self) -> None:
        self._server.release()
        self._phone.release()


def server_alone(port: int) -> HostLock:
    """Take the lock for restarting the adb server. Raises `LockedError` if a phone of this server is being measured."""
    return HostLock(f"adb server {port}")


def _use_server(port: int) -> HostLock:
    try:
        return HostLock(f"adb server {port}", shared=True, wait_s=_RESTART_S)
    except LockedError as error:
        raise DeviceError(
            "adb_server",
            f"the adb server of this host (port {port}) is being restarted by process {error.process or '?'}",
            "wait until that ends",
        ) from error
