"""The disk of a host. If it is full, nothing is started: no lease could be written, and no result stored."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.errors import DeviceError, StoreError
from workers.hosts.away import no_disk

if TYPE_CHECKING:
    from workers.hosts.result_buffer import Outbox

LEAST_BYTES = 64 * 2**20
"""The free bytes below which a disk counts as full: adb, Ray and the outputs of programs need some space while a block
runs."""


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the folder's disk; 0 if the disk does not answer."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def lack_of_room(folder: Path) -> str:
    """Return the lack of space in words, with the disk as "its"; empty if there is space."""
    free = free_bytes(folder)
    if free >= LEAST_BYTES:
        return ""
    return f"its disk is full: {free / 2**20:.0f} MB are free in {folder}, {LEAST_BYTES >> 20} MB are needed"


class Disk:
    """The disk of the host `name`: `folder` has its artifacts and its devices' files, `outbox` the results."""

    def __init__(self, name: str, folder: Path, outbox: "Outbox") -> None:
        self._name = name
        self._folder = folder
        self._outbox = outbox

    @property
    def free_bytes(self) -> int:
        return free_bytes(self._folder)

    def stored(self) -> int:
        """Return the number of results that no driver has acknowledged; 0 if they cannot be read, which `troubles`
        reports."""
        try:
            return self._outbox.count()
        except StoreError:
            return 0

    def troubles(self) -> tuple[DeviceError, ...]:
        """Return the faults of the disk and of the outbox, for people."""
        troubles = []
        if lack := lack_of_room(self._folder):
            troubles.append(DeviceError("host_disk", lack, "free space there: its devices wait for it"))
        elif refused := self._outbox.trouble:
            troubles.append(DeviceError("host_disk", refused.message, refused.next_step))
        if self._outbox.dropped:
            troubles.append(DeviceError("other_version", self._outbox.dropped, "their sweeps measure them again"))
        return tuple(troubles)

    def check(self) -> None:
        """Check the free space on the disk. Raises `DeviceError("host_disk", ...)` if there is too little."""
        if lack := lack_of_room(self._folder):
            raise no_disk(self._name, lack)

    def refused(self, error: OSError | StoreError) -> DeviceError:
        """Return the error for a caller whose write failed."""
        if isinstance(error, StoreError):
            return no_disk(self._name, error.message, error.next_step)
        return no_disk(self._name, f"its disk refuses: {error}")

    def retry(self) -> None:
        """Write again if the last write failed, since the fault may be over. To be called from time to time."""
        if self._outbox.trouble is not None and not lack_of_room(self._folder):
            with suppress(StoreError):
                self._outbox.next_epoch()
