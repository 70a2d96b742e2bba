"""Connects to the devices that sweep files name, by the transports of the catalog."""

import importlib
from pathlib import Path
from typing import Any

from sweeps.errors import DeviceError, did_you_mean, in_one_line
from sweeps.spec import catalog
from sweeps.spec.entries import DeviceEntry
from workers.devices.interface import Device, Discovery


def connect(name: str, folder: Path) -> Device:
    """The device that a sweep file calls `name`. `folder` is for its files on this host.

    Raises `DeviceError`: `unknown_device`, and `broken_transport` if another package's transport cannot be loaded.
    """
    kind, colon, unit = name.partition(":")
    entry = catalog.devices().get(kind)
    if entry is None or bool(entry.unit) != bool(colon):
        # Devices that are always present come first.
        known = sorted(catalog.devices().values(), key=lambda entry: bool(entry.unit))
        raise DeviceError(
            "unknown_device",
            f"there is no device called {name!r}{did_you_mean(kind, [entry.name for entry in known])}",
            f"use one of: {', '.join(f'{entry.name}:NAME' if entry.unit else entry.name for entry in known)}",
        )
    make = _loaded(entry, entry.target)
    device: Device = make(folder, unit) if entry.unit else make(folder)
    return device


def discovery(entry: DeviceEntry) -> Discovery:
    """The module that finds the devices of this transport; it must have one. Raises `DeviceError`."""
    found: Discovery = _loaded(entry, entry.discovery)
    return found


def units() -> tuple[list[str], list[DeviceError]]:
    """The names of all attached devices, of every transport with discovery; and an error for each unusable one."""
    names: list[str] = []
    refused: list[DeviceError] = []
    for entry in catalog.devices().values():
        if not entry.discovery:
            continue
        try:
            found, errors = discovery(entry).attached()
        except DeviceError as error:  # for example no adb server: devices of other transports still work
            refused.append(error)
        else:
            names += found
            refused += errors
    return names, refused


def _loaded(entry: DeviceEntry, target: str) -> Any:
    module, _, name = target.partition(":")
    try:
        found = importlib.import_module(module)
        return getattr(found, name) if name else found
    except Exception as error:
        if entry in catalog.BUILT_IN_DEVICES:
            raise
        raise DeviceError(
            "broken_transport",
            f"the transport {entry.name} cannot be loaded: {in_one_line(error)}",
            "repair or uninstall the package that provides it",
        ) from error
