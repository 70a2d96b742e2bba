"""The locks of whoever measures on a phone: the phone is theirs, and nobody restarts the adb server meanwhile."""

import time

from sweeps.errors import DeviceError
from sweeps.holds import phone_name
from workers.devices.adb.lease import HeldError, Hold

_RESTART_S = 30.0
"""Longer than a restart of the server takes."""


class PhoneLock:
    """Until `release()` or the end of this process, however it ends.

    Raises `DeviceError`: `leased` at once if another process of this host measures on the phone, `adb_server` if a
    restart of the server does not end.
    """

    def __init__(self, serial: str, device_id: str, port: int) -> None:
        """`port`: of the adb server."""
        try:
            self._phone = Hold(phone_name(device_id))
        except HeldError as error:
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


def server_alone(port: int) -> Hold:
    """For whoever restarts the adb server. Raises `HeldError` at once if a phone at it is being measured."""
    return Hold(f"adb server {port}")


def _use_server(port: int) -> Hold:
    deadline = time.monotonic() + _RESTART_S
    while True:
        try:
            return Hold(f"adb server {port}", shared=True)
        except HeldError as error:
            if time.monotonic() > deadline:
                raise DeviceError(
                    "adb_server",
                    f"the adb server of this host (port {port}) is being restarted by process {error.process or '?'}",
                    "wait until that ends",
                ) from error
        time.sleep(0.05)
