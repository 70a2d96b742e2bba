"""Which kinds of device there are. Adding one = one module and one line here."""

import difflib
import importlib
from pathlib import Path

from sweeps.errors import DeviceError
from workers.devices.interface import Device

DEVICES = {
    "local": "workers.devices.local:LocalDevice",
}
"""Kind (a device name's part before the colon) -> `module:Class`, imported when it is needed."""


def connect(name: str, folder: Path) -> Device:
    """The device that a sweep file calls `name`; `folder` is where it may keep files on this host.

    Raises `DeviceError("unknown_device", ...)`.
    """
    kind = name.partition(":")[0]
    if kind not in DEVICES:
        near = difflib.get_close_matches(kind, DEVICES, n=1)
        raise DeviceError(
            "unknown_device",
            f"there is no kind of device called {kind!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
            f"use one of: {', '.join(DEVICES)}",
        )
    module, _, class_name = DEVICES[kind].partition(":")
    device: Device = getattr(importlib.import_module(module), class_name)(folder)
    return device
