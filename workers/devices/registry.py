"""The kinds of device that the catalog has, and the devices that a sweep file names."""

import importlib
from pathlib import Path
from typing import Any

from sweeps.errors import DeviceError, did_you_mean
from sweeps.spec import catalog
from workers.devices.interface import Device, Discovery

DEVICES = {name: entry.target for name, entry in catalog.devices().items() if not entry.unit}
"""Devices that are there by themselves, by name -> `module:Class(folder)`, imported when it is needed."""

NAMED = {name: entry.target for name, entry in catalog.devices().items() if entry.unit}
"""Kinds of which a sweep file names one, as in `fake:hot` -> `module:Class(folder, name)`. Nobody gets one unasked."""


def connect(name: str, folder: Path) -> Device:
    """The device that a sweep file calls `name`; `folder` is where it may keep files on this host.

    Raises `DeviceError("unknown_device", ...)`.
    """
    kind, colon, one = name.partition(":")
    device: Device
    if name in DEVICES:
        device = _class(DEVICES[name])(folder)
    elif colon and kind in NAMED:
        device = _class(NAMED[kind])(folder, one)
    else:
        known = [*DEVICES, *NAMED]
        raise DeviceError(
            "unknown_device",
            f"there is no device called {name!r}{did_you_mean(kind, known)}",
            f"use one of: {', '.join([*DEVICES, *(f'{kind}:NAME' for kind in NAMED)])}",
        )
    return device


def discovery(module: str) -> Discovery:
    """What finds the units of one transport (`DeviceEntry.discovery`)."""
    found: Discovery = importlib.import_module(module)
    return found


def _class(path: str) -> Any:
    module, _, class_name = path.partition(":")
    return getattr(importlib.import_module(module), class_name)
