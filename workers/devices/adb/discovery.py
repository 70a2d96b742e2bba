"""Which phones hang on this host, each once, whatever ways lead to it."""

from pathlib import Path

from sweeps.errors import DeviceError
from workers.devices.adb.device import AdbDevice
from workers.devices.adb.host import AdbHost, trouble

NEXT_STEP = "attach one and allow USB debugging: `adb devices` must list it"


def attached(host: AdbHost | None = None) -> tuple[list[str], list[DeviceError]]:
    """The phones that take commands, as `adb:SERIAL`, each once; and why others do not.

    A phone that is there over USB and over a network is named by its USB. Two phones that call themselves the same
    are both refused.
    """
    host = host or AdbHost()
    seen = host.devices()
    refused = [found for one in seen if (found := trouble(one, seen)) is not None]
    by_unit: dict[str, list[tuple[str, str, bool]]] = {}
    for one in seen:
        if trouble(one, seen) is None:
            device = AdbDevice(Path(), one.serial, host)
            try:
                unit, boot = device.facts().device_id, device.boot_id()
            except DeviceError as error:
                refused.append(error)
                continue
            by_unit.setdefault(unit, []).append((one.serial, boot, one.usb))
    names = []
    for unit, ways in by_unit.items():
        if len({boot for _, boot, _ in ways}) > 1:
            refused.append(
                DeviceError(
                    "ambiguous_serial",
                    f"{' and '.join(f'adb:{serial}' for serial, _, _ in ways)} are two phones that both call "
                    f"themselves {unit}",
                    "attach only one of them: their results could not be told apart",
                )
            )
        else:
            names.append(f"adb:{max(ways, key=lambda way: way[2])[0]}")
    return names, refused


def are_one(name: str, other: str, folder: Path) -> bool:
    """Whether two names with one serial number lead to one phone: both then tell of the same boot.

    Raises `DeviceError`.
    """
    return len({AdbDevice(folder, one.partition(":")[2]).boot_id() for one in (name, other)}) == 1


def clean(name: str) -> None:
    """Delete all files of EdgeSweep on the phone. Raises `DeviceError`."""
    AdbDevice(Path(), name.partition(":")[2]).clean()
