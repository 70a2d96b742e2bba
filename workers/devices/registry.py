"""Connects to the devices that sweep files name, by the transports of the catalog."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sweeps.errors import DeviceError, did_you_mean, in_one_line
from sweeps.spec import built_in, catalog, lab_names
from sweeps.spec.entries import DeviceEntry
from workers.devices.interface import Device, Discovery, Recovery


def connect(name: str, folder: Path) -> Device:
    """Return the device that a sweep file names `name`. `folder` is for files on this host.

    Raises `DeviceError`: `unknown_device`, `offline` for a device of a lab, which only its host can connect to, and
    `broken_transport` if another package's transport does not work.
    """
    if lab_names.host_of(name) is not None:
        raise DeviceError("offline", f"{name} is a device of a lab", "name the lab: --lab HOST:PORT --token-file FILE")
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
    with faults_of(entry):
        make = _loaded(entry.target)
        device: Device = make(folder, unit) if entry.unit else make(folder)
        return device


def discovery(entry: DeviceEntry) -> Discovery:
    """Return the module that finds the devices of this transport, which must have discovery. Raises `DeviceError`."""
    with faults_of(entry):
        module: Discovery = _loaded(entry.discovery)
        return module if entry in built_in.BUILT_IN_DEVICES else _Foreign(entry, module)


def recovery(name: str) -> Recovery | None:
    """Return the module that brings back the device that a sweep file names `name`; `None` if a run can only wait for
    it. Raises `DeviceError`."""
    entry = catalog.device(name)
    if entry is None or not entry.recovery:
        return None
    with faults_of(entry):
        module: Recovery = _loaded(entry.recovery)
        return module


def units() -> tuple[list[str], list[DeviceError]]:
    """Return the names of all attached devices, of every transport with discovery; and an error for each unusable
    device."""
    names: list[str] = []
    refused: list[DeviceError] = []
    for entry in catalog.devices().values():
        if not entry.discovery:
            continue
        try:
            attached, errors = discovery(entry).attached()
        except DeviceError as error:  # A missing adb server does not stop devices of other transports.
            refused.append(error)
        else:
            names += attached
            refused += errors
    return names, refused


def listed() -> tuple[list[str], dict[str, DeviceError]]:
    """Return the names of all attached devices, of every transport that lists them without contacting the devices, so
    that no measurement is disturbed; and the error of each transport that cannot list its devices. The devices of the
    other transports are returned all the same."""
    names: list[str] = []
    troubles: dict[str, DeviceError] = {}
    for entry in catalog.devices().values():
        if not entry.discovery:
            continue
        try:
            names += discovery(entry).listed()
        except DeviceError as error:
            troubles[entry.name] = error
    return names, troubles


def tools() -> dict[str, str]:
    """Return the version of the program that finds a transport's devices, by transport, if the transport reports
    one."""
    versions = {}
    for entry in catalog.devices().values():
        if entry.discovery:
            with suppress(DeviceError):
                version = getattr(discovery(entry), "version", None)
                if version is not None:
                    versions[entry.name] = str(version())
    return versions


@contextmanager
def faults_of(entry: DeviceEntry) -> Iterator[None]:
    """Turn any error of another package's transport into a `DeviceError`, so that other devices still work."""
    try:
        yield
    except DeviceError:
        raise
    except (Exception, SystemExit) as error:
        if entry in built_in.BUILT_IN_DEVICES:
            raise
        package = str(entry.target).partition(":")[0].partition(".")[0]
        raise DeviceError(
            "broken_transport",
            f"the transport {entry.name} does not work: {in_one_line(error)}",
            f"repair or uninstall the package {package}, which provides it",
        ) from error


class _Foreign:
    """The discovery module of another package. Each method raises only `DeviceError`."""

    def __init__(self, entry: DeviceEntry, module: Discovery) -> None:
        self._entry = entry
        self._module = module
        self.NEXT_STEP: str = getattr(module, "NEXT_STEP", "")

    def attached(self) -> tuple[list[str], list[DeviceError]]:
        with faults_of(self._entry):
            attached, errors = self._module.attached()
            names, refused = list(attached), list(errors)
            for name in names:
                if catalog.device(name) != self._entry:
                    raise ValueError(f"{name!r} is not a name of this transport")
            for error in refused:
                if not isinstance(error, DeviceError):
                    raise TypeError(f"{error!r} is not a DeviceError")
            return names, refused

    def listed(self) -> list[str]:
        with faults_of(self._entry):
            if hasattr(self._module, "listed"):
                return list(self._module.listed())
            return self.attached()[0]

    def are_one(self, name: str, other: str, folder: Path) -> bool:
        with faults_of(self._entry):
            return self._module.are_one(name, other, folder)

    def clean(self, name: str) -> None:
        with faults_of(self._entry):
            self._module.clean(name)


def _loaded(target: str) -> Any:
    module, _, name = target.partition(":")
    imported = importlib.import_module(module)
    return getattr(imported, name) if name else imported
