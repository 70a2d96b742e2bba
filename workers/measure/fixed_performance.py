"""The fixed-performance mode of a device: switched on for the blocks of one round, and off again in every case.

On Android 11 and later this is `cmd power set-fixed-performance-mode-enabled`: the phone uses clock rates that it can
sustain. The mode stays on if the host dies. So while the mode may be on, a marker file is on the host's disk; the next
process that uses the device and finds the marker switches the mode off.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from sweeps.errors import DeviceError
from sweeps.whole_file import write_whole
from workers.devices.interface import Device
from workers.devices.local import from_os_error


class FixedPerformance:
    """A context manager, for one block or many. `on`: whether the mode is on; `None`: the device has no such mode, or
    the mode is not wanted and was not changed.

    Entering raises `DeviceError`. Leaving does not: the block stays valid, and as long as the mode may be on, the
    marker remains for the next process that uses the device.

    `during` lets the mode stay on from one block to the next of the same round, which saves two commands on the phone
    per block. Callers that ask the device for something else between blocks, or wait, call `end` first.
    """

    def __init__(self, device: Device, device_id: str, folder: Path, *, requested: bool = True) -> None:
        self.on: bool | None = None
        self._device = device
        self._device_id = device_id
        self._folder = folder
        self._marker = _marker(device_id, folder)
        self._has: bool | None = None if requested else False
        self._was_on = False
        self._round: int | None = None
        """The round for which the mode stays on between two blocks."""
        self.just_switched = False
        """Tells whether the mode was off before this block: sensor readings from before it were taken at other clock
        rates."""

    def __enter__(self) -> Self:
        self.on = None
        restore_leftovers(self._device, self._device_id, self._folder)
        if self._has is None:
            # Switching off also shows whether the mode exists. It does no harm, and ends a mode that was left on.
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

    @property
    def stays_on(self) -> bool:
        """Tell whether the mode stays on between two blocks."""
        return self._round is not None

    @contextmanager
    def during(self, round_: int | None) -> Iterator[Self]:
        """Enter and leave, but keep the mode on after the block for the next block of this round. `None`: the mode does
        not stay on. Each round switches the mode on anew: a device may have dropped it unnoticed."""
        self.just_switched = not self.stays_on or self._round != round_
        if self.just_switched:
            self.end()
            self.__enter__()
        try:
            yield self
        except BaseException:
            self._round = None
            self.__exit__(None, None, None)
            raise
        self._round = round_ if self.on else None
        if self._round is None:
            self.__exit__(None, None, None)

    def end(self) -> None:
        """Switch off a mode that stays on between blocks. Does not raise, as leaving does not."""
        if self.stays_on:
            self._round = None
            self.__exit__(None, None, None)

    def _switch_on(self) -> None:
        _write(self._marker, self._device_id)
        if self._device.set_fixed_performance(True):
            self.on = self._was_on = True
        elif self._was_on:
            # Times of blocks with the mode and of blocks without it must not be mixed.
            raise DeviceError(
                "os_error",
                f"{self._device_id} does not take its fixed-performance mode any more",
                "restart the device, or measure without the mode: protocol: {fixed_performance: false}",
            )
        else:
            # The device only accepts switching the mode off, so it has no such mode.
            self._has = False
            _forget(self._marker)


def restore_leftovers(device: Device, device_id: str, folder: Path) -> bool:
    """Switch off a mode that an earlier block or run left on. Return whether there was one.

    Raises `DeviceError` if the device does not answer, or refuses (`mode_stays`); the marker then remains.
    """
    marker = _marker(device_id, folder)
    if not marker.exists():
        return False
    _switch_off(device, device_id, marker)
    return True


def _marker(device_id: str, folder: Path) -> Path:
    # Ids of devices may contain any character, also slashes.
    return folder / "fixed-performance" / f"{hashlib.sha256(device_id.encode()).hexdigest()}.json"


def _write(marker: Path, device_id: str) -> None:
    """Write the marker to the disk itself, not only to the cache of the disk. Only its existence matters; its text is
    for people."""
    try:
        marker.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"device_id": device_id, "process": os.getpid(), "since": time.time()})
        write_whole(marker, text, durable=True)
    except OSError as error:
        raise DeviceError(
            from_os_error(error).kind,
            f"{marker}, which remembers that a phone is in its fixed-performance mode, cannot be written: {error}",
            "see that it can, or name another folder in EDGESWEEP_CACHE",
        ) from error


def _switch_off(device: Device, device_id: str, marker: Path) -> None:
    """Switch the mode off on a device that was asked to switch it on. The device has the mode, even if it now denies
    that."""
    if not device.set_fixed_performance(False):
        raise DeviceError(
            "mode_stays",
            f"{device_id} does not leave its fixed-performance mode",
            f"restart the device; where it has the mode no more, delete {marker}",
        )
    _forget(marker)


def _forget(marker: Path) -> None:
    with suppress(OSError):  # a remaining marker only causes one more switch when the device is next used
        marker.unlink(missing_ok=True)
