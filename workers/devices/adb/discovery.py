"""Lists the phones that are attached to this host, each once, even if a phone is reached over both USB and network."""

import os
from functools import cache
from pathlib import Path

from sweeps.errors import DeviceError
from workers.devices.adb.adb_host import AdbHost, problem
from workers.devices.adb.device import AdbDevice
from workers.devices.adb.server_address import SERVER_VARIABLES

NEXT_STEP = "attach one and allow USB debugging: `adb devices` must list it"


def attached(host: AdbHost | None = None) -> tuple[list[str], list[DeviceError]]:
    """Return the phones that accept commands, as `adb:SERIAL`, each once; and an error for each other phone.

    A phone with a USB and a network connection has its USB name. Two phones that report the same serial number are both
    refused.
    """
    host = host or AdbHost()
    entries = host.devices()
    refused = [refusal for entry in entries if (refusal := problem(entry, entries)) is not None]
    by_id: dict[str, list[tuple[str, str, bool]]] = {}
    for entry in entries:
        if problem(entry, entries) is None:
            device = AdbDevice(Path(), entry.serial, host)
            try:
                device_id, boot = device.facts().device_id, device.boot_id()
            except DeviceError as error:
                refused.append(error)
                continue
            by_id.setdefault(device_id, []).append((entry.serial, boot, entry.usb))
    names = []
    for device_id, connections in by_id.items():
        if len({boot for _, boot, _ in connections}) > 1:
            refused.append(
                DeviceError(
                    "ambiguous_serial",
                    f"{' and '.join(f'adb:{serial}' for serial, _, _ in connections)} are two phones with the same "
                    f"serial number {device_id}",
                    "attach only one of them: their results could not be distinguished",
                )
            )
        else:
            names.append(f"adb:{max(connections, key=lambda connection: connection[2])[0]}")
    return names, refused


def listed(host: AdbHost | None = None) -> list[str]:
    """Return the phones that the adb server lists, including phones with a problem. Nothing is sent to the phones."""
    host = host or _cached_host(tuple(os.environ.get(name, "") for name in SERVER_VARIABLES))
    return list(dict.fromkeys(f"adb:{entry.serial}" for entry in host.devices()))


def version() -> str:
    """Return the version of this machine's adb. Raises `DeviceError`."""
    return AdbHost().version()


@cache
def _cached_host(_server: tuple[str, ...]) -> AdbHost:
    """Return the same connection to the server for all listings of phones: to open a new one starts a process."""
    return AdbHost()


def are_one(name: str, other: str, folder: Path) -> bool:
    """Tell whether two names with the same serial number mean the same phone: if so, both report the same boot id.

    Raises `DeviceError`.
    """
    return len({AdbDevice(folder, phone.partition(":")[2]).boot_id() for phone in (name, other)}) == 1


def clean(name: str) -> None:
    """Delete all files of EdgeSweep on the phone. Raises `DeviceError`."""
    AdbDevice(Path(), name.partition(":")[2]).clean()
