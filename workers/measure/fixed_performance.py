"""A device in its fixed-performance mode for one block, and out of it again whatever happens.

On Android 11 and later this is `cmd power set-fixed-performance-mode-enabled`: the phone keeps clocks that it can hold.
It stays on when the host that asked for it dies, so a marker file lies on the host's disk while it may be on; who finds
one at the next contact switches the mode off.
"""

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from sweeps.errors import DeviceError
from workers.devices.interface import Device
from workers.devices.local import from_os_error


class FixedPerformance:
    """A context manager, for one block or many. Inside it `on` says whether the mode is on; `None`: there is none, or
    it is not wanted and was left alone.

    Entering raises `DeviceError`. Leaving does not: the block is as good as it was, and the marker stays as long as the
    mode may be on, for the next contact.
    """

    def __init__(self, device: Device, device_id: str, folder: Path, *, wanted: bool = True) -> None:
        self.on: bool | None = None
        self._device = device
        self._device_id = device_id
        self._folder = folder
        self._marker = _marker(device_id, folder)
        self._has: bool | None = None if wanted else False
        self._was_on = False

    def __enter__(self) -> Self:
        self.on = None
        restore_leftovers(self._device, self._device_id, self._folder)
        if self._has is None:
            # Switching off tells it too, harms nothing, and ends what somebody left behind.
            self._has = self._device.set_fixed_performance(False)
        if self._has:
            self._switch_on()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.on:
            with suppress(DeviceError):
                _switch_off(self._device, self._device_id, self._marker)

    def _switch_on(self) -> None:
        _write(self._marker, self._device_id)
        if self._device.set_fixed_performance(True):
            self.on = self._was_on = True
        elif self._was_on:
            # Blocks with the mode and blocks without it are not alike.
            raise DeviceError(
                "os_error",
                f"{self._device_id} does not take its fixed-performance mode any more",
                "restart the device, or measure without the mode: protocol: {fixed_performance: false}",
            )
        else:
            # It lets the mode be switched off only: it has none.
            self._has = False
            _forget(self._marker)


def restore_leftovers(device: Device, device_id: str, folder: Path) -> bool:
    """Switch off what an earlier block or run left on. Whether there was anything.

    Raises `DeviceError` where the device does not answer, or refuses (`mode_stays`); the marker stays then.
    """
    marker = _marker(device_id, folder)
    if not marker.exists():
        return False
    _switch_off(device, device_id, marker)
    return True


def _marker(device_id: str, folder: Path) -> Path:
    # Ids of devices may hold anything, also slashes.
    return folder / "fixed-performance" / f"{hashlib.sha256(device_id.encode()).hexdigest()}.json"


def _write(marker: Path, device_id: str) -> None:
    """On the disk, not just in its cache, when this returns. That it is there says it all; its text is for people."""
    try:
        marker.parent.mkdir(parents=True, exist_ok=True)
        with marker.open("w", encoding="utf-8") as file:
            json.dump({"device_id": device_id, "process": os.getpid(), "since": time.time()}, file)
            file.flush()
            os.fsync(file.fileno())
        entry = os.open(marker.parent, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)
    except OSError as error:
        raise DeviceError(
            from_os_error(error).kind,
            f"{marker}, which remembers that a phone is in its fixed-performance mode, cannot be written: {error}",
            "see that it can, or name another folder in EDGESWEEP_CACHE",
        ) from error


def _switch_off(device: Device, device_id: str, marker: Path) -> None:
    """Of a device that was asked to switch it on, so that it has the mode whatever it says now."""
    if not device.set_fixed_performance(False):
        raise DeviceError(
            "mode_stays",
            f"{device_id} does not leave its fixed-performance mode",
            f"restart the device; where it has the mode no more, delete {marker}",
        )
    _forget(marker)


def _forget(marker: Path) -> None:
    with suppress(OSError):  # a marker that stays costs one more switch at the next contact
        marker.unlink(missing_ok=True)
